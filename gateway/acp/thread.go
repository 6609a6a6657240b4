package acp

import (
	"context"
	"errors"
	"slices"
	"sync"

	sdk "github.com/coder/acp-go-sdk"
	"github.com/oklog/ulid/v2"
	"go.uber.org/zap"

	"github.com/turnlog/turnlog/audit/statement"
	"github.com/turnlog/turnlog/client"
	"github.com/turnlog/turnlog/commands"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/gateway/internal/stream"
	"github.com/turnlog/turnlog/policy/agentfile"
	"github.com/turnlog/turnlog/session"
)

// thread is a session that an editor has open. One goroutine follows it.
type thread struct {
	agent   *Agent
	client  *client.Client
	session *session.Session
	id      content.SessionID
	folder  string
	past    bool   // what happened before is shown
	until   uint64 // the last entry of the past

	shows   projection // owned by the goroutine that follows
	end     context.CancelCauseFunc
	ended   chan struct{}
	reached chan struct{}  // closed once the past is sent
	asking  sync.WaitGroup // inputs until a node has accepted them, questions, and cancels of prompts; nothing is added after a failure

	mu        sync.Mutex
	prompts   []*prompt
	questions []*question
	live      bool
	failure   error // why the session is not followed anymore
}

// prompt is a request that waits for the end of its turn.
type prompt struct {
	command   string
	turn      content.TurnID // "": none has taken it in
	cancelled bool
	over      chan func() (*sdk.PromptResponse, error)
}

// question is an approval that is not decided.
type question struct {
	events.Approval

	withdraw context.CancelFunc // nil: the editor is not asked
}

func newThread(a *Agent, c *client.Client, s *session.Session, folder string, past bool) *thread {
	return &thread{
		agent: a, client: c, session: s, id: s.ID(), folder: folder, past: past, until: s.Head().Seq, shows: projection{folder: folder},
		ended: make(chan struct{}), reached: make(chan struct{}),
	}
}

// start follows the session until close.
func (t *thread) start(ctx context.Context) {
	ctx, t.end = context.WithCancelCause(context.WithoutCancel(ctx))
	go t.follow(ctx)
}

// close stops following the session, which continues.
func (t *thread) close(ctx context.Context, why error) {
	t.end(why)
	<-t.ended
	t.asking.Wait()
	_ = t.session.Close(context.WithoutCancel(ctx)) // nothing is lost with it
}

// await waits until the past has been sent.
func (t *thread) await(ctx context.Context) error {
	select {
	case <-t.reached:
		return nil
	case <-t.ended:
		t.mu.Lock()
		defer t.mu.Unlock()
		return t.failure
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (t *thread) follow(ctx context.Context) {
	defer close(t.ended)
	st := stream.New(stream.Cursor{})
	take := func(ev stream.Event) { t.shows.show(ev, func(f any) { t.take(ctx, f) }) }
	for u, err := range t.client.Follow(ctx, t.id, 0) {
		switch {
		case err != nil:
			t.fail(err)
			return
		case u.Record == nil:
			st.Live(u.Live, take)
			continue
		}
		st.Entry(*u.Record, take)
		if u.Record.Seq >= t.until {
			t.arrive(ctx)
		}
	}
	t.fail(context.Cause(ctx))
}

// arrive ends the past. What is still open is asked now.
func (t *thread) arrive(ctx context.Context) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.live {
		return
	}
	t.live = true
	close(t.reached)
	for _, q := range t.questions {
		t.ask(ctx, q)
	}
}

// fail ends the waiting prompts, since the session is no longer followed.
func (t *thread) fail(err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.failure = err
	for _, p := range t.prompts {
		cancelled := p.cancelled
		p.end(func() (*sdk.PromptResponse, error) {
			if cancelled {
				return &sdk.PromptResponse{StopReason: sdk.StopReasonCancelled}, nil
			}
			return nil, err
		})
	}
}

// take passes on what the projection yields.
func (t *thread) take(ctx context.Context, fact any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch f := fact.(type) {
	case sdk.SessionUpdate:
		t.send(ctx, f)
	case stream.InputTaken:
		t.onInput(ctx, f)
	case events.Approval:
		q := &question{Approval: f}
		if t.questions = append(t.questions, q); t.live {
			t.ask(ctx, q)
		}
	case events.ApprovalResolved:
		t.settle(ctx, f)
	case turnEnd:
		t.finish(ctx, f)
	case events.Deletion:
		gone := &session.DeletedError{Session: t.id, Deletion: f}
		for _, p := range t.prompts {
			p.end(func() (*sdk.PromptResponse, error) { return nil, gone })
		}
	}
}

func (t *thread) send(ctx context.Context, u sdk.SessionUpdate) {
	if t.live || t.past {
		_ = t.agent.conn.SendNotification(ctx, sdk.ClientMethodSessionUpdate, sdk.SessionNotification{SessionId: sdk.SessionId(t.id), Update: u}) // the editor may be gone
	}
}

// onInput handles input that a turn takes in. The editor itself shows what it has sent.
func (t *thread) onInput(ctx context.Context, h stream.InputTaken) {
	for _, p := range t.prompts {
		if p.command != h.Command {
			continue
		}
		if p.turn = h.Turn; p.cancelled {
			t.asking.Go(func() { t.report(t.stop(ctx, h.Turn)) })
		}
		return
	}
	if h.Item.Kind == content.User {
		for _, b := range blocksOf(h.Item.Parts) {
			t.send(ctx, sdk.UpdateUserMessage(b))
		}
	}
}

// finish ends the prompts of a turn. Without one, the editor would not see why the turn failed.
func (t *thread) finish(ctx context.Context, e turnEnd) {
	waited := false
	for _, p := range t.prompts {
		if p.turn == e.turn {
			waited = true
			p.end(e.response)
		}
	}
	if _, err := e.response(); err != nil && !waited {
		t.send(ctx, sdk.UpdateAgentMessageText("\n\n"+err.Error()))
	}
}

func (p *prompt) end(with func() (*sdk.PromptResponse, error)) {
	select {
	case p.over <- with:
	default: // it has ended
	}
}

// prompt submits input and waits for the end of its turn. The input is durable even if the editor disconnects. A cancel that
// comes after taken was called is about this prompt, too.
func (t *thread) prompt(ctx context.Context, item content.Item, taken func()) (*sdk.PromptResponse, error) {
	p := &prompt{command: ulid.Make().String(), over: make(chan func() (*sdk.PromptResponse, error), 1)}
	t.mu.Lock()
	if t.failure != nil {
		defer t.mu.Unlock()
		return nil, t.failure
	}
	t.prompts = append(t.prompts, p)
	t.asking.Add(1)
	t.mu.Unlock()
	taken()
	defer func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.prompts = slices.DeleteFunc(t.prompts, func(o *prompt) bool { return o == p })
	}()
	err := t.submit(context.WithoutCancel(ctx), p.command, item)
	t.asking.Done()
	if err != nil {
		return nil, err
	}
	select {
	case end := <-p.over:
		return end()
	case <-ctx.Done():
	}
	if !t.agent.gone() { // only the request was cancelled
		if err := t.cancel(context.WithoutCancel(ctx)); err != nil {
			return nil, err
		}
	}
	return nil, context.Cause(ctx)
}

