package move

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/turnlog/turnlog/audit"
	"github.com/turnlog/turnlog/audit/verdict"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/embedded"
	"github.com/turnlog/turnlog/engine"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/events/journal"
	"github.com/turnlog/turnlog/events/seal"
	"github.com/turnlog/turnlog/internal/testing/natstest"
	"github.com/turnlog/turnlog/jetstream"
	"github.com/turnlog/turnlog/jetstream/admin"
	"github.com/turnlog/turnlog/jetstream/internal/api"
	"github.com/turnlog/turnlog/jetstream/internal/layout"
	"github.com/turnlog/turnlog/jetstream/seals"
	"github.com/turnlog/turnlog/jetstream/trials"
)

func TestMain(m *testing.M) { natstest.Main(m) }

func must(tb testing.TB, err error) {
	tb.Helper()
	natstest.Must(tb, err)
}

// cell returns a new cell on a server of its own.
func cell(tb testing.TB, place string) Cell {
	tb.Helper()
	c, err := jetstream.Open(natstest.Connect(tb, natstest.Start(tb, embedded.WithStore(tb.TempDir()))), "")
	must(tb, err)
	must(tb, admin.Of(c).Provision(tb.Context(), admin.Config{}))
	return Cell{c, place}
}

// write appends entries to a session, each with one of the events.
func write(tb testing.TB, c Cell, s content.SessionID, evs ...events.Event) journal.Head {
	tb.Helper()
	head, epoch := journal.Head{}, uint64(0)
	if last, err := c.Journal().Last(tb.Context(), s); err == nil {
		head, epoch = last.Head, last.Entry.Epoch
	}
	for _, ev := range evs {
		e := events.Entry{Session: s, Cause: fmt.Sprintf("cause-%d", head.Seq), At: content.TimeOf(time.Now()), Events: []events.Event{ev}}
		if claim, ok := ev.(events.DriverClaimed); ok {
			epoch = claim.Epoch
			e.Cursors = []events.Cursor{{Lane: events.LaneAsk, Seq: 1000, At: e.At}}
		}
		e.Epoch = epoch
		var err error
		head, err = c.Journal().Append(tb.Context(), head, e)
		must(tb, err)
	}
	return head
}

func claim(epoch uint64) events.Event { return events.DriverClaimed{Epoch: epoch, Node: "node-1"} }

func text(s string) events.Event { return events.Warning{Code: "said", Message: s} }

// begin writes a session at rest, with an entry that is a blob and one that names a file.
func begin(tb testing.TB, c Cell, s content.SessionID) journal.Head {
	tb.Helper()
	file, _, err := c.Blobs().PutFrom(tb.Context(), strings.NewReader("a file of "+string(s)))
	must(tb, err)
	return write(tb, c, s, claim(1), events.RunStarted{}, text(strings.Repeat("large ", 20_000)), text("see "+file), events.Parked{})
}

// ring returns a new seal key.
func ring(tb testing.TB) seal.Ring {
	tb.Helper()
	file := filepath.Join(tb.TempDir(), "seal.keys")
	_, err := seal.Create(file)
	must(tb, err)
	r, err := seal.Read(file)
	must(tb, err)
	return r
}

func stored(tb testing.TB, c Cell, s content.SessionID) (out []journal.Record) {
	tb.Helper()
	out, err := natstest.Collect(c.Journal().Read(tb.Context(), s, 0))
	must(tb, err)
	return out
}

// lives reports whether a node that got a run token would drive the session.
func lives(tb testing.TB, c Cell, s content.SessionID) bool {
	tb.Helper()
	r, err := engine.Reader{Journal: c.Journal()}.Read(context.WithoutCancel(tb.Context()), s)
	return err == nil && r.Head.Seq > 0 && r.State.Deleted == nil
}

func mover(tb testing.TB, from, to Cell) *Mover {
	tb.Helper()
	m, err := New(tb.Context(), from, to)
	must(tb, err)
	return m
}

