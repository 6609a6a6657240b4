package jetstream

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/jetstream/internal/api"
	"github.com/turnlog/turnlog/jetstream/internal/layout"
	"github.com/turnlog/turnlog/worker/task"
)

// DirectLease is the lease of a direct call: one that a driver sent to a worker without storing it. The worker
// renews it, and the node that no longer hears of the call dispatches it. It is short because such a call may
// run twice.
const DirectLease = 6 * time.Second

// SendDirectly sends x, which may run twice, to a worker of its queue without storing it, and reports whether it
// did. The worker tells the node whether it holds the call, see Hear. A large task is not sent.
func (t *Tasks) SendDirectly(ctx context.Context, x task.Task, node string) bool {
	data, err := encodeValue(&x)
	if err != nil || len(data) > maxInline {
		return false
	}
	msg, err := t.message(ctx, x, t.cell.names.Call(x.Queue, x.Session, x.Place), data)
	if err != nil || !t.cell.nc.IsConnected() { // it must not arrive after it was dispatched, or canceled
		return false
	}
	msg.Header[layout.HeaderHeld] = []string{node}
	msg.Reply = t.cell.names.Unheard(node, x.Ticket)
	return t.cell.nc.PublishMsg(msg) == nil
}

// Probed is the ticket of a probe. No queue can have this name.
const Probed = "~"

// Probe finds out whether this user may send calls directly, and the server says if no worker is subscribed. If so,
// the node hears that none holds the call Probed.
func (t *Tasks) Probe(node string) {
	_ = t.cell.nc.PublishRequest(t.cell.names.Call(Probed, Probed, Probed), t.cell.names.Unheard(node, Probed), nil) // the connection may be gone
}

// Ask asks all workers of a queue whether one of them holds x as a direct call. Only that one answers.
func (t *Tasks) Ask(x task.Task, node string) {
	_ = t.notify(x.Session, cancelNotice{Asks: x.Queue, Place: x.Place, Node: node}) // the connection may be gone
}

// Hear calls f with what the node learns about calls, each named by its ticket, until ctx ends: whether a worker
// holds it. None does if none is subscribed.
func (t *Tasks) Hear(ctx context.Context, node string, f func(ticket string, held bool)) error {
	said := func(msg *nats.Msg) {
		if ticket := msg.Header.Get(layout.HeaderTicket); ticket != Probed && !api.IsSpoofed(msg.Header) {
			f(ticket, msg.Header.Get(layout.HeaderHeld) == strconv.FormatBool(true))
		}
	}
	unheard := func(msg *nats.Msg) { // from the server, since others do not know the ticket
		f(strings.TrimPrefix(msg.Subject, t.cell.names.Unheard(node, "")), false)
	}
	for subject, hear := range map[string]nats.MsgHandler{t.cell.names.Held(node): said, t.cell.names.Unheard(node, "*"): unheard} {
		sub, err := t.cell.nc.Subscribe(subject, hear)
		if err != nil {
			return fmt.Errorf("listen to workers: %w", err)
		}
		context.AfterFunc(ctx, func() { _ = sub.Unsubscribe() }) // the connection may be gone
	}
	return nil
}

// say tells a node whether this worker holds the call with a ticket.
func (c *Cell) say(node, ticket string, held bool) error {
	if !content.IsToken(node) {
		return fmt.Errorf("%w: node %q", content.ErrBadID, node) // a forged call
	}
	msg := nats.NewMsg(c.names.Held(node))
	msg.Header[layout.HeaderTicket], msg.Header[layout.HeaderHeld] = []string{ticket}, []string{strconv.FormatBool(held)}
	return c.nc.PublishMsg(msg) //nolint:wrapcheck // callers say what it was about
}

// receive takes a direct call if a slot is free for it. Otherwise it declines, and the driver dispatches the
// call. A server's reply that a user directed here, or anything else that no driver sends, is dropped.
func (q *Queue) receive(msg *nats.Msg) {
	msg.Reply = "" // it is for the server, which answers there if no worker is subscribed
	if !api.IsSpoofed(msg.Header) && msg.Header.Get(layout.HeaderTicket) != "" && !q.tasks.Offer(msg) {
		q.decline(msg)
	}
}

// isDirect reports whether a task is a direct call. Any other comes from the queue, and can be acknowledged.
func isDirect(msg *nats.Msg) bool { return msg.Reply == "" }

// isDirect reports whether the claim is of a direct call.
func (c *claim) isDirect() bool { return c.reply == "" }

func (q *Queue) decline(msg *nats.Msg) {
	_ = q.cell.say(msg.Header.Get(layout.HeaderHeld), msg.Header.Get(layout.HeaderTicket), false) // if it is lost, the lease ends
}

// confirm tells a node that asks for the holder of a direct call that this worker has the call, if it does, now
// and with each renewal.
func (q *Queue) confirm(n cancelOf) {
	ticket := ""
	q.mu.Lock()
	for c := range q.held {
		if n.matches(c) && c.isDirect() {
			c.node, ticket = n.Node, c.task.Ticket
		}
	}
	q.mu.Unlock()
	if ticket != "" {
		_ = q.cell.say(n.Node, ticket, true) // if it is lost, the call runs twice
	}
}

// answer tells the queue, or the node that waits for a direct call, whether this worker keeps the call. It waits
// until the server has that: the lease of a worker that is cut off must end.
func (c *claim) answer(ctx context.Context, keeps bool) error {
	cell := c.queue.cell
	if !c.isDirect() {
		word := api.Nak
		if keeps {
			word = api.Progress
		}
		return cell.api.Answer(ctx, c.reply, word)
	}
	c.queue.mu.Lock()
	_, held := c.queue.held[c]
	node := c.node
	c.queue.mu.Unlock()
	if keeps && !held {
		return task.ErrGone
	}
	return errors.Join(cell.say(node, c.task.Ticket, keeps), cell.nc.FlushWithContext(ctx))
}
