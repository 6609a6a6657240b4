package sim

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/turnlog/turnlog/agent"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/extension"
	"github.com/turnlog/turnlog/policy/permission"
	"github.com/turnlog/turnlog/tool"
)

// config returns the n-th configuration of a session's hosts.
func (h *host) config(n int) agent.Config {
	d := h.w.dice("config", h.id, n)
	c := agent.Config{
		Model: h.w.model(), SystemPrompt: "simulate", Tools: []tool.Source{h.source}, Policy: permission.AllowAll(), Permissions: policy{h.w},
		MaxParallel: d.IntN(5) - 1, Journal: h.w.journal, Input: []content.Item{content.UserText(h.preload())},
		Retry: events.Retry{ModelAttempts: 2 + d.IntN(3), ToolAttempts: 2 + d.IntN(2), LostAttempts: 2 + d.IntN(4)},
	}
	if d.one(4) {
		c.OnToolError = agent.FailRun
	}
	if d.one(2) {
		c.Limits = limits(d, 1)
	}
	if d.one(3) {
		c.SessionLimits = limits(d, 2)
	}
	if d.one(2) {
		var hook extension.Hook = hook{h.w, h.id}
		if d.one(2) {
			hook = extension.FailOpen(hook)
		}
		c.Hooks = []extension.Hook{hook}
	}
	if d.one(2) {
		c.Mutators = []extension.Mutator{mutator{h.w, "m1"}, mutator{h.w, "m2"}}[:1+d.IntN(2)]
	}
	if d.one(2) {
		c.Memory = memory{h.w, h.id}
	}
	if d.one(3) {
		c.Approver = approver{h.w}
	}
	if d.one(2) {
		c.Cache = &content.CacheRequest{Mode: "best_effort"}
	}
	return c
}

func limits(d dice, times int64) events.Limits {
	return among(d,
		events.Limits{MaxRounds: times * (1 + d.Int64N(3))},
		events.Limits{Requests: times * (1 + d.Int64N(4))},
		events.Limits{ToolCalls: times * (1 + d.Int64N(6))},
		events.Limits{InputTokens: times * (100 + d.Int64N(400))},
		events.Limits{OutputTokens: times * (50 + d.Int64N(200))},
		events.Limits{TotalTokens: times * (100 + d.Int64N(500))},
		events.Limits{CostMicros: times * (10 + d.Int64N(60))},
		events.Limits{WallClock: time.Duration(times) * d.upTo(time.Minute)},
	)
}

// hook is asked at every point.
type hook struct {
	w  *world
	id content.SessionID
}

// Name is hook.
func (hook) Name() string { return "hook" }

// Points are all.
func (hook) Points() []extension.Point {
	return []extension.Point{
		extension.LoopIteration, extension.PreLlmCall, extension.PostLlmCall,
		extension.PreToolExecution, extension.PostToolExecution, extension.ContextCompaction,
	}
}

// OnEvent mostly continues.
func (h hook) OnEvent(ctx context.Context, e extension.HookEvent) (extension.Action, error) {
	place := content.Place("")
	if e.Call != nil {
		place = e.Call.Place
	}
	d := h.w.dice("hook", h.id, e.Point, e.Turn, e.Round, place)
	if h.w.calmed() {
		return extension.Action{}, nil
	}
	sides := 60
	if e.Point == extension.ContextCompaction { // rare
		sides = 20
	}
	switch d.IntN(sides) {
	case 0, 1, 2:
		return extension.Action{Kind: extension.Skip, Reason: "skipped"}, nil
	case 3:
		return extension.Action{Kind: extension.Terminate, Reason: "enough"}, nil
	case 4:
		return extension.Action{}, errors.New("the hook is down")
	case 5:
		panic("the hook broke")
	case 6, 7, 8, 9:
		return extension.Action{}, nap(ctx, d.upTo(20*time.Second))
	}
	return extension.Action{}, nil
}

// mutator sometimes edits the transcript.
type mutator struct {
	w    *world
	name string
}

// Name is the mutator's.
func (m mutator) Name() string { return m.name }

// Mutate mostly changes nothing.
func (m mutator) Mutate(ctx context.Context, c *extension.Mutation) error {
	d := m.w.dice("mutator", m.name, c.Session, c.Point, c.Turn, len(c.Items))
	if m.w.calmed() {
		return nil
	}
	switch d.IntN(60) {
	case 0, 1:
		c.Items = shortened(c.Items)
		c.OldTokens, c.NewTokens = 100, 10
	case 2, 3:
		c.Items = append(c.Items, content.NewItem(content.Context, content.TextPart("noted by "+m.name)))
	case 4:
		c.Items = slices.DeleteFunc(c.Items, func(it content.Item) bool { return it.Kind == content.Tool })
	case 5:
		return errors.New("the mutator is down")
	case 6:
		panic("the mutator broke")
	case 7, 8, 9:
		return nap(ctx, d.upTo(20*time.Second))
	case 10:
		c.Items = nil
	}
	return nil
}

// shortened keeps the instructions and what follows the last input.
func shortened(items []content.Item) []content.Item {
	last := 0
	for i, it := range items {
		if it.Kind == content.User {
			last = i
		}
	}
	out := slices.DeleteFunc(slices.Clone(items[:last]), func(it content.Item) bool { return it.Kind != content.System })
	return append(out, items[last:]...)
}

// approver resolves approvals for Run and Stream.
type approver struct{ w *world }

// Approve decides or fails.
func (a approver) Approve(_ context.Context, q events.Approval) (bool, string, error) {
	switch d := a.w.dice("approver", q.ID); {
	case d.one(6):
		return false, "", errApprover
	case d.one(3):
		return false, "better not", nil
	}
	return true, "", nil
}

var errApprover = errors.New("the approver is away")
