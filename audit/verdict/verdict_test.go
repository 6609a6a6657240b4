package verdict_test

import (
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/turnlog/turnlog/audit/verdict"
	"github.com/turnlog/turnlog/events"
)

// whole is a verdict on a journal of ten entries without a fault.
func whole() *verdict.Verdict {
	v := &verdict.Verdict{Session: "s-1", Entries: 10}
	v.End(10, events.Hash{1}, 100)
	return v
}

func proof(l verdict.Level, seq uint64, by ...string) verdict.Proof {
	return verdict.Proof{Level: l, Through: verdict.Point{Seq: seq, At: 70}, By: by}
}

func TestLevelsFormALadder(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name    string
		keys    bool
		proofs  []verdict.Proof
		level   verdict.Level
		through uint64
		beyond  uint64
	}{
		{"no proof", false, nil, verdict.Chain, 10, 10},
		{"no proof, with keys", true, nil, verdict.Chain, 10, 10},
		{"signed", true, []verdict.Proof{proof(verdict.Signed, 10)}, verdict.Signed, 10, 10},
		{"anchored, without keys", false, []verdict.Proof{proof(verdict.Anchored, 7)}, verdict.Anchored, 7, 3},
		{"anchored, but not signed", true, []verdict.Proof{proof(verdict.Anchored, 7)}, verdict.Chain, 10, 3},
		{"witnessed, but not signed", true, []verdict.Proof{proof(verdict.Witnessed, 9)}, verdict.Chain, 10, 1},
		{"the last anchor counts", false, []verdict.Proof{proof(verdict.Anchored, 7), proof(verdict.Anchored, 9), proof(verdict.Anchored, 8)}, verdict.Anchored, 9, 1},
		{"all", true, []verdict.Proof{proof(verdict.Signed, 10), proof(verdict.Anchored, 9), proof(verdict.Witnessed, 8, "w")}, verdict.Witnessed, 8, 1},
	} {
		v := whole()
		v.Keys = row.keys
		for _, p := range row.proofs {
			v.Prove(p)
		}
		v.Settle()
		v.Settle() // again changes nothing
		if v.Level != row.level || v.Through.Seq != row.through || v.BeyondAnchor != row.beyond {
			t.Errorf("%s: %s through %d, %d beyond, want %s, %d, %d", row.name, v.Level, v.Through.Seq, v.BeyondAnchor, row.level, row.through, row.beyond)
		}
		if row.level == verdict.Witnessed && !slices.Equal(v.Witnesses, []string{"w"}) {
			t.Errorf("%s: witnesses %v", row.name, v.Witnesses)
		}
		unsigned := slices.ContainsFunc(v.NotProved, func(s string) bool {
			return strings.Contains(s, "unsigned") || strings.Contains(s, "no signature was checked")
		})
		if signed := slices.ContainsFunc(row.proofs, func(p verdict.Proof) bool { return p.Level == verdict.Signed }); signed == unsigned {
			t.Errorf("%s: not proved is %q", row.name, v.NotProved)
		}
	}
}

