// Package schedules keeps schedules in the streams of a cell. The server keeps the time: when a schedule is
// due, it stores a firing. A schedule has at most one pending firing. A node that receives its live copy,
// or finds it in a sweep, then acts on it.
//
// A named user stores schedules on a subject that ends in the user's name, where only that user may
// publish. These schedules are in a stream of their own. So a schedule is identified by a key: its name,
// followed for a named user's schedule by a dot and the user.
package schedules

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/turnlog/turnlog/audit/keys"
	"github.com/turnlog/turnlog/audit/statement"
	"github.com/turnlog/turnlog/commands/schedule"
	"github.com/turnlog/turnlog/content"
	turnlog "github.com/turnlog/turnlog/jetstream"
	"github.com/turnlog/turnlog/jetstream/internal/api"
	"github.com/turnlog/turnlog/jetstream/internal/bucket"
	"github.com/turnlog/turnlog/jetstream/internal/layout"
)

// ErrExists is returned by Add if the name is taken. Replace or remove that schedule, or use another name.
var ErrExists = errors.New("a schedule has this name")

// ErrNotFound is returned for a schedule that does not exist. List returns those that do.
var ErrNotFound = errors.New("no such schedule")

// ErrHandled is returned by Record if another node has recorded an outcome. Leave the firing to that node.
var ErrHandled = errors.New("another node handles the firing")

// Store holds the schedules of a cell. It is safe for concurrent use.
type Store struct {
	api           *api.Conn
	names         layout.Names
	user          string       // the user that schedules are added for; "": none
	key           *keys.Signer // signs schedules; nil: not signed
	shared, named stream
}

// stream is one of the streams of schedules, with what the server and nodes store in it.
type stream struct {
	schedules bucket.Bucket[schedule.Schedule]
	fired     bucket.Bucket[schedule.Schedule]
	outcomes  bucket.Bucket[schedule.Outcome]
}

// Of returns the schedules of a cell.
func Of(c *turnlog.Cell) *Store {
	s := &Store{api: api.New(c.Conn()), names: layout.New(c.Namespace()), user: c.User(), key: c.Key()}
	s.shared, s.named = s.in(s.names.SchedulesStream(), 1), s.in(s.names.NamedSchedulesStream(), 2)
	return s
}

// in returns the schedules of a stream, whose keys have so many tokens.
func (s *Store) in(name string, tokens int) stream {
	schedules := bucket.Bucket[schedule.Schedule]{
		API: s.api, What: "schedule", Stream: name, Prefix: s.names.Schedule(""), Tokens: tokens, Decode: schedule.Decode,
	}
	fired := schedules
	fired.What, fired.Prefix = "firing", s.names.Fired("")
	return stream{schedules, fired, bucket.Bucket[schedule.Outcome]{
		API: s.api, What: "outcome", Stream: name, Prefix: s.names.Outcome(""), Tokens: tokens, Once: true, Decode: schedule.DecodeOutcome,
	}}
}

// of returns the stream of a key, and the user in the key.
func (s *Store) of(key string) (on stream, user string) {
	_, user, named := strings.Cut(key, ".")
	if named {
		return s.named, user
	}
	return s.shared, ""
}

// keyOf returns the key of this user's schedule with a name.
func (s *Store) keyOf(name string) string {
	return schedule.Schedule{Name: name, User: s.user}.Key()
}

// look returns the schedule under a key. A schedule may target any subject of its stream, so what the
// server stored for another schedule is not one.
func (x stream) look(ctx context.Context, key string) (it bucket.Item[schedule.Schedule], there bool, err error) {
	it, there, err = x.schedules.Look(ctx, key)
	if _, it.Value.User, _ = strings.Cut(key, "."); len(it.Header[jetstream.SchedulerHeader]) > 0 {
		it.Err = api.ErrSpoofed
	}
	if it.Err == nil && there && it.Value.Key() != key {
		it.Err = fmt.Errorf("%w %q: it is stored as %s", schedule.ErrBadSchedule, it.Value.Name, key)
	}
	return it, there, err
}

