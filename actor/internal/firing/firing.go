// Package firing handles timers and schedules that fire: it wakes the sessions of timers, and sends the
// commands of schedules.
package firing

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"github.com/turnlog/turnlog/commands"
	"github.com/turnlog/turnlog/commands/schedule"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events/journal"
	"github.com/turnlog/turnlog/internal/logfield"
	"github.com/turnlog/turnlog/jetstream"
	"github.com/turnlog/turnlog/jetstream/schedules"
	"github.com/turnlog/turnlog/loop"
)

// maxFiring limits how many fired schedules are handled at once. The sweep finds the rest.
const maxFiring = 64

// Handler handles what fires. It is safe for concurrent use, except for Sweep.
type Handler struct {
	cell   *jetstream.Cell
	runs   *jetstream.Runs
	store  *schedules.Store
	read   func(context.Context, content.SessionID) (*loop.State, error)
	log    *zap.Logger
	sweeps int
}

// New returns the handler of a node. The node reads sessions with read, which returns journal.ErrNotFound for
// a session without a journal.
func New(
	c *jetstream.Cell, runs *jetstream.Runs, read func(context.Context, content.SessionID) (*loop.State, error), log *zap.Logger,
) *Handler {
	return &Handler{cell: c, runs: runs, store: schedules.Of(c), read: read, log: log}
}

// Follow wakes the sessions whose timers fire, and handles the schedules that fire, until ctx ends. It
// returns the cause. The sweep finds what Follow misses.
func (h *Handler) Follow(ctx context.Context) error {
	alarms, err := h.cell.Alarms(ctx)
	if err != nil {
		return fmt.Errorf("alarms: %w", err)
	}
	var firing errgroup.Group
	firing.SetLimit(maxFiring)
	for a := range alarms {
		if a.Schedule == "" {
			h.runs.WakeSoon(a.Session)
			continue
		}
		firing.TryGo(func() error {
			h.fire(ctx, a.Schedule)
			return nil
		})
	}
	_ = firing.Wait() // fire logs its errors
	return context.Cause(ctx)
}

// Sweep handles the firings that were missed or not finished. Every few sweeps, it also looks for schedules
// that should have fired.
func (h *Handler) Sweep(ctx context.Context) {
	keys, err := h.store.Fired(ctx)
	for _, key := range keys {
		h.fire(ctx, key)
	}
	var standing []schedules.Standing
	if h.sweeps%sweepsToAll == 0 && err == nil {
		standing, err = h.store.List(ctx)
	}
	h.sweeps++
	for _, s := range standing {
		h.fireOverdue(ctx, s)
		if s.Removed {
			h.log.Info("schedule removed", zap.String("schedule", s.Key()), zap.Time("at", s.Added))
		}
		err = errors.Join(err, h.store.Expire(ctx, s, time.Now()))
	}
	if err != nil {
		h.log.Warn("sweep of schedules failed", zap.Error(err))
	}
}

const (
	// lostAfter is how late a firing may be before it counts as lost, as happens if the server is killed.
	lostAfter = 30 * time.Second
	// sweepsToAll is the number of sweeps between two checks of every schedule.
	sweepsToAll = 6
)

// fireOverdue handles a firing that should have arrived. If it arrives later, it counts as a duplicate.
func (h *Handler) fireOverdue(ctx context.Context, s schedules.Standing) {
	if s.Err != nil || s.Over || s.Removed || !s.Pending.IsZero() {
		return
	}
	since := s.Added
	if s.Last.Result != "" {
		since = s.Last.Due
	}
	due := s.Timing.Overdue(since, time.Now().Add(-lostAfter))
	if due.IsZero() {
		return
	}
	f := h.firing(s.Key())
	f.log.Warn("schedule did not fire when it was due", zap.Time("due", due))
	f.warn(ctx, f.handle(ctx, s.Schedule, due, 0))
}

// fire handles a schedule's pending firing, if there is one.
func (h *Handler) fire(ctx context.Context, key string) {
	f := h.firing(key)
	f.warn(ctx, f.settle(ctx))
}

// firing is a schedule's firing on one node. Several nodes may handle the same one. Its outcome is recorded
// once, and all nodes send the same commands.
type firing struct {
	*Handler

	key    string // of the schedule
	log    *zap.Logger
	last   schedule.Outcome
	number uint64 // of the schedule's last recorded outcome
}

func (h *Handler) firing(key string) *firing {
	return &firing{Handler: h, key: key, log: h.log.With(zap.String("schedule", key))}
}

// warn logs an error that leaves the firing for the next sweep.
func (f *firing) warn(ctx context.Context, err error) {
	if err != nil && ctx.Err() == nil && !errors.Is(err, schedules.ErrHandled) {
		f.log.Warn("schedule not handled yet", zap.Error(err))
	}
}

// settle handles the pending firing, if there is one, and removes it.
func (f *firing) settle(ctx context.Context) error {
	pending, found, err := f.store.Firing(ctx, f.key)
	if err != nil || !found {
		return err
	}
	s := pending.Schedule
	if errors.Is(pending.Err, schedules.ErrNotFound) {
		f.log.Info("firing of a removed schedule skipped")
	} else if pending.Err != nil {
		f.log.Error("firing of a schedule skipped", zap.Error(pending.Err))
	} else if err := f.handle(ctx, s, s.Timing.Due(pending.At), pending.Seq); err != nil {
		return err
	}
	return f.store.Settle(ctx, f.key, pending.Seq)
}

