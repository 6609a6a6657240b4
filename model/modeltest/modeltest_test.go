package modeltest

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/model"
)

func TestFakeIsAModel(t *testing.T) {
	t.Parallel()
	Run(t, Factory{
		New: func(testing.TB) model.Model {
			return NewFake("fake", func(context.Context, model.Request) (model.Reply, error) {
				r := Calls(content.ToolCall{Name: "look", Input: json.RawMessage(`{}`), ProviderID: "c1"})
				r.Items = slices.Insert(r.Items, 0, Text("I look.").Items...)
				return r, nil
			})
		},
		Failing: func(testing.TB) (model.Model, model.Request) {
			return NewFake("fake", func(context.Context, model.Request) (model.Reply, error) {
				return model.Reply{}, &model.Error{Class: content.ClassServer, Message: "down"}
			}), Ask("anything")
		},
		Features: Features{Deterministic: true},
	})
}

// broken is a model with one fault.
type broken func(ctx context.Context, r model.Request, emit func(content.Delta)) (model.Reply, error)

func (broken) Name() string                     { return "broken" }
func (broken) Capabilities() model.Capabilities { return model.Capabilities{} }
func (b broken) Call(ctx context.Context, r model.Request, emit func(content.Delta)) (model.Reply, error) {
	return b(ctx, r, emit)
}

// honest is a correct model. The broken ones change one thing.
func honest(ctx context.Context, r model.Request, emit func(content.Delta)) (model.Reply, error) {
	return giving(Text("hello"))(ctx, r, emit)
}

func giving(reply model.Reply) broken {
	return NewFake("", func(context.Context, model.Request) (model.Reply, error) { return reply, nil }).Call
}

func emitting(deltas ...content.Delta) broken {
	return func(ctx context.Context, _ model.Request, emit func(content.Delta)) (model.Reply, error) {
		for _, d := range deltas {
			if ctx.Err() != nil {
				return model.Reply{}, context.Cause(ctx)
			}
			emit(d)
		}
		if ctx.Err() != nil {
			return model.Reply{}, context.Cause(ctx)
		}
		return Text("hello"), nil
	}
}

func TestFaultsAreFound(t *testing.T) {
	t.Parallel()
	begin := content.Delta{Op: content.BeginPart, Kind: content.TextKind}
	word := content.Delta{Op: content.AppendPart, Text: "hello"}
	commit := content.Delta{Op: content.CommitPart}
	calling := func(name, input string, finish content.FinishReason) broken {
		r := Calls(content.ToolCall{Name: name, Input: json.RawMessage(input)})
		r.FinishReason = finish
		return giving(r)
	}
	with := func(change func(*model.Reply)) broken {
		r := Text("hello")
		change(&r)
		return giving(r)
	}
	var count atomic.Int64
	faults := map[string]struct {
		model broken
		want  []string
	}{
		"none":                {honest, nil},
		"wrong kind of item":  {with(func(r *model.Reply) { r.Items[0].Kind = content.User }), []string{"whole-reply"}},
		"negative usage":      {with(func(r *model.Reply) { r.Usage.OutputTokens = -1 }), []string{"whole-reply"}},
		"finish of a turn":    {with(func(r *model.Reply) { r.FinishReason = content.Limit }), []string{"whole-reply"}},
		"unknown finish":      {with(func(r *model.Reply) { r.FinishReason = "stop" }), []string{"whole-reply"}},
		"no calls":            {with(func(r *model.Reply) { r.FinishReason = content.ToolCalls }), []string{"whole-reply"}},
		"calls but completed": {calling("look", `{}`, content.Completed), []string{"whole-reply"}},
		"half a call":         {calling("look", `{"path":`, ""), []string{"complete-calls"}},
		"input not an object": {calling("look", `[]`, ""), []string{"complete-calls"}},
		"nameless call":       {calling("", `{}`, ""), []string{"complete-calls"}},
		"text missing":        {emitting(begin, commit), []string{"deltas-add-up"}},
		"never committed":     {emitting(begin, word), []string{"deltas-add-up"}},
		"never begun":         {emitting(word, commit), []string{"deltas-add-up"}},
		"committed too early": {emitting(begin, commit, word), []string{"deltas-add-up"}},
		"unknown operation":   {emitting(begin, word, content.Delta{Op: "end"}), []string{"deltas-add-up"}},
		"no deltas":           {emitting(), []string{"deltas-add-up"}},
		"other goroutine":     {elsewhere, []string{"one-goroutine"}},
		"deaf to cancel":      {deaf, []string{"prompt-cancel"}},
		"untyped error":       {untyped, []string{"typed-errors"}},
		"cut but whole":       {when("cut", nil), []string{"cut-reply"}},
		"cut for ever":        {when("cut", &model.Error{Class: content.ClassOther, Message: "bad answer"}), []string{"cut-reply"}},
		"shows its key":       {when("fail", &model.Error{Class: content.ClassAuth, Message: "wrong key " + secret}), []string{"kept-secret"}},
		"wraps its key":       {when("fail", &blurting{}), []string{"typed-errors", "kept-secret"}},
		"writes to request":   {scribbling(), []string{"borrowed-request"}},
		"changes its mind": {func(ctx context.Context, r model.Request, emit func(content.Delta)) (model.Reply, error) {
			return giving(Text(strconv.FormatInt(count.Add(1), 10)))(ctx, r, emit)
		}, []string{"same-again"}},
	}
	for name, fault := range faults {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := gocmp.Diff(fault.want, failing(t, fault.model)); diff != "" {
				t.Errorf("failing properties (-want +got):\n%s", diff)
			}
		})
	}
}