// Add stores a schedule, under the name of the connection's user if it has one. It returns ErrExists if the
// name is taken, unless the schedule is this user's and replace is true. It returns schedule.ErrBadSchedule
// for an invalid schedule.
func (s *Store) Add(ctx context.Context, p schedule.Schedule, replace bool) error {
	p.User = s.user
	err := s.add(ctx, p, replace)
	if api.IsBadSchedule(err) {
		err = fmt.Errorf("%w: the server: %w", schedule.ErrBadSchedule, err)
	}
	if err != nil {
		return fmt.Errorf("add schedule %q: %w", p.Name, err)
	}
	return nil
}

func (s *Store) add(ctx context.Context, p schedule.Schedule, replace bool) error {
	if err := p.Check(); err != nil {
		return err
	}
	data, err := p.Definition()
	if s.key != nil && err == nil {
		p.Signature = s.key.Sign(statement.Schedule(s.names.NS, data))
		data, err = p.Encode()
	}
	if err != nil {
		return err
	}
	if err := s.checkOthers(ctx, p); err != nil {
		return err
	}
	on, key, h := s.shared, p.Key(), nats.Header{}
	if p.User != "" {
		on = s.named
	}
	if !replace {
		_, pending, err := on.fired.Look(ctx, key)
		if err != nil {
			return err
		}
		old, there, err := on.schedules.Look(ctx, key)
		if err != nil {
			return err
		}
		if pending && (there || old.Seq == 0) { // otherwise the schedule was removed with its firing
			return ErrExists
		}
		h = bucket.Guard(0)
		if !there {
			h = bucket.Guard(old.Seq)
		}
	}
	h[jetstream.ScheduleHeader] = []string{p.Timing.Pattern()}
	h[jetstream.ScheduleTargetHeader] = []string{s.names.Fired(key)}
	if p.Timing.Zone != "" {
		h[jetstream.ScheduleTimeZoneHeader] = []string{p.Timing.Zone}
	}
	_, err = on.schedules.Write(ctx, "put", key, data, h)
	if !api.IsConflict(err) {
		return err
	}
	stored, err := s.api.Last(ctx, on.schedules.Stream, on.schedules.Prefix+key)
	if err == nil && bytes.Equal(stored.Data, data) {
		return nil // stored by an earlier attempt whose answer was lost
	}
	return ErrExists
}

// checkOthers returns ErrExists if another user has a schedule with that name, since sessions are named after
// it. If two users add one at the same time, both may succeed. The second session with that name is then
// refused.
func (s *Store) checkOthers(ctx context.Context, p schedule.Schedule) error {
	keys, err := s.keys(ctx, p.Name)
	for _, key := range keys {
		if key == p.Key() || err != nil {
			continue
		}
		var one Standing
		var ok bool
		if one, ok, err = s.standing(ctx, key); err == nil && ok && !one.Removed {
			_, user := s.of(key)
			return fmt.Errorf("%w, and belongs to %s", ErrExists, cmp.Or(user, "users without a name"))
		}
	}
	return err
}

// Remove deletes a schedule, its pending firing, and its outcome. What a firing has started continues. A
// named user removes only its own schedule, and nodes then delete the rest; a user without a name removes
// all schedules with that name. It returns ErrNotFound if there is none.
func (s *Store) Remove(ctx context.Context, name string) error {
	keys, err := s.keys(ctx, name)
	removed := 0
	for _, key := range keys {
		one, ok, err2 := s.standing(ctx, key)
		if err = cmp.Or(err, err2); err != nil || !ok || one.Removed || s.user != "" && key != s.keyOf(name) {
			continue
		}
		removed++
		if s.user == "" {
			err = s.clear(ctx, key, 0)
		} else {
			err = s.named.schedules.Delete(ctx, key)
		}
	}
	if err == nil && removed == 0 {
		err = ErrNotFound
	}
	if err != nil {
		return fmt.Errorf("remove schedule %q: %w", name, err)
	}
	return nil
}

