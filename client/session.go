package client

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"sync"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/turnlog/turnlog/agent"
	"github.com/turnlog/turnlog/commands"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/events/journal"
	"github.com/turnlog/turnlog/loop"
)

// Session is a session of a deployment, seen from a client. Next belongs to one
// goroutine; everything else is safe from any.
type Session struct {
	client *Client
	id     content.SessionID
	cancel context.CancelFunc
	done   chan struct{}
	news   chan struct{} // something arrived; one is enough

	mu       sync.Mutex // guards what follows
	state    *loop.State
	head     journal.Head
	arrived  []journal.Record // not yet folded
	failed   error            // why nothing arrives any more
	asks     []*ask
	cursors  map[events.Lane]uint64 // up to where the asks are handled, as far as arrived
	stepper  *agent.Stepper
	surfaced int      // the number of the last turn whose end Next returned
	passed   position // where the last Continue was sent
}

// ask waits for what becomes of a command.
type ask struct {
	id      string
	lane    events.Lane
	seq     uint64 // on its lane; 0: not yet known
	outcome chan error
	silence *time.Timer // until nobody is expected to say what came of it; nil: it may still be handled
}

// position is where a stepped session waits.
type position struct {
	turns   int
	decided int // approvals of the round: a call that asks in the middle makes it wait once more
	cont    commands.Continue
}

func positionOf(s *loop.State, c commands.Continue) position {
	p := position{turns: s.Turns, cont: c}
	if s.Turn == nil {
		return p
	}
	for _, a := range s.Turn.Approvals {
		if a.Outcome != "" {
			p.decided++
		}
	}
	return p
}

// attach joins a session in the state that it is in at head. What is live is
// subscribed to before anything is asked, so that no refusal is missed.
func (c *Client) attach(ctx context.Context, state *loop.State, head journal.Head) (*Session, error) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	updates, err := c.feed(ctx, state.Session, func(ctx context.Context) records {
		return c.journal.FollowFrom(ctx, state.Session, head)
	})
	if err != nil {
		cancel()
		return nil, fmt.Errorf("attach %s: %w", state.Session, err)
	}
	s := &Session{
		client: c, id: state.Session, cancel: cancel, done: make(chan struct{}), news: make(chan struct{}, 1),
		state: state, head: head, cursors: make(map[events.Lane]uint64),
	}
	s.moveCursors(state.Cursors)
	if state.Last != nil {
		s.surfaced = state.Last.N
	}
	s.stepper = agent.NewStepper(s, state)
	go s.follow(updates) // Close waits for it
	return s, nil
}

// ID is the session's id.
func (s *Session) ID() content.SessionID { return s.id }

// Close lets go of the session, which goes on without us.
func (s *Session) Close() {
	s.cancel()
	<-s.done
}

// follow takes in what arrives and answers the asks that wait for it.
func (s *Session) follow(updates iter.Seq2[Update, error]) {
	defer close(s.done)
	failed := agent.ErrClosed
follow:
	for u, err := range updates {
		switch r, refused := u.Live.(events.Refused); {
		case err != nil:
			failed = err
		case u.Record != nil:
			if d, ok := events.DeletionOf(u.Record.Entry); ok {
				failed = &DeletedError{Session: s.id, Deletion: d}
				break follow
			}
			s.arrive(*u.Record)
		case refused && r.Reason == "":
			s.answer(r.Command, nil) // there was nothing to do
		case refused:
			s.answer(r.Command, &RefusedError{Reason: r.Reason, Detail: r.Detail})
		}
	}
	s.mu.Lock()
	s.failed = failed
	s.mu.Unlock()
	s.tell()
}

// arrive takes an entry in. An ask that its cursors pass without an entry of its
// own was refused, or there was nothing to do, and the word of it was lost.
func (s *Session) arrive(rec journal.Record) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.arrived = append(s.arrived, rec)
	s.answerLocked(rec.Entry.Cause, nil)
	s.moveCursors(rec.Entry.Cursors)
	for _, a := range slices.Clone(s.asks) {
		s.passOver(a)
	}
	s.tell()
}

func (s *Session) moveCursors(cursors []events.Cursor) {
	for _, c := range cursors {
		s.cursors[c.Lane] = max(s.cursors[c.Lane], c.Seq)
	}
}

// lastWord is how long a refusal may take behind an entry that was written after it:
// the two come by different ways.
const lastWord = 250 * time.Millisecond

func (s *Session) passOver(a *ask) {
	if a.seq != 0 && a.seq <= s.cursors[a.lane] && a.silence == nil {
		a.silence = time.AfterFunc(lastWord, func() {
			s.answer(a.id, &RefusedError{Reason: ReasonPassedOver, Detail: "nothing came of it, and nobody heard why"})
		})
	}
}

func (s *Session) tell() {
	select {
	case s.news <- struct{}{}:
	default:
	}
}

func (s *Session) answer(id string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answerLocked(id, err)
}

func (s *Session) answerLocked(id string, err error) {
	i := slices.IndexFunc(s.asks, func(a *ask) bool { return a.id == id })
	if i < 0 {
		return
	}
	s.asks[i].outcome <- err
	s.asks = slices.Delete(s.asks, i, i+1)
}

