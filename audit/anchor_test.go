package audit

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/events/journal"
)

// bury seals a tombstone after the records.
func bury(t *testing.T, records []journal.Record) []journal.Record {
	t.Helper()
	last := records[len(records)-1]
	e := events.Entry{
		Session: last.Entry.Session, Cause: "delete/1", At: last.Entry.At, Epoch: last.Entry.Epoch,
		Events: []events.Event{events.SessionDeleted{By: "ada", Reason: "asked to"}},
	}
	e, payload, head, err := journal.Seal(last.Head, e)
	if err != nil {
		t.Fatal(err)
	}
	return append(slices.Clone(records), journal.Record{Head: head, Entry: e, Payload: payload})
}

func TestADeletedSessionIsIntact(t *testing.T) {
	t.Parallel()
	original := tools().records(t)
	n := len(original)
	all := bury(t, original)
	for name, records := range map[string][]journal.Record{
		"nothing removed yet": all,
		"half removed":        all[n/2:],
		"removed":             all[n:],
		"read while removed":  append(slices.Clone(all[:2]), all[n]),
	} {
		r, err := Verify(each(records))
		if err != nil || !r.OK() {
			t.Errorf("%s: %v, %v", name, r.Violations, err)
		}
		if d := r.Deleted; d == nil || d.By != "ada" || d.Entries != uint64(n) || d.Last != original[n-1].Hash || r.Seq != uint64(n)+1 {
			t.Errorf("%s: %+v", name, r)
		}
	}
}

func TestATombstoneEndsAJournal(t *testing.T) {
	t.Parallel()
	original := tools().records(t)
	all := bury(t, original)
	changed := slices.Clone(all)
	changed[len(changed)-1] = forge(t, all[len(all)-1], func(e *events.Entry) { e.Prev[0]++ })
	beyond := bury(t, all)
	for _, row := range []struct {
		name    string
		records []journal.Record
		want    string
	}{
		{"an entry after it", beyond, "follows the tombstone"},
		{"after another entry", changed, "changed or replaced"},
		{"a gap and no tombstone", original[3:], "entries 1 to 3 are missing"},
	} {
		if found := check(row.records); len(found) == 0 || !strings.Contains(found[0].Message, row.want) {
			t.Errorf("%s: %v, want %q", row.name, found, row.want)
		}
	}
}

func TestAnchorsDetectCutAndReplacedEnds(t *testing.T) {
	t.Parallel()
	original := tools().records(t)
	n := len(original)
	at := func(i int) Anchor { return Anchor{Session: "s-1", Seq: original[i].Seq, Hash: original[i].Hash} }
	other := reseal(t, func(e []events.Entry) { e[n-2].At++ }) // a valid fork
	for _, row := range []struct {
		name    string
		records []journal.Record
		anchor  Anchor
		want    string
	}{
		{"held", original, at(3), ""},
		{"the end", original, at(n - 1), ""},
		{"another session's", original, Anchor{Session: "s-2", Seq: 99, Hash: at(1).Hash}, ""},
		{"deleted since", bury(t, original)[n:], at(3), ""},
		{"deleted after it", bury(t, original)[n:], at(n - 1), ""},
		{"the end cut off", original[:n-2], at(n - 1), "its end was cut off"},
		{"forked before it", other, at(n - 1), "this entry or an earlier one was replaced"},
		{"cut off, then deleted", bury(t, original[:n-3])[n-3:], at(n - 1), "cut off before that"},
		{"forked, then deleted", bury(t, other)[n:], at(n - 1), "replaced before that"},
		{"nothing left", nil, at(2), "the journal is gone"},
	} {
		r, err := Verify(each(row.records), row.anchor)
		if err != nil {
			t.Fatal(err)
		}
		v, bad := r.First()
		if bad != (row.want != "") || bad && (v.Invariant != anchorsHeld || !strings.Contains(v.Message, row.want)) {
			t.Errorf("%s: %v, want %q", row.name, r.Violations, row.want)
		}
	}
}

func TestAnchorsAreRead(t *testing.T) {
	t.Parallel()
	hash := strings.Repeat("ab", 32)
	got, err := ReadAnchors(strings.NewReader(`{"session":"s-1","seq":3,"hash":"` + hash + `","at":"then"}` + "\n\n" + `{"session":"s-2","seq":9,"hash":"` + hash + `"}`))
	if err != nil || len(got) != 2 || got[0].Seq != 3 || got[1].Session != "s-2" || got[1].Hash.String() != hash {
		t.Errorf("ReadAnchors = %+v, %v", got, err)
	}
	for _, bad := range []string{"x", "{}", `{"session":"s-1","seq":0,"hash":"` + hash + `"}`, `{"session":"s-1","seq":1}`, `{"session":"s-1","seq":1,"hash":"ab"}`} {
		if got, err := ReadAnchors(strings.NewReader(bad)); !errors.Is(err, ErrBadAnchor) {
			t.Errorf("ReadAnchors(%.40q) = %v, %v", bad, got, err)
		}
	}
}