func (t *thread) submit(ctx context.Context, command string, item content.Item) error {
	ctx, stop := context.WithTimeout(ctx, t.agent.cfg.Answer)
	defer stop()
	item, err := t.stored(ctx, item)
	if err != nil {
		return err
	}
	busy := events.Queue
	switch d, err := agentfile.Recorded(t.session.Config()); {
	case err != nil:
		return err
	case d == nil, d.OnBusy == "":
	case d.OnBusy == "steer":
		busy = events.Steer
	default:
		busy = events.OnBusy(d.OnBusy)
	}
	return t.session.AskAs(ctx, command, commands.SubmitInput{Items: []content.Item{item}, OnBusy: busy})
}

// cancel cancels the turns of the prompts, including prompts that no turn has taken in, and the open turn.
func (t *thread) cancel(ctx context.Context) error {
	turns := []content.TurnID{t.session.OpenTurn()}
	t.mu.Lock()
	for _, p := range t.prompts {
		p.cancelled = true
		turns = append(turns, p.turn)
	}
	t.mu.Unlock()
	slices.Sort(turns)
	for _, turn := range slices.Compact(turns) {
		if turn == "" {
			continue
		}
		if err := t.stop(ctx, turn); err != nil {
			return err
		}
	}
	return nil
}

// stop cancels a turn, unless it has ended.
func (t *thread) stop(ctx context.Context, turn content.TurnID) error {
	ctx, end := context.WithTimeout(ctx, t.agent.cfg.Answer)
	defer end()
	err := t.session.Ask(ctx, commands.Cancel{Scope: commands.ScopeTurn, Turn: turn})
	if errors.Is(err, session.ErrInvalidState) {
		return nil
	}
	return err
}

func (t *thread) report(err error) {
	if err != nil {
		t.agent.cfg.Log.Warn("a command of an editor failed", zap.String("session", string(t.id)), zap.Error(err))
	}
}

// ask asks the editor. It is called with mu held.
func (t *thread) ask(ctx context.Context, q *question) {
	ctx, q.withdraw = context.WithCancel(ctx)
	a := q.Approval
	t.asking.Go(func() {
		r, err := sdk.SendRequest[sdk.RequestPermissionResponse](t.agent.conn, ctx, sdk.ClientMethodSessionRequestPermission, questionOf(t.id, a, t.folder))
		if err == nil && r.Outcome.Selected != nil {
			err = t.decide(ctx, a, r.Outcome.Selected.OptionId)
		}
		if err != nil && ctx.Err() == nil && !t.agent.gone() { // it stays open for other clients
			t.report(err)
			t.mu.Lock()
			defer t.mu.Unlock()
			t.send(ctx, sdk.UpdateAgentMessageText("\n\nThe question about "+a.Tool+" is still open: "+problem(err).Message+"\n\n"))
		}
	})
}

// decide sends the editor's answer as a decision about exactly this question.
func (t *thread) decide(ctx context.Context, a events.Approval, option sdk.PermissionOptionId) error {
	ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), t.agent.cfg.Answer)
	defer stop()
	err := t.session.Ask(ctx, commands.ResolveApproval{
		Approval: a.ID, Approve: option == allowOnce || option == allowAlways, Always: option == allowAlways, By: t.client.Name(), Shown: statement.Shown(a),
	})
	if e, refused := errors.AsType[*session.InvalidStateError](err); refused && slices.Contains([]string{commands.ReasonAlreadyDecided, commands.ReasonNoApproval}, e.Reason) {
		return nil // another client decided first
	}
	return err
}

// settle withdraws a question that is decided. If the call got other arguments, its other questions are about these.
func (t *thread) settle(ctx context.Context, e events.ApprovalResolved) {
	t.questions = slices.DeleteFunc(t.questions, func(q *question) bool {
		if q.ID != e.Approval {
			return false
		}
		q.drop()
		return true
	})
	for _, q := range t.questions {
		if len(e.Input) == 0 || q.CallID != e.Call {
			continue
		}
		q.Input, q.Digest = e.Input, e.Digest
		if t.live {
			q.drop()
			t.ask(ctx, q)
		}
	}
}

func (q *question) drop() {
	if q.withdraw != nil {
		q.withdraw()
	}
}
