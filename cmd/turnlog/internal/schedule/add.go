package schedule

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/turnlog/turnlog/client"
	"github.com/turnlog/turnlog/cmd/turnlog/internal/app"
	"github.com/turnlog/turnlog/cmd/turnlog/internal/flags"
	"github.com/turnlog/turnlog/commands"
	"github.com/turnlog/turnlog/commands/schedule"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/internal/cli"
	"github.com/turnlog/turnlog/jetstream"
	"github.com/turnlog/turnlog/jetstream/schedules"
	"github.com/turnlog/turnlog/session"
)

// adder holds the flags of the command that adds a schedule.
type adder struct {
	app     *app.App
	plan    schedule.Schedule // the part that is set directly from flags
	timing  flags.Timing
	session flags.Session
	task    bool
	goal    flags.Goal
	overlap *cli.Choice
	replace bool
	later   bool
	given   func(flag string) bool
}

func add(a *app.App, r *app.Remote) *cobra.Command {
	f := adder{app: a}
	cmd := &cobra.Command{
		Use:   "add NAME [TEXT...]",
		Short: "Add a schedule",
		Long: `Adds a schedule under a name. Each firing starts a new session with the text, as "turnlog run"
does; its ID is the name, a dash and the time in UTC: nightly-20300131T020000Z. With --session the
text is input to that session, as with "turnlog send". That session must exist, unless
--session-later is given; if it does not exist at a firing, the firing fails. With --task the text is
the goal of a task, as with "turnlog task". Without arguments, or with "-", the text is read from stdin.

--cron takes five fields (minute, hour, day of the month, month, day of the week; with lists,
ranges, steps, names), or @hourly, @daily, @weekly, @monthly, @yearly, in the time zone of --tz, or
UTC. When clocks go forward, a skipped time does not fire; when they go back, a repeated time fires
twice. --every counts from now. --at and --in fire once.

If no driver node or server is running when firings are due, the schedule fires once when they are
back, but with --max-late only if it is not later than that. A firing is skipped while the previous
session is working or waits for approval, unless --overlap is allow.

Scheduled sessions run unattended: give --allow, or decide with "turnlog approve". The schedule is
stored in plain text, with the agent's file, so do not put secrets into it. A published agent is
stored by name, and each session gets its newest version.`,
		Example: `  turnlog schedule add nightly --cron '0 2 * * *' --tz Europe/Berlin --agent reviewer "Review what changed today"
  turnlog schedule add poll --every 10m --max-late 1m --allow 'http_*' "Is the shop up?"
  turnlog schedule add tidy --cron @weekly --task --gate 'make check' "Fix the linter's findings"
  turnlog schedule add standup --cron '0 9 * * mon-fri' --session plan-7 "What is next?"`,
	}
	fs := cmd.Flags()
	f.timing.Register(cmd)
	fs.DurationVar(&f.plan.Timing.Every, "every", 0, "run at this `interval`: 90s, 1h")
	fs.StringVar(&f.plan.Timing.Cron, "cron", "", "run at the times of a crontab `expression`")
	fs.StringVar(&f.plan.Timing.Zone, "tz", "", "time `zone` of --cron, such as Europe/Berlin; default UTC")
	f.session.Register(cmd)
	fs.Lookup("session").Usage = "`id` of the session that gets the text as input; default: a new one each time"
	f.session.RegisterBusy(cmd)
	fs.BoolVar(&f.task, "task", false, "the text is the goal of a task")
	f.goal.Register(cmd, "with --task, ")
	f.overlap = cli.NewChoice("skip", "allow")
	f.overlap.Register(cmd, "overlap", "", "what to do while the previous session, or that of --session, is working")
	fs.DurationVar(&f.plan.Late, "max-late", 0, "skip firings that are late by more than this `time`; 0: no limit")
	fs.BoolVar(&f.replace, "replace", false, "replace your schedule of that name, if there is one")
	fs.BoolVar(&f.later, "session-later", false, "accept a --session that does not exist yet")
	cmd.MarkFlagsOneRequired("cron", "every", "at", "in")
	cmd.MarkFlagsMutuallyExclusive("cron", "every", "at", "in")
	f.given = fs.Changed
	output := a.Output(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		now := time.Now()
		p, err := f.schedule(cmd.Context(), args[0], args[1:], now)
		if err != nil {
			return err
		}
		if err := f.send(cmd.Context(), r, &p); err != nil {
			return err
		}
		times := upcoming(p, now)
		report := struct {
			row
			Times []time.Time `json:"times"`
		}{rowOf(schedules.Standing{Schedule: p, Added: now}, now), times}
		return output.Print(report, func(w io.Writer) error { return printTimes(w, p, times) })
	}
	return cmd
}

