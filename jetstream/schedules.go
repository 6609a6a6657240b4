package jetstream

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/turnlog/turnlog/jetstream/internal/api"
	"github.com/turnlog/turnlog/schedule"
)

// ErrScheduled is returned by Add if a schedule has the name. Replace or remove that one, or use
// another name.
var ErrScheduled = errors.New("a schedule has this name")

// ErrNoSchedule is returned for a schedule that does not exist. List returns those that do.
var ErrNoSchedule = errors.New("no such schedule")

// ErrHandled is returned by Record when another node recorded an outcome. Leave the firing to it.
var ErrHandled = errors.New("another node handles the firing")

// Schedules holds the schedules of a cell. The server keeps the time: when a schedule is due it
// stores a firing, at most one pending per schedule. A node that receives the alarm, or sweeps,
// then acts on it. It is safe for concurrent use.
type Schedules struct {
	cell      *Cell
	schedules bucket[schedule.Schedule] // all by name
	fired     bucket[schedule.Schedule]
	outcomes  bucket[schedule.Outcome]
}

// Schedules returns the cell's schedules.
func (c *Cell) Schedules() *Schedules {
	stream, n := c.names.SchedulesStream(), c.names
	schedules := bucket[schedule.Schedule]{
		cell: c, what: "schedule", stream: stream, prefix: n.Schedule(""), tokens: 1, decode: schedule.Decode,
	}
	fired := schedules
	fired.what, fired.prefix = "firing", n.Fired("")
	return &Schedules{c, schedules, fired, bucket[schedule.Outcome]{
		cell: c, what: "outcome", stream: stream, prefix: n.Outcome(""), tokens: 1, once: true, decode: schedule.DecodeOutcome,
	}}
}

// Add stores a schedule. It returns ErrScheduled if one has the name and replace is false, and
// schedule.ErrBadSchedule for an invalid one.
func (s *Schedules) Add(ctx context.Context, p schedule.Schedule, replace bool) error {
	err := s.add(ctx, p, replace)
	if api.IsBadSchedule(err) {
		err = fmt.Errorf("%w: the server: %w", schedule.ErrBadSchedule, err)
	}
	if err != nil {
		return fmt.Errorf("add schedule %q: %w", p.Name, err)
	}
	return nil
}

func (s *Schedules) add(ctx context.Context, p schedule.Schedule, replace bool) error {
	if err := p.Check(); err != nil {
		return err
	}
	data, err := p.Encode()
	if err != nil {
		return err
	}
	h := nats.Header{}
	if !replace {
		if _, pending, err := s.fired.look(ctx, p.Name); err != nil || pending {
			return cmp.Or(err, ErrScheduled) //nolint:wrapcheck // both are our own
		}
		h = guard(0)
	}
	h[jetstream.ScheduleHeader] = []string{p.Timing.Pattern()}
	h[jetstream.ScheduleTargetHeader] = []string{s.cell.names.Fired(p.Name)}
	if p.Timing.Zone != "" {
		h[jetstream.ScheduleTimeZoneHeader] = []string{p.Timing.Zone}
	}
	_, err = s.schedules.write(ctx, "put", p.Name, data, h)
	if !api.IsConflict(err) {
		return err
	}
	stored, err := s.cell.api.Last(ctx, s.schedules.stream, s.schedules.prefix+p.Name)
	if err == nil && bytes.Equal(stored.Data, data) {
		return nil // by an earlier attempt whose answer was lost
	}
	return ErrScheduled
}

// Remove deletes a schedule, its pending firing, and its outcome. The effects of a firing continue.
func (s *Schedules) Remove(ctx context.Context, name string) error {
	if !s.schedules.valid(name) {
		return fmt.Errorf("remove schedule %q: %w", name, ErrNoSchedule)
	}
	n := s.cell.names
	there, err := s.cell.api.Subjects(ctx, s.schedules.stream, n.AllOfSchedule(name))
	if err == nil && len(there) == 0 {
		err = ErrNoSchedule
	}
	for _, subject := range []string{n.Schedule(name), n.Fired(name), n.Outcome(name)} {
		if err == nil {
			err = s.cell.api.Purge(ctx, s.schedules.stream, subject, 0)
		}
	}
	if err != nil {
		return fmt.Errorf("remove schedule %q: %w", name, err)
	}
	return nil
}

// Standing is a schedule and its state.
type Standing struct {
	schedule.Schedule

	Added   time.Time        // by the server's clock
	Pending time.Time        // when it fired, if that is not handled yet; else zero
	Last    schedule.Outcome // of the last handled firing; zero if there is none
	Over    bool             // it fired once and is handled: only name, time and Last are known
	Err     error            // this release cannot decode it: only its name is known

	record uint64 // the number of Last's record
}

