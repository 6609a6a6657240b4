package main

import (
	"context"
	"path/filepath"

	"github.com/spf13/cobra"
	"go.uber.org/zap"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/internal/cli"
	"github.com/turnlog/turnlog/jetstream"
	"github.com/turnlog/turnlog/policy/agentfile"
)

// named reports whether the command line or the environment names a server. That a
// context is selected in the nats command does not count: it must not redirect a
// command that can do without a server.
func (a *app) named(d *cli.Deployment) bool {
	for _, flag := range []string{d.Server, d.Context, d.Creds, d.User, d.Token, d.NKey} {
		if flag != "" {
			return true
		}
	}
	return a.getenv("NATS_URL") != "" || a.getenv("NATS_CONTEXT") != ""
}

// dial opens the deployment, unless somebody interrupts.
func (a *app) dial(ctx context.Context, d *cli.Deployment, program string, log *zap.Logger) (cell *cli.Cell, err error) {
	err = a.interruptible(ctx, func(ctx context.Context) error {
		cell, err = d.Open(ctx, program, log, jetstream.RoleClient)
		return err
	})
	return cell, err
}

// sessionFlags say how a session starts, or which one goes on.
type sessionFlags struct {
	id        string
	models    []string
	system    string
	maxRounds int64
	onBusy    *cli.Choice
	agentFlags
	ruleFlags
}

func (f *sessionFlags) register(cmd *cobra.Command) {
	fs := cmd.Flags()
	fs.StringVar(&f.id, "session", "", "`id` of the session to go on with, or to start under that id")
	registerModels(cmd, &f.models)
	fs.StringVar(&f.system, "system", "", "system `prompt` of a new session")
	fs.Int64Var(&f.maxRounds, "max-rounds", 0, "end a turn after so many `rounds` of model call and tools; 0: no limit")
	f.agentFlags.register(cmd)
	f.ruleFlags.register(cmd)
}

// registerBusy adds the flag of commands whose input may come while a turn is open.
func (f *sessionFlags) registerBusy(cmd *cobra.Command) {
	f.onBusy = cli.NewChoice("queue", "steer", "interrupt", "reject")
	f.onBusy.Register(cmd, "on-busy", "", "what to do while another turn of the session is open")
}

// start is the session that the flags describe, if it has to be started: in this
// process, or in a deployment.
func (f *sessionFlags) start(a *app, local bool) (start, error) {
	switch rounds := f.limit.MaxRounds; {
	case f.maxRounds < 0:
		return start{}, usageError("--max-rounds %d: use 1 or more, or 0 for no limit", f.maxRounds)
	case f.maxRounds > 0 && rounds > 0:
		return start{}, usageError("--max-rounds and --limit rounds=%d at once: give one of them", rounds)
	}
	f.limit.MaxRounds = max(f.limit.MaxRounds, f.maxRounds)
	d, ref, err := f.load(a, local)
	if err != nil {
		return start{}, err
	}
	models, folder := f.models, ""
	if d != nil && len(models) == 0 && d.Model != "" {
		models, folder = []string{d.ModelName()}, filepath.Dir(f.agent)
	}
	var m chosen
	if ref == nil || d != nil || len(models) > 0 { // else the agent's, which the nodes know
		if m, err = a.chooseModel(models, folder, local); err != nil {
			return start{}, err
		}
	}
	rules := f.rules
	if len(rules) == 0 && ref == nil {
		rules = []events.Rule{{Tool: "*", Action: events.RuleGuard}}
	}
	return start{system: f.system, agent: d, config: events.Config{
		Model: m.name, ModelData: m.data, Agent: ref, Limits: f.limit.Limits, Rules: rules, Routes: f.routes,
	}}, nil
}

// agentOf is the agent of the session, and what the flags say of its surroundings.
func (f *sessionFlags) agentOf(s start, given func(flag string) bool) agentOf {
	o := agentOf{definition: s.agent}
	if s.agent != nil {
		o.folder = filepath.Dir(f.agent)
		o.find = agentfile.Folder(o.folder).Find
	}
	if given("agents-md") {
		o.agentsMD = f.agentsMD.String()
	}
	return o
}

// session is the id that the flags name, or "".
func (f *sessionFlags) session() (content.SessionID, error) {
	if f.id == "" {
		return "", nil
	}
	id, err := content.ParseSessionID(f.id)
	if err != nil {
		return "", usageError("--session: %w", err)
	}
	return id, nil
}
