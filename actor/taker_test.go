package actor_test

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"

	"github.com/turnlog/turnlog/actor/internal/snapshots"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/engine"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/events/journal"
	"github.com/turnlog/turnlog/loop"
	"github.com/turnlog/turnlog/loop/snapshot"
	"github.com/turnlog/turnlog/turnlogtest"
)

// stepDriver writes a session as a driver does, one step at a time.
type stepDriver struct {
	w       *turnlogtest.Deployment
	t       *testing.T
	taker   *snapshots.Taker
	state   *loop.State
	head    journal.Head
	offered *events.SnapshotTaken
}

func newStepDriver(t *testing.T, every uint64) *stepDriver {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
	t.Cleanup(cancel)
	w := turnlogtest.Empty(ctx, t)
	d := &stepDriver{w: w, t: t, state: loop.New("s"), taker: snapshots.New(w.Cell.Snapshots(), every, zap.NewNop())}
	d.entry(events.DriverClaimed{Epoch: 1})
	d.entry(events.RunStarted{})
	return d
}

// append writes an entry with what the taker offers.
func (d *stepDriver) append(evs ...events.Event) {
	d.t.Helper()
	if d.offered = d.taker.Offer(d.head); d.offered != nil {
		evs = append(evs, *d.offered)
	}
	e := events.Entry{Session: "s", Cause: strconv.FormatUint(d.head.Seq, 10), Epoch: 1, At: 1, Events: evs}
	var err error
	if d.head, err = d.w.Cell.Journal().Append(d.w.Ctx, d.head, e); err != nil {
		d.t.Fatal(err)
	}
	e.Seq = d.head.Seq
	d.state.Fold(e)
}

func (d *stepDriver) appended() { d.taker.Appended(d.w.Ctx, d.state, d.head, d.offered != nil) }

func (d *stepDriver) entry(evs ...events.Event) {
	d.t.Helper()
	d.append(evs...)
	d.appended()
}

func (d *stepDriver) settle() { d.taker.Settle(d.w.Ctx, d.state, d.head) }

// says adds an item that fills a separate chunk.
func (d *stepDriver) says(what string) {
	d.t.Helper()
	d.entry(events.InputAccepted{Items: []content.Item{content.UserText(what + strings.Repeat("x", 50_000))}, Origin: events.FromVerifier})
}

// read returns what the next driver reads if this one is lost now.
func (d *stepDriver) read() engine.Replica {
	d.t.Helper()
	ctx := d.w.Ctx
	got, err := engine.Reader{Journal: d.w.Cell.Journal(), Snapshots: d.w.Cell.Snapshots()}.Read(ctx, "s")
	if err != nil {
		d.t.Fatal(err)
	}
	folded, err := engine.Reader{Journal: d.w.Cell.Journal()}.Read(ctx, "s")
	if err != nil {
		d.t.Fatal(err)
	}
	a, aerr := snapshot.Encode(folded.State)
	b, berr := snapshot.Encode(got.State)
	if err := errors.Join(aerr, berr); err != nil || string(a) != string(b) || got.Head != folded.Head {
		d.t.Fatalf("read to %d from %d, which is not what the journal folds to at %d, %v", got.Head.Seq, got.Base, folded.Head.Seq, err)
	}
	return got
}

// A driver may crash between any two steps: the next one starts from a snapshot that was stored, or from the first
// entry.
func TestACrashAtAnyStepLeavesAConfirmedSnapshot(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newStepDriver(t, 3)
		after := func(step string, base uint64) {
			t.Helper()
			if got := d.read().Base; got != base {
				t.Errorf("after %s a driver starts from the snapshot of entry %d, want %d", step, got, base)
			}
		}
		d.says("a")
		d.settle()
		after("encoding", 0)
		d.append(events.Warning{Code: "w"})
		if d.offered == nil {
			t.Fatal("nothing was offered")
		}
		after("the confirmation", 0)
		d.appended()
		d.settle()
		after("the store", 3)
		first, _, err := d.w.Cell.Snapshots().Get(d.w.Ctx, "s")
		if err != nil {
			t.Fatal(err)
		}
		d.says("b")
		d.says("c")
		d.says("d")
		d.settle()
		after("the next encoding", 3)
		d.append(events.Warning{Code: "w"})
		after("the next confirmation", 3)
		d.appended()
		d.settle()
		after("the next store", 7)
		if err := d.w.Cell.Snapshots().Put(d.w.Ctx, "s", first); err != nil { // of a driver that was replaced
			t.Fatal(err)
		}
		after("a late store", 3)
	})
}

// A snapshot must be of the entry before its confirmation, so a late one is taken again.
func TestASnapshotThatComesTooLateIsTakenAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newStepDriver(t, 3)
		d.says("a")
		for range 3 { // its chunk is under way
			d.append(events.Warning{Code: "w"})
			if d.offered != nil {
				t.Fatalf("entry %d confirms a snapshot of an earlier one", d.head.Seq)
			}
			d.appended()
		}
		for n := 0; d.offered == nil; n++ {
			if n == 200 {
				t.Fatal("no snapshot was confirmed")
			}
			synctest.Wait()
			d.entry(events.Warning{Code: "w"})
		}
		d.settle()
		if base := d.read().Base; base != d.head.Seq-1 {
			t.Errorf("the snapshot is of entry %d, want the one before the last, %d", base, d.head.Seq)
		}
	})
}

// The next driver continues with the chunks that are stored, and removes those that are not needed.
func TestChunksAreStoredOnceAndRemoved(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newStepDriver(t, 3)
		d.says("a")
		d.says("b")
		d.settle()
		d.entry(events.Warning{Code: "w"})
		d.settle()
		stored := d.read().Encoder.Chunks()
		d.taker = snapshots.New(d.w.Cell.Snapshots(), 3, zap.NewNop())
		d.taker.Adopt(d.read())
		d.entry(events.MutationFinished{Point: "after_turn_ended", Dirty: true, Replacement: []content.Item{content.UserText("short")}})
		for range 3 {
			d.entry(events.Warning{Code: "w"})
			d.settle()
		}
		if left := d.read(); left.Base != 7 || len(stored) != 2 || len(left.Encoder.Chunks()) != 0 {
			t.Errorf("from %d with %d chunks, which had %d", left.Base, len(left.Encoder.Chunks()), len(stored))
		}
		if there, err := d.w.Cell.Snapshots().Chunks(d.w.Ctx, "s", stored); err != nil || len(there) != 0 {
			t.Errorf("%d chunks are stored, %v, want none", len(there), err)
		}
	})
}

// A store that does not answer delays only a session that parks, and not for long.
func TestAStoreThatDoesNotAnswerHoldsUpNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newStepDriver(t, 1)
		closed := d.w.Open(d.w.Connect())
		closed.Conn().Close()
		d.taker = snapshots.New(closed.Snapshots(), 1, zap.NewNop())
		began := time.Now()
		for range 20 {
			d.entry(events.Warning{Code: "w"})
			d.settle()
		}
		if took := time.Since(began); took > 15*time.Second {
			t.Errorf("20 entries took %v", took)
		}
		d.taker.Close()
	})
}
