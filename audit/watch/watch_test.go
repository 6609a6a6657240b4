package watch

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/turnlog/turnlog/audit/keys"
	"github.com/turnlog/turnlog/audit/statement"
	"github.com/turnlog/turnlog/audit/verdict"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/events/journal"
)

// cell is the stored entries of sessions, in order.
type cell struct {
	t       *testing.T
	records []journal.Record
	heads   map[content.SessionID]journal.Head
	reads   int
	err     error        // of the next read
	key     *keys.Signer // of the driver; nil: it does not sign
	epoch   uint64       // of the driver
	lost    uint64       // messages

	restores []verdict.Restore // that it says it had
}

func newCell(t *testing.T) *cell {
	return &cell{t: t, heads: map[content.SessionID]journal.Head{}, epoch: 1}
}

// write adds an entry to a session. Its first entry claims and opens it.
func (c *cell) write(s content.SessionID, evs ...events.Event) journal.Record {
	c.t.Helper()
	head := c.heads[s]
	if head.Seq == 0 {
		evs = append([]events.Event{events.DriverClaimed{Epoch: 1, Node: "n1", Key: c.key.ID()}, events.RunStarted{}}, evs...)
	}
	n := head.Seq + 1
	e, payload, head, err := journal.Link(head, events.Entry{Session: s, Cause: fmt.Sprint("cmd-", n), At: content.Time(n), Epoch: c.epoch, Events: evs})
	if err != nil {
		c.t.Fatal(err)
	}
	r := journal.Record{Head: head, Entry: e, Payload: payload}
	if c.key != nil {
		r.Signature = c.key.Sign(statement.Entry("turnlog", s, head.Seq, head.Hash))
	}
	return c.store(r)
}

func (c *cell) store(r journal.Record) journal.Record {
	r.Guard = uint64(len(c.records)+1) + c.lost
	c.heads[r.Entry.Session] = r.Head
	c.records = append(c.records, r)
	return r
}

func (c *cell) read(_ context.Context, s content.SessionID) iter.Seq2[journal.Record, error] {
	c.reads++
	return func(yield func(journal.Record, error) bool) {
		if c.err != nil {
			yield(journal.Record{}, c.err)
			return
		}
		for _, r := range c.records {
			if r.Entry.Session == s && !yield(r, nil) {
				return
			}
		}
	}
}

// room is the memory of a few sessions of a few entries, and no more.
func room(sessions int) int64 { return int64(sessions+1)*sessionBytes - 1 }

// add passes records to a watcher and returns the kinds of its alerts.
func add(t *testing.T, w *Watcher, records ...journal.Record) (kinds []string) {
	t.Helper()
	for _, r := range records {
		alerts, err := w.Add(t.Context(), r)
		if err != nil {
			t.Fatal(err)
		}
		kinds = append(kinds, kindsOf(alerts)...)
	}
	return kinds
}

func kindsOf(alerts []Alert) (kinds []string) {
	for _, a := range alerts {
		kind := string(a.Kind)
		if a.Fault != nil {
			kind = string(a.Fault.Kind)
		}
		kinds = append(kinds, kind)
	}
	return kinds
}

func TestIntactSessionsRaiseNoAlert(t *testing.T) {
	t.Parallel()
	c := newCell(t)
	for range 5 {
		for _, s := range []content.SessionID{"a", "b", "c"} {
			c.write(s, events.Warning{Code: "x"})
		}
	}
	for _, sessions := range []int{1, 2, 3} {
		c.reads = 0
		w := New(Config{Read: c.read, Bytes: room(sessions), Heads: 1})
		if got := append(add(t, w, c.records...), kindsOf(w.Close(t.Context()))...); got != nil {
			t.Errorf("with %d checkers: %v", sessions, got)
		}
		if again := sessions < 3; (c.reads > 0) != again || w.Open() != 0 {
			t.Errorf("with %d checkers, %d journals were read again; %d are open", sessions, c.reads, w.Open())
		}
	}
}

// A session among many is not read again because others had entries in between.
func TestInterleavedSessionsAreReadOnce(t *testing.T) {
	t.Parallel()
	const sessions = 2_000
	c := newCell(t)
	w := New(Config{Read: c.read})
	for n := range 10 {
		for s := range sessions {
			if got := add(t, w, c.write(content.SessionID(fmt.Sprint("s", s)), events.Warning{Code: strconv.Itoa(n)})); got != nil {
				t.Fatal(got)
			}
		}
	}
	if w.Open() != sessions || c.reads != 0 {
		t.Errorf("%d sessions have a checker, and %d journals were read again", w.Open(), c.reads)
	}
}

