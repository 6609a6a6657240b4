package actor

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"

	"github.com/nats-io/nats.go"
	"go.uber.org/zap"

	"github.com/turnlog/turnlog/commands"
	"github.com/turnlog/turnlog/commands/schedule"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/engine"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/internal/logfield"
	"github.com/turnlog/turnlog/jetstream"
	"github.com/turnlog/turnlog/loop"
)

// receive handles a live command and those that arrived after it. If an earlier command may be missing, it
// reads the inbox.
func (d *driver) receive(ctx context.Context, raw *nats.Msg) error {
	missed := false
	err := d.handleAll(ctx, func(yield func(jetstream.Message, error) bool) {
		for raw := range ready(raw, d.live.C()) {
			m := d.live.Message(raw)
			switch {
			case d.inbox.Old(m):
			case !d.inbox.Follows(m):
				missed = true
				return
			case !yield(m, nil):
				return
			}
		}
	})
	if err != nil {
		return err
	}
	if missed || len(d.overtaken) > 0 {
		return d.readInbox(ctx)
	}
	return d.sync(ctx)
}

// ready yields a message and those that are ready after it.
func ready(raw *nats.Msg, more <-chan *nats.Msg) iter.Seq[*nats.Msg] {
	return func(yield func(*nats.Msg) bool) {
		for n := 0; raw != nil && n < maxUnread && yield(raw); n++ {
			select {
			case raw = <-more:
			default:
				raw = nil
			}
		}
	}
}

// readInbox handles the unread commands and only then performs effects: the last report may be the result of
// a call that the first one would start.
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
		d.trial.Survived(ctx)
	}
}

// maxUnread is how many commands of a lane are handled before effects are performed, and timers and reports
// of effects get their turn.
const maxUnread = 256

