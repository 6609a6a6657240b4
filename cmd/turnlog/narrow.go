package main

import (
	"context"
	"slices"

	"github.com/oklog/ulid/v2"
	"github.com/spf13/cobra"

	"github.com/turnlog/turnlog/client"
	"github.com/turnlog/turnlog/commands"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
)

// ruleFlags say what calls may do, how they are waited for and how much a turn may use.
// A session starts with that; where it goes on, a turn is narrowed by it.
type ruleFlags struct {
	limit  limitFlag
	rules  []events.Rule
	routes []events.RouteRule
}

func (f *ruleFlags) register(cmd *cobra.Command) {
	f.limit.register(cmd)
	registerRules(cmd, &f.rules)
	registerRoutes(cmd, &f.routes)
}

// options are what the flags ask of one turn of a session that goes on; nil: nothing.
// Rules that were given to the session, too, hold as they are.
func (f *ruleFlags) options(session events.Config) *events.TurnOptions {
	var o events.TurnOptions
	if l := f.limit.Limits; l != (events.Limits{}) {
		o.Limits = &l
	}
	narrows := func(r events.Rule) bool { return r.Action != events.RuleAllow }
	if slices.ContainsFunc(f.rules, narrows) && !slices.Equal(f.rules, session.Rules) {
		o.Rules = [][]events.Rule{f.rules}
	}
	if !slices.Equal(f.routes, session.Routes) {
		o.Routes = f.routes
	}
	if o.Limits == nil && o.Rules == nil && len(o.Routes) == 0 {
		return nil
	}
	return &o
}

// allowed are the tools that the flags let run in a session that goes on: a decision
// about the session, and not about a turn.
func (f *ruleFlags) allowed(session events.Config) []string {
	if slices.Equal(f.rules, session.Rules) {
		return nil
	}
	var out []string
	for _, r := range f.rules {
		if r.Action == events.RuleAllow {
			out = append(out, r.Tool)
		}
	}
	return out
}

// delivery is what brings input to a session: commands, in order.
type delivery []envelope

type envelope struct {
	id  string
	cmd commands.Command
}

// send sends all, or as many as go.
func (d delivery) send(ctx context.Context, c *client.Client, session content.SessionID) error {
	for _, e := range d {
		if err := c.Send(ctx, session, e.id, e.cmd); err != nil {
			return forbidden(e.cmd, err)
		}
	}
	return nil
}

// delivery is how the input comes to the session that the tracker knows, with the ask
// that brings it last: a session for a task has to be there, and what is allowed has to
// be allowed by somebody who may.
func (in input) delivery(t *tracker, ask, by string) delivery {
	var d delivery
	first := func(c commands.Command) { d = append(d, envelope{ulid.Make().String(), c}) }
	if tools := in.rules.allowed(t.config); t.opened && len(tools) > 0 {
		first(commands.AllowTools{Tools: tools, By: by})
	}
	if in.task != nil && !t.opened {
		first(in.open())
	}
	return append(d, envelope{ask, in.ask(t)})
}
