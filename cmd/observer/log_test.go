package main

import (
	"crypto/ed25519"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"golang.org/x/mod/sumdb/note"

	"github.com/turnlog/turnlog/audit/headlog"
	"github.com/turnlog/turnlog/audit/verdict"
	"github.com/turnlog/turnlog/commands"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/internal/cli"
	"github.com/turnlog/turnlog/jetstream/heads"
)

// logged is a deployment whose heads a notary logs at once, and its witnesses.
type logged struct {
	*deployment

	secret, public string // the key of the log
	signer         note.Signer
	witnesses      [2]*headlog.Cosigner
	now            time.Time // of the witnesses
	state          headlog.State
	number         uint64
	policy         string // a file
	dir            string
}

func newLogged(t *testing.T) *logged {
	t.Helper()
	l := &logged{deployment: deploy(t), dir: t.TempDir(), now: time.Now(), state: headlog.NewState("example.com/log")}
	var err error
	if l.secret, l.public, err = note.GenerateKey(nil, "example.com/log"); err != nil {
		t.Fatal(err)
	}
	if l.signer, err = note.NewSigner(l.secret); err != nil {
		t.Fatal(err)
	}
	for i := range l.witnesses {
		l.witnesses[i] = newWitness(t, fmt.Sprintf("w%d.example", i+1), func() time.Time { return l.now })
	}
	l.policy = l.file("policy", []byte(l.rules(l.public, "all")))
	return l
}

