package engine_test

import (
	"context"
	"errors"
	"iter"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/engine"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/events/journal"
	"github.com/turnlog/turnlog/loop"
	"github.com/turnlog/turnlog/loop/snapshot"
)

// chained is a journal that reads from heads, like the one of a deployment.
type chained struct {
	journal.Journal
	from *[]uint64 // where each read began
}

func (c chained) ReadFrom(ctx context.Context, s content.SessionID, h journal.Head) iter.Seq2[journal.Record, error] {
	*c.from = append(*c.from, h.Seq)
	for rec, err := range c.Read(ctx, s, 0) {
		if err != nil {
			return func(yield func(journal.Record, error) bool) { yield(rec, err) }
		}
		if rec.Seq == h.Seq && rec.Hash != h.Hash {
			return func(yield func(journal.Record, error) bool) { yield(journal.Record{}, journal.ErrDamaged) }
		}
	}
	return c.Read(ctx, s, h.Seq)
}

type kept struct {
	snap journal.Snapshot
	err  error
}

func (k kept) Get(context.Context, content.SessionID) (journal.Snapshot, bool, error) {
	return k.snap, k.snap.Seq > 0, k.err
}

// written is a session of three entries: its journal, and a snapshot after the second.
func written(t *testing.T) (journal.Journal, journal.Snapshot) {
	t.Helper()
	j, state := journal.NewMemory(), loop.New("s")
	var head journal.Head
	var snap journal.Snapshot
	for i, ev := range []events.Event{events.DriverClaimed{Epoch: 1}, events.RunStarted{}, events.Parked{}} {
		e := events.Entry{Session: "s", Cause: string(rune('a' + i)), Epoch: 1, At: 1, Events: []events.Event{ev}}
		var err error
		if head, err = j.Append(t.Context(), head, e); err != nil {
			t.Fatal(err)
		}
		e.Seq = head.Seq
		state.Fold(e)
		if i == 1 {
			raw, err := snapshot.Encode(state)
			if err != nil {
				t.Fatal(err)
			}
			snap = journal.Snapshot{Head: head, State: raw}
		}
	}
	return j, snap
}

func TestReadStartsFromAUsableSnapshot(t *testing.T) {
	t.Parallel()
	j, snap := written(t)
	want, err := engine.Reader{Journal: j}.Read(t.Context(), "s")
	if err != nil || want.Head.Seq != 3 || !want.Parked || !want.State.Opened {
		t.Fatalf("Read = %+v, %v", want, err)
	}
	of, chain, format := snap, snap, snap
	of.Seq, chain.Hash, format.State = 1, events.Hash{1}, []byte("none")
	for name, tc := range map[string]struct {
		kept kept
		from []uint64
		base uint64
	}{
		"usable":             {kept{snap: snap}, []uint64{2}, 2},
		"none":               {kept{}, []uint64{0}, 0},
		"cannot be read":     {kept{err: errors.New("no answer")}, []uint64{0}, 0},
		"of another entry":   {kept{snap: of}, []uint64{0}, 0},
		"of another journal": {kept{snap: chain}, []uint64{2, 0}, 0},
		"of another format":  {kept{snap: format}, []uint64{0}, 0},
	} {
		var from []uint64
		got, err := engine.Reader{Journal: chained{j, &from}, Snapshots: tc.kept}.Read(t.Context(), "s")
		want.Base = tc.base
		if diff := cmp.Diff(want, got, cmp.Comparer(sameState)); err != nil || diff != "" {
			t.Errorf("%s: %v (-want +got)\n%s", name, err, diff)
		}
		if diff := cmp.Diff(tc.from, from); diff != "" {
			t.Errorf("%s: reads began after (-want +got)\n%s", name, diff)
		}
	}
}

func TestASessionWithoutAJournalIsEmpty(t *testing.T) {
	t.Parallel()
	got, err := engine.Reader{Journal: journal.NewMemory()}.Read(t.Context(), "s")
	if err != nil || got.Head != (journal.Head{}) || got.State.Session != "s" {
		t.Errorf("Read = %+v, %v", got, err)
	}
}

func sameState(a, b *loop.State) bool {
	return a.Seq == b.Seq && a.Opened == b.Opened && a.Epoch == b.Epoch
}
