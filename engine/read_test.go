package engine_test

import (
	"context"
	"errors"
	"iter"
	"maps"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

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
	snap   journal.Snapshot
	chunks map[events.Hash][]byte
	err    error
	lost   error // when chunks are read
}

func (k kept) Get(context.Context, content.SessionID) (journal.Snapshot, bool, error) {
	return k.snap, k.snap.Seq > 0, k.err
}

func (k kept) Chunks(context.Context, content.SessionID, []events.Hash) (map[events.Hash][]byte, error) {
	return k.chunks, k.lost
}

// writer writes a session, and takes snapshots of it.
type writer struct {
	t       *testing.T
	journal *journal.Memory
	state   *loop.State
	head    journal.Head
}

func newWriter(t *testing.T) *writer {
	t.Helper()
	return &writer{t: t, journal: journal.NewMemory(), state: loop.New("s")}
}

func (w *writer) write(evs ...events.Event) {
	w.t.Helper()
	e := events.Entry{Session: "s", Cause: strconv.FormatUint(w.head.Seq, 10), Epoch: 1, At: 1, Events: evs}
	var err error
	if w.head, err = w.journal.Append(w.t.Context(), w.head, e); err != nil {
		w.t.Fatal(err)
	}
	e.Seq = w.head.Seq
	w.state.Fold(e)
}

func (w *writer) take() kept {
	w.t.Helper()
	k := kept{chunks: map[events.Hash][]byte{}}
	var e snapshot.Encoder
	index, err := e.Encode(w.state, func(h events.Hash, b []byte) error {
		k.chunks[h] = b
		return nil
	})
	if err != nil {
		w.t.Fatal(err)
	}
	k.snap = journal.Snapshot{Head: w.head, State: index}
	return k
}

func confirms(k kept) events.SnapshotTaken {
	return events.SnapshotTaken{Format: snapshot.Version, Digest: events.HashOf(k.snap.State)}
}

// written is a session of five entries, and a snapshot after the third, which the fourth confirms. Its transcript
// takes several chunks.
func written(t *testing.T) (journal.Journal, kept) {
	t.Helper()
	w := newWriter(t)
	w.write(events.DriverClaimed{Epoch: 1})
	w.write(events.RunStarted{Transcript: []content.Item{
		content.UserText(strings.Repeat("x", 60_000)), content.UserText(strings.Repeat("y", 60_000)), content.UserText("z"),
	}})
	w.write(events.Warning{Code: "w"})
	k := w.take()
	w.write(confirms(k), events.Warning{Code: "w"})
	w.write(events.Parked{})
	return w.journal, k
}