// Ask sends an ask and waits until it is accepted, which is when its entry is in
// the journal, or refused: *RefusedError. It returns nil, too, for one that asks
// for what is the case already. When ctx ends first it returns ErrNoAnswer.
func (s *Session) Ask(ctx context.Context, c commands.Command) error {
	a := &ask{id: ulid.Make().String(), lane: commands.LaneOf(c), outcome: make(chan error, 1)}
	s.mu.Lock()
	failed := s.failed
	s.asks = append(s.asks, a)
	s.mu.Unlock()
	defer s.forget(a)
	if failed != nil {
		return fmt.Errorf("%s to %s: %w", commands.NameOf(c), s.id, failed)
	}
	seq, err := s.client.send(ctx, s.id, a.id, c)
	if err != nil {
		return err
	}
	s.mu.Lock()
	a.seq = seq
	s.passOver(a)
	s.mu.Unlock()
	select {
	case err := <-a.outcome:
		return err
	case <-ctx.Done():
	case <-s.done:
	}
	select {
	case err := <-a.outcome: // at the last moment
		return err
	case <-s.done:
		s.mu.Lock()
		defer s.mu.Unlock()
		return fmt.Errorf("%s to %s: %w", commands.NameOf(c), s.id, s.failed)
	default:
		return fmt.Errorf("%s to %s: %w (%w)", commands.NameOf(c), s.id, ErrNoAnswer, context.Cause(ctx))
	}
}

func (s *Session) forget(a *ask) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if a.silence != nil {
		a.silence.Stop()
	}
	s.asks = slices.DeleteFunc(s.asks, func(b *ask) bool { return a == b })
}

// Submit brings input. While a turn is open, OnBusy says what becomes of it.
func (s *Session) Submit(ctx context.Context, b events.OnBusy, items ...content.Item) error {
	return s.Ask(ctx, commands.SubmitInput{Items: items, OnBusy: b})
}

// Cancel ends the open turn. The empty reason is user_cancelled.
func (s *Session) Cancel(ctx context.Context, reason string) error {
	return s.Ask(ctx, commands.Cancel{Scope: commands.ScopeTurn, Reason: reason})
}

// ResolveApproval decides a call's oldest undecided approval; with an empty call,
// the only one of the session.
func (s *Session) ResolveApproval(ctx context.Context, call content.CallID, v agent.Decision) error {
	by := v.By
	if by == "" {
		by = s.client.name
	}
	return s.Ask(ctx, commands.ResolveApproval{Call: call, Approve: v.Approve, Reason: v.Reason, By: by, Always: v.Always})
}

// Grant lets the calls of the tools that the patterns name run for the rest of the
// session, as far as its rules are asked: a decision in advance, so it takes the
// permission to decide. What a policy denies or asks is not touched.
func (s *Session) Grant(ctx context.Context, patterns ...string) error {
	return s.Ask(ctx, commands.AllowTools{Tools: patterns, By: s.client.name})
}

// Snapshot returns what the session was when Next last looked.
func (s *Session) Snapshot() agent.Snapshot {
	s.mu.Lock()
	defer s.mu.Unlock()
	return agent.SnapshotOf(s.state, s.head.Hash)
}

// Next waits for the next step, like agent.Driver.Next: what the session does goes
// on without it, but for the waits of a stepped session, which Next passes. ctx is
// the caller's patience.
func (s *Session) Next(ctx context.Context) (agent.Step, error) {
	if err := s.begin(); err != nil {
		return nil, err
	}
	for {
		step, cont, err := s.advance()
		if err != nil || step != nil {
			return step, err
		}
		if cont != nil {
			// One that comes late passes nothing.
			if err := s.client.Send(ctx, s.id, ulid.Make().String(), *cont); err != nil {
				return nil, err
			}
			s.sent(*cont)
		}
		select {
		case <-s.news:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

func (s *Session) begin() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.fold(); err != nil {
		return err
	}
	err := s.stepper.Begin(s.state)
	if err != nil && len(s.arrived) > 0 {
		// A turn ended that is not surfaced, and its end holds back what came behind it:
		// the decision, too, of an approval that outlives its turn.
		return s.stepper.Begin(s.ahead())
	}
	return err
}

// ahead is the session with all that arrived, to look at and throw away.
func (s *Session) ahead() *loop.State {
	ahead := s.state.Fork()
	for _, rec := range s.arrived {
		if rec.Err == nil {
			ahead.Fold(rec.Entry)
		}
	}
	return &ahead
}

// advance takes in what arrived, up to the end of a turn, and asks the stepper. It
// returns no Continue that was sent already.
func (s *Session) advance() (agent.Step, *commands.Continue, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.fold(); err != nil {
		return nil, nil, err
	}
	if s.turnEnded() {
		s.surfaced = s.state.Last.N
		s.tell() // more may have arrived
	}
	step, cont, err := s.stepper.Advance(s.state)
	if cont != nil && s.passed == positionOf(s.state, *cont) {
		cont = nil
	}
	return step, cont, err
}

func (s *Session) sent(c commands.Continue) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.passed = positionOf(s.state, c)
}

// turnEnded reports whether the state is the one in which the stepper returns the
// end of a turn.
func (s *Session) turnEnded() bool {
	l := s.state.Last
	return l != nil && l.N > s.surfaced && (s.state.Turn != nil || loop.Waiting(s.state) != commands.WaitWorking)
}

// fold takes in what arrived, but not past the end of a turn: each is surfaced.
func (s *Session) fold() error {
	for len(s.arrived) > 0 && !s.turnEnded() {
		rec := s.arrived[0]
		if rec.Err != nil {
			return fmt.Errorf("session %s: %w", s.id, rec.Err)
		}
		s.arrived = s.arrived[1:]
		s.state.Fold(rec.Entry)
		s.head = rec.Head
	}
	if s.failed != nil && len(s.arrived) == 0 && !s.turnEnded() {
		return fmt.Errorf("session %s: %w", s.id, s.failed)
	}
	return nil
}
