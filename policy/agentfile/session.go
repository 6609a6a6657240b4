package agentfile

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/extension"
	"github.com/turnlog/turnlog/model"
	"github.com/turnlog/turnlog/model/fallback"
	"github.com/turnlog/turnlog/policy/compact"
	"github.com/turnlog/turnlog/policy/guardrail"
	"github.com/turnlog/turnlog/tool/skill"
)

// defaultRetries is how often an agent continues after a failed verification.
const defaultRetries = 3

// Session returns the agent's part of a session's configuration. The host adds the
// model's data, the definition and the catalog; see [Definition.Merge].
func (d *Definition) Session() (events.Config, error) {
	c := events.Config{
		Model: d.ModelName(), MaxParallel: d.MaxParallel, FailRun: d.FailRun, Tools: d.offered(),
		Limits: d.Limits.events(), SessionLimits: d.SessionLimits.events(),
	}
	for _, t := range d.Tools {
		c.Rules = append(c.Rules, events.Rule{
			Tool: t.Name, Action: cmp.Or(events.Action(t.Permission), events.RuleGuard),
		})
		if t.Route == "" {
			continue
		}
		route, after, err := content.ParseRoute(t.Route)
		if err != nil {
			return events.Config{}, fmt.Errorf("agent %s: route of %s: %w", d.Name, t.Name, err)
		}
		c.Routes = append(c.Routes, events.RouteRule{Tool: t.Name, Route: route, DetachAfter: after})
	}
	if r := d.Retry; r != nil {
		c.Retry.ModelAttempts, c.Retry.ToolAttempts, c.Retry.ModelPatience = r.ModelAttempts, r.ToolAttempts, span(r.ModelPatience)
	}
	if a := d.Approvals; a != nil {
		c.ApprovalTTL, c.Retry.AskLost = span(a.TTL), a.AskLost
	}
	for _, name := range d.Agents { // its own rules judge what it does
		c.Rules = append(c.Rules, events.Rule{Tool: ToolOf(name), Action: events.RuleAllow})
	}
	if len(d.Tools) == 0 {
		c.Rules = append(c.Rules, events.Rule{Tool: "*", Action: events.RuleGuard})
	}
	if o := d.Output; o != nil {
		raw, err := json.Marshal(o.Schema)
		if err != nil {
			return events.Config{}, fmt.Errorf("agent %s: output: %w", d.Name, err)
		}
		c.Output = &events.Output{Schema: raw, Repairs: o.Repairs}
	}
	if a := d.Cache; a != nil {
		c.Cache = &content.CacheRequest{Mode: a.Mode, Retention: a.Retention, Key: a.Key}
	}
	return c, nil
}

// ModelName returns the name of the agent's model and its fallbacks; "": it names none.
func (d *Definition) ModelName() string {
	if d.Model == "" {
		return ""
	}
	return fallback.Name(slices.Concat([]string{d.Model}, d.Fallback)...)
}

// ToolOf returns the name of the tool that delegates to an agent.
func ToolOf(agent string) string { return "agent_" + agent }

// offered returns the patterns of the tools that the agent may use. It delegates only to
// agents that it names.
func (d *Definition) offered() []string {
	var patterns []string
	for _, name := range d.Agents {
		patterns = append(patterns, ToolOf(name))
	}
	patterns = append(patterns, "!"+ToolOf("*"))
	if len(d.Tools) == 0 {
		return append(patterns, "*")
	}
	if d.Context != nil && len(d.Context.Skills) > 0 {
		patterns = append(patterns, skill.Tool)
	}
	for _, t := range d.Tools {
		if events.Action(t.Permission) == events.RuleDeny {
			patterns = append(patterns, "!"+t.Name)
		} else {
			patterns = append(patterns, t.Name)
		}
	}
	return patterns
}

// Task returns the agent's task for a goal, with its verifier.
func (d *Definition) Task(goal string) events.TaskSpec {
	spec := events.TaskSpec{Goal: goal}
	if v := d.Verifier; v != nil {
		spec.Verifier = []string{"sh", "-c", v.Command}
		spec.MaxRetries = max(0, cmp.Or(v.MaxRetries, defaultRetries))
	}
	return spec
}

func (l *Limits) events() events.Limits {
	if l == nil {
		return events.Limits{}
	}
	return events.Limits{
		MaxRounds: l.Rounds, Requests: l.Requests, ToolCalls: l.ToolCalls,
		InputTokens: l.InputTokens, OutputTokens: l.OutputTokens, TotalTokens: l.Tokens,
		CostMicros: l.CostMicros, WallClock: span(l.WallClock),
	}
}

// guards returns the agent's guardrails as hooks.
func (d *Definition) guards() ([]extension.Hook, error) {
	g := d.Guardrails
	if g == nil {
		return nil, nil
	}
	var errs []error
	checks := func(of string, list []Check) []guardrail.Check {
		out := make([]guardrail.Check, len(list))
		for i, c := range list {
			name := cmp.Or(c.Name, fmt.Sprintf("%s_%d", of, i+1))
			if len(c.Deny) > 0 {
				var err error
				out[i], err = guardrail.Deny(name, c.Deny...)
				errs = append(errs, err)
			} else {
				out[i] = guardrail.MaxLength(c.MaxLength)
			}
			out[i].Name, out[i].Warn = name, c.Warn
		}
		return out
	}
	guard, err := guardrail.New(guardrail.Config{
		Name: guardName, Input: checks("input", g.Input), Output: checks("output", g.Output), Results: checks("results", g.Results),
	})
	if err := errors.Join(append(errs, err)...); err != nil {
		return nil, fmt.Errorf("agent %s: %w", d.Name, err)
	}
	return []extension.Hook{guard}, nil
}

// mutators returns the agent's compaction as a mutator. models opens a model that
// summarizes, by name.
func (d *Definition) mutators(models func(name string) (model.Model, error)) ([]extension.Mutator, error) {
	c := d.Compaction
	if c == nil {
		return nil, nil
	}
	when := compact.Trigger{Items: c.Items, Window: c.Window, Share: c.Share}
	how := compact.Pipeline{Target: c.Target}
	for _, s := range c.Steps {
		strategy, err := s.strategy(d.Model, models)
		if err != nil {
			return nil, fmt.Errorf("agent %s: compaction: %w", d.Name, err)
		}
		how.Steps = append(how.Steps, strategy)
	}
	m, err := compact.New(compact.Config{Trigger: when, Strategy: how})
	if err != nil {
		return nil, fmt.Errorf("agent %s: %w", d.Name, err)
	}
	return []extension.Mutator{m}, nil
}

func (s Step) strategy(own string, models func(name string) (model.Model, error)) (compact.Strategy, error) {
	switch {
	case s.DropReasoning:
		return compact.DropReasoning{}, nil
	case s.DropFailedResults:
		return compact.DropFailedResults{}, nil
	case s.Summarise == nil:
		return compact.KeepRecent{Items: s.KeepItems, Turns: s.KeepTurns, Tokens: s.KeepTokens}, nil
	}
	m, err := models(cmp.Or(s.Summarise.Model, own))
	if err != nil {
		return nil, err
	}
	return compact.Summarise{
		Model: m, Keep: compact.KeepRecent{Items: s.Summarise.KeepItems}, MaxTokens: s.Summarise.MaxTokens,
	}, nil
}