func TestReadStartsFromAUsableSnapshot(t *testing.T) {
	t.Parallel()
	j, good := written(t)
	want, err := engine.Reader{Journal: j}.Read(t.Context(), "s")
	if err != nil || want.Head.Seq != 5 || !want.Parked || !want.State.Opened || len(good.chunks) < 2 {
		t.Fatalf("Read = %+v, %v, with %d chunks", want, err, len(good.chunks))
	}
	change := func(f func(*kept)) kept {
		k := good
		f(&k)
		return k
	}
	for name, tc := range map[string]struct {
		kept kept
		from []uint64
		base uint64
	}{
		"confirmed":           {good, []uint64{3}, 3},
		"none":                {kept{}, []uint64{0}, 0},
		"cannot be read":      {kept{err: errors.New("no answer")}, []uint64{0}, 0},
		"of another entry":    {change(func(k *kept) { k.snap.Seq = 1 }), []uint64{1, 0}, 0},
		"of another journal":  {change(func(k *kept) { k.snap.Hash = events.Hash{1} }), []uint64{3, 0}, 0},
		"of the last entry":   {change(func(k *kept) { k.snap.Head = want.Head }), []uint64{5, 0}, 0},
		"of a longer journal": {change(func(k *kept) { k.snap.Seq = 9 }), []uint64{9, 0}, 0},
		"of another format":   {change(func(k *kept) { k.snap.State = []byte("none") }), []uint64{3, 0}, 0},
		"forged":              {change(func(k *kept) { k.snap.State = []byte(strings.Replace(string(k.snap.State), "z", "e", 1)) }), []uint64{3, 0}, 0},
		"chunks unread":       {change(func(k *kept) { k.lost = errors.New("no answer") }), []uint64{3, 0}, 0},
		"chunks missing":      {change(func(k *kept) { k.chunks = nil }), []uint64{3, 0}, 0},
		"chunks forged": {change(func(k *kept) {
			k.chunks = maps.Clone(k.chunks)
			for h, b := range k.chunks {
				k.chunks[h] = []byte(strings.Replace(string(b), "x", "e", 1))
			}
		}), []uint64{3, 0}, 0},
	} {
		var from []uint64
		got, err := engine.Reader{Journal: chained{j, &from}, Snapshots: tc.kept}.Read(t.Context(), "s")
		want.Base = tc.base
		if diff := cmp.Diff(want, got, cmp.Comparer(sameState), cmpopts.IgnoreFields(engine.Replica{}, "Encoder")); err != nil || diff != "" {
			t.Errorf("%s: %v (-want +got)\n%s", name, err, diff)
		}
		if (got.Encoder != nil) != (tc.base > 0) {
			t.Errorf("%s: encoder %v", name, got.Encoder)
		}
		if diff := cmp.Diff(tc.from, from); diff != "" {
			t.Errorf("%s: reads began after (-want +got)\n%s", name, diff)
		}
	}
}

// A reader that has keys takes the word of a signed entry only: an unsigned one could be anyone's, since the claim
// that names its driver's key is not read.
func TestAnUnsignedEntryConfirmsNothingToAReaderWithKeys(t *testing.T) {
	t.Parallel()
	j, k := written(t)
	var from []uint64
	got, err := engine.Reader{Journal: chained{j, &from}, Snapshots: k, Signed: true}.Read(t.Context(), "s")
	if err != nil || got.Head.Seq != 5 || got.Base != 0 {
		t.Errorf("Read = %d from %d, %v, want the whole journal", got.Head.Seq, got.Base, err)
	}
}

// The state of a forged snapshot need not be one that the rest of the journal can be folded into.
func TestAForgedSnapshotIsNotFolded(t *testing.T) {
	t.Parallel()
	w := newWriter(t)
	w.write(events.DriverClaimed{Epoch: 1})
	w.write(events.RunStarted{})
	w.write(events.TurnStarted{Turn: "turn-1"})
	k := w.take()
	w.write(confirms(k), events.RoundStarted{Turn: "turn-1", Round: 1})
	forged := newWriter(t)
	forged.head, forged.state.Seq = k.snap.Head, 3
	var from []uint64
	got, err := engine.Reader{Journal: chained{w.journal, &from}, Snapshots: forged.take()}.Read(t.Context(), "s")
	if err != nil || got.State.Turn == nil || got.Base != 0 {
		t.Errorf("Read = %+v, %v", got, err)
	}
}

func TestATombstoneNeedsNoConfirmation(t *testing.T) {
	t.Parallel()
	w := newWriter(t)
	w.write(events.DriverClaimed{Epoch: 1})
	w.write(events.RunStarted{})
	k := w.take()
	w.write(events.SessionDeleted{Reason: "r"})
	var from []uint64
	got, err := engine.Reader{Journal: chained{w.journal, &from}, Snapshots: k}.Read(t.Context(), "s")
	if err != nil || got.State.Deleted == nil || got.Base != 0 || len(from) != 1 {
		t.Errorf("Read = %+v, %v, in %d reads", got, err, len(from))
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
	x, xerr := snapshot.Encode(a)
	y, yerr := snapshot.Encode(b)
	return xerr == nil && yerr == nil && string(x) == string(y)
}
