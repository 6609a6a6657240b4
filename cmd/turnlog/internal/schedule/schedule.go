// Package schedule holds the commands that manage schedules.
//
// A schedule consists of the commands that it will send. Adding a schedule builds and
// checks them exactly as "turnlog run", "send" and "task" would.
package schedule

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/turnlog/turnlog/audit/render"
	"github.com/turnlog/turnlog/client"
	"github.com/turnlog/turnlog/cmd/turnlog/internal/app"
	"github.com/turnlog/turnlog/commands/schedule"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/internal/cli"
	"github.com/turnlog/turnlog/jetstream/admin"
	"github.com/turnlog/turnlog/jetstream/schedules"
)

// Command returns the command with its subcommands.
func Command(a *app.App) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "schedule",
		Aliases: []string{"schedules"},
		Short:   "Start sessions, or send input, at given times",
		Long: `Manages schedules. A schedule starts sessions, or sends input to an existing one, once, at intervals,
or by a crontab expression in a time zone. The NATS server keeps the time, and a driver node runs each
firing, even if the node started after it was due. Times are whole seconds, and up to a second early or late.

It needs the permissions of a scheduler. docs/schedules.md describes the guarantees.`,
		Example: `  turnlog schedule add nightly --cron '0 2 * * *' --tz Europe/Berlin --agent reviewer "Review what changed today"
  turnlog schedule ls
  turnlog schedule rm nightly`,
	}
	r := a.Remote(cmd, admin.RoleScheduler)
	cmd.AddCommand(add(a, r), list(a, r), remove(r))
	return cmd
}

func list(a *app.App, r *app.Remote) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "ls",
		Aliases: []string{"list"},
		Short:   "List schedules, one per line: name, when, next time, who saved it, last outcome",
		Long: `Lists schedules, one per line: name, when, next time, who saved it, and the outcome of the last
firing. A name that the NATS server did not verify is marked as claimed.

A one-time schedule is removed when it has started its session. One that failed or was skipped is
listed as over for seven days, with the reason; "turnlog schedule rm" removes it earlier.`,
		Example: `  turnlog schedule ls
  turnlog schedule ls -o json | jq -r '.[].name'`,
	}
	output := a.Output(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		return r.Do(cmd.Context(), func(ctx context.Context, _ *cli.Cell, c *client.Client) error {
			all, err := c.Schedules(ctx)
			if err != nil {
				return err
			}
			rows := make([]row, len(all))
			for i, one := range all {
				rows[i] = rowOf(one, time.Now())
			}
			return output.Print(rows, func(w io.Writer) error {
				line := render.Style{}.Line
				return app.Table(w, "NAME WHEN NEXT BY LAST", rows, func(r row) []any {
					return []any{line(r.Name), line(r.when), line(r.next()), line(cmp.Or(content.Sender(r.User, r.By), "-")), line(r.last())}
				})
			})
		})
	}
	return cmd
}

func remove(r *app.Remote) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "rm NAME...",
		Aliases: []string{"remove"},
		Short:   "Remove schedules and their pending firings",
		Long: `Removes schedules, and firings that no driver node has started yet. Sessions that were started
continue. A schedule that is over is removed from the list. A user with a name can remove only its
own schedules; a user without a name can remove all.`,
		Example: "  turnlog schedule rm nightly",
	}
	cmd.RunE = func(cmd *cobra.Command, names []string) error {
		return r.Do(cmd.Context(), func(ctx context.Context, cell *cli.Cell, c *client.Client) error {
			of := ""
			if cell.User() != "" {
				of = " of " + cell.User()
			}
			var errs []error
			for _, name := range names {
				err := c.Unschedule(ctx, name)
				if errors.Is(err, schedules.ErrNotFound) {
					err = fmt.Errorf("there is no schedule %q%s: \"turnlog schedule ls\" lists all schedules", name, of)
				}
				errs = append(errs, err)
			}
			return errors.Join(errs...)
		})
	}
	return cmd
}

// row is a schedule in reports.
type row struct {
	Name    string            `json:"name"`
	At      *time.Time        `json:"at,omitempty"`
	Every   string            `json:"every,omitempty"`
	Cron    string            `json:"cron,omitempty"`
	Zone    string            `json:"time_zone,omitempty"`
	Session content.SessionID `json:"session,omitempty"` // that gets the input; "": each firing starts a new one
	Agent   string            `json:"agent,omitempty"`
	Text    string            `json:"text,omitempty"`
	Overlap schedule.Overlap  `json:"overlap,omitempty"`
	MaxLate string            `json:"max_late,omitempty"`
	By      string            `json:"by,omitempty"`
	User    string            `json:"user,omitempty"` // who saved it, if the server verified that
	Created *time.Time        `json:"created_at,omitempty"`
	Next    *time.Time        `json:"next,omitempty"`
	Pending *time.Time        `json:"pending_since,omitempty"` // it fired, and no node has handled the firing
	Last    *outcome          `json:"last,omitempty"`
	Over    bool              `json:"over,omitempty"`  // it was a one-time schedule and has been handled
	Error   string            `json:"error,omitempty"` // why it cannot be read

	when string
}

// outcome is the result of a schedule's last firing.
type outcome struct {
	Due     time.Time         `json:"due"`
	Result  schedule.Result   `json:"result"`
	Detail  string            `json:"detail,omitempty"`
	Session content.SessionID `json:"session,omitempty"` // the last one started
}

func rowOf(s schedules.Standing, now time.Time) row {
	r := row{Name: s.Name, User: s.User, Pending: timeOrNil(s.Pending), Over: s.Over}
	if s.Err != nil {
		r.Error, r.when = s.Err.Error(), "?"
		return r
	}
	r.At, r.Cron, r.Zone, r.when = timeOrNil(s.Timing.At), s.Timing.Cron, s.Timing.Zone, s.Timing.String()
	r.Session, r.Text, r.By, r.Created = s.Session, s.Text(), s.By, timeOrNil(s.Created)
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
		r.Last = &outcome{Due: s.Last.Due, Result: s.Last.Result, Detail: s.Last.Detail, Session: s.Last.Session}
	}
	r.Next = timeOrNil(s.Timing.Next(from, now))
	return r
}

func timeOrNil(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

func (r row) next() string {
	switch {
	case r.Over:
		return "over"
	case r.Error != "":
		return "cannot be read: " + r.Error
	case r.Pending != nil:
		return "due since " + r.Pending.Local().Format(time.RFC3339)
	case r.Next != nil:
		return r.Next.Format(time.RFC3339)
	}
	return "-"
}

func (r row) last() string {
	l := r.Last
	if l == nil {
		return "-"
	}
	text := fmt.Sprintf("%s %s: ", l.Due.Format(time.RFC3339), l.Result)
	if l.Result == schedule.Started {
		return text + string(l.Session)
	}
	return text + l.Detail
}
