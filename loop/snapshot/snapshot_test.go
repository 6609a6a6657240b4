package snapshot_test

import (
	"errors"
	"fmt"
	"hash/fnv"
	"reflect"
	"slices"
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/turnlog/turnlog/commands"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/internal/testing/allocated"
	"github.com/turnlog/turnlog/internal/wire"
	"github.com/turnlog/turnlog/loop"
	"github.com/turnlog/turnlog/loop/snapshot"
)

// entries returns a journal of two calls, one of which needs an approval, and the turn after
// it.
func entries(t testing.TB) []events.Entry {
	t.Helper()
	s := loop.New("s")
	var out []events.Entry
	for i, c := range []commands.Command{
		commands.Claim{Node: "n"},
		commands.OpenSession{
			Config:   events.Config{Model: "m", Limits: events.Limits{MaxRounds: 9}, Cache: &content.CacheRequest{Mode: "required"}},
			Metadata: content.Metadata{}.With("k", []int{1}),
		},
		commands.SubmitInput{Items: []content.Item{content.UserText("go")}, Options: &events.TurnOptions{Sequential: true}},
		commands.ReportReply{
			ModelCall: commands.ModelCall{Turn: "turn-1", Round: 1, Attempt: 1},
			Items: []content.Item{content.NewItem(content.Assistant,
				content.CallPart(content.ToolCall{ID: "a", Name: "x", Input: []byte(`{"n":1}`)}),
				content.CallPart(content.ToolCall{ID: "b", Name: "x"}))},
			Routing: []content.Routing{{Route: content.Background}},
			Checks:  []commands.Check{{Place: "t1-r1-c1"}, {Place: "t1-r1-c2", Questions: []commands.Question{{RequestKind: "k"}}}},
		},
		commands.ResolveApproval{Reason: "no"},
		commands.SubmitInput{Items: []content.Item{content.UserText("later")}, OnBusy: events.Queue},
		commands.ReportResult{Place: "t1-r1-c1", Attempt: 1},
		commands.Cancel{Reason: "r"},
		commands.ReportModelStopped{ModelCall: commands.ModelCall{Turn: "turn-1", Round: 2, Attempt: 1}},
	} {
		env := commands.Envelope{ID: strconv.Itoa(i), Session: "s", By: "ann", At: content.Time(i + 1), Command: c}
		evs, err := loop.Decide(s, env)
		if err != nil || len(evs) == 0 {
			t.Fatalf("%s: %d events, %v", commands.NameOf(c), len(evs), err)
		}
		e := events.Entry{
			Session: "s", Seq: s.Seq + 1, Cause: env.ID, At: env.At, Epoch: 1, Events: evs,
			Cursors: []events.Cursor{{Lane: events.LaneAsk, Seq: uint64(i)}},
		}
		s.Fold(e)
		out = append(out, e)
	}
	return out
}

// A state decoded from a snapshot folds the rest of the journal as the original does.
func TestFoldContinuesFromASnapshot(t *testing.T) {
	t.Parallel()
	journal := entries(t)
	whole := loop.New("s")
	for _, e := range journal {
		whole.Fold(e)
	}
	for n := range journal {
		s := loop.New("s")
		for _, e := range journal[:n] {
			s.Fold(e)
		}
		b, err := snapshot.Encode(s)
		if err != nil {
			t.Fatal(err)
		}
		back, err := snapshot.Decode(b)
		if err != nil {
			t.Fatalf("after %d entries: %v", n, err)
		}
		again, err := snapshot.Encode(back)
		if err != nil || string(again) != string(b) {
			t.Fatalf("after %d entries a second snapshot differs, %v", n, err)
		}
		for _, e := range journal[n:] {
			back.Fold(e)
		}
		if diff := cmp.Diff(whole, back, cmpopts.EquateEmpty()); diff != "" {
			t.Fatalf("folded on after %d entries (-whole +resumed):\n%s", n, diff)
		}
	}
}

func TestDecodeRefusesOtherFormats(t *testing.T) {
	t.Parallel()
	b, err := snapshot.Encode(loop.New("s"))
	if err != nil {
		t.Fatal(err)
	}
	older, newer := slices.Clone(b), slices.Clone(b)
	older[0]--
	newer[0]++
	for name, bad := range map[string][]byte{
		"empty": nil, "version only": b[:1], "cut": b[:len(b)/2], "longer": append(slices.Clone(b), 0), "older": older, "newer": newer,
		"text": []byte("{}"), "no struct": {snapshot.Version, 0xa1, 'x'}, "no state": {snapshot.Version, 0x80},
	} {
		if s, err := snapshot.Decode(bad); !errors.Is(err, snapshot.ErrUnusable) || s != nil {
			t.Errorf("%s: Decode = %v, %v, want ErrUnusable", name, s, err)
		}
	}
}

// FuzzDecode also reads what the journal confirms, which is not hostile, so that no bug makes it so.
func FuzzDecode(f *testing.F) {
	state := loop.New("s")
	for _, e := range entries(f) {
		state.Fold(e)
		b, err := snapshot.Encode(state)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var s *loop.State
		var err error
		took := allocated.By(func() { s, err = snapshot.Decode(b) })
		if took > 2*wire.Memory(len(b), wire.Snapshot)+allocated.Slack { // the whole, and its lists
			t.Fatalf("decoding %d bytes took %d", len(b), took)
		}
		if err == nil {
			_, _ = snapshot.Encode(s)
		}
	})
}

func TestEncodeRefusesWhatDecodeCannotRead(t *testing.T) {
	t.Parallel()
	result := content.NewResult("c", "t", content.StatusOK, "x")
	for range 60 {
		outer := result
		outer.Output = []content.Part{content.ResultPart(result)}
		result = outer
	}
	s := loop.New("s")
	s.Transcript = []content.Item{content.NewItem(content.Tool, content.ResultPart(result))}
	if b, err := snapshot.Encode(s); err == nil {
		t.Errorf("Encode of a result in a result, 60 deep = %d bytes", len(b))
	}
}

// A snapshot of another shape would decode without an error, and wrongly. Types count
// by what they hold, not by their names, which no snapshot contains.
func TestTheVersionFollowsTheShapeOfTheState(t *testing.T) {
	t.Parallel()
	const version, shape = 25, "76151d652cabd3d7"
	h := fnv.New64a()
	seen := map[reflect.Type]int{}
	var walk func(reflect.Type)
	walk = func(typ reflect.Type) {
		_, _ = fmt.Fprint(h, typ.Kind())
		switch typ.Kind() {
		case reflect.Pointer, reflect.Slice, reflect.Array:
			walk(typ.Elem())
		case reflect.Struct:
			if n, ok := seen[typ]; ok {
				_, _ = fmt.Fprint(h, n)
				return
			}
			seen[typ] = len(seen)
			for f := range typ.Fields() {
				name := f.Tag.Get("msgpack")
				if name == "" {
					name = f.Name
				}
				_, _ = fmt.Fprintln(h, name)
				walk(f.Type)
			}
		default:
		}
	}
	walk(reflect.TypeFor[loop.State]())
	if got := fmt.Sprintf("%016x", h.Sum64()); got != shape || snapshot.Version != version {
		t.Errorf("loop.State has the shape %s and snapshots are of version %d; recorded are %s and %d. "+
			"Raise Version when the shape changes, then record both here", got, snapshot.Version, shape, version)
	}
}
