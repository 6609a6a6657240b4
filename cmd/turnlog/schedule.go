package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"go.uber.org/zap/zapcore"

	"github.com/turnlog/turnlog/audit/render"
	"github.com/turnlog/turnlog/client"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/internal/cli"
	"github.com/turnlog/turnlog/jetstream"
	"github.com/turnlog/turnlog/schedule"
)

func newScheduleCommand(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "schedule",
		Aliases: []string{"schedules"},
		Short:   "Have sessions begin, or input come, at times",
		Long: `Says what happens without anybody's doing: new sessions, or input to one that exists, once, at
intervals, or by a crontab expression in a time zone. The NATS server keeps the time; a driver
node does what is due, also if it was started later. Times are whole seconds, and up to a
second early or late.

A user with permissions takes the role scheduler. docs/schedules.md says what is promised.`,
		Example: `  turnlog schedule add nightly --cron '0 2 * * *' --tz Europe/Berlin --agent reviewer "Review what changed today"
  turnlog schedule ls
  turnlog schedule rm nightly`,
	}
	s := &scheduling{
		app: a, deployment: cli.NewDeployment(cmd, a.getenv), logs: cli.NewLog(cmd, zapcore.WarnLevel),
	}
	cmd.AddCommand(newScheduleAddCommand(s), newScheduleListCommand(s), newScheduleRemoveCommand(s))
	return cmd
}

// scheduling is what the commands about schedules share.
type scheduling struct {
	*app
	deployment *cli.Deployment
	logs       *cli.Log
}

// do runs something with a client of the deployment.
func (s *scheduling) do(ctx context.Context, do func(context.Context, *client.Client) error) error {
	return s.interruptible(ctx, func(ctx context.Context) error {
		log := s.logs.Logger(s.term.err, s.getenv)
		d, err := s.deployment.Open(ctx, "turnlog schedule", log, jetstream.RoleScheduler)
		if err != nil {
			return err
		}
		defer d.Close()
		c, err := client.Open(d.Conn, d.Namespace(), client.WithLogger(log), client.WithName(s.person()))
		if err != nil {
			return err
		}
		return d.Advise(do(ctx, c))
	})
}

func newScheduleListCommand(s *scheduling) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "ls",
		Aliases: []string{"list"},
		Short:   "List the schedules, one a line: name, when, next time, last outcome",
		Long: `Lists the schedules, one a line: name, when, next time, and what became of the last one.

A schedule for once goes when it has started what it was for, whose record is the session. One that
could not, or was skipped, is listed as over for seven days, with the reason; "turnlog schedule rm"
takes it off the list before.`,
		Example: `  turnlog schedule ls
  turnlog schedule ls -o json | jq -r '.[].name'`,
	}
	output := cli.OutputFlag(cmd, "text", "json")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		return s.do(cmd.Context(), func(ctx context.Context, c *client.Client) error {
			all, err := c.Schedules(ctx)
			if err != nil {
				return err
			}
			rows := make([]scheduleRow, len(all))
			for i, one := range all {
				rows[i] = scheduleRowOf(one, time.Now())
			}
			if output.String() == "json" {
				return writeJSON(s.term.out, rows)
			}
			return printSchedules(s.term.out, rows)
		})
	}
	return cmd
}

func newScheduleRemoveCommand(s *scheduling) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "rm NAME...",
		Aliases: []string{"remove"},
		Short:   "Remove schedules, and what is due of them and not begun",
		Long: `Removes schedules. A firing that no driver node has taken in hand is removed as well; sessions
that were begun go on. A schedule that is over is taken off the list.`,
		Example: "  turnlog schedule rm nightly",
	}
	cmd.RunE = func(cmd *cobra.Command, names []string) error {
		return s.do(cmd.Context(), func(ctx context.Context, c *client.Client) error {
			var errs []error
			for _, name := range names {
				err := c.Unschedule(ctx, name)
				if errors.Is(err, jetstream.ErrNoSchedule) {
					err = fmt.Errorf("there is no schedule %q: \"turnlog schedule ls\" lists those that there are", name)
				}
				errs = append(errs, err)
			}
			return errors.Join(errs...)
		})
	}
	return cmd
}

