package actor

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"

	"go.uber.org/zap"

	"github.com/turnlog/turnlog/commands"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/events/journal"
	"github.com/turnlog/turnlog/internal/logfield"
	"github.com/turnlog/turnlog/jetstream"
	"github.com/turnlog/turnlog/loop"
	"github.com/turnlog/turnlog/tool"
)

// recover finds out which open calls are on their queues, then reads the inbox, and only then lets the others
// be dispatched again. In any other order a call could run twice: a worker reports before it takes its task
// off the queue. Without open calls there are no such reports, and what was found in the inbox before the
// claim is enough: live copies of later commands arrive.
//
// First it fences off the tasks that the last driver may still publish.
func (d *driver) recover(ctx context.Context) error {
	if err := d.fence(ctx); err != nil {
		return err
	}
	calls := d.openCalls()
	gone, err := d.gone(ctx, calls)
	if err != nil {
		return err
	}
	if len(calls) > 0 {
		d.inbox.LookAgain()
	}
	d.askWorkers(calls, gone)
	return d.redispatch(ctx, gone...)
}

// askWorkers asks which workers hold calls that the last driver sent directly, so that those do not run twice.
func (d *driver) askWorkers(calls []loop.RunTool, gone []string) {
	if d.State.Epoch <= 1 {
		return
	}
	for _, e := range calls {
		if mayBeDirect(e.Call) && slices.Contains(gone, e.Identity()) {
			x := d.taskOf(e)
			x.Ticket = d.node.tickets.Of(x.Session, x.Place, x.Attempt)
			d.node.direct.Ask(x)
		}
	}
}

// recheck looks for the dispatched calls on their queues. A call that is gone without a report is dispatched
// again.
func (d *driver) recheck(ctx context.Context) error {
	if d.callsNothing() {
		return nil
	}
	open := slices.DeleteFunc(d.openCalls(), func(e loop.RunTool) bool { return !d.performer.Done(e.Identity()) })
	gone, err := d.gone(ctx, open)
	if err != nil || len(gone) == 0 {
		return err
	}
	for _, id := range gone {
		d.queued[id] = true
		d.vanished[id]++
	}
	return d.redispatch(ctx, gone...)
}

// gone returns the calls that are not on their queues, and so must be dispatched again.
func (d *driver) gone(ctx context.Context, calls []loop.RunTool) (gone []string, err error) {
	for _, e := range calls {
		queued, err := d.node.tasks.Queued(ctx, d.taskOf(e))
		if err != nil {
			return nil, fmt.Errorf("look for %s on its queue: %w", e.Call.Place, err)
		}
		if queued {
			d.performer.Skip(e.Identity())
		} else {
			gone = append(gone, e.Identity())
		}
	}
	return gone, nil
}

// redispatch lets calls that are not on their queues be dispatched, unless the inbox holds their reports.
func (d *driver) redispatch(ctx context.Context, ids ...string) error {
	if err := d.handleInbox(ctx); err != nil {
		return err
	}
	if err := d.loseTaken(ctx, ids); err != nil {
		return err
	}
	d.forget(ids...)
	return d.sync(ctx)
}

// forget lets calls be dispatched again.
func (d *driver) forget(ids ...string) {
	for _, id := range ids {
		d.performer.Forget(id)
	}
}

// callsNothing reports cheaply whether there can be no open call.
func (d *driver) callsNothing() bool {
	return d.State.Turn == nil && d.State.Task == nil && len(d.State.Background)+len(d.State.Stops) == 0
}

// openCalls returns the calls that wait for workers outside this process.
func (d *driver) openCalls() []loop.RunTool {
	var out []loop.RunTool
	for _, e := range d.allOwed() {
		if c, ok := e.(loop.RunTool); ok && !unplaced(c.Call) && !runsHere(c.Call) {
			out = append(out, c)
		}
	}
	return out
}

// fence keeps workers from starting the tasks of earlier drivers, published or not, if an open call must not
// run twice.
func (d *driver) fence(ctx context.Context) error {
	once := func(e loop.RunTool) bool { return !e.Call.Routing.Effects.Retryable() }
	if d.State.Epoch <= 1 || !slices.ContainsFunc(d.openCalls(), once) {
		return nil
	}
	if err := d.node.cell.Tasks().Fence(ctx, d.token.Session(), d.State.Epoch); err != nil {
		return fmt.Errorf("fence off earlier drivers: %w", err)
	}
	return nil
}

