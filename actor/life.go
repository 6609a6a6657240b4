package actor

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/oklog/ulid/v2"
	"go.uber.org/zap"

	"github.com/turnlog/turnlog/commands"
	"github.com/turnlog/turnlog/engine"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/events/journal"
	"github.com/turnlog/turnlog/jetstream"
	"github.com/turnlog/turnlog/loop"
	"github.com/turnlog/turnlog/loop/snapshot"
)

// A claim is tried against other writers so often, with longer and longer pauses:
// the replica that is read from may lag behind the one that is written to.
const (
	maxClaims  = 10
	claimAgain = 20 * time.Millisecond
)

// claim hydrates the session and takes it. The claim is the read barrier: a
// conflict says that there is more to read, and success that everything was. It
// reports whether there is a session at all.
func (d *Driver) claim(ctx context.Context) (exists bool, err error) {
	if err := d.hydrate(ctx); err != nil {
		return false, err
	}
	if d.head.Seq == 0 {
		starts, err := d.starts(ctx)
		if err != nil || !starts {
			return false, err
		}
	}
	for n := range maxClaims {
		if d.state.Deleted != nil {
			return d.refuseAll(ctx, events.Refused{
				Reason: loop.ReasonDeleted, Detail: fmt.Sprintf("session %s %s", d.state.Session, d.state.Deleted),
			}, func(jetstream.Message) bool { return false })
		}
		if err := d.dress(d.state.Config); err != nil {
			return false, err
		}
		err := d.decide(ctx, commands.Envelope{
			ID: "claim/" + ulid.Make().String(), Session: d.state.Session, By: d.node.cfg.Name,
			Command: commands.Claim{Node: d.node.cfg.Name, Token: d.token.Reply(), Config: d.outfit.configFor(d.state), Tickets: true},
		})
		if err == nil {
			return true, nil
		}
		if !errors.Is(err, journal.ErrConflict) {
			return false, err
		}
		if !pause(ctx, time.Duration(n)*claimAgain) {
			return false, context.Cause(ctx)
		}
		if err := d.catchUp(ctx); err != nil {
			return false, err
		}
	}
	return false, fmt.Errorf("claim %s: %w: others keep writing", d.state.Session, journal.ErrConflict)
}

// catchUp reads what others wrote, or everything if the head is not one of the
// journal's: then the snapshot that it came from was wrong.
func (d *Driver) catchUp(ctx context.Context) error {
	r := d.node.reader(d.log)
	last, err := d.journal.Last(ctx, d.state.Session)
	switch {
	case errors.Is(err, journal.ErrNotFound), err == nil && last.Guard < d.head.Guard:
		r.Snapshots = nil
		read, err := r.Read(ctx, d.state.Session)
		return d.adopt(read, err)
	case err != nil:
		return fmt.Errorf("hydrate: %w", err)
	}
	read := engine.Replica{State: d.state, Head: d.head, Base: d.snapped, Parked: d.parked}
	err = r.Update(ctx, &read)
	return d.adopt(read, err)
}

// hydrate reads the session.
func (d *Driver) hydrate(ctx context.Context) error {
	read, err := d.node.reader(d.log).Read(ctx, d.token.Session())
	_, d.armed = firstTimer(loop.Pending(read.State))
	return d.adopt(read, err)
}

// adopt makes what was read the driver's session.
func (d *Driver) adopt(read engine.Replica, err error) error {
	d.state, d.head, d.snapped, d.parked = read.State, read.Head, read.Base, read.Parked
	if err != nil {
		return fmt.Errorf("hydrate: %w", err)
	}
	for _, c := range d.state.Cursors {
		d.cursors[c.Lane] = max(d.cursors[c.Lane], c.Seq)
	}
	return nil
}

// starts reports whether a session of whose journal nothing could be read has one,
// or will have: its inbox holds the command that starts it. All other commands are
// refused.
func (d *Driver) starts(ctx context.Context) (bool, error) {
	_, err := d.journal.Last(ctx, d.state.Session)
	if !errors.Is(err, journal.ErrNotFound) {
		return err == nil, err
	}
	opens := func(m jetstream.Message) bool {
		_, ok := m.Envelope.Command.(commands.OpenSession)
		return ok && m.Err == nil
	}
	return d.refuseAll(ctx, events.Refused{Reason: loop.ReasonNoSession, Detail: "no such session"}, opens)
}

