package chaos

import (
	"context"
	"math"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/turnlog/turnlog/jetstream"
)

// outcome is the reported outcome of an operation.
type outcome int

const (
	done    outcome = iota // it happened
	refused                // it did not happen, and never will
	unknown                // it happened or not, or will happen
)

func (o outcome) String() string { return [...]string{"done", "refused", "unknown"}[o] }

// history is what the clients of one kind did.
type history struct {
	t     *testing.T
	began time.Time
	keys  int       // how many keys it has
	wants []outcome // outcomes without which it proves little

	mu     sync.Mutex
	ops    []op
	counts map[outcome]int
	did    map[string]bool // keys with an operation that is done
	cell   *jetstream.Cell // of any client
}

func newHistory(t *testing.T, keys int, wants ...outcome) *history {
	t.Helper()
	return &history{t: t, began: time.Now(), keys: keys, wants: wants, counts: make(map[outcome]int), did: make(map[string]bool)}
}

// enough reports whether the history proves something.
func (h *history) enough() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.did) == h.keys && !slices.ContainsFunc(h.wants, func(o outcome) bool { return h.counts[o] == 0 })
}

// goesOn reports whether clients have more to do: until ctx ends, or longer until it is enough.
func (h *history) goesOn(ctx context.Context) bool {
	return ctx.Err() == nil || !h.enough() && h.t.Context().Err() == nil
}

// op is one operation of a history.
type op struct {
	client int
	key    string // histories of different keys are independent
	in     any
	out    any
	result outcome
	call   time.Duration
	back   time.Duration
}

// answer is what a model sees of the end of an operation.
type answer struct {
	result outcome
	out    any
}

// record runs an operation and notes its start, end and outcome.
func (h *history) record(client int, key string, in any, run func() (any, outcome)) outcome {
	o := op{client: client, key: key, in: in, call: time.Since(h.began)}
	o.out, o.result = run()
	o.back = time.Since(h.began)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ops = append(h.ops, o)
	h.counts[o.result]++
	if o.result == done {
		h.did[key] = true
	}
	return o.result
}

// linearizable checks the history. An operation with an unknown outcome never returns,
// so it may take effect at any time after its call; a model lets it pass without effect
// where it cannot have one, for example after all others.
func (h *history) linearizable(t *testing.T, step func(state, in any, out answer) (bool, any), initial any) {
	t.Helper()
	byKey := make(map[string][]porcupine.Operation)
	for _, o := range h.ops {
		back := o.back.Nanoseconds()
		if o.result == unknown {
			back = math.MaxInt64
		}
		byKey[o.key] = append(byKey[o.key], porcupine.Operation{
			ClientId: o.client, Input: o.in, Output: answer{o.result, o.out}, Call: o.call.Nanoseconds(), Return: back,
		})
	}
	t.Logf("%d operations on %d keys: %v", len(h.ops), len(byKey), h.counts)
	if !h.enough() {
		t.Errorf("%v on %d keys: this run proves little", h.counts, len(byKey))
	}
	model := modelOf(step, initial)
	for key, ops := range byKey {
		if got := porcupine.CheckOperationsTimeout(model, ops, time.Minute); got != porcupine.Ok {
			t.Errorf("the history of %s is not linearizable: %s", key, got)
			for _, o := range ops {
				t.Logf("%v %d [%v, %v] %+v -> %+v", key, o.ClientId, time.Duration(o.Call), time.Duration(o.Return), o.Input, o.Output)
			}
		}
	}
}

func modelOf(step func(state, in any, out answer) (bool, any), initial any) porcupine.Model {
	return porcupine.Model{
		Init: func() any { return initial },
		Step: func(state, in, out any) (bool, any) {
			return step(state, in, out.(answer)) //nolint:forcetypeassert // histories have no other
		},
	}
}

// TestModelsRejectBadHistories checks the models against known histories.
func TestModelsRejectBadHistories(t *testing.T) {
	t.Parallel()
	first, second := end{1, "a"}, end{1, "b"}
	for name, h := range map[string]struct {
		step    func(state, in any, out answer) (bool, any)
		initial any
		good    bool
		ops     [][2]any // sequential: the operation and its answer
	}{
		"two appends after one end": {stepAppend, end{}, false, [][2]any{
			{appended{end{}, "a"}, answer{done, first}}, {appended{end{}, "b"}, answer{done, second}},
		}},
		"an append that is read and one that is refused": {stepAppend, end{}, true, [][2]any{
			{appended{end{}, "a"}, answer{done, first}}, {appended{end{}, "b"}, answer{refused, nil}}, {appended{}, answer{done, first}},
		}},
		"an acknowledged append that is gone": {stepAppend, end{}, false, [][2]any{
			{appended{end{}, "a"}, answer{done, first}}, {appended{}, answer{done, end{}}},
		}},
		"a refused append that is there": {stepAppend, end{}, false, [][2]any{
			{appended{end{}, "a"}, answer{refused, nil}}, {appended{}, answer{done, first}},
		}},
		"a write under a claim that was taken": {stepClaim, owner{}, false, [][2]any{
			{owned{true, 1, "a"}, answer{done, nil}}, {owned{true, 2, "b"}, answer{done, nil}}, {owned{false, 1, "a"}, answer{done, nil}},
		}},
		"an approval that is decided twice": {stepApprove, verdict{}, false, [][2]any{
			{verdict{"a", true}, answer{done, nil}}, {verdict{"b", false}, answer{done, nil}},
		}},
		"a decision that is refused before any decision": {stepApprove, verdict{}, false, [][2]any{
			{verdict{"a", true}, answer{refused, nil}}, {verdict{}, answer{done, verdict{}}},
		}},
	} {
		var ops []porcupine.Operation
		for i, o := range h.ops {
			at := int64(10 * i)
			ops = append(ops, porcupine.Operation{ClientId: i, Input: o[0], Output: o[1], Call: at, Return: at + 5})
		}
		if got := porcupine.CheckOperations(modelOf(h.step, h.initial), ops); got != h.good {
			t.Errorf("%s: the checker says %v, want %v", name, got, h.good)
		}
	}
	late := []porcupine.Operation{
		{ClientId: 0, Input: appended{end{}, "a"}, Output: answer{unknown, nil}, Call: 0, Return: math.MaxInt64},
		{ClientId: 1, Input: appended{}, Output: answer{done, end{}}, Call: 10, Return: 15},
		{ClientId: 1, Input: appended{}, Output: answer{done, first}, Call: 20, Return: 25},
	}
	if !porcupine.CheckOperations(modelOf(stepAppend, end{}), late) {
		t.Error("an append with an unknown outcome may take effect after a read that did not see it")
	}
}