// scheduleRow is a schedule in reports.
type scheduleRow struct {
	Name    string            `json:"name"`
	At      *time.Time        `json:"at,omitempty"`
	Every   string            `json:"every,omitempty"`
	Cron    string            `json:"cron,omitempty"`
	Zone    string            `json:"time_zone,omitempty"`
	Session content.SessionID `json:"session,omitempty"` // that gets the input; else each firing is a new one
	Agent   string            `json:"agent,omitempty"`
	Text    string            `json:"text,omitempty"`
	Overlap schedule.Overlap  `json:"overlap,omitempty"`
	MaxLate string            `json:"max_late,omitempty"`
	By      string            `json:"by,omitempty"`
	Created *time.Time        `json:"created_at,omitempty"`
	Next    *time.Time        `json:"next,omitempty"`
	Pending *time.Time        `json:"pending_since,omitempty"` // it fired, and no node has taken that in hand
	Last    *outcomeRow       `json:"last,omitempty"`
	Over    bool              `json:"over,omitempty"`  // it was for once, and came to nothing
	Error   string            `json:"error,omitempty"` // it cannot be read

	when string
}

// outcomeRow is what became of a schedule's last firing.
type outcomeRow struct {
	Due     time.Time         `json:"due"`
	Result  schedule.Result   `json:"result"`
	Detail  string            `json:"detail,omitempty"`
	Session content.SessionID `json:"session,omitempty"` // the last that was started
}

func scheduleRowOf(s jetstream.Standing, now time.Time) scheduleRow {
	r := scheduleRow{Name: s.Name, Pending: known(s.Pending), Over: s.Over}
	if s.Err != nil {
		r.Error, r.when = s.Err.Error(), "?"
		return r
	}
	r.At, r.Cron, r.Zone, r.when = known(s.Timing.At), s.Timing.Cron, s.Timing.Zone, s.Timing.String()
	r.Session, r.Text, r.By, r.Created = s.Session, s.Text(), s.By, known(s.Created)
	if !s.Over {
		r.Overlap = s.Overlaps()
	}
	if s.Timing.Every > 0 {
		r.Every = s.Timing.Every.String()
	}
	if s.Late > 0 {
		r.MaxLate = s.Late.String()
	}
	if agent := s.Agent(); agent != nil {
		r.Agent = agent.Name
	}
	from := s.Added
	if !s.Last.Due.IsZero() && s.Last.Result != "" {
		from = s.Last.Due
		r.Last = &outcomeRow{Due: s.Last.Due, Result: s.Last.Result, Detail: s.Last.Detail, Session: s.Last.Session}
	}
	r.Next = known(s.Timing.Next(from, now))
	return r
}

// known is the time, or nil if there is none.
func known(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

func printSchedules(w io.Writer, rows []scheduleRow) error {
	if len(rows) == 0 {
		return nil
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(t, "NAME\tWHEN\tNEXT\tLAST")
	for _, r := range rows {
		next := "-"
		switch {
		case r.Over:
			next = "over"
		case r.Error != "":
			next = "cannot be read: " + r.Error
		case r.Pending != nil:
			next = "due since " + r.Pending.Local().Format(time.RFC3339)
		case r.Next != nil:
			next = r.Next.Format(time.RFC3339)
		}
		last := "-"
		if l := r.Last; l != nil {
			last = fmt.Sprintf("%s %s: ", l.Due.Format(time.RFC3339), l.Result)
			if l.Result == schedule.Started {
				last += string(l.Session)
			} else {
				last += l.Detail
			}
		}
		line := render.Style{}.Line
		_, _ = fmt.Fprintf(t, "%s\t%s\t%s\t%s\n", line(r.Name), line(r.when), line(next), line(last))
	}
	return t.Flush()
}
