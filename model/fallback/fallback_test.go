package fallback_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/model"
	"github.com/turnlog/turnlog/model/fallback"
	"github.com/turnlog/turnlog/model/modeltest"
)

// fails is a model that always fails.
func fails(name string, e model.Error) model.Model {
	return modeltest.NewFake(name, func(context.Context, model.Request) (model.Reply, error) { return model.Reply{}, &e })
}

func says(name, text string) model.Model {
	return modeltest.NewFake(name, func(context.Context, model.Request) (model.Reply, error) {
		r := modeltest.Text(text)
		r.Usage = content.Usage{InputTokens: 10, OutputTokens: 2}
		return r, nil
	})
}

// breaks is a model that fails after its first deltas.
type breaks struct {
	model.Model

	err model.Error
}

func (b breaks) Call(_ context.Context, _ model.Request, emit func(content.Delta)) (model.Reply, error) {
	emit(content.Delta{Op: content.BeginPart, Kind: content.TextKind})
	emit(content.Delta{Op: content.AppendPart, Kind: content.TextKind, Text: "Hel"})
	return model.Reply{}, &b.err
}

func open(t testing.TB, cfg fallback.Config, models ...model.Model) *fallback.Model {
	t.Helper()
	m, err := fallback.New(models, cfg)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// failure returns the error of a call.
func failure(t *testing.T, m model.Model, r model.Request, emit func(content.Delta)) model.Error {
	t.Helper()
	_, err := m.Call(t.Context(), r, emit)
	e, ok := errors.AsType[*model.Error](err)
	if !ok {
		t.Fatalf("Call = %v, want a failure", err)
	}
	return *e
}

func quiet(content.Delta) {}

func TestModelConforms(t *testing.T) {
	t.Parallel()
	modeltest.Run(t, modeltest.Factory{
		New: func(t testing.TB) model.Model {
			return open(t, fallback.Config{}, fails("a", model.Error{Class: content.ClassOverloaded, Message: "busy"}), says("b", "hello"))
		},
		Failing: func(t testing.TB) (model.Model, model.Request) {
			return open(t, fallback.Config{}, fails("a", model.Error{Class: content.ClassAuth, Message: "no"})), modeltest.Ask("hello")
		},
		Features: modeltest.Features{Deterministic: true},
	})
}

func TestNextModelRepliesWithinTheAttempt(t *testing.T) {
	t.Parallel()
	for _, class := range []content.ErrorClass{
		content.ClassAuth, content.ClassBilling, content.ClassRateLimit, content.ClassOverloaded,
		content.ClassTimeout, content.ClassNetwork, content.ClassServer,
	} {
		m := open(t, fallback.Config{},
			fails("a:1", model.Error{Class: class, Code: "c", Message: "no", Usage: content.Usage{InputTokens: 5}}), says("b:2", "hello"))
		var deltas []content.Delta
		reply, err := m.Call(t.Context(), modeltest.Ask("hi"), func(d content.Delta) { deltas = append(deltas, d) })
		if err != nil {
			t.Fatalf("%s: %v", class, err)
		}
		if reply.Model != "b:2" || reply.Items[0].Text() != "hello" || len(deltas) != 3 {
			t.Errorf("%s: %+v, %d deltas", class, reply, len(deltas))
		}
		if diff := cmp.Diff(content.Usage{InputTokens: 15, OutputTokens: 2}, reply.Usage); diff != "" {
			t.Errorf("%s: usage -want +got\n%s", class, diff)
		}
		note, _ := reply.Items[0].Metadata.Get("fallback")
		if want := `{"model":"b:2","failed":[{"model":"a:1","class":"` + string(class) + `","code":"c"}]}`; string(note) != want {
			t.Errorf("note %s, want %s", note, want)
		}
	}
}

func TestFirstModelAddsNoMetadata(t *testing.T) {
	t.Parallel()
	m := open(t, fallback.Config{}, says("a", "hello"), says("b", "never"))
	reply, err := m.Call(t.Context(), modeltest.Ask("hi"), quiet)
	if err != nil || reply.Items[0].Metadata != nil || reply.Model != "a" {
		t.Errorf("%+v, %v", reply, err)
	}
}

func TestOtherClassesEndTheAttempt(t *testing.T) {
	t.Parallel()
	for _, class := range []content.ErrorClass{content.ClassInvalid, content.ClassBlocked, content.ClassTooLong, content.ClassExhausted, content.ClassOther} {
		want := model.Error{Class: class, Message: "no", Usage: content.Usage{InputTokens: 3}}
		if got := failure(t, open(t, fallback.Config{}, fails("a", want), says("b", "x")), modeltest.Ask("hi"), quiet); got != want {
			t.Errorf("%+v, want %+v", got, want)
		}
		m := open(t, fallback.Config{On: []content.ErrorClass{class}}, fails("a", want), says("b", "x"))
		if reply, err := m.Call(t.Context(), modeltest.Ask("hi"), quiet); err != nil || reply.Items[0].Text() != "x" {
			t.Errorf("on=%s: %v, %v", class, reply, err)
		}
	}
}

func TestFailureAfterADeltaEndsTheAttempt(t *testing.T) {
	t.Parallel()
	broken := breaks{says("a", ""), model.Error{Class: content.ClassNetwork, Message: "cut", RetryAfter: time.Minute, Usage: content.Usage{OutputTokens: 1}}}
	m := open(t, fallback.Config{}, broken, says("b", "hello"))
	r := modeltest.Ask("hi")
	deltas := 0
	got := failure(t, m, r, func(content.Delta) { deltas++ })
	if got.Class != content.ClassNetwork || got.RetryAfter != 0 || got.Usage.OutputTokens != 1 || deltas != 2 {
		t.Errorf("%+v after %d deltas", got, deltas)
	}
	r.Attempt = 2
	reply, err := m.Call(t.Context(), r, quiet)
	if err != nil || reply.Items[0].Text() != "hello" {
		t.Errorf("the next attempt: %v, %v; want the next model", reply, err)
	}
	r.Attempt = 3
	failure(t, m, r, quiet) // and the one after it with the first again
}

func TestTheSameModelAgainWaits(t *testing.T) {
	t.Parallel()
	m := open(t, fallback.Config{}, fails("a", model.Error{Class: content.ClassAuth, Message: "no"}), breaks{says("b", ""), model.Error{Class: content.ClassServer, Message: "cut", RetryAfter: time.Second}})
	r := modeltest.Ask("hi")
	for attempt, want := range []time.Duration{1: time.Second, 2: 0, 3: time.Second} { // b begins only the second
		r.Attempt = attempt
		if got := failure(t, m, r, quiet); attempt > 0 && (got.Class != content.ClassServer || got.RetryAfter != want) {
			t.Errorf("attempt %d: %+v", attempt, got)
		}
	}
}

func TestEachAttemptTriesAllModels(t *testing.T) {
	t.Parallel()
	no := model.Error{Class: content.ClassServer, Message: "no"}
	m := open(t, fallback.Config{}, fails("a", no), fails("b", no), fails("c", no))
	r := modeltest.Ask("hi")
	for attempt, want := range []string{"a: server: no; b: server: no; c: server: no", "b: server: no; c: server: no; a: server: no", "c: server: no; a: server: no; b: server: no"} {
		r.Attempt = attempt + 1
		if got := failure(t, m, r, quiet); got.Message != want {
			t.Errorf("attempt %d: %s, want %s", r.Attempt, got.Message, want)
		}
	}
}

func TestFailureOfAllModelsNamesEach(t *testing.T) {
	t.Parallel()
	used := content.Usage{InputTokens: 1}
	m := open(t, fallback.Config{},
		fails("a", model.Error{Class: content.ClassAuth, Message: "no key", Usage: used}),
		fails("b", model.Error{Class: content.ClassRateLimit, Code: "429", Message: "slow", RetryAfter: time.Minute, Usage: used}),
		fails("c", model.Error{Class: content.ClassOverloaded, Message: "busy", RetryAfter: time.Second}),
	)
	want := model.Error{
		Class: content.ClassRateLimit, Code: "429", RetryAfter: time.Second, Usage: content.Usage{InputTokens: 2},
		Message: "a: auth: no key; b: rate_limit (429): slow; c: overloaded: busy",
	}
	if got := failure(t, m, modeltest.Ask("hi"), quiet); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	m = open(t, fallback.Config{}, fails("a", model.Error{Class: content.ClassAuth, Message: "no"}), fails("b", model.Error{Class: content.ClassBilling, Message: "poor"}))
	if got := failure(t, m, modeltest.Ask("hi"), quiet); got.Class != content.ClassBilling {
		t.Errorf("%+v, want the last one's class", got)
	}
}

func TestCanceledCallReportsUsage(t *testing.T) {
	t.Parallel()
	gone := errors.New("gone")
	ctx, cancel := context.WithCancelCause(t.Context())
	waits := modeltest.NewFake("b", func(ctx context.Context, _ model.Request) (model.Reply, error) {
		cancel(gone)
		return model.Reply{}, context.Cause(ctx)
	})
	m := open(t, fallback.Config{}, fails("a", model.Error{Class: content.ClassServer, Message: "no", Usage: content.Usage{InputTokens: 4}}), waits, says("c", "never"))
	_, err := m.Call(ctx, modeltest.Ask("hi"), quiet)
	e, ok := errors.AsType[*model.Error](err)
	if !errors.Is(err, gone) || !ok || e.Usage.InputTokens != 4 {
		t.Errorf("Call = %v, want the cause and the usage", err)
	}
}

func TestCapabilitiesAreThoseOfAllModels(t *testing.T) {
	t.Parallel()
	m := open(t, fallback.Config{}, can{model.Capabilities{Tools: true, Media: true, ContextTokens: 200}},
		can{model.Capabilities{Tools: true}}, can{model.Capabilities{Tools: true, Media: true, PromptCache: true, ContextTokens: 100}})
	if diff := cmp.Diff(model.Capabilities{Tools: true, ContextTokens: 100}, m.Capabilities()); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	if m.Name() != "fallback:can,can,can" || len(m.Models()) != 3 {
		t.Errorf("%s of %d", m.Name(), len(m.Models()))
	}
}

// can is a model with capabilities.
type can struct{ c model.Capabilities }

func (can) Name() string                       { return "can" }
func (c can) Capabilities() model.Capabilities { return c.c }
func (can) Call(context.Context, model.Request, func(content.Delta)) (model.Reply, error) {
	return model.Reply{}, errors.New("not in this test")
}

func TestUntypedFailureEndsTheAttempt(t *testing.T) {
	t.Parallel()
	if got := failure(t, open(t, fallback.Config{}, can{}, says("b", "x")), modeltest.Ask("hi"), quiet); got.Class != content.ClassOther || !strings.Contains(got.Message, "not in this test") {
		t.Errorf("%+v", got)
	}
}

func TestInvalidConfigsAreRejected(t *testing.T) {
	t.Parallel()
	if _, err := fallback.New(nil, fallback.Config{}); err == nil {
		t.Error("no models")
	}
	if _, err := fallback.New([]model.Model{says("a", "x")}, fallback.Config{On: []content.ErrorClass{"bad luck"}}); err == nil || !strings.Contains(err.Error(), `unknown class "bad luck"`) {
		t.Errorf("New = %v", err)
	}
}

func TestNamesOfModelsCanContainTheSeparators(t *testing.T) {
	t.Parallel()
	if got := fallback.Name("a:b,c"); got != "a:b,c" {
		t.Errorf("one model: %q", got)
	}
	if got := fallback.Name("a?x=1,2", "b%"); got != "fallback:a%3Fx=1%2C2,b%25" {
		t.Errorf("two models: %q", got)
	}
}
