package sim

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/tool"
)

// doing is the function of a tool.
type doing func(ctx context.Context, w *world, d dice) (tool.Output, error)

// stub is a tool that records its runs.
type stub struct {
	w    *world
	spec tool.Spec
	do   doing
}

// Spec describes the stub.
func (s stub) Spec() tool.Spec {
	spec := s.spec
	spec.InputSchema = json.RawMessage(`{"type":"object","properties":{"n":{"type":"integer"}},"required":["n"],"additionalProperties":false}`)
	return spec
}

// Call records the run and runs the function.
func (s stub) Call(ctx context.Context, c tool.Call) (tool.Output, error) {
	if !s.w.deployed || !s.spec.Effects.Retryable() { // a queue redelivers the others
		s.w.did("tool ", c.Session, "/", c.Place, "/", c.Attempt)
	}
	d := s.w.dice("tool", c.Session, c.Place, c.Attempt)
	if s.w.calmed() {
		return tool.Text("calm"), nil
	}
	c.Progress("at work", 0.5)
	return s.do(ctx, s.w, d)
}

// gated is a stub that proposes two requests, or fails to.
type gated struct{ stub }

// Propose returns the requests.
func (g gated) Propose(_ context.Context, c tool.Call) ([]tool.Request, error) {
	d := g.w.dice("propose", c.Session, c.Place)
	if g.w.calmed() {
		return nil, nil
	}
	switch d.IntN(12) {
	case 0:
		return nil, errors.New("cannot say")
	case 1:
		panic("propose broke")
	}
	return []tool.Request{{Kind: "sim.first"}, {Kind: "sim.second", Summary: "the second thing"}}, nil
}

func works(ctx context.Context, _ *world, d dice) (tool.Output, error) {
	if d.one(2) {
		return tool.Text("at once"), nil
	}
	if err := nap(ctx, d.upTo(30*time.Second)); err != nil {
		return tool.Output{}, err
	}
	return tool.Text("after a while"), nil
}

func breaks(_ context.Context, _ *world, d dice) (tool.Output, error) {
	switch d.IntN(6) {
	case 0:
		panic("the tool broke")
	case 1:
		return tool.Output{}, tool.Retry("try n = 2")
	case 2:
		return tool.Output{}, tool.AuthRequired(tool.AuthRequest{ID: "a1", Provider: "p", Operation: tool.AuthOperation{Kind: "tool_call"}})
	case 3:
		return tool.Output{}, tool.Denied("not here")
	case 4:
		return tool.Output{}, tool.Failure("own_code", "own failure")
	}
	return tool.Output{}, errors.New("plain failure")
}

func hangs(ctx context.Context, w *world, _ dice) (tool.Output, error) {
	if err := w.hang(ctx); err != nil {
		return tool.Output{}, err
	}
	return tool.Text("let go"), nil
}

// ignores ignores the end of its context.
func ignores(ctx context.Context, _ *world, d dice) (tool.Output, error) {
	_ = nap(context.WithoutCancel(ctx), d.upTo(40*time.Second))
	return tool.Text("never mind"), nil
}

func writes(context.Context, *world, dice) (tool.Output, error) {
	return tool.Output{Parts: []content.Part{content.TextPart("written")}, ChangedPaths: []string{"a.go", "b.go"}}, nil
}

// stubs are the tools of every session.
func (w *world) stubs() []tool.Tool {
	s := func(do doing, spec tool.Spec) tool.Tool { return stub{w, spec, do} }
	return []tool.Tool{
		s(works, tool.Spec{Name: "reads", Effects: content.ReadOnly}),
		s(works, tool.Spec{Name: "once"}),
		s(works, tool.Spec{Name: "idempotent", Effects: content.Idempotent, Timeout: 20 * time.Second}),
		s(works, tool.Spec{Name: "alone", Exclusive: true}),
		s(breaks, tool.Spec{Name: "breaks"}),
		s(hangs, tool.Spec{Name: "hangs"}),
		s(hangs, tool.Spec{Name: "slow", Timeout: 8 * time.Second}),
		s(ignores, tool.Spec{Name: "ignores", Timeout: 10 * time.Second}),
		s(writes, tool.Spec{Name: "writes", Writes: true}),
		s(works, tool.Spec{Name: "background", Route: content.Background}),
		s(hangs, tool.Spec{Name: "forever", Route: content.Background}),
		s(works, tool.Spec{Name: "detaches", Route: content.DetachSoon, DetachAfter: 2 * time.Second, Effects: content.Idempotent}),
		gated{stub{w, tool.Spec{Name: "gated"}, works}},
	}
}

// extra comes and goes while sessions run.
func (w *world) extra() tool.Tool { return stub{w, tool.Spec{Name: "extra"}, works} }

func toolNames() []string {
	return []string{
		"reads", "once", "idempotent", "alone", "breaks", "hangs", "slow", "ignores", "writes",
		"background", "forever", "detaches", "gated", "extra",
	}
}

var errSource = errors.New("the source is down")

// source is a registry that sometimes fails.
type source struct {
	*tool.Registry
	w    *world
	down chan struct{} // holds one token for each failure to come
}

// Tools lists the tools or fails.
func (s source) Tools(ctx context.Context) ([]tool.Tool, error) {
	select {
	case <-s.down:
		if !s.w.calmed() {
			return nil, errSource
		}
	default:
	}
	return s.Registry.Tools(ctx)
}

// policy decides at random, by the call's place.
type policy struct{ w *world }

// Evaluate allows, denies, asks or fails.
func (p policy) Evaluate(_ context.Context, r tool.Request) (tool.Verdict, error) {
	d := p.w.dice("policy", r.Session, r.Call.Place, r.Call.Input, r.Kind)
	if p.w.calmed() {
		return tool.Verdict{Ruling: tool.Allow}, nil
	}
	if r.Kind != "" && d.one(2) {
		return tool.Verdict{Ruling: tool.Ask, TTL: d.upTo(time.Minute)}, nil
	}
	switch d.IntN(16) {
	case 0:
		return tool.Verdict{Ruling: tool.Deny, Code: "sim_policy", Message: "no"}, nil
	case 1, 2, 3, 4:
		ttl := time.Duration(0)
		if d.one(2) {
			ttl = d.upTo(2 * time.Minute)
		}
		return tool.Verdict{Ruling: tool.Ask, Reason: content.SensitivePath, TTL: ttl}, nil
	case 5:
		if d.one(2) {
			panic("the policy broke")
		}
		return tool.Verdict{}, errors.New("the policy is down")
	}
	return tool.Verdict{Ruling: tool.Allow}, nil
}
