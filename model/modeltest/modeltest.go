package modeltest

import (
	"context"
	"encoding/json"
	"errors"
	"reflect"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/model"
)

// patience is how long a canceled call may take to return.
const patience = 5 * time.Second

// Factory makes the models under test and their requests.
type Factory struct {
	// New returns a model that replies to Requests. Each test calls it once.
	New func(t testing.TB) model.Model

	// Requests are sent to the model. None: a greeting.
	Requests []model.Request

	// Failing returns a model and a request that fails. Nil: typed-errors is checked
	// only for failures in other tests.
	Failing func(t testing.TB) (model.Model, model.Request)

	// Cut returns a model and a request whose response is cut off. Nil: cut-reply is
	// not checked.
	Cut func(t testing.TB) (model.Model, model.Request)

	// Secret is the key of the models. Empty: kept-secret is not checked.
	Secret string

	Features Features
}

// Features are permitted differences between models.
type Features struct {
	Deterministic bool // the same request gives the same reply
}

// suite runs the tests of a Factory.
type suite struct {
	Factory
}

func newSuite(f Factory) suite {
	if len(f.Requests) == 0 {
		f.Requests = []model.Request{Ask("Say hello.")}
	}
	return suite{f}
}

// Run tests the model of f. Each property is a subtest with its name.
func Run(t *testing.T, f Factory) {
	t.Helper()
	for _, p := range newSuite(f).properties() {
		t.Run(p.name, func(t *testing.T) { p.check(t) })
	}
}

// property is a property in the package documentation.
type property struct {
	name  string
	check func(t testing.TB)
}

func (s suite) properties() []property {
	all := []property{
		{"name", s.name},
		{"whole-reply", s.each(checkReply)},
		{"complete-calls", s.each(checkCalls)},
		{"deltas-add-up", s.each(checkDeltas)},
		{"one-goroutine", s.each(checkGoroutine)},
		{"prompt-cancel", s.promptCancel},
		{"typed-errors", s.typedErrors},
		{"cut-reply", s.cutReply},
		{"kept-secret", s.keptSecret},
		{"borrowed-request", s.borrowedRequest},
		{"concurrent-calls", s.concurrentCalls},
	}
	if s.Features.Deterministic {
		all = append(all, property{"same-again", s.sameAgain})
	}
	return all
}

// Ask returns a request with the prompt and no tools.
func Ask(prompt string) model.Request {
	return model.Request{
		Session: "modeltest", Turn: content.TurnIDFor(1), Round: 1, Attempt: 1,
		Transcript: []content.Item{content.UserText(prompt)},
	}
}

func (s suite) name(t testing.TB) {
	m := s.New(t)
	first := m.Name()
	if first == "" {
		t.Error("Name is empty")
	}
	for _, r := range s.Requests {
		call(t, m, r)
	}
	if again := m.Name(); again != first {
		t.Errorf("Name = %q after calls, %q before", again, first)
	}
}

// each returns a test that checks every reply.
func (s suite) each(check func(t testing.TB, o observed)) func(t testing.TB) {
	return func(t testing.TB) {
		m := s.New(t)
		for _, r := range s.Requests {
			check(t, call(t, m, r))
		}
	}
}

// observed is one call as the caller sees it.
type observed struct {
	reply  model.Reply
	deltas []content.Delta
	caller string   // the calling goroutine
	emits  []string // the emitting goroutines
}

// call makes a call, which must succeed.
func call(t testing.TB, m model.Model, r model.Request) observed {
	t.Helper()
	o := observed{caller: goroutine()}
	reply, err := m.Call(t.Context(), r, func(d content.Delta) {
		o.deltas = append(o.deltas, d)
		if id := goroutine(); !slices.Contains(o.emits, id) {
			o.emits = append(o.emits, id)
		}
	})
	if err != nil {
		checkError(t, err)
		t.Fatalf("Call(%q) = %v, want a reply", prompt(r), err)
	}
	o.reply = reply
	return o
}

func prompt(r model.Request) string {
	for _, it := range slices.Backward(r.Transcript) {
		if it.Kind == content.User {
			return it.Text()
		}
	}
	return ""
}

// promptCancel cancels before the call and at each of the first deltas.
func (s suite) promptCancel(t testing.TB) {
	const moments = 4
	for _, r := range s.Requests {
		total := len(call(t, s.New(t), r).deltas)
		for at := range min(moments, total) {
			s.cancelAt(t, r, at)
		}
	}
}

// cancelAt cancels at delta number at; 0 is before the call.
func (s suite) cancelAt(t testing.TB, r model.Request, at int) {
	t.Helper()
	gone := errors.New("modeltest: the caller is gone")
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	if at == 0 {
		cancel(gone)
	}
	m, seen := s.New(t), 0
	done := make(chan error, 1) // so that the call can end after the test
	go func() {
		_, err := m.Call(ctx, r, func(content.Delta) {
			if seen++; seen == at {
				cancel(gone)
			}
		})
		done <- err
	}()
	select {
	case err := <-done:
		if !errors.Is(err, gone) {
			t.Errorf("Call(%q) cancelled at delta %d = %v, want the cause of the context", prompt(r), at, err)
		}
		if seen > at {
			t.Errorf("Call(%q) sent %d deltas after it was cancelled at delta %d", prompt(r), seen-at, at)
		}
	case <-time.After(patience):
		t.Fatalf("Call(%q) cancelled at delta %d still runs after %s", prompt(r), at, patience)
	}
}

func (s suite) borrowedRequest(t testing.TB) {
	m := s.New(t)
	for _, r := range s.Requests {
		before := encode(t, r)
		call(t, m, r)
		if after := encode(t, r); after != before {
			t.Errorf("the call changed its request:\n%s\nbefore:\n%s", after, before)
		}
	}
}

func encode(t testing.TB, r model.Request) string {
	t.Helper()
	raw, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// concurrentCalls is most effective with the race detector.
func (s suite) concurrentCalls(t testing.TB) {
	const callers = 4
	m := s.New(t)
	var wg sync.WaitGroup
	errs := make([]error, callers*len(s.Requests))
	for i := range errs {
		wg.Go(func() {
			_, errs[i] = m.Call(t.Context(), s.Requests[i%len(s.Requests)], func(content.Delta) {})
		})
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Errorf("of %d calls at once some failed: %v", len(errs), err)
	}
}

func (s suite) sameAgain(t testing.TB) {
	m, other := s.New(t), s.New(t)
	for _, r := range s.Requests {
		first := call(t, m, r)
		for _, again := range []observed{call(t, m, r), call(t, other, r)} {
			if !reflect.DeepEqual(again.reply, first.reply) {
				t.Errorf("Call(%q) = %+v, and the time before %+v", prompt(r), again.reply, first.reply)
			}
		}
	}
}