// If more sessions take turns than fit into memory, only those that do not fit are read again, not each one for every
// entry.
func TestMoreSessionsThanHaveRoomAreReadAgainInPart(t *testing.T) {
	t.Parallel()
	const sessions, with, turns = 20, 10, 50
	c := newCell(t)
	w := New(Config{Read: c.read, Bytes: with * (sessionBytes + turns*150)})
	for range turns {
		for s := range sessions {
			if got := add(t, w, c.write(content.SessionID(fmt.Sprint("s", s)), events.Warning{Code: "x"})); got != nil {
				t.Fatal(got)
			}
		}
	}
	if most := turns * (sessions - with); w.Open() < with || c.reads == 0 || c.reads > most {
		t.Errorf("%d of %d sessions have a checker, and %d journals were read again, more than %d", w.Open(), sessions, c.reads, most)
	}
}

func TestTheMemoryOfCheckersIsBounded(t *testing.T) {
	t.Parallel()
	c := newCell(t)
	w := New(Config{Read: c.read, Bytes: room(2)})
	for n := range 20 {
		if got := add(t, w, c.write(content.SessionID(fmt.Sprint("s", n)), events.Warning{Code: "x", Message: strings.Repeat("x", 6000)})); got != nil {
			t.Fatal(got)
		}
		if w.Open() > 2 || w.bytes > room(2) {
			t.Fatalf("after %d sessions: %d are open, with %d bytes", n+1, w.Open(), w.bytes)
		}
	}
}

// A session whose first entries are gone was deleted, if its tombstone follows.
func TestASessionThatIsBeingDeletedRaisesNoAlert(t *testing.T) {
	t.Parallel()
	c := newCell(t)
	c.write("a")
	third := c.write("a", events.Warning{Code: "x"})
	tombstone := c.write("a", events.SessionDeleted{By: "ada"})
	for _, deleted := range []bool{true, false} {
		w := New(Config{Read: func(context.Context, content.SessionID) iter.Seq2[journal.Record, error] {
			return func(yield func(journal.Record, error) bool) {
				if deleted {
					yield(tombstone, nil)
				}
			}
		}})
		got := append(add(t, w, third), kindsOf(w.Close(t.Context()))...)
		if (len(got) == 0) != deleted {
			t.Errorf("deleted: %t, alerts are %v", deleted, got)
		}
	}
}

func TestAFaultIsReportedOnce(t *testing.T) {
	t.Parallel()
	c := newCell(t)
	c.write("a")
	c.write("a", events.TurnFinished{Turn: "turn-1"}) // it never started
	c.write("a", events.Warning{Code: "x"})
	w := New(Config{Read: c.read})
	if got := add(t, w, c.records[:2]...); len(got) == 0 || got[0] != string(verdict.Forged) {
		t.Errorf("alerts are %v", got)
	}
	if got := append(add(t, w, c.records[2]), kindsOf(w.Close(t.Context()))...); got != nil {
		t.Errorf("later: %v", got)
	}
}

// A watcher verifies sessions again that it no longer has in memory, and it remembers the heads.
func TestASessionThatContinuesIsVerifiedAgain(t *testing.T) {
	t.Parallel()
	c := newCell(t)
	c.write("a")
	c.write("a", events.Warning{Code: "x"})
	c.write("b")
	w := New(Config{Read: c.read, Bytes: room(1)})
	if got := add(t, w, c.records...); got != nil {
		t.Fatal(got)
	}
	was := c.records[1]
	e := was.Entry
	e.Events = []events.Event{events.Warning{Code: "another"}}
	_, payload, head, err := journal.Link(c.records[0].Head, e)
	if err != nil {
		t.Fatal(err)
	}
	c.records[1] = journal.Record{Head: head, Entry: e, Payload: payload}
	c.records[1].Guard = was.Guard
	c.heads["a"] = c.records[1].Head
	if got := add(t, w, c.write("a", events.Warning{Code: "y"})); len(got) != 1 || got[0] != string(verdict.Replaced) {
		t.Errorf("after an entry was replaced: %v", got)
	}

	c = newCell(t)
	c.write("a")
	c.write("a", events.Warning{Code: "x"})
	c.write("b")
	w = New(Config{Read: c.read, Bytes: room(1)})
	add(t, w, c.records...)
	c.heads["a"] = c.records[0].Head
	c.records = append(c.records[:1:1], c.records[2:]...)
	if got := add(t, w, c.write("a", events.Warning{Code: "z"})); len(got) != 1 || got[0] != string(verdict.RolledBack) {
		t.Errorf("after a rollback: %v", got)
	}
}

