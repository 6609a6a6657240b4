package backup

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/nats-io/nats.go"
	"golang.org/x/sync/errgroup"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/events/journal"
	"github.com/turnlog/turnlog/jetstream/internal/api"
	"github.com/turnlog/turnlog/jetstream/seals"
)

// atOnce is how many sessions are marked concurrently.
const atOnce = 64

// mark adds an entry to each session that says that it was restored, deletes the sessions that were deleted
// after the backup, and wakes those that have something to do.
func (r *restore) mark(ctx context.Context) error {
	lengths, err := r.cell.Journal().Lengths(ctx)
	if err != nil {
		return err
	}
	had := make(map[content.SessionID]uint64, len(lengths))
	var mu sync.Mutex // guards had and the report
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(atOnce)
	for s := range lengths {
		group.Go(func() error {
			done, err := r.markOne(ctx, s)
			if err != nil {
				return fmt.Errorf("session %s: %w", s, err)
			}
			mu.Lock()
			defer mu.Unlock()
			had[s] = cmp.Or(done.had, lengths[s]) // its end cannot be read
			r.report.add(s, done)
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return err //nolint:wrapcheck // it names the session
	}
	r.report.lost(r.opts.Known, had)
	return nil
}

// marked is what was done with a session.
type marked struct {
	had      uint64 // the last entry in the backup
	claimed  bool
	woken    bool
	again    *events.Deletion
	unmarked string
}

func (r *Report) add(s content.SessionID, m marked) {
	if m.claimed {
		r.Sessions++
	}
	if m.woken {
		r.Woken++
	}
	if m.again != nil {
		r.Again = append(r.Again, Gone{s, *m.again})
	}
	if m.unmarked != "" {
		r.Unmarked = append(r.Unmarked, Unmarked{s, m.unmarked})
	}
}

// lost reports the sessions for which more entries are known than the backup has, and sorts the lists.
func (r *Report) lost(known []Head, had map[content.SessionID]uint64) {
	most, deleted := map[content.SessionID]uint64{}, map[content.SessionID]bool{}
	for _, h := range known {
		most[h.Session] = max(most[h.Session], h.Seq)
		deleted[h.Session] = deleted[h.Session] || h.Deletion != nil
	}
	for _, s := range slices.Sorted(maps.Keys(most)) {
		if most[s] > had[s] && !deleted[s] {
			r.Lost = append(r.Lost, Loss{Session: s, Entries: had[s], Known: most[s]})
		}
	}
	slices.SortFunc(r.Again, func(a, b Gone) int { return strings.Compare(string(a.Session), string(b.Session)) })
	slices.SortFunc(r.Unmarked, func(a, b Unmarked) int { return strings.Compare(string(a.Session), string(b.Session)) })
}

// markOne marks, deletes or wakes one session.
func (r *restore) markOne(ctx context.Context, s content.SessionID) (done marked, err error) {
	if err := r.step("mark " + string(s)); err != nil {
		return done, err
	}
	last, err := r.cell.Journal().Last(ctx, s)
	switch {
	case errors.Is(err, journal.ErrDamaged), err == nil && last.Seq == 0:
		done.unmarked = "its last entry cannot be read"
		if err = errors.Join(err, last.Err); err != nil {
			done.unmarked = err.Error()
		}
		return done, nil
	case err != nil:
		return done, err
	case last.Moved: // no node drives it
		done.unmarked = "it was being moved here: repeat the move"
		return done, nil
	}
	done.had = last.Seq
	gone, again := r.gone[s]
	if d, deleted := events.DeletionOf(last.Entry); deleted {
		left, err := seals.Of(r.cell).Left(ctx, s)
		if err != nil || !left || !d.Erased {
			return done, err
		}
		done.again = &d // its key still existed when the backup was made
		return done, r.admin.Erase(ctx, s)
	}
	if again {
		done.again = &gone
		return done, r.delete(ctx, last, gone)
	}
	parked := r.rests(last)
	var more []events.Event
	if parked {
		more = append(more, events.Parked{})
	}
	e := events.Entry{Cause: "restore/" + r.id, At: content.TimeOf(r.at)}
	if _, err := r.marks.Claim(ctx, last, e, events.DriverClaimed{Node: "restore", Restored: new(r.restored())}, more...); err != nil {
		return done, explainConflict(err)
	}
	done.claimed, done.woken = true, !parked
	if done.woken {
		err = r.wake(ctx, s)
	}
	return done, err
}

// rests reports whether a session has nothing to do until a command arrives. The restored cell has no
// timers and no calls on queues. It may also lack a command of a session that was working during the
// backup.
func (r *restore) rests(last journal.Record) bool {
	i := slices.IndexFunc(last.Entry.Events, func(ev events.Event) bool { return events.KindOf(ev) == events.KindParked })
	if i < 0 || last.Guard > r.Active {
		return false
	}
	return last.Entry.Events[i] == events.Event(events.Parked{})
}

// delete deletes or erases a session again.
func (r *restore) delete(ctx context.Context, last journal.Record, d events.Deletion) error {
	_, err := r.marks.Append(ctx, last, events.Entry{
		Cause: "restore/" + r.id, At: content.TimeOf(r.at), Epoch: last.Entry.Epoch, Events: []events.Event{events.SessionDeleted{
			By: d.By, User: d.User, Reason: d.Reason, Expired: d.Expired, Erased: d.Erased, MovedTo: d.MovedTo, Restored: new(r.restored()),
		}},
	})
	switch s := last.Entry.Session; {
	case err != nil:
		return explainConflict(err)
	case d.Erased:
		return r.admin.Erase(ctx, s)
	default:
		_, err := r.admin.Clear(ctx, s)
		return err
	}
}

// explainConflict explains a conflict: a restore is the only writer, since no driver can take a session without a run
// token.
func explainConflict(err error) error {
	if api.IsConflict(err) {
		return fmt.Errorf("another process is writing to the deployment: stop all nodes, then repeat the restore: %w", err)
	}
	return err
}

// wake makes a node take the session.
func (r *restore) wake(ctx context.Context, s content.SessionID) error {
	_, err := r.api.Publish(ctx, &nats.Msg{Subject: r.names.Run(s)})
	if api.IsAlreadyThere(err) {
		return nil
	}
	return err
}
