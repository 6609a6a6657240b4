package client

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/turnlog/turnlog/agent"
	"github.com/turnlog/turnlog/commands"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/engine"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/loop"
	"github.com/turnlog/turnlog/tool"
	"github.com/turnlog/turnlog/worker"
)

// toolTimeout is how long a sub-agent has for its answer, without the waits for
// people, unless its tool's options say otherwise.
const toolTimeout = time.Hour

// metaTool is where a sub-agent's session says whose call it is.
const metaTool = "delegated_by"

// Why a sub-agent's session is cancelled.
const (
	reasonCaller   = "caller_cancelled"
	reasonDeadline = "deadline"
)

// Tool returns a tool with which the model of a session hands work to another one;
// [agent.Agent.Tool] is its like for one process. A worker offers it. Every call has
// a session of its own in the deployment, which child describes and [agent.ChildID]
// names; what it answers is the call's result. A call that is handed out again,
// because its worker was lost, goes on with its session, so nothing is done twice.
//
// To cancel the call cancels the session with all that it started, and so does the
// end of the call's time: an hour, unless [tool.WithSpec] sets another timeout. What a
// person has to approve in the session is asked in the calling one, and for as long as
// it is open the call holds no worker. If it is denied there, so is what the session
// asked for. The driver of the calling session sees to all of that, so it does not
// depend on a worker.
//
// The session has the limits of child's configuration, and may use no more requests,
// tool calls, tokens and money than the calling turn has left when the call is made.
// What it used of them is counted in the calling session when the call ends. A running
// call holds a slot of its worker; where sub-agents call sub-agents, there have to be
// more slots than levels.
func (c *Client) Tool(name, description string, child Options, opts ...tool.Option) (tool.Tool, error) {
	switch {
	case child.ID != "" || child.Parent != "" || len(child.Input) > 0:
		return nil, fmt.Errorf("tool %s: a sub-agent's ID, Parent and Input come from its call", name)
	case child.Stepped:
		return nil, fmt.Errorf("tool %s: nobody steps a sub-agent on", name)
	case child.Config.Model == "" && child.Config.Agent == nil:
		return nil, fmt.Errorf("tool %s: Config.Model or Config.Agent is required", name)
	}
	child.Metadata = child.Metadata.With(metaTool, name)
	d := &delegate{client: c, child: child}
	opts = append([]tool.Option{tool.WithSpec(func(s *tool.Spec) {
		s.Effects, s.Timeout = content.Idempotent, toolTimeout
	})}, opts...)
	return tool.CallFunc(name, description, d.call, opts...)
}

// delegate hands calls to sessions. It is immutable.
type delegate struct {
	client *Client
	child  Options // of every session, but for what its call says
}

func (d *delegate) call(ctx context.Context, c tool.Call, in agent.Delegation) (tool.Output, error) {
	out, err := d.run(ctx, c, in.Prompt)
	if reason := whyOver(ctx); reason != "" && err != nil {
		return tool.Output{}, d.end(context.WithoutCancel(ctx), c, reason)
	}
	return out, err
}

// endWithin is how long a call that is over waits for the end of its session: a little
// less than worker and core leave it.
const endWithin = 4 * time.Second

// end cancels a call's session and says what it had used.
func (d *delegate) end(ctx context.Context, c tool.Call, reason string) error {
	// It is sent whether or not the session has heard of its turn yet: its inbox keeps
	// the order. The driver of the calling session sends it, too.
	id := agent.ChildID(c.Session, c.Place)
	cancel := commands.Cancel{Scope: commands.ScopeSession, Reason: reason}
	if err := d.client.Send(ctx, id, agent.ChildCancel(c.Session, c.Place), cancel); err != nil {
		return err
	}
	ctx, stop := context.WithTimeout(ctx, endWithin)
	defer stop()
	s := loop.New(id)
	for rec, err := range d.client.journal.Follow(ctx, id, 0) {
		if err != nil || rec.Err != nil {
			break // nobody drives it now; the cancel waits in its inbox
		}
		if s.Fold(rec.Entry); s.Last != nil && s.Turn == nil {
			break
		}
	}
	return failed(s, errors.New(reason))
}

// whyOver says why nobody waits for a call's result any more. It is empty if somebody
// does, also if that is another worker, to which the call will come.
func whyOver(ctx context.Context) string {
	cause := context.Cause(ctx)
	if _, late := errors.AsType[*tool.TimeoutError](cause); late {
		return reasonDeadline
	}
	if errors.Is(cause, worker.ErrCancelled) || errors.Is(cause, engine.ErrStop) {
		return reasonCaller
	}
	return ""
}