func TestExitCodes(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name     string
		kinds    []verdict.Kind // of faults
		state    verdict.Kind
		required verdict.Level
		want     int
		first    verdict.Kind
	}{
		{"reached", nil, "", verdict.Chain, verdict.ExitReached, ""},
		{"below", nil, "", verdict.Signed, verdict.ExitBelow, ""},
		{"gone", nil, verdict.Deleted, verdict.Chain, verdict.ExitGone, ""},
		{"erased", nil, verdict.Erased, verdict.Chain, verdict.ExitGone, ""},
		{"covered", []verdict.Kind{verdict.Deleted}, verdict.Deleted, verdict.Chain, verdict.ExitUnjudged, verdict.Deleted},
		{"newer", []verdict.Kind{verdict.Newer}, "", verdict.Chain, verdict.ExitUnjudged, verdict.Newer},
		{"sealed", []verdict.Kind{verdict.Sealed}, "", verdict.Chain, verdict.ExitUnjudged, verdict.Sealed},
		{"sealed and forged", []verdict.Kind{verdict.Sealed, verdict.Forged}, "", verdict.None, verdict.ExitFault, verdict.Forged},
		{"newer and forged", []verdict.Kind{verdict.Newer, verdict.Forged}, "", verdict.None, verdict.ExitFault, verdict.Forged},
		{"forged tombstone", []verdict.Kind{verdict.Missing}, verdict.Expired, verdict.None, verdict.ExitFault, verdict.Missing},
	} {
		v := whole()
		v.State = row.state
		for _, k := range row.kinds {
			v.Add(verdict.Fault{Kind: k, Seq: 3})
		}
		v.Settle()
		first, _ := v.First()
		if got := v.Exit(row.required); got != row.want || first.Kind != row.first {
			t.Errorf("%s: exit code %d, first %q, want %d, %q", row.name, got, first.Kind, row.want, row.first)
		}
		if reached := v.Level >= verdict.Chain; reached && row.kinds != nil && row.name != "sealed" {
			t.Errorf("%s: level %s with faults", row.name, v.Level)
		}
	}
}

func TestOnlyAVerifierWithKeysReachesSigned(t *testing.T) {
	t.Parallel()
	for _, keys := range []bool{false, true} {
		v := whole()
		if v.Keys = keys; keys {
			v.Prove(proof(verdict.Signed, 10))
		}
		v.Prove(proof(verdict.Witnessed, 9, "w"))
		v.Settle()
		want := map[bool]int{false: verdict.ExitBelow, true: verdict.ExitReached}[keys]
		if got := v.Exit(verdict.Signed); v.Level != verdict.Witnessed || got != want {
			t.Errorf("keys %t: level %s, exit code %d, want %d", keys, v.Level, got, want)
		}
		if got := v.Exit(verdict.Witnessed); got != verdict.ExitReached {
			t.Errorf("keys %t: exit code %d for witnessed", keys, got)
		}
	}
}

func TestAVerdictIsJSON(t *testing.T) {
	t.Parallel()
	v := whole()
	v.Settle()
	raw, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	var shown map[string]any
	if err := json.Unmarshal(raw, &shown); err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"level", "session", "entries", "through", "witnesses", "faults", "open_turn", "beyond_anchor", "not_proved"} {
		if shown[key] == nil {
			t.Errorf("%s is missing in %s", key, raw)
		}
	}
	if shown["level"] != "chain" || shown["beyond_anchor"] != 10.0 {
		t.Errorf("shown is %s", raw)
	}
}

func TestLevelsAreRead(t *testing.T) {
	t.Parallel()
	for _, want := range verdict.Levels() {
		var got verdict.Level
		if err := got.UnmarshalText([]byte(want.String())); err != nil || got != want {
			t.Errorf("%s is read as %s, %v", want, got, err)
		}
	}
	var l verdict.Level
	if err := l.UnmarshalText([]byte("sworn")); err == nil || !strings.Contains(err.Error(), "chain, signed, anchored, witnessed") {
		t.Errorf("an unknown level: %v", err)
	}
}

func TestDocsExplainEveryKind(t *testing.T) {
	t.Parallel()
	doc, err := os.ReadFile("../../docs/evidence.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range []verdict.Kind{
		verdict.Tampered, verdict.Forged, verdict.Replaced, verdict.Truncated, verdict.Missing, verdict.Foreign, verdict.RolledBack, verdict.Unreadable,
		verdict.Deleted, verdict.Erased, verdict.Expired, verdict.Newer, verdict.Sealed, verdict.Moved,
	} {
		if row := "| `" + string(k) + "` | " + k.Means() + " |"; !strings.Contains(string(doc), row) {
			t.Errorf("docs/evidence.md lacks %s", row)
		}
	}
	for _, l := range verdict.Levels() {
		if !strings.Contains(string(doc), "| `"+l.String()+"` |") {
			t.Errorf("docs/evidence.md lacks level %s", l)
		}
	}
}