// Refused changes the outcome of the firing that sent a command to failed, because its session refused the
// command.
func (h *Handler) Refused(ctx context.Context, command string, why *commands.Rejection) {
	f := h.firing(schedule.KeyOf(command))
	err := schedules.ErrHandled
	for errors.Is(err, schedules.ErrHandled) { // until the sending node's own record is read
		if f.last, f.number, err = f.store.Outcome(ctx, f.key); err != nil || !f.last.Sent(f.key, command) {
			break
		}
		o := f.last
		o.Result, o.Done = schedule.Failed, true
		o.Detail = fmt.Sprintf("session %s refused it: %s", o.Session, cmp.Or(why.Detail, why.Reason))
		err = f.record(ctx, o)
	}
	f.warn(ctx, err)
}

// handle decides the outcome of a firing, records it, carries it out, and records that it is done. If this
// node dies in between, the next one continues from the record.
func (f *firing) handle(ctx context.Context, s schedule.Schedule, due time.Time, seq uint64) (err error) {
	if f.last, f.number, err = f.store.Outcome(ctx, f.key); err != nil && f.number == 0 {
		return err
	}
	if err != nil || !f.last.Created.Equal(s.Created) { // unreadable, or of an earlier schedule with that name
		f.last = schedule.Outcome{}
	}
	if err := f.finish(ctx, s); err != nil {
		return err
	}
	if f.last.Result != "" && s.Timing.Repeats(due, f.last.Due) {
		return nil
	}
	result, detail, err := f.judge(ctx, s, due)
	if err != nil {
		return err
	}
	o := schedule.Outcome{Created: s.Created, Due: due, Fired: seq, Result: result, Detail: detail, Session: f.last.Session, Done: true}
	if result == schedule.Started {
		o.Session = s.SessionAt(due)
		if o.Done, err = f.sent(ctx, s, due); err != nil {
			return err
		}
	}
	if err := f.record(ctx, o); err != nil {
		return err
	}
	if err := f.finish(ctx, s); err != nil {
		return err
	}
	f.log.Info("schedule fired", zap.Time("due", due), zap.String("result", string(o.Result)),
		zap.String("detail", o.Detail), logfield.Session(o.Session))
	return nil
}

// sent reports whether a late firing is already in its session's journal. The outcome may be missing although
// the commands were sent, if the stream came from an old backup.
func (f *firing) sent(ctx context.Context, s schedule.Schedule, due time.Time) (bool, error) {
	if time.Since(due) < lostAfter {
		return false, nil
	}
	first := s.Envelopes(due)[0]
	for rec, err := range f.cell.Journal().Read(ctx, first.Session, 0) {
		if err != nil {
			return false, err
		}
		if rec.Entry.Cause == first.ID {
			return true, nil
		}
	}
	return false, nil
}

// finish sends the commands of a started outcome, unless they were sent. They carry the name of the
// schedule's user only if it is part of the subject that the schedule fired on, where the server verified it.
// They carry the schedule's signature, which the sessions check, since a driver cannot sign for people.
func (f *firing) finish(ctx context.Context, s schedule.Schedule) error {
	if f.last.Result == "" || f.last.Done {
		return nil
	}
	definition, err := s.Definition()
	if err != nil {
		return err
	}
	for _, env := range s.Envelopes(f.last.Due) {
		if _, err := f.cell.Inbox().SendFor(ctx, s.User, env, definition, s.Signature); err != nil {
			return err
		}
	}
	if err := f.runs.Wake(ctx, f.last.Session); err != nil {
		return err
	}
	o := f.last
	o.Done = true
	return f.record(ctx, o)
}

func (f *firing) record(ctx context.Context, o schedule.Outcome) (err error) {
	if f.number, err = f.store.Record(ctx, f.key, o, f.number); err == nil {
		f.last = o
	}
	return err
}

// judge decides the result of a firing. If nothing is started, it also returns why.
func (f *firing) judge(ctx context.Context, s schedule.Schedule, due time.Time) (r schedule.Result, detail string, err error) {
	if late := time.Since(due); s.Late > 0 && late > s.Late {
		return schedule.Skipped, fmt.Sprintf("it fired %v late", late.Round(time.Second)), nil
	}
	before := f.last.Session // the session that must not be busy
	if s.Session != "" {
		before = s.Session
		switch state, err := f.peek(ctx, s.Session); {
		case errors.Is(err, journal.ErrNotFound):
			return schedule.Failed, fmt.Sprintf("there is no session %s", s.Session), nil
		case err != nil:
			return "", "", err
		case state.Closed:
			return schedule.Failed, fmt.Sprintf("session %s is closed", s.Session), nil
		}
	}
	if s.Overlaps() == schedule.Skip && before != "" {
		if busy, err := f.busy(ctx, before); err != nil || busy {
			return schedule.Skipped, fmt.Sprintf("session %s is still busy", before), err
		}
	}
	return schedule.Started, "", nil
}

// busy reports whether a session has work or waits for a person's decision. A session without a journal is
// busy while a command in its inbox may still open it.
func (h *Handler) busy(ctx context.Context, s content.SessionID) (bool, error) {
	state, err := h.peek(ctx, s)
	if errors.Is(err, journal.ErrNotFound) {
		return h.cell.Inbox().HasAny(ctx, s)
	}
	if err != nil {
		return false, err
	}
	return !state.Closed && (loop.Waiting(state) != commands.WaitInput || len(state.Queue) > 0), nil
}

// peek reads a session without claiming it. It returns journal.ErrNotFound for a session that has no journal
// or was deleted.
func (h *Handler) peek(ctx context.Context, s content.SessionID) (*loop.State, error) {
	state, err := h.read(ctx, s)
	if err == nil && state.Deleted != nil {
		err = fmt.Errorf("%w: it was deleted", journal.ErrNotFound)
	}
	if err != nil {
		return nil, fmt.Errorf("look at session %s: %w", s, err)
	}
	return state, nil
}
