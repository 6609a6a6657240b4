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
		Short: "Replay a session, also with another model, and show the differences",
		Long: `Replays a session, or an exported file (an argument with a dot or a slash), in this process, with its recorded inputs:
user input, model replies, results, decisions of people and hooks, cancels, and compaction. No tool runs, and no model is
called. The events are the same, unless the rules of this release differ from those of the release that wrote the journal.

With --model, that model is called instead of using the recorded replies. From its first different reply on, a call with
the same tool and arguments as a recorded one gets the recorded result and decision, and later turns get the recorded
input.

A call that was not recorded fails, and the model sees the error. With --live it runs, with the tools of --tools, --mcp
and --tool-manifest, as in "turnlog run"; if it does more than read, it also needs --yes. Another model needs these flags
even without --live, to see the descriptions of the tools, which a journal does not contain.

--agent uses the model and the prompt of an agent file. The tools, permissions, limits and output schema are still those
of the session.

It prints the differences between the session and the replay, as "turnlog diff" does, and on stderr the numbers of
recorded, live and missing calls. --export writes the journal of the replay. After a different reply, the replay skips
cancels, decisions of hooks and compaction, and lists what it skipped. The replay of a session ends at an open task.`,
		Example: `  turnlog replay plan-7
  turnlog replay plan-7 --model anthropic:claude-sonnet-5-5 --tools fs --root ./site
  turnlog replay plan-7 --agent agents/planner.yaml --tools fs -o side
  turnlog replay plan-7.jsonl --system "Answer in one sentence." --model demo -o side
  turnlog replay plan-7 --from 12 --model demo --on-divergence stop --export what-if.jsonl`,
	}
	r := a.RemoteClient(cmd)
	f.session.RegisterReplay(cmd)
	fs := cmd.Flags()
	fs.Uint64Var(&f.cfg.From, "from", 0, "call the model only after this `entry`; 0: from the beginning")
	fs.BoolVar(&f.cfg.Live, "live", false, "run calls that were not recorded")
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
		f.app.Hint("this release decides differently from the one that wrote the journal: %s, first entry %d", render.Plural(n, "entry", "entries"), out.Otherwise[0])
	}
	if len(out.Unrepeated) > 0 {
		f.app.Hint("skipped after a different reply: %s", strings.Join(out.Unrepeated, ", "))
	}
	switch {
	case err != nil:
		return err
	case output == "side":
		return render.SideBySide(w, style, out.Diff, width)
	}
	return render.Compare(w, style, out.Diff)
}
