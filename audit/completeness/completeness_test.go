package completeness_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"golang.org/x/mod/sumdb/note"

	"github.com/turnlog/turnlog/audit/completeness"
	"github.com/turnlog/turnlog/audit/headlog"
	"github.com/turnlog/turnlog/audit/verdict"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/events/journal"
	"github.com/turnlog/turnlog/internal/testing/natstest"
	"github.com/turnlog/turnlog/jetstream"
	"github.com/turnlog/turnlog/jetstream/admin"
	"github.com/turnlog/turnlog/jetstream/heads"
)

func TestMain(m *testing.M) { natstest.Main(m) }

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

// world is a cell with sessions, and a log of their heads.
type world struct {
	*testing.T

	cell   *jetstream.Cell
	key    note.Signer
	policy *headlog.Policy
	state  headlog.State
	number uint64
	heads  map[content.SessionID]journal.Head
}

func newWorld(t *testing.T) *world {
	t.Helper()
	cell, err := jetstream.Open(natstest.Connect(t, natstest.Start(t)), "")
	natstest.Must(t, err)
	natstest.Must(t, admin.Of(cell).Provision(t.Context(), admin.Config{Memory: true}))
	secret, public, err := note.GenerateKey(nil, "example.com/log")
	natstest.Must(t, err)
	key, err := note.NewSigner(secret)
	natstest.Must(t, err)
	policy, err := headlog.ParsePolicy([]byte("log " + public + "\nquorum none\n"))
	natstest.Must(t, err)
	w := &world{T: t, cell: cell, key: key, policy: policy, state: headlog.NewState("example.com/log"), heads: map[content.SessionID]journal.Head{}}
	for _, s := range []content.SessionID{"s-1", "s-2"} {
		w.write(s, events.DriverClaimed{Epoch: 1})
		w.write(s, events.RunStarted{})
	}
	return w
}

func (w *world) write(s content.SessionID, ev events.Event) {
	w.Helper()
	e := events.Entry{Session: s, Cause: fmt.Sprint("c", w.heads[s].Seq), At: 1, Epoch: 1, Events: []events.Event{ev}}
	next, err := w.cell.Journal().Append(w.Context(), w.heads[s], e)
	natstest.Must(w, err)
	w.heads[s] = next
}

// log logs leaves and publishes a checkpoint.
func (w *world) log(leaves ...headlog.Leaf) {
	w.Helper()
	var texts [][]byte
	for _, l := range leaves {
		texts = append(texts, l.Text())
	}
	w.logTexts(texts)
}

func (w *world) logTexts(texts [][]byte) {
	w.Helper()
	next, err := w.state.Append(texts)
	natstest.Must(w, err)
	store := heads.Of(w.cell)
	w.number, err = store.Commit(w.Context(), next, w.number)
	natstest.Must(w, err)
	w.state = next
	signed, err := note.Sign(&note.Note{Text: next.Checkpoint().Text()}, w.key)
	natstest.Must(w, err)
	_, number, err := store.Checkpoint(w.Context())
	natstest.Must(w, err)
	natstest.Must(w, store.Publish(w.Context(), signed, number))
}

func (w *world) leaf(s content.SessionID) headlog.Leaf {
	return headlog.Leaf{Cell: "turnlog", Session: s, Seq: w.heads[s].Seq, Hash: w.heads[s].Hash}
}

func TestWhatWasLoggedMustStillBeThere(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		falsify func(w *world)
		kind    verdict.Kind // "": nothing is wrong
		seq     uint64
	}{
		"control":                       {func(*world) {}, "", 0},
		"a session that was never here": {func(w *world) { w.log(headlog.Leaf{Cell: "turnlog", Session: "s-3", Seq: 4}) }, verdict.Missing, 4},
		"the end of a journal": {func(w *world) {
			l := w.leaf("s-1")
			l.Seq = 7
			w.log(l)
		}, verdict.Truncated, 7},
		"another entry": {func(w *world) {
			w.write("s-1", events.Warning{Code: "x"})
			l := w.leaf("s-1")
			l.Hash[0] ^= 1
			w.log(l)
		}, verdict.Replaced, 3},
		"two hashes of an entry": {func(w *world) {
			l := w.leaf("s-1")
			l.Hash[0] ^= 1
			w.log(l)
		}, verdict.Replaced, 2},
		"a leaf of another cell": {func(w *world) { w.log(headlog.Leaf{Cell: "other", Session: "s-3", Seq: 4}) }, "", 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.log(w.leaf("s-1"), w.leaf("s-2"))
			tt.falsify(w)
			got, err := completeness.Check(t.Context(), w.cell, w.policy, nil, completeness.Keys{})
			if err != nil {
				t.Fatal(err)
			}
			switch {
			case tt.kind == "" && (len(got.Faults) > 0 || got.Sessions != 2 || got.Log != "example.com/log"):
				t.Errorf("%+v", got)
			case tt.kind != "" && (len(got.Faults) == 0 || got.Faults[0].Kind != tt.kind || got.Faults[0].Seq != tt.seq):
				t.Errorf("%v, want entry %d %s", got.Faults, tt.seq, tt.kind)
			case tt.kind != "" && !strings.HasPrefix(got.Faults[0].String(), "session s-"):
				t.Errorf("the fault is shown as %s", got.Faults[0])
			}
		})
	}
}

func TestACellWithoutALogHasNone(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	if _, err := completeness.Check(t.Context(), w.cell, w.policy, nil, completeness.Keys{}); !errors.Is(err, heads.ErrNoLog) {
		t.Errorf("Check = %v, want ErrNoLog", err)
	}
}
