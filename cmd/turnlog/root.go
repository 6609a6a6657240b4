package main

import (
	"context"
	"fmt"
	"os"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/turnlog/turnlog/internal/cli"
)

// app is what all commands share: where they talk to people, and how people talk
// back.
type app struct {
	term     terminal
	signals  <-chan os.Signal // interrupts, as they come
	exit     func(code int)
	getenv   func(string) string
	patience patience
}

func newRootCommand(a *app) *cobra.Command {
	root := &cobra.Command{
		Use:   "turnlog",
		Short: "Run AI-agent sessions whose every fact is in a journal on NATS JetStream",
		Long: `Turnlog runs AI-agent sessions as event-sourced actors on NATS JetStream.

"turnlog run" needs nothing: without a server it starts one in its own process.
"turnlog dev" is a whole deployment for trying out, on disk and with a port.`,
		Example: `  turnlog run "Which Go files here are the longest, and what do they do?"
  turnlog chat
  turnlog dev`,
	}
	root.SuggestionsMinimumDistance = 2
	told := &outlet{to: a.term.out}
	a.term.out = told
	root.PersistentPostRunE = func(*cobra.Command, []string) error { return told.lost() }
	root.SetIn(a.term.in)
	root.SetOut(a.term.out)
	root.SetErr(a.term.err)
	root.AddCommand(
		newRunCommand(a), newChatCommand(a), newTaskCommand(a),
		newDevCommand(a), newServerCommand(a), newProvisionCommand(a), newPermissionsCommand(a), newDoctorCommand(a),
		newModelsCommand(a), newAgentsCommand(a), newSessionsCommand(a), newGCCommand(a), newSendCommand(a), newWaitCommand(a), newScheduleCommand(a),
		newApprovalsCommand(a), newApproveCommand(a), newDenyCommand(a), newDeadCommand(a),
		newToolsCommand(a), newCallsCommand(a), newCancelCommand(a), newDetachCommand(a),
		newBenchCommand(a), newTortureCommand(a), newVersionCommand(a),
	)
	return root
}

func newVersionCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:     "version",
		Short:   "Say what was built",
		Example: "  turnlog version",
		RunE: func(*cobra.Command, []string) error {
			_, err := fmt.Fprintln(a.term.out, "turnlog "+cli.Version())
			return err
		},
	}
}

// codeSignal is added to the number of the signal that ended the process, as shells
// have it.
const codeSignal = 128

// interruptible runs do with a context that the first signal ends. The second one
// ends the process: who asks twice does not want to wait.
func (a *app) interruptible(ctx context.Context, do func(context.Context) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	over, done := make(chan struct{}), make(chan struct{})
	defer func() {
		close(over)
		<-done
		cancel(nil)
	}()
	go func() {
		defer close(done)
		for first := true; ; first = false {
			select {
			case s := <-a.signals:
				if n, ok := s.(syscall.Signal); ok && !first {
					a.exit(codeSignal + int(n))
				}
				cancel(&cli.Interrupted{Signal: s})
			case <-over:
				return
			}
		}
	}()
	return do(ctx)
}
