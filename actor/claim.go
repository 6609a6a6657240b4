package actor

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/turnlog/turnlog/actor/internal/proof"
	"github.com/turnlog/turnlog/commands"
	"github.com/turnlog/turnlog/engine"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/events/journal"
	"github.com/turnlog/turnlog/internal/pause"
	"github.com/turnlog/turnlog/jetstream"
	"github.com/turnlog/turnlog/loop"
)

// A claim that conflicts with other writers is retried, with longer and longer pauses: reads may
// come from a replica that lags.
const (
	maxClaims  = 10
	claimAgain = 20 * time.Millisecond
)

// claim reads the session and takes it. The claim is the read barrier: a conflict means that
// there is more to read, success that everything was read. It reports whether the session
// exists.
func (d *driver) claim(ctx context.Context) (exists bool, err error) {
	r := d.node.reader(d.log)
	if err := d.adopt(r.Read(ctx, d.token.Session())); err != nil {
		return false, err
	}
	_, d.armed = firstTimer(loop.Pending(d.State))
	d.queued, d.vanished = make(map[string]bool), make(map[string]int)
	for _, e := range d.openCalls() {
		d.queued[e.Identity()] = d.Parked // a session parks when all its calls are on their queues
	}
	if d.Head.Seq == 0 {
		starts, err := d.starts(ctx)
		if err != nil || !starts {
			return false, err
		}
	}
	for n := range maxClaims {
		if d.State.Deleted != nil {
			return d.refuseAll(ctx, events.Refused{
				Reason: commands.ReasonDeleted, Detail: fmt.Sprintf("session %s %s", d.State.Session, d.State.Deleted),
			}, func(jetstream.Message) bool { return false })
		}
		if err := d.bind(d.State.Config); err != nil {
			return false, err
		}
		claim := commands.Claim{
			Node: d.node.cfg.Name, Token: d.token.Reply(), Config: d.agent.Load().changed(d.State), Tickets: true,
			Key: d.node.cfg.Key.ID(), Keys: d.node.proofs.Version(), Checked: proof.Checked(r.Journal),
			RetriedBy: d.trial.retry.By, User: d.trial.retry.User,
		}
		lost := d.callsHere() // they ended with the last driver
		if d.Restored {       // they may have ended since the backup
			lost = append(lost, d.openCalls()...)
		}
		for _, e := range lost {
			if e.Call.Name != loop.VerifierTool {
				claim.Lost = append(claim.Lost, e.Call.Place)
			}
		}
		err := d.decide(ctx, d.envelope("claim/"+ulid.Make().String(), claim))
		if err == nil {
			d.trial.recorded(ctx)
			return true, nil
		}
		if !errors.Is(err, journal.ErrConflict) {
			return false, err
		}
		if !pause.For(ctx, time.Duration(n)*claimAgain) {
			return false, context.Cause(ctx)
		}
		if err := d.catchUp(ctx, r); err != nil {
			return false, err
		}
	}
	return false, fmt.Errorf("claim %s: %w: others keep writing", d.State.Session, journal.ErrConflict)
}

// catchUp reads the entries of others. If the head is not in the journal, it came from a wrong
// snapshot, and the whole journal is read.
func (d *driver) catchUp(ctx context.Context, r engine.Reader) error {
	last, err := d.node.cell.Journal().Last(ctx, d.State.Session)
	switch {
	case errors.Is(err, journal.ErrNotFound), err == nil && last.Guard < d.Head.Guard:
		r.Snapshots = nil
		return d.adopt(r.Read(ctx, d.State.Session))
	case err != nil:
		return fmt.Errorf("hydrate: %w", err)
	}
	read := d.Replica
	err = r.Update(ctx, &read)
	return d.adopt(read, err)
}

// adopt replaces the driver's session with one that was read.
func (d *driver) adopt(read engine.Replica, err error) error {
	if errors.Is(err, engine.ErrUnclaimed) {
		d.node.cfg.Metrics.CommandHandled("entry", "forged")
	}
	if err != nil {
		return fmt.Errorf("hydrate: %w", err)
	}
	d.Adopt(read)
	d.snapshots.Adopt(read)
	d.inbox.Adopt(read.State.Cursors)
	return nil
}

// starts reports whether a session without a readable journal has one, or will have one because
// its inbox holds the command that opens it. Without that command all others are refused.
func (d *driver) starts(ctx context.Context) (bool, error) {
	_, err := d.node.cell.Journal().Last(ctx, d.State.Session)
	if !errors.Is(err, journal.ErrNotFound) {
		return err == nil, err
	}
	opens := func(m jetstream.Message) bool {
		_, ok := m.Envelope.Command.(commands.OpenSession)
		return ok && m.Err == nil
	}
	return d.refuseAll(ctx, events.Refused{Reason: commands.ReasonNoSession, Detail: "no such session"}, opens)
}

// refuseAll refuses all commands in the inbox, since there is no session for them. If unless
// accepts one of them, refuseAll refuses nothing and reports true.
func (d *driver) refuseAll(ctx context.Context, why events.Refused, unless func(jetstream.Message) bool) (bool, error) {
	var refused []jetstream.Message
	for m, err := range d.inbox.Read(ctx, 0) {
		if err != nil {
			return false, fmt.Errorf("read inbox: %w", err)
		}
		if m.Lane == events.LaneReport { // there is no call that it could be about
			d.inbox.Take(m)
			continue
		}
		if err := d.node.cell.Inbox().Open(ctx, &m); err != nil {
			return false, fmt.Errorf("read inbox: %w", err)
		}
		if unless(m) {
			return true, nil
		}
		m.Envelope = commands.Envelope{ID: m.Envelope.ID} // the commands may take any amount of memory together
		refused = append(refused, m)
	}
	for _, m := range refused {
		d.inbox.Take(m)
		why.Command = m.Envelope.ID
		d.Publish(why)
	}
	return false, nil
}
