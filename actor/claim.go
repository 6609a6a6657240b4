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

// A claim that conflicts with other writers is retried, with longer and longer pauses: a replica that lags
// may serve stale reads.
const (
	maxClaims  = 10
	claimAgain = 20 * time.Millisecond
)

// claim reads the session and takes it. Appending the claim is the read barrier: a conflict means that there
// is more to read, and success means that everything was read. So it does not matter if a read came from a
// replica that lags, or if a journal that was empty no longer is. It reports whether the session exists.
func (d *driver) claim(ctx context.Context, empty bool) (exists bool, err error) {
	r := d.node.readerOf(d.node.cell.Journal().ForAppend(), d.log)
	if !empty {
		if err := d.adopt(r.Read(ctx, d.token.Session())); err != nil {
			return false, err
		}
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
			all, _, err := d.unhandled(ctx, func(jetstream.Message) bool { return false })
			d.refuse(all, events.Refused{
				Reason: commands.ReasonDeleted, Detail: fmt.Sprintf("session %s %s", d.State.Session, d.State.Deleted),
			})
			return false, err
		}
		if err := d.bind(d.State.Config); err != nil {
			return false, err
		}
		claim := commands.Claim{
			Node: d.node.cfg.Name, Token: d.token.Reply(), Config: d.agent.Load().changed(d.State), Tickets: true,
			Key: d.node.cfg.Key.ID(), Keys: d.node.proofs.Version(), Checked: proof.Checked(r.Journal),
			RetriedBy: d.trial.RetriedBy().By, User: d.trial.RetriedBy().User,
		}
		lost := d.callsHere() // calls in the last driver's process ended with it
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
			d.trial.Recorded(ctx)
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
	return false, fmt.Errorf("claim %s: %w: other drivers keep writing", d.State.Session, journal.ErrConflict)
}

// catchUp reads entries that other drivers wrote. If the head is not in the journal, it came from a wrong
// snapshot, so the whole journal is read.
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

// adopt makes the driver continue from a session that was read.
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

// starts reports whether a session without a readable journal exists, or will exist because its inbox holds
// the command that opens it. Without that command, all others are refused.
func (d *driver) starts(ctx context.Context) (bool, error) {
	all, opens, err := d.unhandled(ctx, func(m jetstream.Message) bool {
		_, ok := m.Envelope.Command.(commands.OpenSession)
		return ok && m.Err == nil
	})
	if opens || err != nil {
		return opens, err
	}
	_, err = d.node.cell.Journal().Last(ctx, d.State.Session) // read after the inbox, since no append guards the refusals
	if !errors.Is(err, journal.ErrNotFound) {
		return err == nil, err
	}
	d.refuse(all, events.Refused{Reason: commands.ReasonNoSession, Detail: "no such session"})
	return false, nil
}

// unhandled returns the commands in the inbox, up to one that is accepted, and whether there is one.
func (d *driver) unhandled(ctx context.Context, accept func(jetstream.Message) bool) (all []jetstream.Message, accepted bool, err error) {
	for m, err := range d.inbox.Read(ctx, 0) {
		if err == nil && m.Lane != events.LaneReport { // a report would be about a call, and there is none
			err = d.node.cell.Inbox().Open(ctx, &m)
		}
		if err != nil {
			return nil, false, fmt.Errorf("read inbox: %w", err)
		}
		if accept(m) {
			return nil, true, nil
		}
		id := commands.Envelope{ID: m.Envelope.ID} // only the ID: together the commands may take any amount of memory
		all = append(all, jetstream.Message{Lane: m.Lane, Seq: m.Seq, At: m.At, Err: m.Err, Envelope: id})
	}
	return all, false, nil
}

// refuse refuses commands because their session does not exist.
func (d *driver) refuse(all []jetstream.Message, why events.Refused) {
	for _, m := range all {
		if d.inbox.Take(m); m.Lane != events.LaneReport {
			why.Command = m.Envelope.ID
			d.Publish(why)
		}
	}
}