// handleOvertaken removes a task that a worker refused because an earlier driver dispatched it: the worker may
// have died before it removed the task from its queue. The call is dispatched again once the inbox has been
// read to its end, since this driver's own task may have run in the meantime.
func (d *driver) handleOvertaken(ctx context.Context, r commands.ReportOvertaken) error {
	for _, e := range d.openCalls() {
		if e.Call.Place != r.Place || e.Call.Attempt != r.Attempt {
			continue
		}
		gone, err := d.node.cell.Tasks().TakeOff(ctx, d.taskOf(e), r.Task)
		if err != nil {
			return err
		}
		if !gone {
			continue
		}
		// A worker also refuses this driver's tasks once another driver has taken its place. This driver would
		// dispatch again as fast as the worker refuses, until its lease is over.
		last, err := d.node.cell.Journal().Last(ctx, d.State.Session)
		switch {
		case err != nil:
			return err
		case last.Entry.Epoch > d.State.Epoch:
			return fmt.Errorf("call %s was refused: epoch %d has begun: %w", r.Place, last.Entry.Epoch, journal.ErrConflict)
		}
		d.overtaken = append(d.overtaken, e.Identity())
	}
	return nil
}

// A report counts only with the ticket of its dispatch, which only the worker that got the task from its
// queue has. The journal records which calls were dispatched by a node without tickets; those need none.
//
// A report without a ticket is skipped. It is probably forged, but it may come from a worker of a release
// without tickets, which then takes the task off its queue. If the task is gone after such a report, and the
// call must not run twice, the attempt is lost: it may have started.

// mayReport reports whether a command in the lane of reports can be about a call of the session. It reads
// only the ticket, because the rest may be hostile. If there is no ticket, it remembers the calls that are
// running.
func (d *driver) mayReport(ticket string) bool {
	if _, _, ok := d.reporter(ticket); ok {
		return true
	}
	for c := range d.calls() {
		switch {
		case c.Attempt > 0 && !c.Ticketed:
			return true
		case ticket == "" && c.Running():
			d.doubtCall(c)
		}
	}
	return false
}

// rememberRefused remembers the call of a refused report: its worker may have taken the task off its queue.
func (d *driver) rememberRefused(report commands.Command) {
	place, _ := reportedOn(report)
	if c, ok := d.State.CallAt(place); ok && c.Running() {
		d.doubtCall(c)
	}
}

func (d *driver) doubtCall(c *loop.Call) {
	if d.unproven == nil {
		d.unproven = make(map[string]bool)
	}
	d.unproven[loop.RunTool{Session: d.State.Session, Call: *c}.Identity()] = true
}

// reporter returns the call and the attempt that a ticket belongs to.
func (d *driver) reporter(ticket string) (of loop.Call, attempt int, ok bool) {
	fits := func(p content.Place, attempt int) bool {
		return d.node.tickets.Fits(ticket, d.State.Session, p, attempt)
	}
	for c := range d.calls() {
		for n := c.Attempt; n > 0; n-- {
			if fits(c.Place, n) {
				return *c, n, true
			}
		}
	}
	if t := d.State.Task; t != nil && d.State.Turn != nil {
		for n := t.Attempts; n > 0; n-- {
			if p := content.VerifierPlace(d.State.Turn.N, n); fits(p, 1) {
				return loop.Call{ToolCall: content.ToolCall{Place: p, Name: loop.VerifierTool}}, 1, true
			}
		}
	}
	return of, 0, false
}

// calls yields the calls whose reports may still matter.
func (d *driver) calls() iter.Seq[*loop.Call] {
	return func(yield func(*loop.Call) bool) {
		var round []loop.Call
		if d.State.Turn != nil {
			round = d.State.Turn.Calls
		}
		for _, calls := range [...][]loop.Call{round, d.State.Stops, d.State.Background} {
			for i := range calls {
				if !yield(&calls[i]) {
					return
				}
			}
		}
	}
}

// hasTicket reports whether a report comes from the worker that got the task of the call that it names, or
// needs no ticket.
func (d *driver) hasTicket(m jetstream.Message) bool {
	place, attempt := reportedOn(m.Envelope.Command)
	if d.node.tickets.Fits(m.Ticket, d.State.Session, place, attempt) {
		return true
	}
	for c := range d.calls() {
		if c.Place == place {
			return !c.Ticketed
		}
	}
	return false
}

