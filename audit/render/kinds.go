package render

import (
	"fmt"
	"strings"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
)

// config shows the configuration of a session.
func (s Style) config(c events.Config) string {
	tools := 0
	for _, src := range c.Catalog.Sources {
		tools += len(src.Tools)
	}
	agent := ""
	if a := c.Agent; a != nil {
		agent = a.Name + " " + a.Version
	}
	return s.list(
		"agent", agent, "model", c.Model, "", count(tools, "tool"), "only", c.Tools, "at once", c.MaxParallel,
		"rounds at most", c.Limits.MaxRounds, "wall clock", c.Limits.WallClock, "", is(c.FailRun, "fails with its tools"),
	)
}

// rules lists the rules of a policy, the lists apart.
func rules(lists [][]events.Rule) string {
	all := make([]string, len(lists))
	for i, l := range lists {
		one := make([]string, len(l))
		for j, r := range l {
			one[j] = string(r.Action) + " " + r.Tool
			if r.Queue != "" {
				one[j] += " on " + r.Queue
			}
		}
		all[i] = strings.Join(one, ", ")
	}
	return strings.Join(all, "; and ")
}

// grounds lists why a call may start.
func grounds(all []events.Ground) []string {
	out := make([]string, len(all))
	for i, g := range all {
		out[i] = strings.Join(strings.Fields(fmt.Sprintf("%s %s %s", g.By, g.Name, g.Action)), " ")
		if g.Queue != "" {
			out[i] += " on " + g.Queue
		}
		if i < len(all)-1 {
			out[i] += " +"
		}
	}
	return out
}

func (s Style) modelFailed(ev events.ModelCallFailed) string {
	out := s.list("", ev.Turn, "round", ev.Round, "attempt", ev.Attempt) + ", " + s.Bad(s.list("", ev.Class, "", ev.Code))
	return out + s.after("again at", ev.RetryAt) + s.colon(ev.Message)
}

func (s Style) delta(ev events.ContentDelta) string {
	out := s.list("part", ev.Delta.Part+1, "", ev.Delta.Op, "", ev.Delta.Kind)
	if c := ev.Delta.Call; c != nil {
		return out + ": " + s.call(*c)
	}
	return out + s.colon(ev.Delta.Text)
}

func (s Style) approval(a events.Approval) string {
	out := s.list("", a.ID, "call", a.CallID) + ", " + s.call(content.ToolCall{Name: a.Tool, Input: a.Input})
	return out + s.after("", a.RequestKind) + s.after("", a.Reason) + s.after("until", a.ExpiresAt) + s.colon(a.Summary)
}

func (s Style) mutation(ev events.MutationFinished) string {
	out := s.list("", ev.Turn, "", ev.Mutator, "at", ev.Point, "", is(ev.Dirty, "changed the transcript"), "left", ev.Replacement,
		"tokens before", ev.OldTokens, "after", ev.NewTokens)
	if ev.Error != "" {
		out += ", " + s.Bad(s.Line(ev.Error))
	}
	return out
}

func (s Style) turnFinished(ev events.TurnFinished) string {
	paint := s.Bad
	if ev.FinishReason == content.Completed {
		paint = s.Good
	}
	out := s.list("", ev.Turn) + ", " + paint(s.list("", ev.FinishReason))
	out += s.after("", count(ev.Rounds, "round")) + s.after("", usage(ev.Usage))
	return out + s.after("", ev.Metadata.Text(content.MetaInterruptReason)) + s.colon(ev.Error)
}

// after is list with a leading separator.
func (s Style) after(pairs ...any) string {
	if out := s.list(pairs...); out != "" {
		return ", " + out
	}
	return ""
}