// refuseAll refuses everything that the inbox holds, since there is no session for it,
// unless one of them is what makes it one: then it reports true and refuses nothing.
func (d *Driver) refuseAll(ctx context.Context, why events.Refused, unless func(jetstream.Message) bool) (bool, error) {
	var refused []string
	cursors := make(map[events.Lane]uint64)
	for m, err := range d.inbox.All(ctx, d.state.Session, d.cursorList()) {
		if err != nil {
			return false, fmt.Errorf("read inbox: %w", err)
		}
		if unless(m) {
			return true, nil
		}
		refused, cursors[m.Lane] = append(refused, m.Envelope.ID), m.Seq
	}
	maps.Copy(d.cursors, cursors)
	for _, why.Command = range refused {
		d.tell(why)
	}
	return false, nil
}

// park lets an idle session go, in the one order that loses no command: record it,
// empty the inbox, give the token up, see that it is gone, look once more.
func (d *Driver) park(ctx context.Context) (bool, error) {
	if err := d.armDurable(ctx); err != nil {
		return false, err
	}
	err := d.decide(ctx, commands.Envelope{
		ID: "park/" + ulid.Make().String(), Session: d.state.Session, By: d.node.cfg.Name, Command: commands.Park{},
	})
	if _, refused := errors.AsType[*loop.Rejection](err); refused {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return true, d.letGo(ctx)
}

// letGo empties the inbox of what is handled, gives the token up, sees that it is
// gone, and wakes the session again if a command came meanwhile.
func (d *Driver) letGo(ctx context.Context) error {
	if err := d.inbox.Purge(ctx, d.state.Session, d.cursorList(), false); err != nil {
		return fmt.Errorf("purge inbox: %w", err)
	}
	d.lease.stop()
	if !d.lease.fresh() {
		return ErrLeaseLost
	}
	if err := d.token.Done(ctx); err != nil {
		return fmt.Errorf("acknowledge token: %w", err)
	}
	if err := d.token.WaitGone(ctx); err != nil {
		return fmt.Errorf("wait for the token to go: %w", err)
	}
	return d.wakeIfAny(ctx)
}

// purgeEvery is how many commands are taken between two purges of a busy inbox.
const purgeEvery = 256

// tidy purges the commands that the journal says are handled, but for the last one
// of each lane: while work is outstanding the inbox is not empty.
func (d *Driver) tidy(ctx context.Context) {
	if err := d.inbox.Purge(ctx, d.state.Session, d.state.Cursors, true); err != nil {
		d.log.Warn("handled commands could not be purged", zap.Error(err))
	}
}

// wakeIfAny wakes the session again if a command came while it was let go.
func (d *Driver) wakeIfAny(ctx context.Context) error {
	any, err := d.inbox.HasAny(ctx, d.state.Session)
	if err != nil {
		return fmt.Errorf("look into the inbox: %w", err)
	}
	if !any {
		return nil
	}
	if err := d.node.runs.Wake(ctx, d.state.Session); err != nil {
		return fmt.Errorf("wake: %w", err)
	}
	return nil
}

// armDurable leaves the first timer of a parked session to the server, and takes those
// away that it may have from before. The driver whom that one wakes has all of them in
// its own hands, and leaves the next one when it parks: so parking costs the same
// however many calls of a session have deadlines.
func (d *Driver) armDurable(ctx context.Context) error {
	if d.armed {
		if err := d.node.cell.Timers().DisarmAll(ctx, d.state.Session); err != nil {
			return fmt.Errorf("disarm timers: %w", err)
		}
	}
	first, found := firstTimer(loop.Pending(d.state))
	d.armed = found
	if !found {
		return nil
	}
	env := commands.Envelope{
		ID: first.Identity(), Session: d.state.Session, By: "timer",
		Command: commands.ReportTimer{Kind: first.Kind, ID: first.ID},
	}
	if err := d.node.cell.Timers().Arm(ctx, d.state.Session, first.Kind+"-"+first.ID, due(first), env); err != nil {
		return fmt.Errorf("arm timer %s: %w", first.Identity(), err)
	}
	return nil
}

// firstTimer is the one that is due first.
func firstTimer(owed []loop.Effect) (first loop.ArmTimer, found bool) {
	for _, e := range owed {
		if t, ok := e.(loop.ArmTimer); ok && (!found || due(t).Before(due(first))) {
			first, found = t, true
		}
	}
	return first, found
}

// putSnapshot keeps the state, so that the next driver need not read everything.
func (d *Driver) putSnapshot(ctx context.Context) {
	raw, err := snapshot.Encode(d.state)
	if err == nil {
		err = d.node.cell.Snapshots().Put(ctx, d.state.Session, journal.Snapshot{Head: d.head, State: raw})
	}
	if err != nil {
		d.log.Warn("snapshot not kept", zap.Error(err))
		return
	}
	d.snapped = d.head.Seq
}