// clear deletes what is stored under a key before a sequence; 0: all of it.
func (s *Store) clear(ctx context.Context, key string, before uint64) error {
	on, _ := s.of(key)
	subjects := []string{s.names.Schedule(key), s.names.Fired(key), s.names.Outcome(key)}
	if before > 0 { // the record of the removal goes last
		slices.Reverse(subjects)
	}
	for _, subject := range subjects {
		if err := s.api.Purge(ctx, on.schedules.Stream, subject, before); err != nil {
			return err
		}
	}
	return nil
}

// keys returns the keys of schedules with a name that have anything stored, or with "*", of all schedules.
func (s *Store) keys(ctx context.Context, name string) ([]string, error) {
	var out []string
	if name != "*" && !content.IsToken(name) {
		return nil, nil
	}
	for _, on := range []struct {
		stream

		filter string
	}{{s.shared, name}, {s.named, name + ".*"}} {
		for _, list := range []func(context.Context, string) ([]string, error){on.schedules.Keys, on.fired.Keys, on.outcomes.Keys} {
			more, err := list(ctx, on.filter)
			if err != nil {
				return nil, err
			}
			out = append(out, more...)
		}
	}
	slices.Sort(out)
	return slices.Compact(out), nil
}

// Standing is a schedule and its state.
type Standing struct {
	schedule.Schedule

	Added   time.Time        // by the server's clock
	Pending time.Time        // when it fired, if that is not handled yet; otherwise zero
	Last    schedule.Outcome // of the last handled firing; zero if there is none
	Over    bool             // it fired for the last time and was handled: only its name, time and Last are known
	Removed bool             // its user removed it, and it is not cleared yet: only its name is known
	Err     error            // this release cannot decode it: only its name is known

	record uint64 // the number of Last's record, or of the record of the removal
}

// List returns all schedules by name. A schedule that fired for the last time is included until its outcome
// expires.
func (s *Store) List(ctx context.Context) ([]Standing, error) {
	keys, err := s.keys(ctx, "*")
	if err != nil {
		return nil, err
	}
	var out []Standing
	for _, key := range keys {
		one, ok, err := s.standing(ctx, key)
		if err != nil {
			return nil, fmt.Errorf("list schedules: %w", err)
		}
		if ok { // otherwise it was removed meanwhile
			out = append(out, one)
		}
	}
	return out, nil
}

func (s *Store) standing(ctx context.Context, key string) (out Standing, ok bool, err error) {
	on, user := s.of(key)
	fired, pending, err := on.fired.Look(ctx, key)
	if err != nil {
		return out, false, err
	}
	kept, there, err := on.look(ctx, key)
	if err != nil {
		return out, false, err
	}
	last, record, bad := s.Outcome(ctx, key)
	if bad != nil && record == 0 {
		return out, false, bad
	}
	name, _, _ := strings.Cut(key, ".")
	bare := schedule.Schedule{Name: name, User: user}
	switch {
	case there:
	case kept.Seq > 0:
		return Standing{Schedule: bare, Added: kept.At, Removed: true, record: kept.Seq}, true, nil
	case pending: // it fired for the last time
		kept = fired
		kept.Value.User = user
	case record > 0:
		bare.Timing, bare.Created = schedule.Timing{At: last.Due}, last.Created
		return Standing{Schedule: bare, Added: last.Created, Last: last, Over: true, record: record, Err: bad}, true, nil
	default:
		return out, false, nil
	}
	out = Standing{Schedule: kept.Value, Added: kept.At, Pending: fired.At, Err: kept.Err}
	if kept.Err != nil {
		out.Schedule = bare
	}
	if kept.Err != nil || last.Created.Equal(out.Created) { // otherwise it belongs to an earlier schedule with this name
		out.Last = last
	}
	return out, true, nil
}

