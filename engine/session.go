package engine

import (
	"context"
	"fmt"
	"runtime/debug"
	"time"

	"go.uber.org/zap"

	"github.com/turnlog/turnlog/commands"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/events/journal"
	"github.com/turnlog/turnlog/loop"
)

// Session is a session in the hands of its only writer: its state, its journal's end, and
// the one way in which either changes. It belongs to one goroutine at a time.
type Session struct {
	Replica

	Catalog *Catalog // what the tool sources offered when the last command was completed
	Log     *zap.Logger

	// Steps complete a command before it is decided, in order.
	Steps []Step
	// Append writes an entry after the head. The end of ctx must not leave the outcome of
	// a write unknown.
	Append func(context.Context, journal.Head, events.Entry) (journal.Head, error)
	// Cursors are those that the next entry records; nil: the host has none.
	Cursors func() []events.Cursor

	failed error
}

// Step adds to a command what the core cannot know: the time, what tools there are, what
// hooks say. Its name is in its errors.
type Step struct {
	Name string
	Do   func(ctx context.Context, env *commands.Envelope) error
}

// Handle is the whole life of a command: complete it, decide, append, fold. It returns the
// entry that the command caused, or one without a sequence if there was nothing to do. A
// refusal is a *loop.Rejection. What the session owes then is for loop.Pending to say.
func (s *Session) Handle(ctx context.Context, env commands.Envelope) (entry events.Entry, err error) {
	defer s.Contain(commands.NameOf(env.Command), &err)
	if err := s.complete(ctx, &env); err != nil {
		return entry, err
	}
	evs, err := loop.Decide(s.State, env)
	if err != nil || len(evs) == 0 {
		return entry, err
	}
	if entry, err = s.append(ctx, env, evs); err != nil {
		return entry, err
	}
	s.State.Fold(entry)
	return entry, nil
}

func (s *Session) complete(ctx context.Context, env *commands.Envelope) error {
	if s.failed != nil {
		return s.failed
	}
	for _, step := range s.Steps {
		if err := step.Do(ctx, env); err != nil {
			return fmt.Errorf("%s: %w", step.Name, err)
		}
	}
	if e := s.Log.Check(zap.DebugLevel, "command completed"); e != nil {
		e.Write(zap.Reflect("envelope", *env))
	}
	return nil
}

func (s *Session) append(ctx context.Context, env commands.Envelope, evs []events.Event) (events.Entry, error) {
	entry := events.Entry{Session: s.State.Session, Cause: env.ID, At: max(env.At, s.State.At), Epoch: s.State.Epoch, Events: evs}
	if c, ok := evs[0].(events.DriverClaimed); ok {
		entry.Epoch = c.Epoch
	}
	if s.Cursors != nil {
		entry.Cursors = s.Cursors()
	}
	head, err := s.Append(ctx, s.Head, entry)
	if err != nil {
		s.failed = fmt.Errorf("append %s after %d: %w", s.State.Session, s.Head.Seq, err)
		return events.Entry{}, s.failed
	}
	entry.Seq, s.Head = head.Seq, head
	return entry, nil
}

// Failed returns why the session handles nothing any more: an append failed or code
// panicked, so the journal may say something else than State. Read the session again.
func (s *Session) Failed() error { return s.failed }

// Adopt makes what was read of the session its state.
func (s *Session) Adopt(r Replica) { s.Replica, s.failed = r, nil }

// Stamp is the step that sets a command's time. Within a session time does not run backwards.
func (s *Session) Stamp() Step {
	return Step{"time", func(_ context.Context, env *commands.Envelope) error {
		env.At = max(content.TimeOf(time.Now()), s.State.At)
		return nil
	}}
}

// Sample is the step that attaches what the tool sources offer a session with a
// configuration. A command that opens the session brings the configuration itself.
func (s *Session) Sample(offers func(context.Context, events.Config) (*Catalog, error)) Step {
	return Step{"catalog", func(ctx context.Context, env *commands.Envelope) error {
		config := &s.State.Config
		if o, ok := env.Command.(commands.OpenSession); ok {
			config = &o.Config
		}
		catalog, err := offers(ctx, *config)
		if err != nil {
			return err // effects that run go on with what was offered before
		}
		s.Catalog, env.Catalog = catalog, catalog.Facts()
		return nil
	}}
}

// CheckInput is the step that checks the arguments that an approval gives a call.
func (s *Session) CheckInput(by func() *Runner) Step {
	return Step{"patched input", func(ctx context.Context, env *commands.Envelope) error {
		if r, ok := env.Command.(commands.ResolveApproval); ok {
			env.Checks = by().CheckPatched(ctx, s.State, s.Catalog, r)
		}
		return nil
	}}
}

// PanicError is returned for code that panicked while it worked for a session: the core's,
// the host's, or an effect's. It ends the session's host and nothing else.
type PanicError struct {
	Session content.SessionID
	Seq     uint64 // of the session's last entry
	During  string // a command, or the identity of an effect
	Value   any
	Stack   []byte
}

// Error says where in the session it was.
func (e *PanicError) Error() string {
	return fmt.Sprintf("panic in session %s at %d, during %s: %v", e.Session, e.Seq, e.During, e.Value)
}

// Contain turns, when it is deferred, a panic into a *PanicError, which ends the session here.
func (s *Session) Contain(during string, err *error) {
	if p := recover(); p != nil {
		s.failed = &PanicError{Session: s.State.Session, Seq: s.Head.Seq, During: during, Value: p, Stack: debug.Stack()}
		*err = s.failed
	}
}
