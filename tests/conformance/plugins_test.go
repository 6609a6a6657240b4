package conformance

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/extension"
	"github.com/turnlog/turnlog/policy/compact"
)

// hooks returns the hooks of a scenario.
func (w *workshop) hooks(sc *scenario) []extension.Hook {
	var out []extension.Hook
	for _, s := range sc.Hooks {
		var h extension.Hook = hook{s, w}
		if s.FailOpen {
			h = extension.FailOpen(h)
		}
		out = append(out, h)
	}
	return out
}

// hook decides as its scenario says.
type hook struct {
	hookSpec
	shop *workshop
}

func (h hook) Name() string              { return h.hookSpec.Name }
func (h hook) Points() []extension.Point { return h.hookSpec.Points }

func (h hook) OnEvent(_ context.Context, e extension.HookEvent) (extension.Action, error) {
	h.shop.count(h.shop.asked, h.Name())
	switch {
	case h.Round != nil && *h.Round != e.Round, h.Tool != "" && (e.Call == nil || e.Call.Name != h.Tool),
		h.Input != "" && (e.Call == nil || !strings.Contains(string(e.Call.Input), h.Input)),
		h.Cache != "" && (e.Request == nil || e.Request.Cache == nil || e.Request.Cache.Mode != h.Cache || e.Request.Schema == nil),
		h.Says != "" && (e.Reply == nil || !slices.ContainsFunc(e.Reply.Items, h.says)):
		return extension.Action{}, nil
	case h.Fails != "":
		return extension.Action{}, errors.New(h.Fails)
	}
	a := extension.Action{Reason: h.Reason}
	switch h.Action {
	case extension.Skip.String():
		a.Kind = extension.Skip
	case extension.Terminate.String():
		a.Kind = extension.Terminate
	}
	return a, nil
}

func (h hook) says(it content.Item) bool { return strings.Contains(it.Text(), h.Says) }

// mutators returns the mutators of a scenario.
func mutators(t testing.TB, sc *scenario) []extension.Mutator {
	t.Helper()
	var out []extension.Mutator
	for _, s := range sc.Mutators {
		m := mutator{mutatorSpec: s}
		if s.KeepRecent > 0 {
			c, err := compact.New(compact.Config{
				Name: s.Name, Trigger: compact.Trigger{Items: s.Over}, Strategy: compact.KeepRecent{Items: s.KeepRecent},
			})
			if err != nil {
				t.Fatal(err)
			}
			m.compactor = c
		}
		out = append(out, m)
	}
	return out
}

// mutator edits as its scenario says.
type mutator struct {
	mutatorSpec
	compactor extension.Mutator
}

func (m mutator) Name() string { return m.mutatorSpec.Name }

func (m mutator) Mutate(ctx context.Context, c *extension.Mutation) error {
	switch {
	case m.compactor != nil:
		return m.compactor.Mutate(ctx, c)
	case !slices.Contains(m.At, c.Point) || len(c.Items) <= m.Over:
		return nil
	case m.Hangs:
		<-ctx.Done()
		return context.Cause(ctx)
	}
	if m.Saves > 0 {
		c.OldTokens, c.NewTokens = 2*m.Saves, m.Saves
	}
	n := len(c.Items)
	switch {
	case m.Rewrites:
		c.Items = content.CloneItems(c.Items)
	case m.Append != "":
		c.Items = append(c.Items, content.NewItem(m.Kind, content.TextPart(m.Append)))
	case m.Double:
		c.Items = append(c.Items, c.Items[n-1])
	default:
		c.Items = c.Items[m.DropFirst : n-m.DropLast]
	}
	if m.Fails != "" {
		return errors.New(m.Fails)
	}
	return nil
}

// memory returns the memory of a scenario, or nil.
func memory(sc *scenario) extension.Notes {
	if sc.Memory == nil {
		return nil
	}
	return remembered{*sc.Memory}
}

type remembered struct{ memorySpec }

func (m remembered) Recall(_ context.Context, goal string) ([]content.Item, error) {
	if m.Fails != "" {
		return nil, errors.New(m.Fails)
	}
	return []content.Item{content.NewItem(content.Context, content.TextPart(m.Knows+" "+goal))}, nil
}

func (m remembered) Remember(context.Context, string, string) error {
	if m.Fails != "" {
		return errors.New(m.Fails)
	}
	return nil
}