// Fired returns the keys of the schedules with a pending firing.
func (s *Store) Fired(ctx context.Context) ([]string, error) {
	shared, err := s.shared.fired.Keys(ctx, "*")
	if err != nil {
		return nil, err
	}
	named, err := s.named.fired.Keys(ctx, "*.*")
	return append(shared, named...), err
}

// Firing is a schedule that fired.
type Firing struct {
	Schedule schedule.Schedule
	Seq      uint64
	At       time.Time
	Err      error // this release cannot act on it, or ErrNotFound if its user removed or replaced it: settle it
}

// Firing returns the pending firing of a schedule, and whether there is one.
func (s *Store) Firing(ctx context.Context, key string) (Firing, bool, error) {
	on, user := s.of(key)
	it, pending, err := on.fired.Look(ctx, key)
	if !pending {
		return Firing{}, false, err
	}
	it.Value.User = user
	f := Firing{Schedule: it.Value, Seq: it.Seq, At: it.At, Err: it.Err}
	by := it.Header[jetstream.SchedulerHeader]
	if errors.Is(f.Err, api.ErrSpoofed) || f.Err == nil && (f.Schedule.Key() != key || len(by) != 1 || by[0] != s.names.Schedule(key)) {
		f.Err = fmt.Errorf("%w %q: another schedule fired it", schedule.ErrBadSchedule, key)
	}
	if f.Err == nil && user != "" {
		var kept bucket.Item[schedule.Schedule]
		var there bool
		kept, there, err = on.look(ctx, key)
		another := there && kept.Err == nil && !kept.Value.Created.Equal(f.Schedule.Created)
		if removed := !there && kept.Seq > 0; removed || another {
			f.Err = fmt.Errorf("%w: %s removed or replaced it", ErrNotFound, user)
		}
	}
	return f, true, err
}

// Outcome returns the outcome of a schedule's last firing and the number of its record; 0: none.
func (s *Store) Outcome(ctx context.Context, key string) (schedule.Outcome, uint64, error) {
	on, _ := s.of(key)
	it, _, err := on.outcomes.Get(ctx, key)
	if err == nil && len(it.Header[jetstream.SchedulerHeader]) > 0 { // nodes write outcomes, schedules do not
		return schedule.Outcome{}, it.Seq, on.outcomes.Failed("get", key, api.ErrSpoofed)
	}
	return it.Value, it.Seq, err
}

// Record stores the outcome of a firing after the record with the number last. It returns the number of the
// new record, or ErrHandled if another one was stored in the meantime.
func (s *Store) Record(ctx context.Context, key string, o schedule.Outcome, last uint64) (uint64, error) {
	data, err := o.Encode()
	if err != nil {
		return 0, err
	}
	on, _ := s.of(key)
	seq, err := on.outcomes.Write(ctx, "put", key, data, bucket.Guard(last))
	if api.IsConflict(err) {
		err = fmt.Errorf("record outcome of %q: %w", key, ErrHandled)
	}
	return seq, err
}

// Settle deletes a handled firing. A newer one stays.
func (s *Store) Settle(ctx context.Context, key string, seq uint64) error {
	on, _ := s.of(key)
	return on.fired.Purge(ctx, key, seq)
}

// Forget deletes the record with that number, of a schedule that will not fire again. A newer record stays.
func (s *Store) Forget(ctx context.Context, key string, record uint64) error {
	on, _ := s.of(key)
	return on.outcomes.Purge(ctx, key, record)
}

// Expire deletes what is left of a schedule that its user removed, and the outcome of a schedule that ended
// long ago.
func (s *Store) Expire(ctx context.Context, p Standing, now time.Time) error {
	switch {
	case p.Removed:
		return s.clear(ctx, p.Key(), p.record+1)
	case p.Over && p.Last.Expired(now):
		return s.Forget(ctx, p.Key(), p.record)
	}
	return nil
}