func moved(tb testing.TB, from, to Cell, s content.SessionID, head journal.Head) Moved {
	tb.Helper()
	out, err := mover(tb, from, to).Move(tb.Context(), s, head, events.SessionDeleted{By: "ada"})
	must(tb, err)
	return out
}

func judged(tb testing.TB, c Cell, s content.SessionID, anchors ...audit.Anchor) *verdict.Verdict {
	tb.Helper()
	v, err := audit.Verify(c.Journal().Read(tb.Context(), s, 0), anchors...)
	must(tb, err)
	return v
}

// equal reports whether two journals have the same bytes.
func equal(one, other []journal.Record) bool {
	return slices.EqualFunc(one, other, func(a, b journal.Record) bool { return bytes.Equal(a.Payload, b.Payload) })
}

func TestAMovedSessionHasItsJournalAsItWas(t *testing.T) {
	t.Parallel()
	a, b := cell(t, "here"), cell(t, "there")
	head := begin(t, a, "s")
	before := stored(t, a, "s")
	_, err := a.DeadLetters().Note(t.Context(), "s")
	must(t, err)
	out := moved(t, a, b, "s", head)
	if out.Copied != 5 || out.Blobs != 2 || out.Removed != 5 || out.Entries != 5 || out.MovedTo.Place != "there" || out.Sealed {
		t.Errorf("moved: %+v", out)
	}
	after := stored(t, b, "s")
	if len(after) != 6 || !equal(after[:5], before) {
		t.Fatalf("%d entries there, with the first ones as they were: %t", len(after), len(after) == 6 && equal(after[:5], before))
	}
	for _, rec := range after[:5] {
		if !rec.Moved || !rec.Stored.IsZero() {
			t.Errorf("entry %d: moved %t, stored %v", rec.Seq, rec.Moved, rec.Stored)
		}
	}
	last := after[5]
	from := events.MovedFromOf(last.Entry)
	tombstone := stored(t, a, "s")
	if len(tombstone) != 1 || from == nil || from.Tombstone != tombstone[0].Hash || !from.Proves(last.Entry) || from.Place != "here" || last.Moved || last.Entry.Epoch != 2 || !engine.Parks(last.Entry) {
		t.Errorf("the claim: %+v, of %+v; the tombstone: %+v", from, last.Entry, tombstone)
	}
	if c := last.Entry.Cursors; len(c) != 1 || c[0].Seq != 0 || c[0].At != before[0].Entry.Cursors[0].At+1 {
		t.Errorf("cursors: %+v", c)
	}
	data, ok, err := b.Blobs().Get(t.Context(), events.HashOf([]byte("a file of s")).String())
	if err != nil || !ok || !bytes.Equal(data, []byte("a file of s")) {
		t.Errorf("the file: %q, %t, %v", data, ok, err)
	}
	if n, err := b.DeadLetters().Noted(t.Context(), "s"); err != nil || n == 0 {
		t.Errorf("dead letters: %d, %v", n, err)
	}
	old := audit.Anchor{Session: "s", Seq: head.Seq, Hash: head.Hash}
	if v := judged(t, b, "s", old); !v.OK() || v.Level != verdict.Anchored || len(v.Moves) != 1 || len(v.Warnings) > 0 {
		t.Errorf("verdict there: %v, %v, %v", v.Faults, v.Level, v.Warnings)
	}
	if v := judged(t, a, "s"); !v.OK() || v.State != verdict.Moved {
		t.Errorf("verdict here: %v, %v", v.Faults, v.State)
	}
	again := moved(t, a, b, "s", head)
	if again.Copied != 0 || again.Last != head.Hash || lives(t, a, "s") || !lives(t, b, "s") {
		t.Errorf("moved again: %+v", again)
	}
}

var errCrash = errors.New("killed")

