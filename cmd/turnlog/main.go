// Command turnlog runs agent sessions: one turn, a chat, or a deployment of its
// own on an embedded NATS server.
//
// Every command is a client of a deployment. Without a server, run and chat start a
// NATS server in this process, with a driver node and a worker, and then do exactly
// what they do with a remote deployment.
//
// This package is wiring: it lists the commands and owns the resources of the
// process. The commands are in the packages below internal, one for each topic.
//
// To test a command, execute the root command with a separate [app.App], as the
// scripts in testdata do.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/turnlog/turnlog/cmd/turnlog/internal/agents"
	"github.com/turnlog/turnlog/cmd/turnlog/internal/app"
	"github.com/turnlog/turnlog/cmd/turnlog/internal/backups"
	"github.com/turnlog/turnlog/cmd/turnlog/internal/bench"
	"github.com/turnlog/turnlog/cmd/turnlog/internal/config"
	"github.com/turnlog/turnlog/cmd/turnlog/internal/deploy"
	"github.com/turnlog/turnlog/cmd/turnlog/internal/doctor"
	"github.com/turnlog/turnlog/cmd/turnlog/internal/journals"
	"github.com/turnlog/turnlog/cmd/turnlog/internal/keys"
	"github.com/turnlog/turnlog/cmd/turnlog/internal/logs"
	"github.com/turnlog/turnlog/cmd/turnlog/internal/schedule"
	"github.com/turnlog/turnlog/cmd/turnlog/internal/sessions"
	"github.com/turnlog/turnlog/cmd/turnlog/internal/talk"
	"github.com/turnlog/turnlog/cmd/turnlog/internal/top"
	"github.com/turnlog/turnlog/cmd/turnlog/internal/webhooks"
	"github.com/turnlog/turnlog/internal/cli"
	"github.com/turnlog/turnlog/internal/settings"
)

func main() {
	cli.ConcealSecrets()
	signals := make(chan os.Signal, 4) // users press Ctrl-C more than once
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	os.Exit(cli.Execute(context.Background(), newRootCommand(&app.App{
		Terminal: app.NewTerminal(os.Stdin, os.Stdout, os.Stderr, os.Getenv),
		Signals:  signals,
		Exit:     os.Exit,
		Getenv:   os.Getenv,
		Patience: app.DefaultPatience(),
	}, os.Args[1:]...)))
}

// newRootCommand returns the command with its arguments. If the first one names a command, there are no others: all
// commands with their flags take longer to make than many commands take to run. Help, completion and so on need all.
func newRootCommand(a *app.App, args ...string) *cobra.Command {
	root := &cobra.Command{
		Use:   "turnlog",
		Short: "Run event-sourced AI-agent sessions on NATS JetStream",
		Long: `Turnlog runs AI-agent sessions as event-sourced actors on NATS JetStream.

"turnlog run" needs no setup: without a server it starts one in its own process.
"turnlog dev" runs a whole deployment for local development. It keeps data on disk and listens on a port.

Every flag can also be set with an environment variable: TURNLOG_LOG_LEVEL for --log-level, or the variable in
brackets in the flag's help.`,
		Example: `  turnlog run "Which Go files here are the longest, and what do they do?"
  turnlog chat
  turnlog dev`,
		SuggestionsMinimumDistance: 2,
	}
	a.Terminal = a.Escaped()
	out := &app.Outlet{To: a.Out}
	a.Out, a.Logs = out, &app.Outlet{To: a.Err}
	root.PersistentPostRunE = func(*cobra.Command, []string) error { return out.Failure() }
	root.SetIn(a.In)
	root.SetOut(a.Out)
	root.SetErr(a.Err)
	all := makers()
	if len(args) > 0 && all[args[0]] != nil {
		root.AddCommand(all[args[0]](a))
	} else {
		for _, command := range all {
			root.AddCommand(command(a))
		}
	}
	root.SetArgs(args)
	settings.Register(root, a.Getenv)
	return root
}

// makers returns what makes each command, by its name.
func makers() map[string]func(*app.App) *cobra.Command {
	return map[string]func(*app.App) *cobra.Command{
		"run": talk.Run, "chat": talk.Chat, "task": talk.Task, "send": talk.Send, "wait": talk.Wait, "fork": talk.Fork, "eval": talk.Eval, "acp": talk.ACP,
		"dev": deploy.Dev, "server": deploy.Server, "gateway": deploy.Gateway, "provision": deploy.Provision, "permissions": deploy.Permissions,
		"doctor": doctor.Command, "top": top.Command, "backup": backups.Backup, "restore": backups.Restore,
		"agents": agents.Command, "models": agents.Models, "tools": agents.Tools, "config": config.Command, "schedule": schedule.Command,
		"keys": keys.Command, "seal": keys.Seal, "notary": logs.Notary, "witness": logs.Witness, "webhooks": webhooks.Command,
		"sessions": sessions.Command, "gc": sessions.GC, "calls": sessions.Calls, "cancel": sessions.Cancel, "detach": sessions.Detach,
		"approvals": sessions.Approvals, "approve": sessions.Approve, "deny": sessions.Deny, "dead": sessions.Dead, "usage": sessions.Usage,
		"replay": journals.Replay, "bisect": journals.Bisect, "diff": journals.Diff, "cassette": journals.Cassette,
		"bench": bench.Command, "torture": bench.Torture, "version": version,
	}
}

func version(a *app.App) *cobra.Command {
	return &cobra.Command{
		Use:     "version",
		Short:   "Print the version",
		Example: "  turnlog version",
		RunE: func(*cobra.Command, []string) error {
			_, err := fmt.Fprintln(a.Out, "turnlog "+cli.Version())
			return err
		},
	}
}
