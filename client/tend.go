package client

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/oklog/ulid/v2"
	"go.uber.org/zap"

	"github.com/turnlog/turnlog/agent"
	"github.com/turnlog/turnlog/commands"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/internal/logfield"
)

// ward is the session of a sub-agent whose caller may end the call while no worker
// has it in hand.
type ward struct {
	parent content.SessionID
	place  content.Place
	child  content.SessionID
}

// left holds the wards that nobody sees to yet.
type left struct {
	news chan struct{} // there are some; one is enough

	mu    sync.Mutex
	wards map[ward]bool // true: somebody sees to it
}

func newLeft() *left { return &left{news: make(chan struct{}, 1), wards: make(map[ward]bool)} }

func (l *left) add(w ward) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, known := l.wards[w]; known {
		return
	}
	l.wards[w] = false
	select {
	case l.news <- struct{}{}:
	default:
	}
}

// take returns the wards that nobody sees to; from now on somebody does.
func (l *left) take() []ward {
	l.mu.Lock()
	defer l.mu.Unlock()
	var out []ward
	for w, seen := range l.wards {
		if !seen {
			out = append(out, w)
			l.wards[w] = true
		}
	}
	return out
}

func (l *left) drop(w ward) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.wards, w)
}

// Tend sees to sessions of sub-agents whose calls wait for a person, and which no
// worker has in hand meanwhile: when the call is denied, so is what the session asked
// for, until its turn ends; when the call ends in any other way without the session's
// answer, the session is cancelled. It begins with the sessions of all sub-agents
// that are at work in the cell, so that those of a worker that was lost are seen to as
// well, and goes on with the calls of this client's tools until ctx ends. It returns
// an error if the cell's sessions cannot be listed.
//
// More than one may run; what one did decides to nothing for the others.
func (c *Client) Tend(ctx context.Context) error {
	if err := c.findWards(ctx); err != nil && ctx.Err() == nil {
		return fmt.Errorf("tend sub-agents: %w", err)
	}
	var wards sync.WaitGroup
	defer wards.Wait()
	for {
		for _, w := range c.left.take() {
			wards.Go(func() {
				defer c.left.drop(w)
				if err := c.tend(ctx, w); err != nil && ctx.Err() == nil {
					c.log.Error("sub-agent left to itself", logfield.Session(w.child), zap.Error(err))
				}
			})
		}
		select {
		case <-c.left.news:
		case <-ctx.Done():
			return nil
		}
	}
}

// findWards looks for sub-agents at work. Only the journals of sessions that are named
// as theirs are read.
func (c *Client) findWards(ctx context.Context) error {
	ids, err := c.Sessions(ctx)
	if err != nil {
		return err
	}
	for _, id := range ids {
		w, ok := wardOf(id)
		if !ok {
			continue
		}
		state, _, err := c.Read(ctx, id)
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case err != nil:
			c.log.Warn("session not read", logfield.Session(id), zap.Error(err))
		case state.Parent == w.parent && state.Metadata.Text(metaTool) != "" && state.Last == nil:
			c.left.add(w)
		}
	}
	return nil
}

// placeTokens is how many tokens of an id a call's place is.
const placeTokens = 3

// wardOf takes apart what agent.ChildID put together.
func wardOf(id content.SessionID) (ward, bool) {
	tokens := strings.Split(string(id), "-")
	n := len(tokens) - placeTokens
	if n < 1 {
		return ward{}, false
	}
	w := ward{
		parent: content.SessionID(strings.Join(tokens[:n], "-")), place: content.Place(strings.Join(tokens[n:], "-")), child: id,
	}
	_, _, _, err := content.ParsePlace(string(w.place))
	return w, err == nil
}

// tend waits for the end of the call and passes it on.
func (c *Client) tend(ctx context.Context, w ward) error {
	end, err := c.endOf(ctx, w)
	if err != nil {
		return err
	}
	state, _, err := c.Read(ctx, w.child)
	switch {
	case err != nil:
		return err
	case state.Last != nil: // it had its turn
		return nil
	case end.status == content.StatusDenied || end.status == content.StatusExpired:
		return c.deny(ctx, w.child, end.reason)
	}
	return c.Send(ctx, w.child, ulid.Make().String(), commands.Cancel{Scope: commands.ScopeSession, Reason: reasonOver})
}

// callEnd is how a call ended, as far as its session's journal was read.
type callEnd struct {
	place  content.Place
	call   content.CallID
	status content.Status // "": not yet
	reason string         // of a denial
}

func (e *callEnd) take(ev events.Event) {
	switch ev := any(ev).(type) {
	case events.ToolCallRequested:
		if ev.Call.Place == e.place {
			e.call = ev.Call.ID
		}
	case events.ApprovalResolved:
		if ev.Call == e.call && ev.Outcome == events.Denied && ev.Reason != "" {
			e.reason = ev.Reason
		}
	case events.ToolResultReceived:
		if ev.Result.CallID == e.call && e.status == "" {
			e.status = ev.Result.Status
		}
	}
}

// endOf waits for the end of a ward's call.
func (c *Client) endOf(ctx context.Context, w ward) (callEnd, error) {
	end := callEnd{place: w.place, reason: "nobody approved it in " + string(w.parent)}
	for rec, err := range c.journal.Follow(ctx, w.parent, 0) {
		if err == nil {
			err = rec.Err
		}
		if err != nil {
			return end, err
		}
		for _, ev := range rec.Entry.Events {
			end.take(ev)
		}
		if end.status != "" {
			return end, nil
		}
	}
	return end, context.Cause(ctx)
}

// deny refuses what a session asks for until its turn ends.
func (c *Client) deny(ctx context.Context, id content.SessionID, reason string) error {
	s, err := c.rejoin(ctx, id)
	if err != nil {
		return err
	}
	defer s.Close()
	for {
		step, err := s.Next(ctx)
		if err != nil {
			return err
		}
		ask, ok := step.(*agent.ApprovalRequest)
		if !ok {
			return nil
		}
		err = ask.DenyWithReason(ctx, reason)
		if _, refused := errors.AsType[*RefusedError](err); err != nil && !refused {
			return err
		}
	}
}
