package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"go.uber.org/zap"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/internal/cli"
	"github.com/turnlog/turnlog/model/registry"
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
		cell, err = d.Open(ctx, program, log)
		return err
	})
	return cell, err
}

// sessionFlags say how a session starts, or which one goes on.
type sessionFlags struct {
	id        string
	model     string
	system    string
	maxRounds int64
	limit     limitFlag
	rules     []events.Rule
	routes    []events.RouteRule
	onBusy    *cli.Choice
}

func (f *sessionFlags) register(cmd *cobra.Command) {
	fs := cmd.Flags()
	fs.StringVar(&f.id, "session", "", "`id` of the session to go on with, or to start under that id")
	fs.StringVar(&f.model, "model", "demo", "`model` of a new session: "+models())
	fs.StringVar(&f.system, "system", "", "system `prompt` of a new session")
	fs.Int64Var(&f.maxRounds, "max-rounds", 0, "end a turn after so many `rounds` of model call and tools; 0: no limit")
	f.limit.register(cmd)
	registerRules(cmd, &f.rules)
	registerRoutes(cmd, &f.routes)
	_ = cmd.RegisterFlagCompletionFunc("model", completeModel) // the flag is there
}

// registerBusy adds the flag of commands whose input may come while a turn is open.
func (f *sessionFlags) registerBusy(cmd *cobra.Command) {
	f.onBusy = cli.NewChoice("queue", "steer", "interrupt", "reject")
	f.onBusy.Register(cmd, "on-busy", "", "what to do while another turn of the session is open")
}

// start is the session that the flags describe, if it has to be started.
func (f *sessionFlags) start() (start, error) {
	switch rounds := f.limit.MaxRounds; {
	case f.maxRounds < 0:
		return start{}, usageError("--max-rounds %d: use 1 or more, or 0 for no limit", f.maxRounds)
	case f.maxRounds > 0 && rounds > 0:
		return start{}, usageError("--max-rounds and --limit rounds=%d at once: give one of them", rounds)
	}
	f.limit.MaxRounds = max(f.limit.MaxRounds, f.maxRounds)
	m, err := registry.Open(f.model, nil)
	if err != nil {
		return start{}, usageError("%w", err)
	}
	rules := f.rules
	if len(rules) == 0 {
		rules = []events.Rule{{Tool: "*", Action: events.RuleGuard}}
	}
	return start{system: f.system, config: events.Config{
		Model: f.model, ModelData: registry.Data(m), Limits: f.limit.Limits, Rules: rules, Routes: f.routes,
	}}, nil
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

// completeModel offers the providers, and behind scripted: the files.
func completeModel(_ *cobra.Command, _ []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
	var out []cobra.Completion
	provider, file, inFile := strings.Cut(typed, ":")
	for _, p := range registry.Providers() {
		name, takesFile := strings.CutSuffix(p.Usage, "FILE")
		if !inFile {
			out = append(out, name)
		}
		if !inFile || !takesFile || p.Name != provider {
			continue
		}
		files, _ := filepath.Glob(file + "*") // a bad pattern has no matches
		for _, f := range files {
			if info, err := os.Stat(f); err == nil && info.IsDir() {
				f += string(filepath.Separator)
			}
			out = append(out, name+f)
		}
	}
	return out, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
}

// models lists how models are named.
func models() string {
	var names []string
	for _, p := range registry.Providers() {
		names = append(names, p.Usage)
	}
	return strings.Join(names, ", ")
}
