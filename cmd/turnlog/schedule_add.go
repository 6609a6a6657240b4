package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/turnlog/turnlog/client"
	"github.com/turnlog/turnlog/commands"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/internal/cli"
	"github.com/turnlog/turnlog/jetstream"
	"github.com/turnlog/turnlog/schedule"
)

// timingFlags say when something happens once.
type timingFlags struct {
	at string
	in time.Duration

	given func(flag string) bool
}

func (f *timingFlags) register(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.at, "at", "", "do it once at this `time`: 2030-01-31T07:00:00Z, or in the time zone of this machine \"2030-01-31 07:00\" or 07:00")
	cmd.Flags().DurationVar(&f.in, "in", 0, "do it once after this `time`: 90s, 2h30m")
	f.given = cmd.Flags().Changed
}

// when is the time that the flags name; zero: none.
func (f *timingFlags) when(now time.Time) (time.Time, error) {
	in, at := f.given("in"), f.given("at")
	switch {
	case at && in:
		return time.Time{}, usageError("--at and --in at once: give one of them")
	case in && f.in < 0:
		return time.Time{}, usageError("--in %v is in the past", f.in)
	case in && f.in < time.Second:
		return time.Time{}, usageError("--in %v: use 1s or more", f.in)
	case in:
		return soon("--in "+f.in.String(), now.Add(f.in), now)
	case !at:
		return time.Time{}, nil
	}
	return f.clock(now)
}

// clock is the time that --at names.
func (f *timingFlags) clock(now time.Time) (time.Time, error) {
	at, ok := clock(f.at, now)
	switch {
	case !ok:
		return at, usageError("--at %q: use 2030-01-31T07:00:00Z, \"2030-01-31 07:00\" or 07:00", f.at)
	case at.Before(now):
		return at, usageError("--at %s is in the past", at.Format(time.RFC3339))
	}
	return soon("--at "+f.at, at, now)
}

// farthest is how many years ahead something can be planned: what is farther is a
// mistake.
const farthest = 100

func soon(flag string, at, now time.Time) (time.Time, error) {
	if at.After(now.AddDate(farthest, 0, 0)) {
		return at, usageError("%s is more than %d years ahead", flag, farthest)
	}
	return at, nil
}

// clock understands a time. One without a date is the next such time.
func clock(text string, now time.Time) (time.Time, bool) {
	if at, err := time.Parse(time.RFC3339, text); err == nil {
		return at, true
	}
	for _, layout := range []string{"2006-01-02 15:04", "2006-01-02 15:04:05", "2006-01-02T15:04", "2006-01-02T15:04:05"} {
		if at, err := time.ParseInLocation(layout, text, now.Location()); err == nil {
			return at, true
		}
	}
	for _, layout := range []string{"15:04", "15:04:05"} {
		t, err := time.ParseInLocation(layout, text, now.Location())
		if err != nil {
			continue
		}
		at := time.Date(now.Year(), now.Month(), now.Day(), t.Hour(), t.Minute(), t.Second(), 0, now.Location())
		if !at.After(now) {
			at = at.AddDate(0, 0, 1)
		}
		return at, true
	}
	return time.Time{}, false
}

// addFlags say what a schedule does, and when.
type addFlags struct {
	timingFlags
	every   time.Duration
	cron    string
	zone    string
	session sessionFlags
	task    bool
	gate    string
	retries int
	overlap *cli.Choice
	late    time.Duration
	replace bool
	later   bool
	output  *cli.Choice
}