// crash has a mover end before its n-th write.
func crash(m *Mover, n int, also func(step string)) {
	m.before = func(step string) error {
		also(step)
		if n--; n == 0 {
			return errCrash
		}
		return nil
	}
}

func TestAMoverThatIsKilledAnywhereIsContinued(t *testing.T) {
	t.Parallel()
	a, b := cell(t, "here"), cell(t, "there")
	var steps []string
	for n := 1; ; n++ {
		s := content.SessionID(fmt.Sprintf("s-%d", n))
		head := begin(t, a, s)
		want := stored(t, a, s)
		check := func(step string) {
			here, there := lives(t, a, s), lives(t, b, s)
			if here && there {
				t.Fatalf("killed at %d, before %s: it lives in both cells", n, step)
			}
		}
		m := mover(t, a, b)
		crash(m, n, func(step string) {
			check(step)
			steps = append(steps, step)
		})
		_, err := m.Move(t.Context(), s, head, events.SessionDeleted{By: "ada"})
		check("it ends")
		if err == nil {
			break
		}
		if !errors.Is(err, errCrash) {
			t.Fatalf("killed at %d: %v", n, err)
		}
		steps = steps[:0]
		for k := 1; ; k++ { // and killed again, at each step
			m := mover(t, a, b)
			crash(m, k, check)
			if _, err = m.Move(t.Context(), s, head, events.SessionDeleted{By: "ada"}); !errors.Is(err, errCrash) {
				break
			}
		}
		if err != nil || !lives(t, b, s) || lives(t, a, s) {
			t.Fatalf("killed at %d, continued: %v; lives here: %t, there: %t", n, err, lives(t, a, s), lives(t, b, s))
		}
		if got := stored(t, b, s); len(got) != 6 || !equal(got[:5], want) {
			t.Errorf("killed at %d: %d entries there", n, len(got))
		}
		if v := judged(t, b, s); !v.OK() {
			t.Errorf("killed at %d: %v", n, v.Faults)
		}
	}
	want := []string{"blobs", "reserve", "tombstone", "blobs", "reserve", "copy", "copy", "copy", "copy", "copy", "claim", "commit", "notes", "clear"}
	if !slices.Equal(steps, want) {
		t.Errorf("steps: %v", steps)
	}
}

func TestASessionOnItsWayIsSaidToBeSo(t *testing.T) {
	t.Parallel()
	a, b := cell(t, "here"), cell(t, "there")
	head := begin(t, a, "s")
	for n := range 20 {
		m := mover(t, a, b)
		at := ""
		crash(m, n+1, func(step string) { at = step })
		_, err := m.Move(t.Context(), "s", head, events.SessionDeleted{})
		if err == nil {
			break
		}
		_, err = natstest.Collect(b.Journal().Read(t.Context(), "s", 0))
		reserved := n > 1 // blobs, reserve, tombstone
		if settled := at == "notes" || at == "clear"; errors.Is(err, journal.ErrArriving) != (reserved && !settled) {
			t.Errorf("killed before %s: reading it there: %v", at, err)
		}
		v, err := audit.Verify(b.Journal().Read(t.Context(), "s", 0))
		if f, bad := v.First(); err != nil || bad && (f.Kind != verdict.Moved || v.Exit(verdict.None) != verdict.ExitUnjudged) {
			t.Errorf("killed before %s: verdict there: %v, %v", at, v.Faults, err)
		}
		if rec, err := a.Journal().Last(t.Context(), "s"); err == nil && rec.Seq > head.Seq {
			_, err = mover(t, a, cell(t, "elsewhere")).Move(t.Context(), "s", head, events.SessionDeleted{})
			if !errors.Is(err, ErrElsewhere) || !strings.Contains(err.Error(), "was moved to there (cell ") {
				t.Errorf("killed before %s: moved elsewhere: %v", at, err)
			}
		}
	}
}