func (d *delegate) run(ctx context.Context, c tool.Call, prompt string) (tool.Output, error) {
	s, err := d.join(ctx, c, prompt)
	if err != nil {
		return tool.Output{}, err
	}
	defer s.Close()
	for {
		step, err := s.Next(ctx)
		if err != nil {
			return tool.Output{}, s.failure(err)
		}
		switch step := step.(type) {
		case *agent.ApprovalRequest:
			if err := d.decide(ctx, c, step); err != nil {
				return tool.Output{}, err
			}
		case *agent.Finished:
			return answer(s, step.Result)
		case *agent.AwaitingInput:
			return tool.Output{}, s.failure(errors.New("its session never began a turn"))
		case *agent.AfterToolResult: // for steppers
		}
	}
}

// join starts the call's session, or attaches to it, in order to see its turn end
// also if that is over.
func (d *delegate) join(ctx context.Context, c tool.Call, prompt string) (*Session, error) {
	o := d.child
	o.ID, o.Parent, o.Input = agent.ChildID(c.Session, c.Place), c.Session, []content.Item{content.UserText(prompt)}
	if _, err := content.ParseSessionID(string(o.ID)); err != nil {
		return nil, fmt.Errorf("too deep a nesting of sub-agents: %w", err)
	}
	s, err := d.client.rejoin(ctx, o.ID)
	if !errors.Is(err, ErrNotFound) {
		return s, err
	}
	if o.Config.SessionLimits, err = d.within(ctx, c.Session); err != nil {
		return nil, err
	}
	s, err = d.client.Start(ctx, o)
	if _, refused := errors.AsType[*RefusedError](err); refused { // an earlier attempt's ask was first
		return d.client.rejoin(ctx, o.ID)
	}
	return s, err
}

// within is what a new session may use: what it is configured for, and no more than
// the calling turn has left. A caller outside of the deployment sets no bounds.
func (d *delegate) within(ctx context.Context, caller content.SessionID) (events.Limits, error) {
	own := d.child.Config.SessionLimits
	state, _, err := d.client.Read(ctx, caller)
	switch {
	case errors.Is(err, ErrNotFound):
		return own, nil
	case err != nil:
		return own, err
	}
	return loop.Tighter(own, loop.Remaining(state)), nil
}

// rejoin attaches to a session, as Attach does, but its last turn is surfaced also if
// it has ended. It returns ErrNotFound for one that was not opened yet.
func (c *Client) rejoin(ctx context.Context, id content.SessionID) (*Session, error) {
	state, head, err := c.Read(ctx, id)
	if err != nil {
		return nil, err
	}
	if !state.Opened {
		return nil, fmt.Errorf("session %s is not open: %w", id, ErrNotFound)
	}
	s, err := c.attach(ctx, state, head)
	if err != nil {
		return nil, err
	}
	s.unsurface()
	return s, nil
}

// unsurface forgets that Next returned the end of any turn. It comes before the first
// Next.
func (s *Session) unsurface() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.surfaced = 0
	s.stepper = agent.NewStepper(s, loop.New(s.id))
}

// decide passes a person's approval on. It returns the question if nobody answered it
// yet.
func (d *delegate) decide(ctx context.Context, c tool.Call, r *agent.ApprovalRequest) error {
	key := agent.ChildGate(r.Approval)
	if slices.Contains(c.Approved, key) {
		err := r.Approve(ctx)
		if _, refused := errors.AsType[*RefusedError](err); refused {
			return nil // somebody decided it there
		}
		return err
	}
	v := tool.Verdict{
		RequestKind: key.Kind, Scope: key.Scope, Reason: r.Reason, Metadata: r.Metadata,
		Summary: fmt.Sprintf("%s: %s", c.Name, cmp.Or(r.Summary, r.Tool)),
	}
	if r.ExpiresAt != 0 {
		v.TTL = max(time.Until(r.ExpiresAt.Std()), time.Second)
	}
	return tool.NeedsApproval(v)
}

// answer is what the session's turn came to, with all that it used.
func answer(s *Session, r agent.TurnResult) (tool.Output, error) {
	res := &agent.RunResult{Response: r.Text(), Usage: r.Usage, Turns: r.Rounds, Turn: r}
	if err := agent.Conclude(res); err != nil {
		return tool.Output{}, s.failure(err)
	}
	out := tool.Text(res.Response)
	s.mu.Lock()
	defer s.mu.Unlock()
	out.Usage, out.Counts = used(s.state)
	return out, nil
}

func (s *Session) failure(err error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return failed(s.state, err)
}

func failed(s *loop.State, err error) error {
	e := &tool.Error{Code: tool.CodeFailed, Message: err.Error()}
	e.Usage, e.Counts = used(s)
	return e
}

func used(s *loop.State) (content.Usage, tool.Counts) {
	return s.Used.Usage, tool.Counts{Requests: s.Used.Requests, ToolCalls: s.Used.ToolCalls}
}