func newWitness(t *testing.T, name string, now func() time.Time) *headlog.Cosigner {
	t.Helper()
	public, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	key, err := note.NewEd25519VerifierKey(name, public)
	if err != nil {
		t.Fatal(err)
	}
	c, err := headlog.NewCosigner(key, func(text []byte) []byte { return ed25519.Sign(private, text) }, now)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// rules returns a policy with both witnesses, of which some are needed.
func (l *logged) rules(log, needed string) string {
	return fmt.Sprintf("log %s\nwitness w1 %s\nwitness w2 %s\ngroup both %s w1 w2\nquorum both\n", log, l.witnesses[0].Key(), l.witnesses[1].Key(), needed)
}

func (l *logged) file(name string, data []byte) string {
	l.t.Helper()
	path := filepath.Join(l.dir, name)
	if err := os.WriteFile(path, data, 0o600); err != nil {
		l.t.Fatal(err)
	}
	return path
}

// log logs the heads of sessions and publishes a checkpoint.
func (l *logged) log(sessions ...content.SessionID) {
	l.t.Helper()
	var leaves [][]byte
	for _, s := range sessions {
		last, err := l.cell.Journal().Last(l.t.Context(), s)
		if err != nil {
			l.t.Fatal(err)
		}
		leaf := headlog.Leaf{Cell: "turnlog", Session: s, Seq: last.Seq, Hash: last.Hash}
		leaves = append(leaves, leaf.Text())
		if err := heads.Of(l.cell).Record(l.t.Context(), l.state.Tree.Size+int64(len(leaves))-1, leaf); err != nil {
			l.t.Fatal(err)
		}
	}
	next, err := l.state.Append(leaves)
	if err != nil {
		l.t.Fatal(err)
	}
	l.show(next, l.signer, l.witnesses[0], l.witnesses[1])
}

// show stores a state and its checkpoint, whatever was there.
func (l *logged) show(s headlog.State, by ...note.Signer) {
	l.t.Helper()
	store := heads.Of(l.cell)
	var err error
	if l.number, err = store.Commit(l.t.Context(), s, l.number); err != nil {
		l.t.Fatal(err)
	}
	l.state = s
	l.publish(l.signed(s, by...))
}

func (l *logged) signed(s headlog.State, by ...note.Signer) []byte {
	l.t.Helper()
	signed, err := note.Sign(&note.Note{Text: s.Checkpoint().Text()}, by...)
	if err != nil {
		l.t.Fatal(err)
	}
	return signed
}

func (l *logged) publish(signed []byte) {
	l.t.Helper()
	_, number, err := heads.Of(l.cell).Checkpoint(l.t.Context())
	if err == nil {
		err = heads.Of(l.cell).Publish(l.t.Context(), signed, number)
	}
	if err != nil {
		l.t.Fatal(err)
	}
}

// proof exports a proof of a session and returns its file.
func (l *logged) proof(s, name string) string {
	l.t.Helper()
	path := filepath.Join(l.dir, name)
	if code, _, errs := l.observe("export", s, "--proof", path); code != 0 {
		l.t.Fatal(errs)
	}
	return path
}

func read2(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestAProofMakesAFileWitnessed(t *testing.T) {
	t.Parallel()
	l := newLogged(t)
	w := l.session("s-42").turn()
	l.session("s-43").turn()
	if code, _, errs := l.observe("export", "s-42", "--proof", filepath.Join(l.dir, "x")); code != 1 || !strings.Contains(errs, "there is no log of heads") {
		t.Errorf("before the first checkpoint: %d %q", code, errs)
	}
	l.log("s-42")
	if code, _, errs := l.observe("export", "s-43", "--proof", filepath.Join(l.dir, "x")); code != 1 || !strings.Contains(errs, "not logged yet") {
		t.Errorf("before its first leaf: %d %q", code, errs)
	}
	first := l.proof("s-42", "first")
	w.do(commands.SubmitInput{Items: []content.Item{content.UserText("And now?")}})
	journal := l.export("s-42")
	verify := func(more ...string) (int, string, string) {
		return observe(t.Context(), nil, append([]string{"verify", "--file", journal, "--policy", l.policy}, more...)...)
	}
	code, out, errs := verify("--proof", first, "--require", "witnessed")
	if code != 0 || errs != "" || !strings.Contains(out, "level    witnessed, through entry 7") || !strings.Contains(out, "cosigned by w1.example, w2.example") || !strings.Contains(out, "1 earlier head is held; 1 entry after the last") {
		t.Errorf("verify = %d %q\n%s", code, errs, out)
	}
	l.now = l.now.Add(time.Hour)
	l.log("s-42", "s-43")
	second := l.proof("s-42", "second")
	code, out, _ = verify("--proof", first, "--proof", second, "--require", "witnessed", "-o", "json")
	var v struct {
		Level  string
		Beyond int `json:"beyond_anchor"`
		By     []string
		Faults []any
	}
	if err := json.Unmarshal([]byte(out), &v); err != nil || code != 0 || v.Level != "witnessed" || v.Beyond != 0 || len(v.Faults) > 0 {
		t.Errorf("verify = %d %+v %v\n%s", code, v, err, out)
	}
	if code, out, errs := l.observe("report", "s-42", "--proof", second, "--policy", l.policy); code != 0 || !strings.Contains(out, "confirmed by `w1.example, w2.example`") {
		t.Errorf("report = %d %q\n%s", code, errs, out)
	}
	if code, out, _ := l.observe("report", "s-43", "--proof", second, "--policy", l.policy); code != 1 || !strings.Contains(out, "is of session s-42") {
		t.Errorf("report with the proof of another session = %d\n%s", code, out)
	}
	if code, out, errs := l.observe("verify", "--proof", first, "--proof", second, "--policy", l.policy, "--require", "witnessed"); code != 0 || strings.Count(out, "is whole") != 1 {
		t.Errorf("verify of the session = %d %q %q", code, out, errs)
	}
}

// TestFalsifiedProofsAreNamed verifies changed files and proofs. Each row has the kind of the first fault and the
// exit code.
func TestFalsifiedProofsAreNamed(t *testing.T) {
	t.Parallel()
	l := newLogged(t)
	l.session("s-42").turn()
	l.session("s-43").turn()
	l.log("s-42", "s-43")
	journal, good := l.export("s-42"), read2(t, l.proof("s-42", "good"))
	other := l.proof("s-43", "other")
	stranger := newWitness(t, "w1.example", time.Now)
	_, strangerKey, err := note.GenerateKey(nil, "example.com/log")
	if err != nil {
		t.Fatal(err)
	}
	rewritten := deploy(t)
	w := rewritten.session("s-42")
	w.sent += 50
	w.turn()
	lines := strings.SplitAfter(read2(t, journal), "\n")
	cosignatures := func(text string) string { // without those of the witnesses
		var out strings.Builder
		for line := range strings.Lines(text) {
			if !strings.HasPrefix(line, "— w") {
				out.WriteString(line)
			}
		}
		return out.String()
	}
	forgedLine := func() string {
		line := strings.Split(good, "— w1.example ")[1]
		return strings.Replace(good, line[20:40], strings.Repeat("A", 20), 1)
	}
	leaf := strings.Split(strings.Split(good, "\n")[1], " ")[1]
	changedLeaf := l.state.Tree.Leaves[1]
	for _, row := range []struct {
		name, file, proof, policy string
		kind                      string
		code                      int
	}{
		{"as it was exported", "", good, "", "", 0},
		{"one witness suffices", "", strings.ReplaceAll(good, "— w2.example", "— w9.example"), l.rules(l.public, "any"), "", 0},
		{"a witness is missing", "", strings.ReplaceAll(good, "— w2.example", "— w9.example"), "", "the level is anchored", cli.CodeBelow},
		{"no witness", "", cosignatures(good), "", "the level is anchored", cli.CodeBelow},
		{"a policy without witnesses", "", good, "log " + l.public + "\nquorum none\n", "the level is anchored", cli.CodeBelow},
		{"another log", "", good, l.rules(strangerKey, "all"), "foreign", 1},
		{"a forged cosignature", "", forgedLine(), "", "forged", 1},
		{"a witness of the same name", "", good, strings.Replace(l.rules(l.public, "all"), l.witnesses[0].Key(), stranger.Key(), 1), "the level is anchored", cli.CodeBelow},
		{"a checkpoint of another size", "", strings.Replace(good, "log\n2\n", "log\n3\n", 1), "", "forged", 1},
		{"another leaf", "", strings.Replace(good, leaf, encode(changedLeaf), 1), "", "tampered", 1},
		{"another index", "", strings.Replace(good, "index 0", "index 1", 1), "", "tampered", 1},
		{"no path", "", strings.Replace(good, strings.Split(good, "\n")[3]+"\n", "", 1), "", "tampered", 1},
		{"cut off", "", good[:len(good)-30], "", "unreadable", 1},
		{"no proof", "", "hello\n", "", "unreadable", 1},
		{"empty", "", "", "", "unreadable", 1},
		{"the proof of another session", "", read2(t, other), "", "foreign", 1},
		{"a journal that was cut off", strings.Join(lines[:len(lines)-2], ""), good, "", "truncated", 1},
		{"a journal that was written again", read2(t, rewritten.export("s-42")), good, "", "replaced", 1},
		{"a policy that is none", "", good, "hello\n", "bad policy", 2},
	} {
		file, policy := journal, l.policy
		if row.file != "" {
			file = l.file("journal.jsonl", []byte(row.file))
		}
		if row.policy != "" {
			policy = l.file("rules", []byte(row.policy))
		}
		proof := l.file("proof", []byte(row.proof))
		code, out, errs := observe(t.Context(), nil, "verify", "--file", file, "--proof", proof, "--policy", policy, "--require", "witnessed")
		if code != row.code || !strings.Contains(errs, row.kind) || strings.Count(errs, "\n") > 1 {
			t.Errorf("%s: verify = %d %q, want %d …%s…\n%s", row.name, code, errs, row.code, row.kind, out)
		}
	}
	for _, args := range [][]string{
		{"--file", journal, "--proof", other}, {"--file", journal, "--proof", "nowhere", "--policy", l.policy}, {"--file", journal, "--policy", "nowhere"},
	} {
		if code, _, errs := observe(t.Context(), nil, append([]string{"verify"}, args...)...); code != cli.CodeUsage {
			t.Errorf("verify %v = %d %q", args, code, errs)
		}
	}
	if code, _, errs := l.observe("verify", "--proof", l.file("bad", nil), "--policy", l.policy); code != 1 || !strings.Contains(errs, "unreadable") {
		t.Errorf("an empty proof names no session: %d %q", code, errs)
	}
}

// TestProofsNameTheSessionsThatAreVerified has proofs without a session: those that do not hold, of several sessions,
// of one that is gone, and of another cell.
func TestProofsNameTheSessionsThatAreVerified(t *testing.T) {
	t.Parallel()
	l := newLogged(t)
	l.session("s-42").turn()
	l.session("s-43").turn()
	l.log("s-42", "s-43")
	good, other := l.proof("s-42", "good"), l.proof("s-43", "other")
	forged := l.file("forged", []byte(strings.Replace(read2(t, good), "index 0", "index 1", 1)))
	heads := func(sessions ...string) string {
		var lines strings.Builder
		for _, s := range sessions {
			fmt.Fprintf(&lines, "{\"session\":%q,\"seq\":7,\"hash\":%q}\n", s, strings.Repeat("ab", 32))
		}
		return l.file("heads"+strings.Join(sessions, ""), []byte(lines.String()))
	}
	for _, row := range []struct {
		name  string
		args  []string
		code  int
		says  string
		whole int
	}{
		{"a forged proof", []string{"--proof", forged}, 1, "session s-42: entry 7, tampered", 0},
		{"a forged proof after a good one", []string{"--proof", other, "--proof", forged}, 1, "session s-42: entry 7, tampered", 1},
		{"no proof after a good one", []string{"--proof", other, "--proof", l.file("none", []byte("hello"))}, 1, "unreadable", 0},
		{"all, with the proof of one", []string{"--all", "--proof", good}, cli.CodeBelow, "session s-43: no fault, but the level is chain, not witnessed", 2},
		{"all, with the proof of each", []string{"--all", "--proof", good, "--proof", other}, 0, "", 2},
		{"all, with the head of a session that is gone", []string{"--all", "--anchor", heads("ghost"), "--proof", good, "--proof", other}, 1, "session ghost: entry 7, missing (anchors-held)", 2},
		{"the head of no session", []string{"--all", "--anchor", heads("a.b")}, 2, "session is an id", 0},
	} {
		code, out, errs := l.observe(append([]string{"verify", "--policy", l.policy, "--require", "witnessed"}, row.args...)...)
		if code != row.code || !strings.Contains(errs, row.says) || strings.Count(out, "is whole") != row.whole || strings.Contains(errs, "foreign") {
			t.Errorf("%s: verify = %d %q, want %d …%s…\n%s", row.name, code, errs, row.code, row.says, out)
		}
	}
	code, out, errs := l.observe("verify", "s-42", "--proof", good, "--policy", l.policy, "--require", "signed")
	if want := "session s-42: no fault, and the level is witnessed, but no signature was checked: give --keys-root"; code != cli.CodeBelow || !strings.Contains(errs, want) {
		t.Errorf("signed without keys: verify = %d %q\n%s", code, errs, out)
	}
	for policy, doubted := range map[string]bool{l.policy: false, l.file("alone", []byte("log "+l.public+"\nquorum none\n")): true} {
		code, out, errs := l.observe("verify", "s-42", "--proof", good, "--policy", policy, "--require", "anchored")
		if code != 0 || strings.Contains(out, "not proved: witnesses: those who cosigned the proof of entry 7 do not suffice for the policy") != doubted {
			t.Errorf("%s: verify = %d %q\n%s", policy, code, errs, out)
		}
	}
	if code, _, errs := l.observe("verify", "s-42", "--proof", other, "--policy", l.policy); code != 1 || !strings.Contains(errs, "foreign") {
		t.Errorf("verify of a session with the proof of another = %d %q", code, errs)
	}
	leaf := headlog.Leaf{Cell: "other", Session: "s-42", Seq: 7, Hash: must(l.cell.Journal().Last(t.Context(), "s-42")).Hash}
	state := must(headlog.NewState("example.com/log").Append([][]byte{leaf.Text()}))
	foreign := l.file("foreign", headlog.Proof{Leaf: leaf, Checkpoint: l.signed(state, l.signer, l.witnesses[0], l.witnesses[1])}.Text())
	if code, _, errs := l.observe("verify", "s-42", "--proof", foreign, "--policy", l.policy); code != 1 || !strings.Contains(errs, "foreign: the proof is of cell other") {
		t.Errorf("verify with the proof of another cell = %d %q", code, errs)
	}
}

func encode(leaf []byte) string {
	text := headlog.Proof{Leaf: must(headlog.ParseLeaf(leaf))}.Text()
	return strings.Split(strings.Split(string(text), "\n")[1], " ")[1]
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// TestProofsExposeALogThatWasRolledBack has proofs of a log that has shown two histories to its witnesses.
func TestProofsExposeALogThatWasRolledBack(t *testing.T) {
	t.Parallel()
	l := newLogged(t)
	l.session("s-42").turn()
	l.session("s-43").turn()
	l.session("s-44").turn()
	l.log("s-42")
	before := l.state
	l.log("s-43", "s-44")
	large := l.proof("s-42", "large")
	fork := func(name string, sessions ...content.SessionID) string {
		l.state = before
		l.now = l.now.Add(time.Hour)
		l.log(sessions...)
		return l.proof("s-42", name)
	}
	smaller, same := fork("smaller", "s-44"), fork("same", "s-44", "s-43")
	journal := l.export("s-42")
	for _, row := range []struct {
		proof, says string
		code        int
	}{
		{smaller, "the log had 3 leaves, but later, by its clock, a witness cosigned 2", 0}, // a warning: the clock may have been set back
		{same, "replaced: the log published two different trees of size 3", 1},
	} {
		code, out, errs := observe(t.Context(), nil, "verify", "--file", journal, "--proof", large, "--proof", row.proof, "--policy", l.policy)
		if code != row.code || !strings.Contains(out+errs, row.says) {
			t.Errorf("verify = %d %q %q, want %d, %s", code, out, errs, row.code, row.says)
		}
	}
}

// pretend makes the deployment record that it was restored.
func (l *logged) pretend(r verdict.Restore) {
	l.t.Helper()
	var has struct {
		Config map[string]any
		Error  any
	}
	text, err := json.Marshal([]verdict.Restore{r})
	if err != nil {
		l.t.Fatal(err)
	}
	for _, ask := range []string{"INFO", "UPDATE"} {
		body, err := json.Marshal(has.Config)
		if err == nil {
			var m *nats.Msg
			if m, err = l.nc.RequestWithContext(l.t.Context(), "$JS.API.STREAM."+ask+".TURNLOG_JOURNAL", body); err == nil {
				err = json.Unmarshal(m.Data, &has)
			}
		}
		if err != nil || has.Error != nil {
			l.t.Fatal(err, has.Error)
		}
		has.Config["metadata"] = map[string]string{"turnlog_restored": string(text)}
	}
}

// claims makes a session record that the deployment was restored.
func (l *logged) claims(s content.SessionID, at content.Time, by events.Restored) {
	l.t.Helper()
	last, err := l.cell.Journal().Last(l.t.Context(), s)
	if err == nil {
		_, err = l.cell.Journal().Append(l.t.Context(), last.Head, events.Entry{
			Session: s, Cause: "restore/1", At: at, Epoch: 2, Events: []events.Event{events.DriverClaimed{Epoch: 2, Restored: &by}},
		})
	}
	if err != nil {
		l.t.Fatal(err)
	}
}

func TestARestoreIsComparedWithWhatTheDeploymentSays(t *testing.T) {
	t.Parallel()
	l := newLogged(t)
	l.session("s-1").turn()
	l.session("s-2").turn()
	at := content.TimeOf(l.now.Add(time.Minute))
	by := events.Restored{Backup: "b1", Taken: content.TimeOf(l.now.Add(-time.Minute))}
	l.claims("s-1", at, by)
	for _, said := range []bool{false, true} {
		if said {
			l.pretend(verdict.Restore{At: at, Restored: by})
		}
		for s, want := range map[string]string{"s-1": "entry 8, forged: it says that the deployment was restored", "s-2": "forged: the deployment says that it was restored"} {
			bad := said == (s == "s-2")
			for _, command := range []string{"verify", "report"} {
				if code, _, errs := l.observe(command, s); (code == 1) != bad || strings.Contains(errs, want) != bad {
					t.Errorf("%s %s = %d %q; restored %t", command, s, code, errs, said)
				}
			}
		}
		if code, _, errs := l.observe("verify", "--all"); code != 1 || !strings.Contains(errs, "forged") {
			t.Errorf("verify --all = %d %q", code, errs)
		}
	}
	for s, want := range map[string]bool{"s-1": true, "s-2": false} {
		if code, out, errs := l.observe("verify", "--file", l.export(s)); code != 0 || strings.Contains(out, "they were not compared with the deployment") != want {
			t.Errorf("verify --file of %s = %d %q\n%s", s, code, errs, out)
		}
	}
}

// TestAnAuditOfTheLogFindsWhatIsMissing changes journals and the log after they were logged. tests/evidence does so in every
// known way.
func TestAnAuditOfTheLogFindsWhatIsMissing(t *testing.T) {
	t.Parallel()
	purge := func(l *logged, filter string) {
		if answer, err := l.nc.RequestWithContext(t.Context(), "$JS.API.STREAM.PURGE.TURNLOG_JOURNAL", fmt.Appendf(nil, `{"filter":%q}`, filter)); err != nil || !strings.Contains(string(answer.Data), `"success":true`) {
			t.Fatal(answer, err)
		}
	}
	for _, row := range []struct {
		name   string
		change func(l *logged, before headlog.State)
		says   string // on standard error
		code   int
	}{
		{"nothing", func(*logged, headlog.State) {}, "", 0},
		{"a session was left out", func(l *logged, _ headlog.State) { purge(l, "turnlog.journal.s-2") }, "session s-2: entry 7, missing", 1},
		{"the log was rolled back", func(l *logged, before headlog.State) { l.show(before, l.signer, l.witnesses[0], l.witnesses[1]) }, "log: rolled-back: an earlier proof has a checkpoint of size 2", 1},
		{"the log was restored from a backup", func(l *logged, before headlog.State) {
			l.show(before, l.signer, l.witnesses[0], l.witnesses[1])
			by := events.Restored{Backup: "b1", Taken: content.TimeOf(l.now.Add(-time.Minute))}
			at := content.TimeOf(l.now.Add(time.Minute))
			l.pretend(verdict.Restore{At: at, Restored: by})
			l.claims("s-1", at, by)
			l.claims("s-2", at, by)
		}, "log: restored: an earlier proof has a checkpoint of size 2", cli.CodeUnjudged},
		{"a checkpoint without witnesses", func(l *logged, _ headlog.State) { l.publish(l.signed(l.state, l.signer)) }, "witnesses do not suffice", cli.CodeBelow},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			l := newLogged(t)
			l.session("s-1").turn()
			l.session("s-2").turn()
			l.log("s-1")
			before := l.state
			l.log("s-2")
			earlier := l.proof("s-1", "earlier")
			row.change(l, before)
			code, out, errs := l.observe("log", "audit", "--policy", l.policy, "--proof", earlier)
			if code != row.code || !strings.Contains(errs, row.says) || (code == 0) != strings.HasPrefix(out, "ok") && code != cli.CodeBelow {
				t.Errorf("log audit = %d %q, want %d …%s…\n%s", code, errs, row.code, row.says, out)
			}
			var r struct {
				Faults []struct{ Kind, Session string }
			}
			if _, out, _ := l.observe("log", "audit", "--policy", l.policy, "--proof", earlier, "-o", "json"); json.Unmarshal([]byte(out), &r) != nil || (len(r.Faults) > 0) != (row.code == 1 || row.code == cli.CodeUnjudged) {
				t.Errorf("log audit -o json: %s", out)
			}
		})
	}
	l := newLogged(t)
	l.session("s-1").turn()
	l.log("s-1")
	proof := l.proof("s-1", "proof")
	fresh := deploy(t)
	if code, _, errs := fresh.observe("log", "audit", "--policy", l.policy, "--proof", proof); code != 1 || !strings.Contains(errs, "missing: the log is missing") {
		t.Errorf("a cell without a log = %d %q", code, errs)
	}
	for _, args := range [][]string{{}, {"--proof", proof}, {"--policy", proof}} {
		if code, _, errs := l.observe(append([]string{"log", "audit"}, args...)...); code != cli.CodeUsage {
			t.Errorf("log audit %v = %d %q", args, code, errs)
		}
	}
}