func TestASessionComesBack(t *testing.T) {
	t.Parallel()
	a, b, c := cell(t, "a"), cell(t, "b"), cell(t, "c")
	begin(t, a, "s")
	observer, err := a.Journal().End(t.Context(), jetstream.AllSessions)
	must(t, err)
	var anchors []audit.Anchor
	cells := []Cell{a, b, c, a, b, a}
	for i, from := range cells[:len(cells)-1] {
		last, err := from.Journal().Last(t.Context(), "s")
		must(t, err)
		moved(t, from, cells[i+1], "s", last.Head)
		tombstone, err := from.Journal().Last(t.Context(), "s")
		must(t, err)
		left, _ := events.DeletionOf(tombstone.Entry)
		anchors = append(anchors, audit.Anchor{Session: "s", Seq: last.Seq, Hash: last.Hash}, audit.Anchor{Session: "s", Seq: tombstone.Seq, Hash: tombstone.Hash, Deletion: &left})
		write(t, cells[i+1], "s", claim(uint64(3*i)+3), text(fmt.Sprint("in ", i)), events.Parked{})
		for _, c := range []Cell{a, b, c} {
			if lives(t, c, "s") != (c.Place == cells[i+1].Place) {
				t.Fatalf("move %d: lives in %s: %t", i, c.Place, lives(t, c, "s"))
			}
		}
	}
	if v := judged(t, a, "s", anchors...); !v.OK() || len(v.Moves) != 5 || v.Anchors != len(anchors) {
		t.Errorf("verdict at last: %v, moves %v, %d of %d anchors", v.Faults, v.Moves, v.Anchors, len(anchors))
	}
	if v := judged(t, b, "s", anchors...); v.State != verdict.Moved || v.Exit(verdict.None) == verdict.ExitFault {
		t.Errorf("verdict in between: %v, %s", v.Faults, v.State)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	for rec, err := range a.Journal().Observe(ctx, jetstream.AllSessions, observer) { // the entry that it has seen is gone
		must(t, err)
		if rec.Seq > 5 {
			break
		}
	}
}

func TestANameThatIsTakenIsRefused(t *testing.T) {
	t.Parallel()
	a, b, c := cell(t, "a"), cell(t, "b"), cell(t, "c")
	head := begin(t, a, "s")
	refused := func(to Cell, want error, text string) {
		t.Helper()
		_, err := mover(t, a, to).Move(t.Context(), "s", head, events.SessionDeleted{})
		if !errors.Is(err, want) || !strings.Contains(err.Error(), text) {
			t.Errorf("move = %v, want %v: %q", err, want, text)
		}
		if !lives(t, a, "s") {
			t.Error("it no longer lives here")
		}
	}
	other := begin(t, b, "s")
	refused(b, ErrTaken, "has a session with this ID")
	if !lives(t, b, "s") {
		t.Error("the other one no longer lives there")
	}
	last, err := b.Journal().Last(t.Context(), "s")
	must(t, err)
	_, err = admin.Of(b.Cell).Delete(t.Context(), last, events.SessionDeleted{Reason: "test"})
	must(t, err)
	refused(b, ErrTaken, "")
	_, err = admin.Of(b.Cell).Clear(t.Context(), "s")
	must(t, err)
	refused(b, ErrTaken, "it was deleted at ")

	// A session of that name is on its way from another cell.
	d := cell(t, "d")
	begin(t, d, "s")
	last, err = d.Journal().Last(t.Context(), "s")
	must(t, err)
	m := mover(t, d, c)
	crash(m, 3, func(string) {})
	if _, err := m.Move(t.Context(), "s", last.Head, events.SessionDeleted{}); !errors.Is(err, errCrash) {
		t.Fatal(err)
	}
	refused(c, ErrTaken, "a move from d (cell ")
	moved(t, d, c, "s", last.Head)
	refused(c, ErrTaken, "")

	_, err = mover(t, a, cell(t, "e")).Move(t.Context(), "s", other, events.SessionDeleted{})
	if !errors.Is(err, ErrChanged) {
		t.Errorf("with another head: %v", err)
	}
	if _, err := New(t.Context(), a, a); !errors.Is(err, ErrCells) {
		t.Errorf("to itself: %v", err)
	}
	if _, err := mover(t, a, b).Move(t.Context(), "nosuch", journal.Head{}, events.SessionDeleted{}); !errors.Is(err, journal.ErrNotFound) {
		t.Errorf("of no session: %v", err)
	}
}

func TestOfTwoMoversOneWins(t *testing.T) {
	t.Parallel()
	a, b, c := cell(t, "a"), cell(t, "b"), cell(t, "c")
	for n := 1; ; n++ {
		s := content.SessionID(fmt.Sprintf("s-%d", n))
		head := begin(t, a, s)
		slow := mover(t, a, b)
		other, end := b, true
		if n%2 == 0 {
			other = c
		}
		k := n / 2
		crash(slow, -1, func(string) {
			if k--; k == -1 { // another one does all of it meanwhile
				end = false
				_, _ = mover(t, a, other).Move(t.Context(), s, head, events.SessionDeleted{})
			}
		})
		_, err := slow.Move(t.Context(), s, head, events.SessionDeleted{})
		if end {
			break
		}
		in := 0
		for _, c := range []Cell{a, b, c} {
			if lives(t, c, s) {
				in++
			}
		}
		if in != 1 {
			t.Errorf("another mover to %s at step %d of the first: it lives in %d cells; %v", other.Place, n/2, in, err)
		}
	}
}

func TestAChangedSessionStays(t *testing.T) {
	t.Parallel()
	a, b := cell(t, "a"), cell(t, "b")
	head := begin(t, a, "s")
	m := mover(t, a, b)
	m.before = func(step string) error {
		if step == "tombstone" {
			head = write(t, a, "s", claim(2), events.Parked{})
		}
		return nil
	}
	if _, err := m.Move(t.Context(), "s", head, events.SessionDeleted{}); !errors.Is(err, ErrChanged) {
		t.Fatalf("move = %v", err)
	}
	if got := stored(t, b, "s"); len(got) > 0 || !lives(t, a, "s") {
		t.Errorf("there: %v; it lives here: %t", got, lives(t, a, "s"))
	}
	moved(t, a, b, "s", head)
	if !lives(t, b, "s") {
		t.Error("it did not arrive")
	}
}

func TestASuspendedMoverRemovesNothingOfASessionThatCameBack(t *testing.T) {
	t.Parallel()
	a, b := cell(t, "a"), cell(t, "b")
	keys := ring(t)
	a.Cell, b.Cell = a.Sealing(keys), b.Sealing(keys)
	must(t, a.Seal(t.Context(), "s", ""))
	head := begin(t, a, "s")
	suspended := mover(t, a, b)
	suspended.before = func(step string) error {
		if step == "clear" {
			moved(t, a, b, "s", head)
			last, err := b.Journal().Last(t.Context(), "s")
			must(t, err)
			moved(t, b, a, "s", last.Head)
		}
		return nil
	}
	_, err := suspended.Move(t.Context(), "s", head, events.SessionDeleted{})
	if !errors.Is(err, admin.ErrNotDeleted) {
		t.Errorf("the suspended mover: %v", err)
	}
	left, err := seals.Of(a.Cell).Left(t.Context(), "s")
	if err != nil || !left || !lives(t, a, "s") || lives(t, b, "s") {
		t.Errorf("its key is there: %t, %v; it lives here: %t, there: %t", left, err, lives(t, a, "s"), lives(t, b, "s"))
	}
	if left, err := seals.Of(b.Cell).Left(t.Context(), "s"); err != nil || left {
		t.Errorf("its key is still there: %t, %v", left, err)
	}
}

func TestASealedSessionIsMovedWithoutItsSealKey(t *testing.T) {
	t.Parallel()
	a, b := cell(t, "a"), cell(t, "b")
	keys := ring(t)
	with := a
	with.Cell = a.Sealing(keys)
	must(t, with.Seal(t.Context(), "s", ""))
	head := begin(t, with, "s")
	out := moved(t, a, b, "s", head)
	if !out.Sealed || out.Copied != 5 {
		t.Errorf("moved: %+v", out)
	}
	if left, err := seals.Of(a.Cell).Left(t.Context(), "s"); err != nil || left {
		t.Errorf("the key stays at the source: %t, %v", left, err)
	}
	there := b
	there.Cell = b.Sealing(keys)
	records := stored(t, there, "s")
	if len(records) != 6 || records[2].Err != nil || len(records[2].Entry.Events) != 1 {
		t.Errorf("with the seal key: %d entries, %v", len(records), records[2].Err)
	}
	if v := judged(t, there, "s"); !v.OK() {
		t.Errorf("verdict: %v", v.Faults)
	}
}

func TestAMoverNeedsTheRolesThatTheHelpNames(t *testing.T) {
	t.Parallel()
	open := func(place string) (all, user Cell) {
		p, err := admin.PermissionsOf(admin.Grant{Roles: []admin.Role{admin.RoleKeeper, admin.RoleDriver}, Inbox: "_INBOX_mover"})
		must(t, err)
		s := natstest.Start(t, embedded.WithStore(t.TempDir()), embedded.WithSettings("authorization { users: [{ user: all, password: p }\n{ user: mover, password: p\n"+p.Conf()+" }] }"))
		connect := func(opts ...nats.Option) Cell {
			c, err := jetstream.Open(natstest.Connect(t, s, opts...), "")
			must(t, err)
			return Cell{c, place}
		}
		all = connect(nats.UserInfo("all", "p"))
		must(t, admin.Of(all.Cell).Provision(t.Context(), admin.Config{}))
		return all, connect(nats.UserInfo("mover", "p"), nats.CustomInboxPrefix("_INBOX_mover"))
	}
	a, from := open("a")
	b, to := open("b")
	keys := ring(t)
	a.Cell = a.Sealing(keys)
	must(t, a.Seal(t.Context(), "sealed", ""))
	for _, s := range []content.SessionID{"s", "sealed"} {
		head := begin(t, a, s)
		m := mover(t, from, to)
		m.before = func(step string) error {
			if step == "tombstone" && head.Seq == 5 { // so the reservation is removed
				head = write(t, a, s, claim(2), events.Parked{})
			}
			return nil
		}
		if _, err := m.Move(t.Context(), s, head, events.SessionDeleted{}); !errors.Is(err, ErrChanged) {
			t.Fatalf("move = %v", err)
		}
		moved(t, from, to, s, head)
		last, err := b.Journal().Last(t.Context(), s)
		must(t, err)
		moved(t, to, from, s, last.Head)
		if !lives(t, a, s) {
			t.Errorf("%s did not come back", s)
		}
	}
}

func TestCommandsThatArriveBeforeTheSessionStay(t *testing.T) {
	t.Parallel()
	a, b := cell(t, "a"), cell(t, "b")
	head := begin(t, a, "s")
	trial := trials.Trial{Session: "s", Broke: []trials.Breakage{{Node: "n1"}, {Node: "n2"}}}
	_, err := trials.Of(b.Cell).Put(t.Context(), trial) // nodes that could not read it yet
	must(t, err)
	n := layout.New(b.Namespace())
	moved(t, a, b, "s", head)
	note, err := trials.Of(b.Cell).Get(t.Context(), "s")
	if err != nil || len(note.Broke) > 0 {
		t.Errorf("trials: %+v, %v", note, err)
	}
	if all, err := api.New(b.Conn()).Subjects(t.Context(), n.RunStream(), n.Run(jetstream.AllSessions)); err != nil || len(all) > 0 {
		t.Errorf("a session at rest was woken: %v, %v", all, err)
	}
}
