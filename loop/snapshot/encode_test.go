package snapshot_test

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/turnlog/turnlog/commands"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/loop"
	"github.com/turnlog/turnlog/loop/snapshot"
)

// chat is a session with long texts, and what its encoder kept.
type chat struct {
	t       *testing.T
	state   *loop.State
	journal []events.Entry
	encoder snapshot.Encoder
	kept    map[events.Hash][]byte
	puts    int // how many chunks were kept
}

func newChat(t *testing.T) *chat {
	t.Helper()
	c := &chat{t: t, state: loop.New("s"), kept: map[events.Hash][]byte{}}
	c.send(commands.Claim{Node: "n"})
	c.send(commands.OpenSession{Config: events.Config{Model: "m", Mutators: []events.Registration{{Name: "compact", Points: []string{"before_model"}}}}})
	c.send(commands.SubmitInput{Items: []content.Item{content.UserText("go")}})
	return c
}

func (c *chat) send(cmd commands.Command) {
	c.t.Helper()
	env := commands.Envelope{ID: fmt.Sprint("c", len(c.journal)), Session: "s", At: content.Time(len(c.journal)), Command: cmd}
	evs, err := loop.Decide(c.state, env)
	if err != nil || len(evs) == 0 {
		c.t.Fatalf("%s: %d events, %v", commands.NameOf(cmd), len(evs), err)
	}
	e := events.Entry{Session: "s", Seq: c.state.Seq + 1, Cause: env.ID, At: env.At, Epoch: 1, Events: evs}
	c.state.Fold(e)
	c.journal = append(c.journal, e)
}

// round asks for one call with a long result. If compact is set, a mutator replaces the transcript first.
func (c *chat) round(compact bool) {
	c.t.Helper()
	for _, e := range loop.Pending(c.state) {
		m, ok := e.(loop.RunMutator)
		if !ok {
			continue
		}
		r := commands.ReportMutation{Turn: m.Turn, Round: m.Round}
		r.Finished = events.MutationFinished{Turn: m.Turn, Mutator: m.Mutator, Point: m.Point, Dirty: compact}
		if compact {
			r.Finished.Replacement = []content.Item{content.UserText("a summary " + strings.Repeat("x", 10_000))}
		}
		c.send(r)
	}
	turn := c.state.Turn
	c.send(commands.ReportReply{
		ModelCall: commands.ModelCall{Turn: turn.ID, Round: turn.Round, Attempt: turn.Attempt},
		Items:     []content.Item{content.NewItem(content.Assistant, content.TextPart(strings.Repeat("y", 500)), content.CallPart(content.ToolCall{Name: "read", Input: []byte("{}")}))},
		Routing:   []content.Routing{{Known: true, Queue: "q"}},
		Checks:    []commands.Check{{Place: content.PlaceOf(turn.N, turn.Round, 1)}},
	})
	call := c.state.Turn.Calls[0]
	done := commands.ReportResult{Place: call.Place, Attempt: 1, Queue: "q"}
	done.Outcome.Result = content.NewResult(call.ID, call.Name, content.StatusOK, strings.Repeat("z", 900))
	c.send(done)
}

func (c *chat) keep(digest events.Hash, chunk []byte) error {
	c.kept[digest] = chunk
	c.puts++
	return nil
}

// encode returns the index of the state, which a fresh encoder must encode in the same way.
func (c *chat) encode() []byte {
	c.t.Helper()
	b, err := c.encoder.Encode(c.state, c.keep)
	if err != nil {
		c.t.Fatal(err)
	}
	var fresh snapshot.Encoder
	again, err := fresh.Encode(c.state, func(digest events.Hash, _ []byte) error {
		if c.kept[digest] == nil {
			c.t.Fatalf("chunk %s was not kept", digest)
		}
		return nil
	})
	if err != nil || string(again) != string(b) {
		c.t.Fatalf("after entry %d a fresh encoder writes %d other bytes, not %d, %v", c.state.Seq, len(again), len(b), err)
	}
	return b
}

