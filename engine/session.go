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
	"github.com/turnlog/turnlog/internal/tracing"
	"github.com/turnlog/turnlog/loop"
)

// Session is the writer's view of a session: its state, the head of its journal, and the only way
// to change them. It belongs to one goroutine at a time.
type Session struct {
	Replica

	Catalog *Catalog // the tools on offer when the last command was completed
	Log     *zap.Logger

	// Steps complete a command before it is decided, in order.
	Steps []Step
	// Append writes an entry after the head. A canceled ctx must not make the outcome of a write
	// unknown.
	Append func(context.Context, journal.Head, events.Entry) (journal.Head, error)
	// Cursors returns the cursors for the next entry to record; nil: the host has none.
	Cursors func() []events.Cursor

	failed   error
	attached attached
}

// Step adds to a command what the core cannot know: the time, the tools on offer, the
// answers of hooks. Its errors contain its name.
type Step struct {
	Name string
	Do   func(ctx context.Context, env *commands.Envelope) error
}

// Handle handles a command from start to end: complete it, decide, append, fold. It returns the
// entry that the command caused, or one without a sequence if there was nothing to do. A
// refusal is a *commands.Rejection. Afterwards loop.Pending returns what the session owes.
func (s *Session) Handle(ctx context.Context, env commands.Envelope) (entry events.Entry, err error) {
	defer s.Contain(commands.NameOf(env.Command), &err)
	if err := s.complete(ctx, &env); err != nil {
		return entry, err
	}
	evs, fold, err := loop.DecideAhead(s.State, env)
	if err != nil || len(evs) == 0 {
		return entry, err
	}
	if entry, err = s.append(ctx, env, evs); err != nil {
		return entry, err
	}
	fold(entry)
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
		e.Write(zap.Stringer("command", *env))
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
	head, err := s.Append(tracing.With(ctx, env.TraceParent, env.Baggage), s.Head, entry)
	if err != nil {
		s.failed = fmt.Errorf("append %s after %d: %w", s.State.Session, s.Head.Seq, err)
		return events.Entry{}, s.failed
	}
	entry.Seq, s.Head = head.Seq, head
	return entry, nil
}

// Failed returns why the session handles no more commands: an append failed or code panicked,
// so the journal may differ from State. Read the session again.
func (s *Session) Failed() error { return s.failed }

// Adopt replaces the session's state with one that was read.
func (s *Session) Adopt(r Replica) { s.Replica, s.failed = r, nil }

// Stamp returns the step that sets a command's time. Time never runs backwards in a session.
func (s *Session) Stamp() Step {
	return Step{"time", func(_ context.Context, env *commands.Envelope) error {
		env.At = max(content.TimeOf(time.Now()), s.State.At)
		return nil
	}}
}

// Sample returns the step that attaches the tools on offer for the session's configuration. A
// command that opens the session contains its configuration.
func (s *Session) Sample(offers func(context.Context, events.Config) (*Catalog, error)) Step {
	return Step{"catalog", func(ctx context.Context, env *commands.Envelope) error {
		config := &s.State.Config
		if o, ok := env.Command.(commands.OpenSession); ok {
			if err := commands.CheckConfig(o.Config); err != nil {
				return err
			}
			config = &o.Config
		}
		catalog, err := offers(ctx, *config)
		if err != nil {
			return err // running effects keep the earlier catalog
		}
		s.Catalog, env.Catalog = catalog, catalog.Facts()
		return nil
	}}
}

// PanicError is returned when the core, the host or an effect panicked while it worked for a
// session. Only that session ends in this process.
type PanicError struct {
	Session content.SessionID
	Seq     uint64 // of the session's last entry
	During  string // a command, or the identity of an effect
	Value   any
	Stack   []byte
}

// Error names the session, its position, and the command or effect.
func (e *PanicError) Error() string {
	return fmt.Sprintf("panic in session %s at %d, during %s: %v", e.Session, e.Seq, e.During, e.Value)
}

// Contain must be deferred. It turns a panic into a *PanicError, which ends the session in this process.
func (s *Session) Contain(during string, err *error) {
	if p := recover(); p != nil {
		s.failed = &PanicError{Session: s.State.Session, Seq: s.Head.Seq, During: during, Value: p, Stack: debug.Stack()}
		*err = s.failed
	}
}