func newScheduleAddCommand(s *scheduling) *cobra.Command {
	var f addFlags
	cmd := &cobra.Command{
		Use:   "add NAME [TEXT...]",
		Short: "Add a schedule",
		Long: `Adds a schedule under a name. Each time it is due a new session begins with the text, as with
"turnlog run"; its id is the name, a dash and the time in UTC: nightly-20300131T020000Z. With
--session the text is input to that session, as with "turnlog send". With --task it is the goal
of a task, as with "turnlog task". That session has to be there, unless --session-later says that it
comes later; a firing that does not find it fails. Without arguments, or with "-", the text is read from stdin.

--cron takes five fields (minute, hour, day of the month, month, day of the week; with lists,
ranges, steps, names), or @hourly, @daily, @weekly, @monthly, @yearly, in the time zone --tz, or
UTC. A time that clocks which are put forward leave out is left out, and one that comes twice
when they are put back comes twice. --every counts from now, --at and --in are for once.

If no driver node is there when it is due, or no server, what was missed is done once, late;
with --max-late only if it is not later than that. While the session of the time before is at
work or waits for a person, nothing is begun, unless --overlap is allow.

Nobody is there to approve calls: give --allow, or decide with "turnlog approve". The schedule
is stored as it is: no secrets, and the agent's file with it. A published agent is named, and
each session gets its newest version.`,
		Example: `  turnlog schedule add nightly --cron '0 2 * * *' --tz Europe/Berlin --agent reviewer "Review what changed today"
  turnlog schedule add poll --every 10m --max-late 1m --allow 'http_*' "Is the shop up?"
  turnlog schedule add tidy --cron @weekly --task --gate 'make check' "Fix the linter's findings"
  turnlog schedule add standup --cron '0 9 * * mon-fri' --session plan-7 "What is next?"`,
	}
	fs := cmd.Flags()
	f.timingFlags.register(cmd)
	fs.DurationVar(&f.every, "every", 0, "do it at `intervals`: 90s, 1h")
	fs.StringVar(&f.cron, "cron", "", "do it at the times of a crontab `expression`")
	fs.StringVar(&f.zone, "tz", "", "time `zone` of --cron, such as Europe/Berlin; default UTC")
	f.session.register(cmd)
	fs.Lookup("session").Usage = "`id` of the session that the text is input to; default: each time a new one"
	f.session.registerBusy(cmd)
	fs.BoolVar(&f.task, "task", false, "the text is the goal of a task")
	fs.StringVar(&f.gate, "gate", "", "with --task, `command` that exits with 0 if the goal is reached")
	fs.IntVar(&f.retries, "max-retries", 3, "with --task, how `often` the model works on after the gate has failed")
	f.overlap = cli.NewChoice("skip", "allow")
	f.overlap.Register(cmd, "overlap", "", "what to do while the session of the time before, or that of --session, is at work")
	fs.DurationVar(&f.late, "max-late", 0, "leave out what would be later than this `time`; 0: nothing")
	fs.BoolVar(&f.replace, "replace", false, "replace the schedule of that name, if there is one")
	fs.BoolVar(&f.later, "session-later", false, "the session of --session may be one that is not there yet")
	f.output = cli.OutputFlag(cmd, "text", "json")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return s.add(cmd, f, args[0], args[1:])
	}
	return cmd
}

func (s *scheduling) add(cmd *cobra.Command, f addFlags, name string, words []string) error {
	now := time.Now()
	at, err := f.when(now)
	if err != nil {
		return err
	}
	given := 0
	for _, flag := range []string{"at", "in", "every", "cron"} {
		if cmd.Flags().Changed(flag) {
			given++
		}
	}
	switch {
	case given != 1:
		return usageError("say when, with one of --cron, --every, --at and --in")
	case cmd.Flags().Changed("every") && f.every <= 0:
		return usageError("--every %v: use whole seconds, at least one", f.every)
	case cmd.Flags().Changed("cron") && strings.TrimSpace(f.cron) == "":
		return usageError("--cron is empty: give five fields, such as '0 2 * * *', or @daily")
	case f.later && f.session.id == "":
		return usageError("--session-later is for --session")
	}
	p := schedule.Schedule{
		Name: name, Timing: schedule.Timing{At: at, Every: f.every, Cron: f.cron, Zone: f.zone},
		Overlap: schedule.Overlap(f.overlap.String()), Late: f.late, By: s.person(), Created: now,
	}
	text, err := s.prompt(cmd.Context(), words)
	if err != nil {
		return err
	}
	if p.Session, p.Commands, err = f.commands(s.app, cmd, text); err != nil {
		return err
	}
	if err := p.Check(); err != nil {
		return usageError("%w", err)
	}
	err = s.do(cmd.Context(), func(ctx context.Context, c *client.Client) error {
		if p.Session != "" && !f.later {
			if err := s.takesInput(ctx, c, p.Session); err != nil {
				return err
			}
		}
		return c.Schedule(ctx, p, f.replace)
	})
	switch {
	case errors.Is(err, jetstream.ErrScheduled):
		return fmt.Errorf("there is a schedule %s: give another name, or --replace", name)
	case errors.Is(err, schedule.ErrBadSchedule):
		return usageError("%w", err)
	case err != nil:
		return err
	}
	times := upcoming(p, now)
	if f.output.String() == "json" {
		return writeJSON(s.term.out, struct {
			scheduleRow
			Times []time.Time `json:"times"`
		}{scheduleRowOf(jetstream.Standing{Schedule: p, Added: now}, now), times})
	}
	return printTimes(s.term.out, p, times)
}