// unusable returns the answer for a call whose worker sent a report that cannot be used: the task is done and
// no other report will come. It returns nothing if the message is something else.
func (d *driver) unusable(m jetstream.Message) (none commands.Envelope) {
	c, attempt, ok := d.reporter(m.Ticket)
	if !ok || m.Lane != events.LaneReport || !errors.Is(m.Err, commands.ErrBadCommand) {
		return none
	}
	r := content.NewResult(c.ID, c.Name, content.StatusError, "Tool failed: its worker's report cannot be used: "+m.Err.Error())
	r.Code = "bad_report"
	return d.envelope(fmt.Sprintf("unusable/%s/%d", c.Place, attempt), commands.ReportResult{
		Place: c.Place, Attempt: attempt, Queue: c.Routing.Queue, Outcome: tool.Result{Result: r},
	})
}

// reportedOn returns the call and attempt that a worker's report is about.
func reportedOn(c commands.Command) (content.Place, int) {
	switch r := c.(type) { //nolint:gochecksumtype // other commands are not reports of workers
	case commands.ReportResult:
		return r.Place, r.Attempt
	case commands.ReportAttemptLost:
		return r.Place, r.Attempt
	case commands.ReportOvertaken:
		return r.Place, r.Attempt
	case commands.ReportQuestion:
		return r.Place, r.Attempt
	}
	return "", 0
}

// maxVanished is how often a task may be gone from its queue without a report. A stream may lose a task, or
// someone may remove it. But a worker that takes the node's tasks for forged refuses every one of them.
const maxVanished = 5

// loseTaken reports attempts as lost if the calls must not run twice, and their tasks were taken off the queues
// without a report that counts: one came without its ticket, or none came. Or the queue lost a task too often.
func (d *driver) loseTaken(ctx context.Context, ids []string) error {
	for _, e := range d.openCalls() {
		id, c, reason := e.Identity(), e.Call, ""
		switch {
		case !slices.Contains(ids, id):
		case d.unproven[id] && !c.Routing.Effects.Retryable():
			reason = "the task is gone after a report without its ticket or signature: its worker has none, or the report was forged"
		case d.queued[id] && !c.Routing.Effects.Retryable():
			reason = "the task was on its queue and is gone without a report: the call may have run"
		case d.vanished[id] >= maxVanished:
			reason = fmt.Sprintf("the task was gone from its queue %d times without a report: a worker that checks signatures refuses those of a node without --sign-key, and logs it", maxVanished)
		}
		if reason == "" {
			continue
		}
		d.log.Warn("call is missing from its queue", zap.String("place", string(c.Place)), zap.String("reason", reason))
		err := d.decide(ctx, d.envelope("unproven/"+id, commands.ReportAttemptLost{
			Place: c.Place, Attempt: c.Attempt, Queue: c.Routing.Queue, Reason: reason, Last: d.vanished[id] >= maxVanished,
		}))
		if err != nil {
			return err
		}
	}
	clear(d.unproven)
	clear(d.queued)
	return nil
}

// losses wakes the sessions that streams have forgotten. A stream that lost messages, in a power failure or
// because it was restored from a backup or created again, no longer wakes the sessions that wait for its
// timers and tasks. A shorter stream shows the loss, unless it happened while no node ran or during a
// reconnect. After those, the node looks for such sessions, too.
type losses struct {
	node      *Node
	suspected bool
	ends      jetstream.Ends
	connects  uint64
}

// recover looks for losses, and wakes the sessions that they affect. The first node by name does so. The
// others remember the suspicion, in case that node dies.
func (l *losses) recover(ctx context.Context, ends jetstream.Ends) error {
	runs := l.node.runs
	connects := l.node.cell.Conn().Stats().Reconnects
	l.suspected = l.suspected || connects != l.connects || ends.Lost(l.ends)
	l.connects, l.ends = connects, ends
	if !l.suspected {
		return nil
	}
	records, err := l.node.cell.Nodes().List(ctx)
	if err != nil {
		return err
	}
	for _, r := range records {
		if r.Node < l.node.cfg.Name {
			return nil
		}
	}
	forgotten, err := runs.Forgotten(ctx)
	if err != nil {
		return err
	}
	for _, s := range forgotten {
		l.node.log.Warn("session with a lost wake woken", logfield.Session(s))
		if err := runs.Wake(ctx, s); err != nil {
			return err
		}
	}
	l.suspected = false
	return nil
}
