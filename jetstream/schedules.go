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

// ErrScheduled is returned by Add if a schedule has the name. Replace or remove that one, or use
// another name.
var ErrScheduled = errors.New("a schedule has this name")

// ErrNoSchedule is returned for a schedule that does not exist. List says which ones do.
var ErrNoSchedule = errors.New("no such schedule")

// ErrHandled is returned by Record when another node recorded an outcome: leave the firing to it.
var ErrHandled = errors.New("another node handles the firing")

// Schedules holds the schedules of a cell. The server keeps the time: when a schedule is due it
// stores a firing, at most one pending per schedule. It starts nothing; a node that receives the
// alarm, or sweeps, does. It is safe for concurrent use.
type Schedules struct {
	cell *Cell
}

// Schedules returns the cell's schedules.
func (c *Cell) Schedules() *Schedules { return &Schedules{cell: c} }

// Add stores a schedule. It returns ErrScheduled if one has the name and replace is false, and
// schedule.ErrBadSchedule for an invalid one.
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
			return nil // an earlier attempt whose answer was lost
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

// orElse returns err, or other if err is nil.
func orElse(err, other error) error {
	if err != nil {
		return err
	}
	return other
}

// Remove deletes a schedule, its pending firing, and its outcome. What a firing started continues.
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

// Standing is a schedule and its state.
type Standing struct {
	schedule.Schedule

	Added   time.Time        // by the server's clock
	Pending time.Time        // when it fired, if that is not handled yet; else zero
	Last    schedule.Outcome // of the last handled firing; zero if there is none
	Over    bool             // it fired once and failed: only name, time and Last are known
	Err     error            // this release cannot decode it; only its name is known

	record uint64 // the number of Last's record
}

// List returns all schedules, by name, including those that fired for the last time and are not
// handled yet, or failed.
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
		case errors.Is(err, api.ErrNoMessage): // it was removed meanwhile
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
		out.Last = schedule.Outcome{} // of an earlier schedule with this name
	}
	return out, err
}

// over returns a schedule that no longer exists, if its outcome does.
func (s *Schedules) over(ctx context.Context, name string) (Standing, error) {
	o, record, err := s.Outcome(ctx, name)
	if record == 0 {
		return Standing{}, orElse(err, api.ErrNoMessage)
	}
	once := schedule.Schedule{Name: name, Timing: schedule.Timing{At: o.Due}, Created: o.Created}
	return Standing{Schedule: once, Added: o.Created, Last: o, Over: true, record: record, Err: err}, nil
}

// Fired returns the schedules with a pending firing.
func (s *Schedules) Fired(ctx context.Context) ([]string, error) {
	names, err := s.names(ctx, s.cell.names.Fired("*"))
	if err != nil {
		return nil, fmt.Errorf("list firings: %w", err)
	}
	return names, nil
}

// names returns the last tokens of the subjects that match a filter.
func (s *Schedules) names(ctx context.Context, filter string) ([]string, error) {
	all, err := s.cell.api.Subjects(ctx, s.cell.names.SchedulesStream(), filter)
	var out []string
	for subject := range all {
		out = append(out, strings.TrimPrefix(subject, strings.TrimSuffix(filter, "*")))
	}
	return out, err
}

// get returns the message on a subject, as the leader knows it, or api.ErrNoMessage.
func (s *Schedules) get(ctx context.Context, subject string) (api.Message, error) {
	return s.cell.api.Last(ctx, s.cell.names.SchedulesStream(), subject)
}

// Firing is a schedule that fired.
type Firing struct {
	Schedule schedule.Schedule
	Seq      uint64
	At       time.Time
	Err      error // this release cannot act on it: settle it
}

// Firing returns the pending firing of a schedule, and whether there is one.
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
		f.Err = fmt.Errorf("%w %q: another schedule fired it", schedule.ErrBadSchedule, name)
	}
	return f, true, nil
}

// Outcome returns the outcome of a schedule's last firing and the number of its record, 0 for
// none.
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

// Record stores the outcome of a firing after the record with a number. It returns the number of
// the new record, or ErrHandled if another one was stored meanwhile.
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

// Settle deletes a handled firing. A newer one stays.
func (s *Schedules) Settle(ctx context.Context, name string, seq uint64) error {
	if err := s.cell.api.Purge(ctx, s.cell.names.SchedulesStream(), s.cell.names.Fired(name), seq+1); err != nil {
		return fmt.Errorf("settle firing of %s: %w", name, err)
	}
	return nil
}

// Forget deletes the record with a number, of a schedule that fires no more. A newer one stays.
func (s *Schedules) Forget(ctx context.Context, name string, record uint64) error {
	if err := s.cell.api.Purge(ctx, s.cell.names.SchedulesStream(), s.cell.names.Outcome(name), record+1); err != nil {
		return fmt.Errorf("forget outcome of %s: %w", name, err)
	}
	return nil
}

// Expire deletes the outcome of a schedule that ended long ago.
func (s *Schedules) Expire(ctx context.Context, p Standing, now time.Time) error {
	if !p.Over || now.Sub(p.Last.Due) < schedule.Kept {
		return nil
	}
	return s.Forget(ctx, p.Name, p.record)
}