// takesInput returns an error if the session is not there, or is closed. Schedulers may
// not read journals, unless they are clients as well: then only the firing will tell.
func (s *scheduling) takesInput(ctx context.Context, c *client.Client, id content.SessionID) error {
	state, _, err := c.Read(ctx, id)
	_, denied := jetstream.Denied(err)
	switch {
	case denied:
		s.hint("this user may not look whether there is a session %s: if not, the schedule fails when it is due", id)
		return nil
	case errors.Is(err, client.ErrNotFound):
		return fmt.Errorf("there is no session %s: \"turnlog sessions ls\" lists those that there are; with --session-later it may come later", id)
	case err != nil:
		return err
	case state.Deleted != nil:
		return &client.DeletedError{Session: id, Deletion: *state.Deleted}
	case state.Closed:
		return fmt.Errorf("session %s is closed: it takes no input", id)
	}
	return nil
}

// commands are what the schedule sends, and the session that it sends it to.
func (f *addFlags) commands(a *app, cmd *cobra.Command, text string) (content.SessionID, []commands.Command, error) {
	given := cmd.Flags().Changed
	id, err := f.session.session()
	if err != nil {
		return "", nil, err
	}
	task, err := f.spec(given, text)
	if err != nil {
		return "", nil, err
	}
	item := content.UserText(text)
	if id != "" {
		for _, flag := range []string{"model", "system", "agent", "agents-md", "max-rounds", "allow"} {
			if given(flag) {
				return "", nil, usageError("--%s is for new sessions: --session names one that exists", flag)
			}
		}
		options := f.session.options(events.Config{})
		if task != nil {
			return id, []commands.Command{commands.StartTask{Spec: *task, Options: options}}, nil
		}
		return id, []commands.Command{commands.SubmitInput{
			Items: []content.Item{item}, OnBusy: busyPolicy(f.session.onBusy), Options: options,
		}}, nil
	}
	for _, flag := range []string{"on-busy", "agents-md"} {
		if given(flag) {
			return "", nil, usageError("--%s says nothing of a session that a schedule begins", flag)
		}
	}
	begin, err := f.session.start(a, false)
	if err != nil {
		return "", nil, err
	}
	in := input{start: begin}
	if task == nil {
		return "", []commands.Command{in.open(item)}, nil
	}
	if d := begin.agent; d != nil && len(task.Gate) == 0 {
		of := d.Task(text)
		if task.Gate = of.Gate; !given("max-retries") {
			task.MaxRetries = of.MaxRetries
		}
	}
	return "", []commands.Command{in.open(), commands.StartTask{Spec: *task}}, nil
}

// spec is the task that the text is the goal of, or nil.
func (f *addFlags) spec(given func(flag string) bool, goal string) (*events.TaskSpec, error) {
	if !f.task {
		for _, flag := range []string{"gate", "max-retries"} {
			if given(flag) {
				return nil, usageError("--%s is for --task", flag)
			}
		}
		return nil, nil
	}
	if f.retries < 0 {
		return nil, usageError("--max-retries %d: use 0 or more", f.retries)
	}
	spec := &events.TaskSpec{Goal: goal, MaxRetries: f.retries}
	switch {
	case f.gate != "":
		spec.Gate = []string{"/bin/sh", "-c", f.gate}
	case given("gate"):
		return nil, usageError("--gate is empty: give a command, or leave it out")
	}
	return spec, nil
}

// timesShown is how many of the next times are printed.
const timesShown = 3

// upcoming are the next times of a schedule that was added a moment ago.
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
	zone := time.Local
	if p.Timing.Cron != "" {
		zone = nil // that of the schedule
	}
	_, err := fmt.Fprintf(w, "%s is due\n", p.Name)
	for _, t := range times {
		if zone != nil {
			t = t.In(zone)
		}
		if err == nil {
			_, err = fmt.Fprintf(w, "  %s\n", t.Format("Mon 2006-01-02 15:04:05 MST"))
		}
	}
	if err == nil && p.Timing.At.IsZero() {
		_, err = fmt.Fprintln(w, "  and so on")
	}
	return err
}