// List returns all schedules, by name, including those that fired for the last time until their
// outcome expires.
func (s *Schedules) List(ctx context.Context) ([]Standing, error) {
	var names []string
	for _, list := range []func(context.Context, string) ([]string, error){s.schedules.keys, s.fired.keys, s.outcomes.keys} {
		more, err := list(ctx, "*")
		if err != nil {
			return nil, err
		}
		names = append(names, more...)
	}
	slices.Sort(names)
	var out []Standing
	for _, name := range slices.Compact(names) {
		one, ok, err := s.standing(ctx, name)
		if err != nil {
			return nil, fmt.Errorf("list schedules: %w", err)
		}
		if ok { // else it was removed meanwhile
			out = append(out, one)
		}
	}
	return out, nil
}

func (s *Schedules) standing(ctx context.Context, name string) (out Standing, ok bool, err error) {
	fired, pending, err := s.fired.look(ctx, name)
	if err != nil {
		return out, false, err
	}
	kept, there, err := s.schedules.look(ctx, name)
	if err != nil {
		return out, false, err
	}
	last, record, err := s.Outcome(ctx, name)
	switch {
	case there:
	case pending: // the last time
		kept = fired
	case record > 0:
		once := schedule.Schedule{Name: name, Timing: schedule.Timing{At: last.Due}, Created: last.Created}
		return Standing{Schedule: once, Added: last.Created, Last: last, Over: true, record: record, Err: err}, true, nil
	default:
		return out, false, err
	}
	out = Standing{Schedule: kept.Value, Added: kept.At, Pending: fired.At, Err: kept.Err}
	if kept.Err != nil {
		out.Schedule = schedule.Schedule{Name: name}
	}
	if kept.Err != nil || last.Created.Equal(out.Created) { // else it is of an earlier schedule with this name
		out.Last = last
	}
	return out, true, err
}

// Fired returns the schedules with a pending firing.
func (s *Schedules) Fired(ctx context.Context) ([]string, error) { return s.fired.keys(ctx, "*") }

// Firing is a schedule that fired.
type Firing struct {
	Schedule schedule.Schedule
	Seq      uint64
	At       time.Time
	Err      error // this release cannot act on it: settle it
}

// Firing returns the pending firing of a schedule, and whether there is one.
func (s *Schedules) Firing(ctx context.Context, name string) (Firing, bool, error) {
	it, pending, err := s.fired.look(ctx, name)
	if !pending {
		return Firing{}, false, err
	}
	f := Firing{Schedule: it.Value, Seq: it.Seq, At: it.At, Err: it.Err}
	by := it.Header.Get(jetstream.SchedulerHeader)
	if errors.Is(f.Err, api.ErrSpoofed) || f.Err == nil && (f.Schedule.Name != name || by != s.cell.names.Schedule(name)) {
		f.Err = fmt.Errorf("%w %q: another schedule fired it", schedule.ErrBadSchedule, name)
	}
	return f, true, nil
}

// Outcome returns the outcome of a schedule's last firing and the number of its record, 0 for none.
func (s *Schedules) Outcome(ctx context.Context, name string) (schedule.Outcome, uint64, error) {
	it, _, err := s.outcomes.get(ctx, name)
	return it.Value, it.Seq, err
}

// Record stores the outcome of a firing after the record with the number last. It returns the number
// of the new record, or ErrHandled if another one was stored meanwhile.
func (s *Schedules) Record(ctx context.Context, name string, o schedule.Outcome, last uint64) (uint64, error) {
	data, err := o.Encode()
	if err != nil {
		return 0, err
	}
	seq, err := s.outcomes.write(ctx, "put", name, data, guard(last))
	if api.IsConflict(err) {
		err = fmt.Errorf("record outcome of %q: %w", name, ErrHandled)
	}
	return seq, err
}

// Settle deletes a handled firing. A newer one stays.
func (s *Schedules) Settle(ctx context.Context, name string, seq uint64) error {
	return s.fired.purge(ctx, name, seq)
}

// Forget deletes the record with a number, of a schedule that fires no more. A newer one stays.
func (s *Schedules) Forget(ctx context.Context, name string, record uint64) error {
	return s.outcomes.purge(ctx, name, record)
}

// Expire deletes the outcome of a schedule that ended long ago.
func (s *Schedules) Expire(ctx context.Context, p Standing, now time.Time) error {
	if !p.Over || !p.Last.Expired(now) {
		return nil
	}
	return s.Forget(ctx, p.Name, p.record)
}
