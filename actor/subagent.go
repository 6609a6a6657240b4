package actor

import (
	"context"
	"errors"
	"fmt"

	"go.uber.org/zap"

	"github.com/turnlog/turnlog/commands"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/engine"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/events/journal"
	"github.com/turnlog/turnlog/internal/logfield"
	"github.com/turnlog/turnlog/jetstream"
	"github.com/turnlog/turnlog/loop"
	"github.com/turnlog/turnlog/tool"
)

// The end of a call reaches the session of the sub-agent that works for it, even if the worker between them
// is lost:
//
//  1. The end of the call is in the calling session's journal, which then owes StopTool.
//  2. Its driver looks for the sub-agent's session, first in the inbox and then in the journal. It sends the
//     command that ends the session, after the one that opened it.
//  3. A session is opened for a call only if the calling session's journal has no end of the call. The journal
//     is read after the command that opens the session was sent.
//
// So either step 2 finds the session or step 3 refuses it. Only then is the worker stopped, which therefore
// need not stop the session.

// stopSubagent ends the session that works for a call, if there is one, and reports its usage.
func (d *driver) stopSubagent(ctx context.Context, e loop.StopTool) (commands.Command, error) {
	parent := d.token.Session()
	c := stoppedChild{node: d.node, call: e, parent: parent, id: engine.ChildID(parent, e.Place), sent: make(map[string]bool)}
	now, err := c.find(ctx)
	if err != nil || now == nil {
		return nil, err
	}
	if err := c.end(ctx, now); err != nil {
		return nil, err
	}
	if e.Held == nil {
		if err := d.stopWorker(ctx, e); err != nil {
			return nil, err
		}
	}
	d.log.Info("end of a call forwarded to its sub-agent", logfield.Call(e.Place), zap.String("child", string(c.id)))
	s, err := c.ended(ctx)
	if err != nil {
		return nil, err
	}
	return commands.ReportResult{Place: e.Place, Attempt: e.Attempt, Queue: e.Queue, Outcome: tool.Result{
		Result: content.NewResult(e.Call, "", content.StatusCancelled, "Cancelled before it reported a result"),
		Usage:  s.Used.Usage, Counts: tool.Counts{Requests: s.Used.Requests, ToolCalls: s.Used.ToolCalls},
	}}, nil
}

// stoppedChild is the session of a sub-agent whose call has ended, as the caller's driver sees it.
type stoppedChild struct {
	node       *Node
	call       loop.StopTool
	parent, id content.SessionID
	sent       map[string]bool // commands, by id
	cancelled  uint64          // the sequence of the cancel that was sent; 0: none
}

// find returns the session, or nil if there is none and there will be none.
func (c *stoppedChild) find(ctx context.Context) (*loop.State, error) {
	if _, err := content.ParseSessionID(string(c.id)); err != nil {
		return nil, nil //nolint:nilnil // no session can have that id
	}
	opens := false // read first: the command that opens a session leaves the inbox after its entry is written
	for m, err := range c.node.cell.Inbox().Read(ctx, c.id, nil, 0) {
		if err != nil {
			return nil, err
		}
		if opens || m.Lane.Unnamed() != events.LaneAsk {
			continue
		}
		if err := c.node.cell.Inbox().Open(ctx, &m); err != nil {
			return nil, err
		}
		o, ok := m.Envelope.Command.(commands.OpenSession)
		opens = ok && m.Err == nil && o.Parent == c.parent
	}
	r, err := c.node.reader(c.node.log).Read(ctx, c.id)
	if err != nil || r.State.Opened && r.State.Parent != c.parent || !r.State.Opened && !opens {
		return nil, err
	}
	return r.State, nil
}

