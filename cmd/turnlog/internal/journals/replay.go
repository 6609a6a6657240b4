package journals

import (
	"context"
	"fmt"
	"io"
	"iter"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/turnlog/turnlog/agent/replay"
	"github.com/turnlog/turnlog/audit"
	"github.com/turnlog/turnlog/audit/render"
	"github.com/turnlog/turnlog/cmd/turnlog/internal/app"
	"github.com/turnlog/turnlog/cmd/turnlog/internal/flags"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/events/journal"
	"github.com/turnlog/turnlog/internal/cli"
	"github.com/turnlog/turnlog/internal/cli/toolset"
)

// Replay returns the command that runs a session again.
func Replay(a *app.App) *cobra.Command {
	f := replayFlags{app: a}
	cmd := &cobra.Command{
		Use:   "replay SESSION",
		Short: "Run a session again, and show what is different",
		Long: `Runs a session, or an exported file (an argument with a dot or a slash), again in this process, with everything that
came from outside: input, replies, results, decisions of people and hooks, cancels, compaction. Nothing runs, and nothing is
asked. The same events follow, unless this release decides otherwise than the one that wrote the journal.

With another model, it is asked wherever the journal has a reply. From its first other reply on, the session goes on in this
process: calls that the session made get their recorded results and decisions (they are the same if the tool and the
arguments are), and later turns their recorded input.

A call that is not recorded fails, and its model sees the error. With --live it runs, with the tools of --tools, --mcp
and --tool-manifest, as in "turnlog run"; one that does more than read needs --yes, too. Give these flags also
without --live if another model has to know what the tools are for: a journal does not have their descriptions.

--agent tries the model and the prompt of an agent file. Its tools, permissions, limits and output schema do not count:
those of the session do.

It prints the differences between the session and the replay, as "turnlog diff" does, and on stderr how many calls
were recorded, live and missing. --export writes the replay's own journal. Cancels, decisions of hooks and compaction
are not repeated after another reply, and are named. A session whose task is open ends there.`,
		Example: `  turnlog replay plan-7
  turnlog replay plan-7 --model anthropic:claude-sonnet-5-5 --tools fs --root ./site
  turnlog replay plan-7 --agent agents/planner.yaml --tools fs -o side
  turnlog replay plan-7.jsonl --system "Answer in one sentence." --model demo -o side
  turnlog replay plan-7 --from 12 --model demo --on-divergence stop --export what-if.jsonl`,
		Args: cobra.ExactArgs(1),
	}
	r := a.RemoteClient(cmd)
	f.session.RegisterReplay(cmd)
	fs := cmd.Flags()
	fs.Uint64Var(&f.cfg.From, "from", 0, "`entry` after which the model is asked; 0: from the beginning")
	fs.BoolVar(&f.cfg.Live, "live", false, "run calls that are not recorded")
	fs.BoolVar(&f.yes, "yes", false, "with --live, approve everything")
	divergence := cli.NewChoice("continue", "stop")
	divergence.Register(cmd, "on-divergence", "", "what to do after the first turn that differs: continue with the session's next input, or stop")
	fs.StringVar(&f.export, "export", "", "`file` to write the replay's journal to")
	_ = cmd.MarkFlagFilename("export") // the flag exists
	exit := fs.Bool("exit-code", false, "exit with 1 if they differ")
	width := fs.Int("width", 160, "columns of -o side")
	output := a.Output(cmd, "text", "side", "json")
	cli.Group(fs, cli.ToolFlags, func() { f.tools.Register(cmd, toolset.NoSet) })
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		f.cfg.Stop = divergence.String() == "stop"
		if f.yes && !f.cfg.Live {
			return cli.Usage("--yes is for --live: recorded calls have recorded decisions")
		}
		if cmd.Flags().Changed("output-limit") {
			return cli.Usage("--output-limit needs a deployment that stores outputs: a replay has none")
		}
		var out *replay.Result
		err := with(cmd.Context(), r, args, func(ctx context.Context, records func(string) iter.Seq2[journal.Record, error]) (err error) {
			out, err = f.run(ctx, r, records(args[0]))
			return err
		})
		if err != nil {
			return err
		}
		style := render.Style{Color: cli.Colored(a.Out, a.Getenv)}
		err = output.Print(out, func(w io.Writer) error { return f.print(w, style, out, output.String(), *width) })
		if err == nil && *exit && !out.Diff.Same {
			return &cli.ExitError{Code: 1}
		}
		return err
	}
	return cmd
}

// replayFlags are the flags of the command replay.
type replayFlags struct {
	app     *app.App
	cfg     replay.Config
	session flags.Session
	tools   toolset.Flags
	yes     bool
	export  string
}

func (f *replayFlags) run(ctx context.Context, r *app.Remote, records iter.Seq2[journal.Record, error]) (out *replay.Result, err error) {
	var all []journal.Record
	for rec, err := range records {
		if err != nil {
			return nil, err
		}
		all = append(all, rec)
	}
	if f.cfg.Model, f.cfg.System, err = f.session.Replay(f.app); err != nil {
		return nil, err
	}
	tools, err := f.tools.Start(ctx, toolset.Agents{}, cli.Version(), f.app.Getenv, r.Logger())
	if err != nil {
		return nil, cli.Usage("%w", err)
	}
	defer tools.Close()
	if err := f.app.AwaitServers(ctx, tools); err != nil {
		return nil, err
	}
	if f.cfg.Tools, err = tools.Sources(nil, nil, nil); err != nil {
		return nil, cli.Usage("%w", err)
	}
	if f.yes {
		f.cfg.Approver = approveAll{}
	}
	if out, err = replay.Run(ctx, all, f.cfg); err != nil {
		return nil, fmt.Errorf("replay: %w", err)
	}
	if f.export == "" {
		return out, nil
	}
	return out, f.write(out)
}

// approveAll approves live calls.
type approveAll struct{}

func (approveAll) Approve(context.Context, events.Approval) (bool, string, error) {
	return true, "", nil
}

// write writes the journal of the replay.
func (f *replayFlags) write(out *replay.Result) error {
	file, err := os.OpenFile(f.export, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return cli.Usage("--export: %w", err)
	}
	err = audit.Export(file, journal.All(out.Records))
	if closed := file.Close(); err == nil {
		err = closed
	}
	return err
}

func (f *replayFlags) print(w io.Writer, style render.Style, out *replay.Result, output string, width int) error {
	_, err := fmt.Fprintf(f.app.Err, "%s with recorded results, %d live, %d missing\n", render.Plural(int(out.Recorded), "call", "calls"), out.Live, out.Missing)
	if n := len(out.Otherwise); n > 0 {
		f.app.Hint("this release decides otherwise than the one that wrote the journal: %s, first entry %d", render.Plural(n, "entry", "entries"), out.Otherwise[0])
	}
	if len(out.Unrepeated) > 0 {
		f.app.Hint("not repeated after another reply: %s", strings.Join(out.Unrepeated, ", "))
	}
	switch {
	case err != nil:
		return err
	case output == "side":
		return render.Beside(w, style, out.Diff, width)
	}
	return render.Compare(w, style, out.Diff)
}
