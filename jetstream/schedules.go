package jetstream

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/jetstream/internal/api"
	"github.com/turnlog/turnlog/jetstream/internal/layout"
	"github.com/turnlog/turnlog/schedule"
)

// ErrScheduled is returned by Add for a name that a schedule has. Replace that one,
// remove it, or take another name.
var ErrScheduled = errors.New("a schedule has this name")

// ErrNoSchedule is returned for a schedule that is not there. List says which are.
var ErrNoSchedule = errors.New("no such schedule")

// ErrHandled is returned by Record when somebody else recorded an outcome meanwhile:
// leave the firing to them.
var ErrHandled = errors.New("somebody else handles the firing")

// Schedules holds what is to happen when. The server keeps the time: when a schedule
// is due it stores a firing, at most one for each schedule that is not handled yet. It
// can start nothing; whoever hears of a firing or sweeps does. It is safe for
// concurrent use.
type Schedules struct {
	cell *Cell
}

// Schedules returns the cell's schedules.
func (c *Cell) Schedules() *Schedules { return &Schedules{cell: c} }

// Add stores a schedule. It returns ErrScheduled if there is one of that name, unless
// it may replace it, and schedule.ErrBadSchedule for one that cannot be.
func (s *Schedules) Add(ctx context.Context, p schedule.Schedule, replace bool) error {
	if err := p.Check(); err != nil {
		return fmt.Errorf("add schedule: %w", err)
	}
	data, err := p.Encode()
	if err != nil {
		return fmt.Errorf("add schedule: %w", err)
	}
	n := s.cell.names
	msg := &nats.Msg{Subject: n.Schedule(p.Name), Data: data, Header: nats.Header{
		jetstream.ScheduleHeader:       []string{p.Timing.Pattern()},
		jetstream.ScheduleTargetHeader: []string{n.Fired(p.Name)},
	}}
	if p.Timing.Zone != "" {
		msg.Header[jetstream.ScheduleTimeZoneHeader] = []string{p.Timing.Zone}
	}
	if !replace {
		msg.Header[layout.HeaderGuard] = []string{"0"}
		if _, err := s.get(ctx, n.Fired(p.Name)); !errors.Is(err, api.ErrNoMessage) {
			return fmt.Errorf("add schedule %s: %w", p.Name, orElse(err, ErrScheduled))
		}
	}
	err = api.Promptly(ctx, func(ctx context.Context) error {
		_, err := s.cell.api.Publish(ctx, msg)
		return err
	})
	switch {
	case api.IsConflict(err):
		if have, err := s.get(ctx, n.Schedule(p.Name)); err == nil && bytes.Equal(have.Data, data) {
			return nil // an attempt that nobody answered
		}
		err = ErrScheduled
	case api.IsBadSchedule(err):
		err = fmt.Errorf("%w: the server: %w", schedule.ErrBadSchedule, err)
	case err != nil:
		err = s.cell.api.Explain(ctx, n.SchedulesStream(), err)
	}
	if err != nil {
		return fmt.Errorf("add schedule %s: %w", p.Name, err)
	}
	return nil
}

// orElse is err, or other if there is none.
func orElse(err, other error) error {
	if err != nil {
		return err
	}
	return other
}

// Remove takes a schedule away, its firing that nobody has handled yet, and what is kept
// of one that is over. What a firing has begun goes on.
func (s *Schedules) Remove(ctx context.Context, name string) error {
	if !content.IsToken(name) {
		return fmt.Errorf("remove schedule %q: %w", name, ErrNoSchedule)
	}
	n, there := s.cell.names, false
	for _, subject := range []string{n.Schedule(name), n.Fired(name), n.Outcome(name)} {
		_, err := s.get(ctx, subject)
		if err != nil && !errors.Is(err, api.ErrNoMessage) {
			return fmt.Errorf("remove schedule %s: %w", name, err)
		}
		there = there || err == nil
	}
	if !there {
		return fmt.Errorf("remove schedule %s: %w", name, ErrNoSchedule)
	}
	for _, subject := range []string{n.Schedule(name), n.Fired(name), n.Outcome(name)} {
		if err := s.cell.api.Purge(ctx, n.SchedulesStream(), subject, 0); err != nil {
			return fmt.Errorf("remove schedule %s: %w", name, err)
		}
	}
	return nil
}