// schedule returns what the command line describes.
func (f *adder) schedule(ctx context.Context, name string, words []string, now time.Time) (p schedule.Schedule, err error) {
	p = f.plan
	p.Name, p.Overlap, p.Created = name, schedule.Overlap(f.overlap.String()), now
	if p.Timing.At, err = f.timing.When(now); err != nil {
		return p, err
	}
	switch {
	case f.given("every") && p.Timing.Every <= 0:
		return p, cli.Usage("--every %v: use whole seconds, at least one", p.Timing.Every)
	case f.given("cron") && strings.TrimSpace(p.Timing.Cron) == "":
		return p, cli.Usage("--cron is empty: give five fields, such as '0 2 * * *', or @daily")
	case f.later && f.session.ID == "":
		return p, cli.Usage("--session-later is for --session")
	}
	text, err := f.app.Prompt(ctx, words)
	if err != nil {
		return p, err
	}
	if p.Session, err = f.session.SessionID(); err != nil {
		return p, err
	}
	if p.Commands, err = f.commands(p.Session, text); err != nil {
		return p, err
	}
	if err := p.Check(); err != nil {
		return p, cli.Usage("%w", err)
	}
	return p, nil
}

// send stores the schedule.
func (f *adder) send(ctx context.Context, r *app.Remote, p *schedule.Schedule) error {
	err := r.Do(ctx, func(ctx context.Context, cell *cli.Cell, c *client.Client) error {
		if p.Session != "" && !f.later {
			if err := f.takesInput(ctx, c, p.Session); err != nil {
				return err
			}
		}
		p.By, p.User = c.Name(), cell.User()
		return c.Schedule(ctx, *p, f.replace)
	})
	switch {
	case errors.Is(err, schedules.ErrExists):
		return fmt.Errorf("%w: give another name, or --replace your own", err)
	case errors.Is(err, schedule.ErrBadSchedule):
		return cli.Usage("%w", err)
	}
	return err
}

// takesInput returns an error if the session does not exist or is closed. Users who are only
// schedulers cannot read journals. For them a wrong session shows only when the schedule fires.
func (f *adder) takesInput(ctx context.Context, c *client.Client, id content.SessionID) error {
	state, err := app.ReadSession(ctx, c, id)
	_, denied := jetstream.Denied(err)
	switch {
	case denied:
		f.app.Hint("this user cannot look up session %s: if it does not exist, the firing fails", id)
		return nil
	case errors.Is(err, session.ErrNotFound):
		return fmt.Errorf("%w; --session-later accepts one that does not exist yet", err)
	case err == nil && state.Closed:
		return fmt.Errorf("session %s is closed: it takes no input", id)
	}
	return err
}

// commands returns what the schedule sends, to an existing session if id is not "".
func (f *adder) commands(id content.SessionID, text string) ([]commands.Command, error) {
	task, err := f.goal.Spec(text)
	switch flag := f.goal.Given(); {
	case !f.task && flag != "":
		return nil, cli.Usage("--%s is for --task", flag)
	case f.task && err != nil:
		return nil, err
	}
	item := content.UserText(text)
	if id != "" {
		for _, flag := range []string{"model", "system", "agent", "agents-md", "max-rounds", "allow"} {
			if f.given(flag) {
				return nil, cli.Usage("--%s is for new sessions: --session names an existing one", flag)
			}
		}
		options := f.session.Options(events.Config{})
		if f.task {
			return []commands.Command{commands.StartTask{Spec: task, Options: options}}, nil
		}
		return []commands.Command{commands.SubmitInput{
			Items: []content.Item{item}, OnBusy: flags.BusyPolicy(f.session.OnBusy.String()), Options: options,
		}}, nil
	}
	for _, flag := range []string{"on-busy", "agents-md"} {
		if f.given(flag) {
			return nil, cli.Usage("--%s does not apply to sessions that a schedule starts", flag)
		}
	}
	start, err := f.session.Start(f.app, false)
	if err != nil {
		return nil, err
	}
	if !f.task {
		return []commands.Command{start.Open(item)}, nil
	}
	f.goal.Inherit(&task, start.Agent)
	return []commands.Command{start.Open(), commands.StartTask{Spec: task}}, nil
}

// timesShown is how many of the next times are printed.
const timesShown = 3

// upcoming returns the next times of a schedule.
func upcoming(p schedule.Schedule, added time.Time) []time.Time {
	var out []time.Time
	for t := added; len(out) < timesShown; {
		t = p.Timing.Next(added, t)
		if t.IsZero() {
			break
		}
		out = append(out, t)
	}
	return out
}

func printTimes(w io.Writer, p schedule.Schedule, times []time.Time) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s is due\n", p.Name)
	for _, t := range times {
		if p.Timing.Cron == "" { // otherwise in the schedule's own zone
			t = t.Local()
		}
		fmt.Fprintf(&b, "  %s\n", t.Format("Mon 2006-01-02 15:04:05 MST"))
	}
	if p.Timing.At.IsZero() {
		b.WriteString("  and so on\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}
