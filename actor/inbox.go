package actor

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"go.uber.org/zap"

	"github.com/turnlog/turnlog/commands"
	"github.com/turnlog/turnlog/engine"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/internal/logfield"
	"github.com/turnlog/turnlog/jetstream"
	"github.com/turnlog/turnlog/schedule"
)

// receive handles a live command. If an earlier one may be missing, it reads the inbox.
func (d *driver) receive(ctx context.Context, m jetstream.Message) error {
	switch {
	case d.inbox.Old(m):
		return nil
	case !d.inbox.Follows(m):
		return d.readInbox(ctx)
	}
	if err := d.take(ctx, m); err != nil {
		return err
	}
	if len(d.overtaken) > 0 {
		return d.readInbox(ctx)
	}
	return d.sync(ctx)
}

// readInbox handles the unread commands and only then performs effects: the last report may be
// the result of a call that the first one would start.
func (d *driver) readInbox(ctx context.Context) error {
	if err := d.handleInbox(ctx); err != nil {
		return err
	}
	d.caughtUp(ctx)
	return d.sync(ctx)
}

// caughtUp ends the takeover of the session once its inbox is handled.
func (d *driver) caughtUp(ctx context.Context) {
	if len(d.unread) == 0 {
		d.trial.survived(ctx)
	}
}

// maxUnread is how many commands of a lane are handled before effects are performed and timers and
// reports of effects get their turn.
const maxUnread = 256

// handleInbox handles the commands after the cursors. The lane of reports is read to its end;
// other lanes are read in bounded chunks.
func (d *driver) handleInbox(ctx context.Context) error {
	for again := true; again; {
		overtaken := len(d.overtaken)
		for m, err := range d.inbox.Read(ctx, maxUnread) {
			if err != nil {
				return fmt.Errorf("read inbox: %w", err)
			}
			if m.More {
				signal(d.unread)
			}
			if err := d.take(ctx, m); err != nil {
				return err
			}
		}
		again = len(d.overtaken) > overtaken
	}
	for _, id := range d.overtaken { // a worker refused it, so it did not run
		delete(d.queued, id)
	}
	d.forget(d.overtaken...)
	d.overtaken = nil
	return nil
}

// signal makes a channel of capacity one ready.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default: // it is ready
	}
}

// purgeEvery is how many commands are taken between two purges of a busy inbox.
const purgeEvery = 256

// take decides one command and moves its lane's cursor: in the entry that it causes, or else in
// memory until the next entry.
func (d *driver) take(ctx context.Context, m jetstream.Message) error {
	if d.taken++; d.taken%purgeEvery == 0 {
		d.purgeHandled(ctx)
	}
	count := d.node.cfg.Metrics.CommandHandled
	if m.Lane == events.LaneReport && !d.mayReport(m.Ticket) {
		d.inbox.Take(m)
		d.warn("report without the ticket of a call skipped", logfield.Seq(m.Seq))
		count("report", "forged")
		return nil
	}
	d.trial.step()
	defer d.trial.stepped(ctx)
	if err := d.node.cell.Inbox().Open(ctx, &m); err != nil {
		return fmt.Errorf("read inbox: %w", err)
	}
	d.inbox.Take(m)
	if m.Err != nil {
		d.warn("bad command skipped", logfield.Seq(m.Seq), zap.Error(m.Err))
		count("bad", "passed_over")
		return d.failReported(ctx, m)
	}
	m.Envelope.User = m.User
	env, name := m.Envelope, commands.NameOf(m.Envelope.Command)
	if m.Lane == events.LaneReport && !d.hasTicket(m) {
		d.warn("report without the ticket of its call skipped", logfield.Seq(m.Seq), logfield.Cause(env.ID))
		count("report", "forged")
		return nil
	}
	if r, ok := env.Command.(commands.ReportOvertaken); ok {
		if err := d.takeOvertaken(ctx, r); err != nil {
			return err
		}
	}
	before := d.Head.Seq
	err := d.checkVerdict(&env)
	if err == nil {
		err = d.decide(ctx, env)
	}
	r, refused := errors.AsType[*commands.Rejection](err)
	switch {
	case refused:
		count(name, "refused")
		d.Publish(events.Refused{Command: env.ID, Reason: r.Reason, Detail: r.Detail})
		if schedule.KeyOf(env.ID) != "" {
			d.node.firing.Refused(ctx, env.ID, r)
		}
		return nil
	case err == nil && d.Head.Seq == before:
		count(name, "ignored")
		if commands.IsAsk(env.Command) && !d.State.Handled(env.ID) {
			d.Publish(events.Refused{Command: env.ID}) // without a reason: it had no effect
		}
	}
	return err
}

// warn logs what a sender did wrong, within the bounds of the node's log.
func (d *driver) warn(message string, fields ...zap.Field) {
	d.node.sparse.Line(d.log, zap.WarnLevel, message, fields...)
}

// report handles the report of an effect. A timer that is early, because a clock was set back, is
// armed again.
func (d *driver) report(ctx context.Context, r engine.Report) error {
	if _, ok := r.Command.(commands.ReportTimer); ok {
		d.performer.Forget(r.Cause)
	}
	d.trial.step()
	err := d.decide(ctx, d.envelope(r.Cause, r.Command))
	d.trial.stepped(ctx)
	if err != nil {
		return err
	}
	if d.notHere(r.Command) {
		return errNotHere
	}
	return d.sync(ctx)
}

// envelope returns the envelope of a command of the driver's own.
func (d *driver) envelope(id string, c commands.Command) commands.Envelope {
	return commands.Envelope{ID: id, Session: d.State.Session, By: d.node.cfg.Name, Command: c}
}

// purgeHandled purges the handled commands, except the last one of each lane: while work is
// outstanding the inbox is not empty.
func (d *driver) purgeHandled(ctx context.Context) {
	if err := d.inbox.Purge(ctx, true); err != nil {
		d.log.Warn("handled commands not purged", zap.Error(err))
	}
}

// movedCursors returns the cursors that the journal does not have yet.
func (d *driver) movedCursors() []events.Cursor {
	return slices.DeleteFunc(d.inbox.Cursors(), func(c events.Cursor) bool {
		return c.Seq == 0 || slices.Contains(d.State.Cursors, c)
	})
}