func TestASnapshotCostsWhatIsNew(t *testing.T) {
	t.Parallel()
	c := newChat(t)
	var sizes, puts []int
	for range 8 {
		for range 250 {
			c.round(false)
		}
		before := c.puts
		sizes, puts = append(sizes, len(c.encode())), append(puts, c.puts-before)
	}
	if c.puts < 40 || slices.Max(puts) > 3*slices.Min(puts) {
		t.Errorf("chunks per snapshot: %v, want about as many for each", puts)
	}
	if grew := sizes[7] - sizes[0]; grew > 100<<10 {
		t.Errorf("sizes of indexes: %v, want them to grow by digests only", sizes)
	}
}

func TestAStateIsReadFromItsIndexAndChunks(t *testing.T) {
	t.Parallel()
	c := newChat(t)
	replayed := loop.New("s")
	for n := range 400 {
		c.round(n == 170 || n == 300)
		if n%50 != 49 {
			continue
		}
		index, err := snapshot.Open(c.encode())
		if err != nil {
			t.Fatal(err)
		}
		for _, h := range index.Chunks() {
			if _, ok := slices.BinarySearchFunc(c.encoder.Chunks(), h, events.Hash.Compare); !ok {
				t.Errorf("the encoder does not list chunk %s", h)
			}
		}
		back, encoder, err := index.State(c.kept)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range c.journal[replayed.Seq:] {
			replayed.Fold(e)
		}
		want := *replayed
		want.Ends = nil
		if diff := cmp.Diff(&want, back, cmpopts.EquateEmpty()); diff != "" {
			t.Fatalf("after round %d (-folded +resumed):\n%s", n, diff)
		}
		c.state, c.encoder = back, *encoder // which continues
		if before := c.puts; len(c.encode()) == 0 || c.puts != before {
			t.Errorf("after round %d the resumed encoder kept %d chunks again", n, c.puts-before)
		}
	}
}

func TestChunksThatDoNotFitAreRefused(t *testing.T) {
	t.Parallel()
	c := newChat(t)
	for range 200 {
		c.round(false)
	}
	b := c.encode()
	some := slices.Collect(maps.Keys(c.kept))
	for name, chunks := range map[string]func(map[events.Hash][]byte){
		"none":    func(m map[events.Hash][]byte) { clear(m) },
		"missing": func(m map[events.Hash][]byte) { delete(m, some[0]) },
		"another": func(m map[events.Hash][]byte) { m[some[0]] = m[some[1]] },
		"changed": func(m map[events.Hash][]byte) { m[some[0]] = append(slices.Clone(m[some[0]]), 0) },
	} {
		x, err := snapshot.Open(b)
		if err != nil {
			t.Fatal(err)
		}
		m := maps.Clone(c.kept)
		chunks(m)
		if s, _, err := x.State(m); !errors.Is(err, snapshot.ErrUnusable) || s != nil {
			t.Errorf("%s: State = %v, %v, want ErrUnusable", name, s, err)
		}
	}
}

func TestAChunkThatIsNotKeptIsEncodedAgain(t *testing.T) {
	t.Parallel()
	c := newChat(t)
	for range 200 {
		c.round(false)
	}
	full := errors.New("no space")
	for n := range 3 {
		_, err := c.encoder.Encode(c.state, func(h events.Hash, b []byte) error {
			if c.puts > n {
				return full
			}
			return c.keep(h, b)
		})
		if !errors.Is(err, full) {
			t.Fatalf("Encode = %v", err)
		}
	}
	c.encode()
}

// The digests of releases that write the same format must be equal, or audits would report what others took.
func TestTheDigestIsThatOfTheFormat(t *testing.T) {
	t.Parallel()
	const want = "09d323763c305cdec9a349656c651cf5e877686c3e0016b56ce3c3ef113bab8d"
	c := newChat(t)
	for n := range 300 {
		c.round(n == 100)
	}
	if got := events.HashOf(c.encode()).String(); got != want {
		t.Errorf("the digest is %s, recorded is %s. Raise Version if the format changed, then record it here", got, want)
	}
}