// end sends the session the command that ends it, unless it has already ended. The command denies all its
// questions if its caller's question was denied or expired, and otherwise cancels its turn.
func (c *stoppedChild) end(ctx context.Context, s *loop.State) error {
	held := c.call.Held
	if turnOver(s) {
		return nil
	}
	if held == nil || held.Result == nil || held.Status != content.StatusDenied && held.Status != content.StatusExpired {
		seq, err := c.send(ctx, engine.ChildCancel(c.parent, c.call.Place), commands.Cancel{Scope: commands.ScopeSession, Reason: "caller_" + c.call.Reason})
		c.cancelled = max(c.cancelled, seq)
		return err
	}
	for _, a := range s.PendingApprovals() {
		no := commands.ResolveApproval{Approval: a.ID, Reason: held.Result.DenialReason(), By: string(c.parent)}
		if _, err := c.send(ctx, "denied/"+string(a.ID), no); err != nil {
			return err
		}
	}
	return nil
}

// turnOver reports whether a session has finished its turn.
func turnOver(s *loop.State) bool { return s.Last != nil && s.Turn == nil }

// send puts a command into the session's inbox, once, and wakes the session.
func (c *stoppedChild) send(ctx context.Context, id string, cmd commands.Command) (uint64, error) {
	if c.sent[id] {
		return 0, nil
	}
	seq, err := c.node.cell.Inbox().Send(ctx, commands.Envelope{ID: id, Session: c.id, By: string(c.parent), Command: cmd})
	if err != nil {
		return 0, err
	}
	c.sent[id] = true
	c.node.runs.WakeSoon(c.id)
	return seq, nil
}

// ended waits until the session has finished its turn, or was refused.
func (c *stoppedChild) ended(ctx context.Context) (*loop.State, error) {
	s := loop.New(c.id)
	for rec, err := range c.node.proofs.Journal(c.node.cell.Journal()).Follow(ctx, c.id, 0) {
		if err == nil {
			err = rec.Err
		}
		if err != nil {
			return nil, err
		}
		s.Fold(rec.Entry)
		if never := !s.Opened && c.cancelled != 0 && s.Cursor(c.node.cell.Inbox().LaneOf(commands.Cancel{})) >= c.cancelled; never || turnOver(s) {
			return s, nil
		}
		if err := c.end(ctx, s); err != nil {
			return nil, err
		}
	}
	return nil, context.Cause(ctx)
}

// checkCaller refuses to open a session for a call that has ended. It also refuses a session that has the
// name of a sub-agent's but is none: the call would take it for its own.
func (d *driver) checkCaller(ctx context.Context, env *commands.Envelope) error {
	o, ok := env.Command.(commands.OpenSession)
	if !ok || d.State.Opened {
		return nil
	}
	parent, place, named := engine.CallerOf(d.State.Session)
	switch {
	case !named:
		return nil
	case o.Parent != parent:
		return &commands.Rejection{Reason: commands.ReasonInvalidInput, Detail: "session " + string(d.State.Session) + " is the name of the sub-agent session for call " + string(place) + " of " + string(parent)}
	}
	s, err := d.node.read(ctx, o.Parent)
	switch {
	case errors.Is(err, journal.ErrNotFound):
		return nil // the caller runs outside the deployment
	case err != nil:
		return err
	}
	if c, ok := s.CallAt(place); !ok || c.Status != "" && !c.Retried() {
		return &commands.Rejection{Reason: commands.ReasonAlreadyFinished, Detail: "call " + string(place) + " of " + string(o.Parent) + " has ended"}
	}
	return nil
}

// read reads a session without claiming it. It returns journal.ErrNotFound if there is no journal.
func (n *Node) read(ctx context.Context, id content.SessionID) (*loop.State, error) {
	r, err := n.reader(n.log).Read(ctx, id)
	if err == nil && r.Head.Seq == 0 {
		err = fmt.Errorf("read %s: %w", id, journal.ErrNotFound)
	}
	return r.State, err
}

func (n *Node) reader(log *zap.Logger) engine.Reader {
	return n.readerOf(n.cell.Journal(), log)
}

func (n *Node) readerOf(j *jetstream.Journal, log *zap.Logger) engine.Reader {
	return engine.Reader{Journal: n.proofs.Journal(j), Snapshots: n.cell.Snapshots(), Signed: n.proofs != nil, Logger: log}
}
