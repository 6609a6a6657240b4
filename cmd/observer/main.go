// Command observer reads and verifies the journals of sessions: live, as events,
// as a transcript, as a file that verifies without a server.
//
// An observer only reads. It owns nothing and can be stopped and started anywhere. It
// shows everything in the journal, including entries of releases that it does not know.
//
// This package has only flags and output. Package render formats events, and package
// audit checks journals.
//
// To test it, execute its root command with the arguments and outputs of the test,
// against an embedded server.
package main

import (
	"os"

	"github.com/spf13/cobra"
	"go.uber.org/zap/zapcore"

	"github.com/turnlog/turnlog/audit/render"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/internal/cli"
	"github.com/turnlog/turnlog/internal/settings"
	"github.com/turnlog/turnlog/jetstream/admin"
)

func main() { os.Exit(cli.Main(newRootCommand(os.Getenv))) }

// app is shared by all commands.
type app struct {
	getenv     func(string) string
	log        *cli.Log
	deployment *cli.Deployment
}

func newRootCommand(getenv func(string) string) *cobra.Command {
	root := &cobra.Command{
		Use:   "observer",
		Short: "Read and verify the journals of agent sessions",
		Long: `Observer reads the journals of agent sessions: live or from the beginning, event by event or
as a transcript. It exports journals to files, and verifies that the entries of a journal or a file
form one unbroken chain and satisfy every guarantee of Turnlog. It explains tool calls, finds events in
many journals, and monitors all sessions for faults.

It is read-only. For an unknown session or a broken journal, it prints one line on standard error and exits with 1.

Every flag can also be set with an environment variable: TURNLOG_LOG_LEVEL for --log-level, or the variable in
brackets in the flag's help.`,
		Example: `  observer tail
  observer events s-42
  observer explain s-42 call_1
  observer export s-42 > s-42.jsonl
  observer verify --file s-42.jsonl`,
	}
	a := &app{
		getenv:     getenv,
		log:        cli.NewLog(root, zapcore.WarnLevel),
		deployment: cli.NewDeployment(root, getenv),
	}
	root.PersistentPreRunE = checkSealKey
	root.AddCommand(newTailCommand(a), newEventsCommand(a), newTranscriptCommand(a), newExportCommand(a), newHeadsCommand(a), newLogCommand(a), newVerifyCommand(a), newExplainCommand(a), newReportCommand(a), newSearchCommand(a), newWatchCommand(a), newTracesCommand(a))
	settings.Register(root, getenv)
	return root
}

// checkSealKey returns an error for a seal key with an exported file, which it would not open.
func checkSealKey(cmd *cobra.Command, _ []string) error {
	if file := cmd.Flags().Lookup("file"); file != nil && file.Changed && cmd.Flags().Changed("seal-key") {
		return cli.Usage("--seal-key opens no --file: an export of a sealed session stays sealed, and the session's key is in the deployment, so name the SESSION")
	}
	return nil
}

// with runs do with a connection to the deployment.
func (a *app) with(cmd *cobra.Command, do func(*cli.Cell) error) error {
	cell, err := a.deployment.Open(cmd.Context(), "observer", a.log.Logger(cmd.ErrOrStderr(), a.getenv), admin.RoleObserver)
	if err != nil {
		return err
	}
	defer cell.Close()
	return do(cell)
}

// onSession returns the function of a command whose argument is a session.
func (a *app) onSession(do func(*cobra.Command, *cli.Cell, content.SessionID) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		s, err := cli.ParseSession(args[0])
		if err != nil {
			return err
		}
		return a.with(cmd, func(cell *cli.Cell) error { return do(cmd, cell, s) })
	}
}

// fullFlag adds the flag that disables clipping.
func fullFlag(cmd *cobra.Command) *bool {
	return cmd.Flags().Bool("full", false, "show full texts")
}

// style is the style of cmd's output.
func (a *app) style(cmd *cobra.Command, full bool) render.Style {
	return render.Style{Color: cli.Colored(cmd.OutOrStdout(), a.getenv), Full: full}
}