// handleInbox handles the commands after the cursors. It reads the lane of reports to its end, and other
// lanes in bounded chunks.
func (d *driver) handleInbox(ctx context.Context) error {
	for again := true; again; {
		overtaken := len(d.overtaken)
		if err := d.handleAll(ctx, d.inbox.Read(ctx, maxUnread)); err != nil {
			return err
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
	default: // already ready
	}
}

// purgeEvery is how many commands are handled between two purges of a busy inbox.
const purgeEvery = 256

// handleAll decides commands and moves their lanes' cursors. A cursor is recorded in the entry that its command
// causes, or else kept in memory until the next entry.
func (d *driver) handleAll(ctx context.Context, all iter.Seq2[jetstream.Message, error]) error {
	var ready results
	for m, err := range all {
		if err != nil {
			return fmt.Errorf("read inbox: %w", err)
		}
		if m.More {
			signal(d.unread)
		}
		if d.handled-d.purged >= purgeEvery && len(ready) == 0 {
			d.purged = d.handled
			d.purgeHandled(ctx)
		}
		if err := d.handleMessage(ctx, m, &ready); err != nil {
			return err
		}
	}
	d.trial.Step()
	defer d.trial.Stepped(ctx)
	return d.handleResults(ctx, &ready)
}

// handleMessage decides a command after the results that came before it, or adds it to those results.
func (d *driver) handleMessage(ctx context.Context, m jetstream.Message, ready *results) error {
	d.trial.Step()
	defer d.trial.Stepped(ctx)
	env, err := d.open(ctx, &m)
	if err == nil && !ready.add(d.State, env) {
		err = d.handleResults(ctx, ready)
	}
	if err != nil {
		return err
	}
	switch {
	case !m.Direct():
		d.inbox.Take(m) // not earlier, or the entry of the results would include its cursor
		d.handled++
	case env.Command != nil:
		d.direct = append(d.direct, directReport{m, env.Command, awaits(d.State, env.Command)})
	}
	switch {
	case len(*ready) == maxResults:
		return d.handleResults(ctx, ready)
	case len(*ready) > 0 || env.Command == nil:
		return nil
	}
	return d.handleCommand(ctx, env)
}

// open opens a message and returns its command, or none if the message is skipped.
func (d *driver) open(ctx context.Context, m *jetstream.Message) (none commands.Envelope, err error) {
	count := d.node.cfg.Metrics.CommandHandled
	if m.Lane == events.LaneReport && !d.mayReport(m.Ticket) {
		d.warn("report without the ticket of a call skipped", logfield.Seq(m.Seq))
		count("report", "forged")
		return none, nil
	}
	if err := d.node.cell.Inbox().Open(ctx, m); err != nil {
		return none, fmt.Errorf("read inbox: %w", err)
	}
	if m.Err != nil {
		d.warn("bad command skipped", logfield.Seq(m.Seq), zap.Error(m.Err))
		count("bad", "passed_over")
		return d.unusable(*m), nil //nolint:nilerr // logged above
	}
	m.Envelope.User, m.Envelope.Baggage = m.User, m.Baggage
	if m.Lane == events.LaneReport && !d.hasTicket(*m) {
		d.warn("report without the ticket of its call skipped", logfield.Seq(m.Seq), logfield.Cause(m.Envelope.ID))
		count("report", "forged")
		return none, nil
	}
	env, err := d.node.proofs.Sent(*m, d.State)
	if err != nil {
		d.warn("command refused: its signature is wrong", logfield.Seq(m.Seq), logfield.Cause(m.Envelope.ID), zap.Error(err))
		if m.Lane == events.LaneReport {
			d.rememberRefused(m.Envelope.Command)
		} else {
			d.refused(ctx, env.ID, &commands.Rejection{Reason: commands.ReasonForged, Detail: err.Error()})
		}
		return none, nil
	}
	return env, nil
}

// handleCommand decides a command, and tells its sender if it has no effect.
func (d *driver) handleCommand(ctx context.Context, env commands.Envelope) error {
	if r, ok := env.Command.(commands.ReportOvertaken); ok {
		if err := d.handleOvertaken(ctx, r); err != nil {
			return err
		}
	}
	count, name, before := d.node.cfg.Metrics.CommandHandled, commands.NameOf(env.Command), d.Head.Seq
	err := d.checkVerdict(&env)
	if err == nil {
		err = d.decide(ctx, env)
	}
	r, refused := errors.AsType[*commands.Rejection](err)
	switch {
	case refused:
		count(name, "refused")
		d.refused(ctx, env.ID, r)
		return nil
	case err == nil && d.Head.Seq == before:
		count(name, "ignored")
		if commands.IsAsk(env.Command) && !d.State.Handled(env.ID) {
			d.Publish(events.Refused{Command: env.ID, After: d.Head.Seq}) // no reason: it had no effect
		}
	}
	return err
}

// refused tells the sender of a command, or the schedule that sent it, why the command has no effect.
func (d *driver) refused(ctx context.Context, id string, r *commands.Rejection) {
	d.Publish(events.Refused{Command: id, Reason: r.Reason, Detail: r.Detail, After: d.Head.Seq})
	if schedule.KeyOf(id) != "" {
		d.node.firing.Refused(ctx, id, r)
	}
}

// results are small results that are ready together and share an entry. The entry names only the first one as
// its cause. Each is the first result of a running call, so a repeated one decides to nothing anyway.
type results []commands.Envelope

const (
	maxResults  = 32      // results of workers in an entry, so that it needs no blob
	smallResult = 2 << 10 // bytes
)

// add adds a command if it is such a result, and reports whether it did.
func (r *results) add(s *loop.State, env commands.Envelope) bool {
	c, ok := env.Command.(commands.ReportResult)
	if !ok || !awaits(s, c) {
		return false
	}
	switch c.Outcome.Result.Status {
	case content.StatusOK, content.StatusError, content.StatusDenied:
	default:
		return false
	}
	size := int64(0)
	for _, p := range c.Outcome.Result.Output {
		size += p.Size()
	}
	if size > smallResult {
		return false
	}
	*r = append(*r, env)
	return true
}

// handleResults decides the results that are ready.
func (d *driver) handleResults(ctx context.Context, ready *results) error {
	if len(*ready) == 0 {
		return nil
	}
	env := (*ready)[0]
	for _, next := range (*ready)[1:] {
		env.Also = append(env.Also, next.Command.(commands.ReportResult)) //nolint:forcetypeassert // see add
	}
	*ready = nil
	return d.decide(ctx, env)
}

// warn logs what a sender did wrong, within the limits of the node's log.
func (d *driver) warn(message string, fields ...zap.Field) {
	d.node.sparse.Line(d.log, zap.WarnLevel, message, fields...)
}

// receiveReport handles the report of an effect, and the results that are ready with it. If a timer fires early
// because a clock was set back, it is armed again.
func (d *driver) receiveReport(ctx context.Context, r engine.Report) error {
	d.trial.Step()
	err := d.handleReports(ctx, r)
	d.trial.Stepped(ctx)
	if err != nil {
		return err
	}
	return d.sync(ctx)
}

// handleReports decides the small results that are ready, then the first report that is none.
func (d *driver) handleReports(ctx context.Context, r engine.Report) error {
	var ready results
	for ready.add(d.State, d.envelope(r.Cause, r.Command)) {
		select {
		case r = <-d.performer.Reports():
		default:
			return d.handleResults(ctx, &ready)
		}
	}
	if err := d.handleResults(ctx, &ready); err != nil {
		return err
	}
	if _, ok := r.Command.(commands.ReportTimer); ok {
		d.performer.Forget(r.Cause)
	}
	if err := d.decide(ctx, d.envelope(r.Cause, r.Command)); err != nil {
		return err
	}
	if d.notHere(r.Command) {
		return errNotHere
	}
	return nil
}

// envelope returns the envelope of one of the driver's own commands.
func (d *driver) envelope(id string, c commands.Command) commands.Envelope {
	return commands.Envelope{ID: id, Session: d.State.Session, By: d.node.cfg.Name, Command: c}
}

// purgeHandled purges the handled commands, except the last one of each lane: while work is outstanding, the
// inbox is not empty.
func (d *driver) purgeHandled(ctx context.Context) {
	if err := d.inbox.Purge(ctx, true); err != nil {
		d.log.Warn("handled commands not purged", zap.Error(err))
	}
}

// movedCursors returns the cursors that are not in the journal yet.
func (d *driver) movedCursors() (moved []events.Cursor) {
	for c := range d.inbox.Cursors() {
		if c.Seq != 0 && !slices.Contains(d.State.Cursors, c) {
			moved = append(moved, c)
		}
	}
	return moved
}
