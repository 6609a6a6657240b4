package actor

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"go.uber.org/zap"

	"github.com/turnlog/turnlog/agent"
	"github.com/turnlog/turnlog/commands"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/engine"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/events/journal"
	"github.com/turnlog/turnlog/internal/logfield"
	"github.com/turnlog/turnlog/loop"
	"github.com/turnlog/turnlog/tool"
)

// How the end of a call reaches the session of a sub-agent that works for it, whatever
// becomes of the worker between the two:
//
//  1. The end of the call is in the calling session's journal, which then owes StopTool.
//  2. Its driver looks for the sub-agent's session, in the inbox and then in the journal,
//     and puts what is to end it into its inbox, behind what opened it.
//  3. A session that is opened for a call is opened only if, read after the command that
//     opens it was sent, the calling session's journal says that the call is not over.
//
// So either 2 finds the session or 3 refuses it. Only then are workers told to stop: one
// that hears of it need not see to the session.

// passOn ends the session that works for a call, if there is one, and reports what it
// used.
func (d *Driver) passOn(ctx context.Context, e loop.StopTool) (commands.Command, error) {
	parent := d.token.Session()
	c := child{node: d.node, parent: parent, id: agent.ChildID(parent, e.Place), told: make(map[string]bool)}
	now, err := c.find(ctx)
	if err != nil || now == nil {
		return nil, err
	}
	if err := c.tell(ctx, e, now); err != nil {
		return nil, err
	}
	if e.Held == nil {
		d.tellWorkers(ctx, e)
	}
	d.log.Info("the end of a call was passed on", logfield.Call(e.Place), zap.String("child", string(c.id)))
	s, err := c.end(ctx, e)
	if err != nil {
		return nil, err
	}
	res := tool.Result{
		Result: content.NewResult(e.Call, "", content.StatusCancelled, "Cancelled before it reported a result"),
		Usage:  s.Used.Usage, Counts: tool.Counts{Requests: s.Used.Requests, ToolCalls: s.Used.ToolCalls},
	}
	return commands.ReportResult{Place: e.Place, Attempt: e.Attempt, Queue: e.Queue, Outcome: res}, nil
}

// child is the session of a sub-agent, as its caller's driver sees it.
type child struct {
	node       *Node
	parent, id content.SessionID
	told       map[string]bool // what was sent to it, by id
	asked      uint64          // the sequence of the cancel that was sent to it; 0: none was
}

// find returns the session, as far as it has come, or nil if there is none and will be
// none.
func (c *child) find(ctx context.Context) (*loop.State, error) {
	if _, err := content.ParseSessionID(string(c.id)); err != nil {
		return nil, nil //nolint:nilnil // no session can have that id
	}
	opens := false // looked for first: what opens a session leaves the inbox behind its entry
	for m, err := range c.node.cell.Inbox().All(ctx, c.id, nil) {
		if err != nil {
			return nil, err
		}
		o, ok := m.Envelope.Command.(commands.OpenSession)
		opens = opens || ok && m.Err == nil && o.Parent == c.parent
	}
	s, err := c.node.read(ctx, c.id)
	switch {
	case err == nil && s.Opened:
		return mine(s, s.Parent == c.parent), nil
	case err != nil && !errors.Is(err, journal.ErrNotFound):
		return nil, err
	}
	return mine(loop.New(c.id), opens), nil
}

func mine(s *loop.State, is bool) *loop.State {
	if !is {
		return nil
	}
	return s
}

// tell sends the session what is to end it, unless it is over: no to all that it asks if
// its caller asked and got a no, or no answer; else a cancel.
func (c *child) tell(ctx context.Context, e loop.StopTool, s *loop.State) error {
	switch {
	case over(s):
		return nil
	case !refused(e):
		seq, err := c.send(ctx, agent.ChildCancel(c.parent, e.Place), commands.Cancel{Scope: commands.ScopeSession, Reason: "caller_" + e.Reason})
		c.asked = max(c.asked, seq)
		return err
	}
	why := strings.TrimPrefix(e.Held.Result.Text(), "Permission denied: ")
	for _, a := range s.PendingApprovals() {
		no := commands.ResolveApproval{Approval: a.ID, Reason: why, By: string(c.parent)}
		if _, err := c.send(ctx, "denied/"+string(a.ID), no); err != nil {
			return err
		}
	}
	return nil
}

// refused reports whether what a call asked for was not approved.
func refused(e loop.StopTool) bool {
	return e.Held != nil && e.Held.Result != nil && (e.Held.Status == content.StatusDenied || e.Held.Status == content.StatusExpired)
}

// over reports whether a session has had its turn.
func over(s *loop.State) bool { return s.Last != nil && s.Turn == nil }

// send puts a command into the session's inbox, once, and wakes whoever drives it.
func (c *child) send(ctx context.Context, id string, cmd commands.Command) (uint64, error) {
	if c.told[id] {
		return 0, nil
	}
	seq, err := c.node.cell.Inbox().Send(ctx, commands.Envelope{ID: id, Session: c.id, By: string(c.parent), Command: cmd})
	if err != nil {
		return 0, err
	}
	c.told[id] = true
	c.node.runs.WakeSoon(c.id)
	return seq, nil
}

// end waits until the session has had its turn, or was never opened.
func (c *child) end(ctx context.Context, e loop.StopTool) (*loop.State, error) {
	s := loop.New(c.id)
	for rec, err := range c.node.cell.Journal().Follow(ctx, c.id, 0) {
		if err == nil {
			err = rec.Err
		}
		if err != nil {
			return nil, err
		}
		s.Fold(rec.Entry)
		never := !s.Opened && c.asked != 0 && s.Cursor(events.LaneAsk) >= c.asked
		if over(s) || never {
			return s, nil
		}
		if err := c.tell(ctx, e, s); err != nil {
			return nil, err
		}
	}
	return nil, context.Cause(ctx)
}

// wanted refuses to open a session for a call that is over.
func (d *Driver) wanted(ctx context.Context, o commands.OpenSession) error {
	place, named := strings.CutPrefix(string(d.state.Session), string(o.Parent)+"-")
	if _, _, _, err := content.ParsePlace(place); o.Parent == "" || !named || err != nil || d.state.Opened {
		return nil //nolint:nilerr // it is opened for no call
	}
	s, err := d.node.read(ctx, o.Parent)
	switch {
	case errors.Is(err, journal.ErrNotFound):
		return nil // the caller is outside of the deployment
	case err != nil:
		return fmt.Errorf("caller %s: %w", o.Parent, err)
	}
	if c, ok := s.CallAt(content.Place(place)); !ok || c.Status != "" && !c.Retried() {
		return &loop.Rejection{Reason: loop.ReasonAlreadyFinished, Detail: "call " + place + " of " + string(o.Parent) + " is over"}
	}
	return nil
}

// read returns a session without taking it. It returns journal.ErrNotFound for one
// without a journal.
func (n *Node) read(ctx context.Context, id content.SessionID) (*loop.State, error) {
	r, err := n.reader(n.log).Read(ctx, id)
	if err == nil && r.Head.Seq == 0 {
		err = fmt.Errorf("read %s: %w", id, journal.ErrNotFound)
	}
	return r.State, err
}

func (n *Node) reader(log *zap.Logger) engine.Reader {
	return engine.Reader{Journal: n.cell.Journal(), Snapshots: n.cell.Snapshots(), Logger: log}
}