func TestARestoreIsToldAndItsLossesAreNoFaults(t *testing.T) {
	t.Parallel()
	for name, limit := range map[string]int64{"in use": 0, "idle": room(1)} {
		c := newCell(t)
		w := New(Config{Read: c.read, Bytes: limit})
		for _, s := range []content.SessionID{"a", "b", "c", "d"} {
			c.write(s)
		}
		add(t, w, c.records...)
		backup := slices.Clone(c.records)
		add(t, w, c.write("a"), c.write("a"), c.write("b"))

		c.records = backup // c, d: nothing is lost
		var got []string
		for _, s := range []content.SessionID{"c", "a", "b", "d"} {
			r := c.restored(s, 1, 1)
			alerts, err := w.Add(t.Context(), r)
			if err != nil {
				t.Fatal(err)
			}
			for _, a := range alerts {
				lost, _, _ := strings.Cut(a.What, ":")
				got = append(got, fmt.Sprintf("%s %s: %s", a.Kind, a.Session, lost))
			}
		}
		want := []string{"restored c: the deployment was restored from backup b1, which began at 1970-01-01T00", "restored a: entries 2 to 3 were lost", "restored b: entries 2 to 2 were lost"}
		if !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}

// restored has a restore continue a session after its entry n. The backup is of a time.
func (c *cell) restored(s content.SessionID, n uint64, taken content.Time) journal.Record {
	c.t.Helper()
	for _, r := range c.records {
		if r.Entry.Session == s && r.Seq == n {
			c.heads[s] = r.Head
		}
	}
	c.records = slices.DeleteFunc(slices.Clone(c.records), func(r journal.Record) bool { return r.Entry.Session == s && r.Seq > n })
	c.lost += 1000
	by := events.Restored{Backup: "b1", Taken: taken}
	c.restores = append(c.restores, verdict.Restore{Restored: by})
	e, payload, head, err := journal.Link(c.heads[s], events.Entry{Session: s, Cause: "restore/1", At: 99, Epoch: 2, Events: []events.Event{
		events.DriverClaimed{Epoch: 2, Node: "restore", Restored: &by},
	}})
	if err != nil {
		c.t.Fatal(err)
	}
	return c.store(journal.Record{Head: head, Entry: e, Payload: payload})
}

// more writes an entry of the epoch of the restore.
func (c *cell) more(s content.SessionID) journal.Record {
	c.t.Helper()
	c.epoch = 2
	defer func() { c.epoch = 1 }()
	return c.write(s, events.Warning{Code: "x"})
}

// An operator removes entries and says that the cell was restored.
func TestAPretendedRestoreIsFound(t *testing.T) {
	t.Parallel()
	for name, limit := range map[string]int64{"in use": 0, "idle": room(1)} {
		for what, tt := range map[string]struct {
			do   func(c *cell) []journal.Record
			want []string
		}{
			"control: the backup is older than what was lost": {func(c *cell) []journal.Record {
				return []journal.Record{c.restored("a", 2, 0), c.restored("b", 1, 0), c.more("a"), c.more("b")}
			}, []string{"restored"}},
			"the backup is later than what was lost": {func(c *cell) []journal.Record {
				return []journal.Record{c.restored("a", 2, content.TimeOf(time.Unix(3600, 0)))}
			}, []string{"restored", "rolled-back"}},
			"another session goes on": {func(c *cell) []journal.Record {
				return []journal.Record{c.restored("a", 2, 0), c.write("new"), c.more("a")}
			}, []string{"restored"}},
			"another session goes on without it": {func(c *cell) []journal.Record {
				return []journal.Record{c.restored("a", 2, 0), c.write("b", events.Warning{Code: "x"}), c.write("b", events.Warning{Code: "x"})}
			}, []string{"restored", "forged"}},
			"another session was deleted": {func(c *cell) []journal.Record {
				return []journal.Record{c.restored("a", 2, 0), c.write("b", events.SessionDeleted{})}
			}, []string{"restored"}},
			"the deployment does not say so": {func(c *cell) []journal.Record {
				claim := c.restored("a", 3, 0)
				c.restores = nil
				return []journal.Record{claim, c.write("b", events.Warning{Code: "x"})}
			}, []string{"forged"}},
			"of another deployment, before the session was moved here": {func(c *cell) []journal.Record {
				first, claim := c.write("new"), c.restored("new", 1, 0)
				first.Moved, claim.Moved, c.restores = true, true, nil
				return []journal.Record{first, claim, c.write("b", events.Warning{Code: "x"})}
			}, nil},
		} {
			c := newCell(t)
			w := New(Config{Read: c.read, Bytes: limit, Restores: func(context.Context) ([]verdict.Restore, error) { return c.restores, nil }})
			for range 3 {
				c.write("a", events.Warning{Code: "x"})
				c.write("b", events.Warning{Code: "x"})
			}
			add(t, w, c.records...)
			if got := slices.Compact(add(t, w, tt.do(c)...)); !slices.Equal(got, tt.want) { // a session that was idle may be reported twice
				t.Errorf("%s, %s: %v, want %v", what, name, got, tt.want)
			}
		}
	}
}

func TestAnEntryIsAddedAgainAfterAnErrorOfTheReader(t *testing.T) {
	t.Parallel()
	c := newCell(t)
	c.write("a")
	last := c.write("a", events.Warning{Code: "x"})
	w := New(Config{Read: c.read})
	c.err = errors.New("no answer")
	if _, err := w.Add(t.Context(), last); !errors.Is(err, c.err) {
		t.Fatalf("Add = %v", err)
	}
	c.err = nil
	if got := add(t, w, last); got != nil {
		t.Errorf("alerts are %v", got)
	}
}

// Deletion removes entries before a slow watcher has seen them.
func TestADeletedSessionRaisesNoAlert(t *testing.T) {
	t.Parallel()
	c := newCell(t)
	c.write("a")
	c.write("a", events.Warning{Code: "x"})
	c.write("a", events.Warning{Code: "y"})
	tombstone := c.write("a", events.SessionDeleted{By: "ada"})
	for seen := range len(c.records) {
		w := New(Config{Read: func(context.Context, content.SessionID) iter.Seq2[journal.Record, error] {
			return func(yield func(journal.Record, error) bool) { yield(tombstone, nil) }
		}})
		if got := append(add(t, w, append(c.records[:seen:seen], tombstone)...), kindsOf(w.Close(t.Context()))...); got != nil || w.Open() != 0 {
			t.Errorf("after %d entries: %v, %d open", seen, got, w.Open())
		}
	}
}

// A journal that is damaged as a whole does not flood its reader.
func TestManyFaultsOfASessionEnd(t *testing.T) {
	t.Parallel()
	c := newCell(t)
	c.write("a")
	for range 100 {
		c.write("a", events.TurnFinished{Turn: "turn-1"})
	}
	w := New(Config{Read: c.read})
	if got := append(add(t, w, c.records...), kindsOf(w.Close(t.Context()))...); len(got) != maxFaults {
		t.Errorf("%d alerts, want %d", len(got), maxFaults)
	}
}

// directory has the key of a driver.
func directory(t *testing.T, drivers ...*keys.Signer) func() *keys.Directory {
	t.Helper()
	root, err := keys.NewRoot()
	if err != nil {
		t.Fatal(err)
	}
	d := &keys.Directory{Cell: "turnlog", Version: 1, At: 1e9}
	for i, k := range drivers {
		d.Keys = append(d.Keys, keys.Key{Public: k.Public(), Roles: []keys.Role{keys.Driver}, Name: fmt.Sprint("node-", i+1), From: 1e9})
	}
	signed, err := d.Sign(root)
	if err == nil {
		d, err = keys.Open(signed, root.Public())
	}
	if err != nil {
		t.Fatal(err)
	}
	return func() *keys.Directory { return d }
}

func TestSignaturesAreWatched(t *testing.T) {
	t.Parallel()
	node, err := keys.New()
	if err != nil {
		t.Fatal(err)
	}
	other, err := keys.New()
	if err != nil {
		t.Fatal(err)
	}
	none := func(*journal.Record) {}
	for name, c := range map[string]struct {
		key    *keys.Signer
		change func(*journal.Record) // of the third entry
		want   string
	}{
		"signed":           {node, none, ""},
		"unsigned":         {nil, none, "unsigned"},
		"another key":      {other, none, "forged"},
		"stripped":         {node, func(r *journal.Record) { r.Signature = content.Signature{} }, "forged"},
		"of another entry": {node, func(r *journal.Record) { r.Signature = node.Sign([]byte("x")) }, "forged"},
	} {
		cell := newCell(t)
		cell.key = c.key
		for range 4 {
			cell.write("a", events.Warning{Code: "x"})
		}
		cell.write("b")
		c.change(&cell.records[2])
		for _, sessions := range []int{1, 2} {
			w := New(Config{Read: cell.read, Keys: directory(t, node), Bytes: room(sessions)})
			kinds := append(add(t, w, cell.records...), kindsOf(w.Close(t.Context()))...)
			slices.Sort(kinds)
			if got := slices.Compact(kinds); strings.Join(got, " ") != c.want {
				t.Errorf("%s, %d checkers: %v, want %q", name, sessions, got, c.want)
			}
			if unsigned := c.want == "unsigned"; unsigned && len(kinds) != 2 { // once for each session
				t.Errorf("%s: %d alerts", name, len(kinds))
			}
		}
		if got := New(Config{Read: cell.read}); len(add(t, got, cell.records...)) > 0 {
			t.Errorf("%s: without keys there are alerts", name)
		}
	}
}

// A watcher that first sees a session in its middle reads the earlier entries, and reports their faults at once.
func TestWhatWasSignedBeforeIsToldAtOnce(t *testing.T) {
	t.Parallel()
	node, err := keys.New()
	if err != nil {
		t.Fatal(err)
	}
	cell := newCell(t)
	cell.key = node
	for range 3 {
		cell.write("a", events.Warning{Code: "x"})
	}
	cell.records[2].Signature = cell.records[1].Signature
	if cell.key, err = keys.New(); err != nil {
		t.Fatal(err)
	}
	cell.epoch = 2
	last := cell.write("a", events.DriverClaimed{Epoch: 2, Node: "n2", Key: cell.key.ID()})
	w := New(Config{Read: cell.read, Keys: directory(t, node, cell.key)})
	if kinds := add(t, w, last); !slices.Equal(kinds, []string{"forged"}) {
		t.Errorf("alerts: %v, want that the third entry is forged", kinds)
	}
}

func policy(rules ...events.Rule) events.Policy {
	return events.Policy{Name: "p", Digest: strconv.Itoa(len(rules)), Rules: [][]events.Rule{rules}}
}

func rule(text string) events.Rule {
	f := append(strings.Fields(text), "")
	return events.Rule{Tool: f[0], Action: events.Action(f[1]), Queue: f[2]}
}

func TestAWidenedPolicyRaisesAnAlert(t *testing.T) {
	t.Parallel()
	c := newCell(t)
	c.write("a", events.PolicyApplied{Policy: policy(rule("* ask"))})
	c.write("a", events.PolicyApplied{Policy: policy(rule("fs_* guard"), rule("* ask"))})
	w := New(Config{Read: c.read})
	alerts := add(t, w, c.records...)
	if len(alerts) != 1 || alerts[0] != "widened" {
		t.Errorf("alerts are %v", alerts)
	}
	if got := add(t, New(Config{Read: c.read}), c.write("a", events.Warning{Code: "x"})); got != nil {
		t.Errorf("a watcher that starts later reports %v", got)
	}
}

func TestPoliciesAreCompared(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		before, now string
		wider       bool
	}{
		{"* ask", "* ask", false},
		{"* ask", "* deny", false},
		{"* ask", "* allow", true},
		{"* deny", "* ask", true},
		{"* ask", "* guard", true}, // what only reads
		{"* guard", "* ask", false},
		{"* guard", "fs_write allow; * guard", true},
		{"sh deny; * allow", "* allow", true},
		{"* allow", "sh deny; * allow", false},
		{"*_write deny; * allow", "fs_* allow; *_write deny; * allow", true}, // fs_write
		{"sh allow gpu; * ask", "sh allow cpu; * ask", true},
		{"sh allow *; * ask", "sh allow gpu; * ask", false},
	} {
		var p [2]events.Policy
		for i, text := range []string{c.before, c.now} {
			var rules []events.Rule
			for one := range strings.SplitSeq(text, ";") {
				rules = append(rules, rule(one))
			}
			p[i] = policy(rules...)
		}
		if what, wider := widened(p[0], p[1]); wider != c.wider {
			t.Errorf("from %q to %q: %t (%s)", c.before, c.now, wider, what)
		}
	}
}
