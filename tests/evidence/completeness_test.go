package evidence

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/turnlog/turnlog/audit/completeness"
	"github.com/turnlog/turnlog/audit/headlog"
	"github.com/turnlog/turnlog/audit/verdict"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/events/journal"
	"github.com/turnlog/turnlog/internal/testing/logtest"
	"github.com/turnlog/turnlog/internal/testing/natstest"
	"github.com/turnlog/turnlog/jetstream/heads"
)

func TestEveryErrorHasItsKind(t *testing.T) {
	t.Parallel()
	for err, want := range map[error]verdict.Kind{
		headlog.ErrForged: verdict.Forged, headlog.ErrUnknownLog: verdict.Foreign,
		headlog.ErrBadProof: verdict.Unreadable, headlog.ErrBadCheckpoint: verdict.Unreadable, headlog.ErrNotAHead: verdict.Unreadable,
		headlog.ErrNotIncluded: verdict.Tampered, headlog.ErrInconsistent: verdict.Tampered, headlog.ErrBadState: verdict.Tampered,
		heads.ErrDamaged: verdict.Tampered, heads.ErrNoLog: "", errors.New("no answer"): "",
	} {
		if got := completeness.KindOf(fmt.Errorf("read: %w", err)); got != want {
			t.Errorf("%v: %q, want %q", err, got, want)
		}
	}
}

func TestWhatWasLoggedMustStillBeThere(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		falsify func(w *logtest.World)
		kind    verdict.Kind // "": nothing is wrong
		seq     uint64
	}{
		"control":                       {func(*logtest.World) {}, "", 0},
		"a session that was never here": {func(w *logtest.World) { w.Add(headlog.Leaf{Cell: "turnlog", Session: "s-3", Seq: 4}) }, verdict.Missing, 4},
		"the end of a journal": {func(w *logtest.World) {
			l := w.Leaf("s-1")
			l.Seq = 7
			w.Add(l)
		}, verdict.Truncated, 7},
		"another entry": {func(w *logtest.World) {
			w.Write("s-1", events.Warning{Code: "x"})
			l := w.Leaf("s-1")
			l.Hash[0] ^= 1
			w.Add(l)
		}, verdict.Replaced, 3},
		"two hashes of an entry": {func(w *logtest.World) {
			l := w.Leaf("s-1")
			l.Hash[0] ^= 1
			w.Add(l)
		}, verdict.Replaced, 2},
		"an entry of a session that was erased": {func(w *logtest.World) {
			last := w.Leaf("s-1")
			first := last
			first.Seq = 1
			w.Add(first)
			w.Write("s-1", events.SessionDeleted{Erased: true})
		}, verdict.Replaced, 1},
		"the entries of a session that was erased": {func(w *logtest.World) {
			w.Write("s-1", events.SessionDeleted{Erased: true})
			remove(w, 1, 2)
		}, verdict.Missing, 2},
		"the first entries of a journal": {func(w *logtest.World) {
			w.Write("s-1", events.Warning{Code: "x"})
			w.Add(w.Leaf("s-1"))
			w.Write("s-1", events.Warning{Code: "y"})
			remove(w, 1, 2)
		}, verdict.Missing, 3},
		"a session that left and came back": {func(w *logtest.World) {
			l := w.Leaf("s-1")
			l.Seq, l.Hash = 3, events.Hash{7}
			w.Add(l)
			w.Write("s-1", events.DriverClaimed{Epoch: 2, MovedFrom: &events.MovedFrom{Cell: "b", Tombstone: events.Hash{7}}})
		}, verdict.Moved, 3},
		"a session that left and came back with its tombstone": {func(w *logtest.World) {
			last, err := w.Cell.Journal().Last(w.Context(), "s-1")
			natstest.Must(w, err)
			_, payload, head, err := journal.Link(last.Head, events.Entry{
				Session: "s-1", Cause: "move/1", At: last.Entry.At, Epoch: 1, Events: []events.Event{events.SessionDeleted{MovedTo: &events.MovedTo{Cell: "b"}}},
			})
			natstest.Must(w, err)
			l := w.Leaf("s-1")
			l.Seq, l.Hash = head.Seq, head.Hash
			w.Add(l)
			w.Write("s-1", events.DriverClaimed{Epoch: 2, MovedFrom: &events.MovedFrom{Cell: "b", Tombstone: head.Hash, Entry: payload}})
		}, "", 0},
		"a session that says that another entry was its tombstone": {func(w *logtest.World) {
			w.Write("s-1", events.DriverClaimed{Epoch: 2, MovedFrom: &events.MovedFrom{Cell: "b", Tombstone: events.Hash{7}}})
			l := w.Leaf("s-1")
			l.Hash = events.Hash{8}
			w.Add(l)
		}, verdict.Replaced, 3},
		"entries in the middle": {func(w *logtest.World) {
			w.Write("s-1", events.Warning{Code: "x"})
			w.Add(w.Leaf("s-1"))
			w.Write("s-1", events.Warning{Code: "y"})
			remove(w, 2)
		}, verdict.Missing, 3},
		"a leaf of another cell": {func(w *logtest.World) { w.Add(headlog.Leaf{Cell: "other", Session: "s-3", Seq: 4}) }, "", 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := logtest.New(t, natstest.Connect(t, natstest.Start(t)))
			w.Add(w.Leaf("s-1"), w.Leaf("s-2"))
			tt.falsify(w)
			got, err := completeness.Check(t.Context(), w.Cell, w.Policy, nil, completeness.Keys{}, nil)
			if err != nil {
				t.Fatal(err)
			}
			switch {
			case tt.kind == "" && (len(got.Faults) > 0 || got.Sessions != 2 || got.Log != logtest.Origin):
				t.Errorf("%+v", got)
			case tt.kind != "" && (len(got.Faults) == 0 || got.Faults[0].Kind != tt.kind || got.Faults[0].Seq != tt.seq):
				t.Errorf("%v, want entry %d %s", got.Faults, tt.seq, tt.kind)
			case tt.kind != "" && !strings.HasPrefix(got.Faults[0].String(), "session s-"):
				t.Errorf("the fault is shown as %s", got.Faults[0])
			}
		})
	}
}

// remove removes messages of the journals. The first two are those of s-1.
func remove(w *logtest.World, seqs ...int) {
	w.Helper()
	for _, seq := range seqs {
		m, err := w.Cell.Conn().RequestWithContext(w.Context(), "$JS.API.STREAM.MSG.DELETE.TURNLOG_JOURNAL", fmt.Appendf(nil, `{"seq":%d}`, seq))
		if err != nil || !strings.Contains(string(m.Data), `"success":true`) {
			w.Fatalf("remove message %d: %v, %s", seq, err, m.Data)
		}
	}
}

func TestACellWithoutALogHasNone(t *testing.T) {
	t.Parallel()
	w := logtest.New(t, natstest.Connect(t, natstest.Start(t)))
	if _, err := completeness.Check(t.Context(), w.Cell, w.Policy, nil, completeness.Keys{}, nil); !errors.Is(err, heads.ErrNoLog) {
		t.Errorf("Check = %v, want ErrNoLog", err)
	}
}
