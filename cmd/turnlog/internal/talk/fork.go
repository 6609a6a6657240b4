package talk

import (
	"cmp"
	"context"
	"strings"
	"time"

	"github.com/oklog/ulid/v2"
	"github.com/spf13/cobra"

	"github.com/turnlog/turnlog/client"
	"github.com/turnlog/turnlog/cmd/turnlog/internal/app"
	"github.com/turnlog/turnlog/cmd/turnlog/internal/flags"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/internal/cli"
)

// Fork returns the command that continues a session in another one.
func Fork(a *app.App) *cobra.Command {
	var f forkFlags
	cmd := &cobra.Command{
		Use:   "fork SESSION[@SEQ]",
		Short: "Continue a session in a new one, from any entry",
		Long: `Starts a session (the fork) with the history of another one (the origin) up to an entry, by default the
newest, and prints the ID of the fork. The origin does not change. "observer events SESSION" lists its entries.

The fork has the origin's transcript up to that entry, its model, agent and settings. --model and --agent
replace these; another agent uses its own prompt. If the entry is in the middle of a round, the fork
continues that round: calls with a result keep it, calls that were running count as unknown and do not run again,
and the fork checks and runs the others, with approval where they need it. The fork does not get the origin's
used limits, queued input, --always approvals, background calls or open task.

With --input the fork gets that input, and the command continues like "turnlog run" until its turn has ended.

The fork's journal contains the transcript, and names the origin's entry with its hash, so that "observer verify"
can compare the two. Either one can be deleted; "turnlog sessions rm" needs a decision about forks.`,
		Example: `  turnlog fork plan-7
  turnlog fork plan-7@12 --model anthropic:claude-sonnet-5-5
  turnlog fork plan-7@12 --session plan-7b --input "Use the other database"
  turnlog diff plan-7 plan-7b`,
	}
	f.session.RegisterFork(cmd)
	cmd.Flags().StringVar(&f.text, "input", "", "`text` of the fork's first input")
	cmd.Flags().DurationVar(&f.timeout, "timeout", 0, "with --input, cancel the turn after this `time`; 0: never")
	cmd.Flags().BoolVar(&f.yes, "yes", false, "with --input, approve everything")
	f.output = a.Output(cmd)
	f.remote = a.RemoteClient(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		from, err := parseEntry(args[0])
		if err != nil {
			return err
		}
		return f.fork(cmd.Context(), from)
	}
	return cmd
}

// forkFlags are the flags of the command fork.
type forkFlags struct {
	session flags.Session
	text    string
	timeout time.Duration
	yes     bool
	output  app.Output
	remote  *app.Remote
}

// parseEntry parses SESSION[@SEQ]. Without SEQ, the sequence is 0.
func parseEntry(arg string) (events.EntryRef, error) {
	if !strings.Contains(arg, "@") {
		id, err := cli.ParseSession(arg)
		return events.EntryRef{Session: id}, err
	}
	from, err := events.ParseEntryRef(arg)
	if err != nil {
		return from, cli.Usage("%w", err)
	}
	return from, nil
}

func (f *forkFlags) fork(ctx context.Context, from events.EntryRef) error {
	id, err := f.session.SessionID()
	if err != nil {
		return err
	}
	switch {
	case f.timeout < 0:
		return cli.Usage("--timeout %v: use a positive time, or 0 for none", f.timeout)
	case f.text == "" && (f.timeout != 0 || f.yes):
		return cli.Usage("--timeout and --yes are for --input")
	}
	o := client.Options{ID: cmp.Or(id, content.SessionID(ulid.Make().String())), From: from}
	if o.Config, err = f.session.Fork(f.remote.App); err != nil {
		return err
	}
	return connected(ctx, f.remote, func(ctx context.Context, d *cli.Cell) error {
		if err := f.start(ctx, d, o); err != nil {
			return d.Advise(app.NoSession(from.Session, err))
		}
		return converse(ctx, f.remote, d, o.ID, func(ctx context.Context, v *conversation) error {
			if f.text != "" {
				v.yes = f.yes
				return ended(v.print(ctx, input{text: f.text, timeout: f.timeout}, f.output.String()))
			}
			if v.IsOut {
				v.Hint("\"turnlog send %s TEXT\" continues it, and \"turnlog diff %s %s\" compares them", o.ID, from.Session, o.ID)
			}
			return f.output.Print(struct {
				Session content.SessionID `json:"session"`
				From    string            `json:"from"`
			}{o.ID, v.session.From()}, printLine(string(o.ID)))
		})
	})
}

// start starts the fork and returns once a driver has recorded it.
func (f *forkFlags) start(ctx context.Context, d *cli.Cell, o client.Options) error {
	c, err := f.remote.Client(d)
	if err != nil {
		return err
	}
	ctx, done := context.WithTimeout(ctx, f.remote.App.Patience.Answer)
	defer done()
	s, err := c.Start(ctx, o)
	if err != nil {
		return err
	}
	return s.Close(ctx)
}