// Standing is a schedule and how it stands.
type Standing struct {
	schedule.Schedule

	Added   time.Time        // by the server's clock
	Pending time.Time        // when it fired, if nobody has handled that yet; else zero
	Last    schedule.Outcome // of the last firing that was handled; zero: there was none
	Over    bool             // it was for once, and came to nothing: only name, time and Last are known
	Err     error            // it cannot be read, by this release; only its name is known

	record uint64 // the number of the record that Last is from
}

// List returns all schedules, by name: also those that fired for the last time and
// are not handled yet, or came to nothing.
func (s *Schedules) List(ctx context.Context) ([]Standing, error) {
	var names []string
	for _, filter := range []string{s.cell.names.Schedule("*"), s.cell.names.Fired("*"), s.cell.names.Outcome("*")} {
		more, err := s.names(ctx, filter)
		if err != nil {
			return nil, fmt.Errorf("list schedules: %w", err)
		}
		names = append(names, more...)
	}
	slices.Sort(names)
	var out []Standing
	for _, name := range slices.Compact(names) {
		one, err := s.standing(ctx, name)
		switch {
		case errors.Is(err, api.ErrNoMessage): // it went meanwhile
		case err != nil:
			return nil, fmt.Errorf("list schedules: %s: %w", name, err)
		default:
			out = append(out, one)
		}
	}
	return out, nil
}

func (s *Schedules) standing(ctx context.Context, name string) (out Standing, err error) {
	n := s.cell.names
	fired, err := s.get(ctx, n.Fired(name))
	if err != nil && !errors.Is(err, api.ErrNoMessage) {
		return out, err
	}
	out.Pending = fired.Time
	kept, err := s.get(ctx, n.Schedule(name))
	if errors.Is(err, api.ErrNoMessage) {
		if fired.Seq == 0 {
			return s.over(ctx, name)
		}
		kept, err = fired, nil // the last time
	}
	if err != nil {
		return out, err
	}
	out.Schedule, out.Err = schedule.Decode(kept.Data)
	if kept.Spoofed {
		out.Err = api.ErrSpoofed
	}
	if out.Err != nil {
		out.Schedule = schedule.Schedule{Name: name}
	}
	out.Added = kept.Time
	if out.Last, _, err = s.Outcome(ctx, name); out.Err == nil && !out.Last.Created.Equal(out.Created) {
		out.Last = schedule.Outcome{} // of one that had the name before
	}
	return out, err
}

// over is a schedule that is not there any more, if it is kept what became of it.
func (s *Schedules) over(ctx context.Context, name string) (Standing, error) {
	o, record, err := s.Outcome(ctx, name)
	if record == 0 {
		return Standing{}, orElse(err, api.ErrNoMessage)
	}
	once := schedule.Schedule{Name: name, Timing: schedule.Timing{At: o.Due}, Created: o.Created}
	return Standing{Schedule: once, Added: o.Created, Last: o, Over: true, record: record, Err: err}, nil
}

// Fired lists the schedules with a firing that nobody has handled.
func (s *Schedules) Fired(ctx context.Context) ([]string, error) {
	names, err := s.names(ctx, s.cell.names.Fired("*"))
	if err != nil {
		return nil, fmt.Errorf("list firings: %w", err)
	}
	return names, nil
}

// names lists the last tokens of the subjects that are there.
func (s *Schedules) names(ctx context.Context, filter string) ([]string, error) {
	all, err := s.cell.api.Subjects(ctx, s.cell.names.SchedulesStream(), filter)
	var out []string
	for subject := range all {
		out = append(out, strings.TrimPrefix(subject, strings.TrimSuffix(filter, "*")))
	}
	return out, err
}