func elsewhere(ctx context.Context, r model.Request, emit func(content.Delta)) (reply model.Reply, err error) {
	var wg sync.WaitGroup
	wg.Go(func() { reply, err = honest(ctx, r, emit) })
	wg.Wait()
	return reply, err
}

func deaf(ctx context.Context, r model.Request, emit func(content.Delta)) (model.Reply, error) {
	return honest(context.WithoutCancel(ctx), r, emit)
}

func untyped(ctx context.Context, r model.Request, emit func(content.Delta)) (model.Reply, error) {
	if prompt(r) == "fail" {
		return model.Reply{}, errors.New("no")
	}
	return honest(ctx, r, emit)
}

const secret = "sk-canary"

// when is honest except for one prompt, which fails with err or, for nil, succeeds.
func when(what string, err error) broken {
	return func(ctx context.Context, r model.Request, emit func(content.Delta)) (model.Reply, error) {
		if prompt(r) == what {
			return model.Reply{}, cmp.Or(err, errWhole)
		}
		return honest(ctx, r, emit)
	}
}

// errWhole makes cutting return a complete reply instead of the harness's error.
var errWhole = errors.New("whole")

// blurting hides its key in its message, but not in its other printed forms.
type blurting struct{}

func (*blurting) Error() string { return "no" }

func (*blurting) Unwrap() error { return errors.New("sent " + secret) }

// scribbling modifies its requests, one call at a time, so that there is no race.
func scribbling() broken {
	var mu sync.Mutex
	return func(ctx context.Context, r model.Request, emit func(content.Delta)) (model.Reply, error) {
		mu.Lock()
		defer mu.Unlock()
		r.Transcript[0].ID += "x"
		return honest(ctx, r, emit)
	}
}

// failing runs the suite and returns the properties that m violates.
func failing(t *testing.T, m broken) []string {
	t.Helper()
	s := newSuite(Factory{
		New: func(testing.TB) model.Model { return m },
		Failing: func(testing.TB) (model.Model, model.Request) {
			return broken(func(ctx context.Context, r model.Request, emit func(content.Delta)) (model.Reply, error) {
				if _, err := m(ctx, r, emit); err != nil {
					return model.Reply{}, err
				}
				return model.Reply{}, &model.Error{Class: content.ClassOther, Message: "as asked"}
			}), Ask("fail")
		},
		Cut:      func(testing.TB) (model.Model, model.Request) { return cutting(m), Ask("cut") },
		Secret:   secret,
		Features: Features{Deterministic: true},
	})
	var names []string
	for _, p := range s.properties() {
		r := recorder{TB: t}
		var wg sync.WaitGroup
		wg.Go(func() { p.check(&r) })
		wg.Wait()
		if r.failed {
			names = append(names, p.name)
		}
	}
	return names
}

// cutting is m with responses that are cut off.
func cutting(m broken) broken {
	return func(ctx context.Context, r model.Request, emit func(content.Delta)) (model.Reply, error) {
		reply, err := m(ctx, r, emit)
		switch {
		case errors.Is(err, errWhole):
			return reply, nil
		case err != nil:
			return model.Reply{}, err
		}
		return model.Reply{}, &model.Error{Class: content.ClassNetwork, Message: "cut off"}
	}
}

// recorder records failures instead of failing.
type recorder struct {
	testing.TB
	failed bool
}

func (r *recorder) Helper()               {}
func (r *recorder) Error(...any)          { r.failed = true }
func (r *recorder) Errorf(string, ...any) { r.failed = true }
func (r *recorder) Fatal(...any)          { r.failed = true; runtime.Goexit() }
func (r *recorder) Fatalf(string, ...any) { r.failed = true; runtime.Goexit() }