// get is the message on a subject, as the leader knows it, or api.ErrNoMessage.
func (s *Schedules) get(ctx context.Context, subject string) (api.Message, error) {
	return s.cell.api.Last(ctx, s.cell.names.SchedulesStream(), subject)
}

// Firing is a schedule that fired.
type Firing struct {
	Schedule schedule.Schedule
	Seq      uint64
	At       time.Time
	Err      error // it is none that this release can act on: settle it
}

// Firing returns the firing of a schedule that nobody has handled, and false if there
// is none.
func (s *Schedules) Firing(ctx context.Context, name string) (Firing, bool, error) {
	n := s.cell.names
	m, err := s.get(ctx, n.Fired(name))
	switch {
	case errors.Is(err, api.ErrNoMessage):
		return Firing{}, false, nil
	case err != nil:
		return Firing{}, false, fmt.Errorf("firing of %s: %w", name, err)
	}
	f := Firing{Seq: m.Seq, At: m.Time}
	f.Schedule, f.Err = schedule.Decode(m.Data)
	by := n.Schedule(name)
	if m.Spoofed || f.Err == nil && (f.Schedule.Name != name || m.Header.Get(jetstream.SchedulerHeader) != by) {
		f.Err = fmt.Errorf("%w %q: something else than the schedule fired it", schedule.ErrBadSchedule, name)
	}
	return f, true, nil
}

// Outcome returns what became of a schedule's last firing, and the number of that
// record; 0: there is none.
func (s *Schedules) Outcome(ctx context.Context, name string) (schedule.Outcome, uint64, error) {
	m, err := s.get(ctx, s.cell.names.Outcome(name))
	switch {
	case errors.Is(err, api.ErrNoMessage):
		return schedule.Outcome{}, 0, nil
	case err == nil && m.Spoofed:
		err = api.ErrSpoofed
	}
	var o schedule.Outcome
	if err == nil {
		o, err = schedule.DecodeOutcome(m.Data)
	}
	if err != nil {
		return o, m.Seq, fmt.Errorf("outcome of %s: %w", name, err)
	}
	return o, m.Seq, nil
}

// Record writes down what becomes of a firing, behind the record of that number. It
// returns the number of its own, or ErrHandled if there is another one by now.
func (s *Schedules) Record(ctx context.Context, name string, o schedule.Outcome, behind uint64) (uint64, error) {
	data, err := o.Encode()
	if err != nil {
		return 0, err
	}
	msg := &nats.Msg{Subject: s.cell.names.Outcome(name), Data: data, Header: nats.Header{
		layout.HeaderGuard: []string{strconv.FormatUint(behind, 10)},
	}}
	seq, err := s.cell.api.Publish(ctx, msg)
	switch {
	case api.IsConflict(err):
		return 0, fmt.Errorf("record outcome of %s: %w", name, ErrHandled)
	case err != nil:
		return 0, fmt.Errorf("record outcome of %s: %w", name, s.cell.api.Explain(ctx, s.cell.names.SchedulesStream(), err))
	}
	return seq, nil
}

// Settle takes a firing away that is handled. A newer one stays.
func (s *Schedules) Settle(ctx context.Context, name string, seq uint64) error {
	if err := s.cell.api.Purge(ctx, s.cell.names.SchedulesStream(), s.cell.names.Fired(name), seq+1); err != nil {
		return fmt.Errorf("settle firing of %s: %w", name, err)
	}
	return nil
}

// Forget takes the record of that number away, of a schedule that fires no more. A newer
// one stays.
func (s *Schedules) Forget(ctx context.Context, name string, record uint64) error {
	if err := s.cell.api.Purge(ctx, s.cell.names.SchedulesStream(), s.cell.names.Outcome(name), record+1); err != nil {
		return fmt.Errorf("forget outcome of %s: %w", name, err)
	}
	return nil
}

// Expire forgets what became of a schedule that is over, if that is long ago.
func (s *Schedules) Expire(ctx context.Context, p Standing, now time.Time) error {
	if !p.Over || now.Sub(p.Last.Due) < schedule.Kept {
		return nil
	}
	return s.Forget(ctx, p.Name, p.record)
}
