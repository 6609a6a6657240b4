package session

import (
	"context"
	"iter"

	"github.com/turnlog/turnlog/commands"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/events/journal"
	"github.com/turnlog/turnlog/extension"
	"github.com/turnlog/turnlog/loop"
)

// Backend is where a session runs: in this process or in a deployment. It is safe for
// concurrent use, except for Sync and Wait, which are called between Enter and leave.
type Backend interface {
	// Watch registers the watcher. It is called once, before anything else.
	Watch(w Watcher)

	// View calls f with the session's current state. No entry is folded until f returns;
	// f must not keep s or call the backend. If the backend has stopped, View returns the
	// reason.
	View(f func(s *loop.State, head journal.Head)) error

	// Ask sends a command to the session and returns once it is recorded. A refusal
	// is a *commands.Rejection. The id makes the command idempotent.
	Ask(ctx context.Context, id string, c commands.Command) error

	// Enter begins a Next; leave ends it. A second Enter before leave is refused.
	Enter(ctx context.Context) (leave func(), err error)

	// Sync handles everything that has arrived and starts pending effects, without waiting.
	Sync(ctx context.Context) error

	// Read yields the session's entries so far, from the first one on.
	Read(ctx context.Context) iter.Seq2[journal.Record, error]

	// Wait waits for something to arrive. If ctx ends first, it returns its cause.
	Wait(ctx context.Context) error

	// SetVerifier sets the function that verifies the open task, or else the next one.
	SetVerifier(v extension.Verifier)

	// Close stops driving or following. The session can be opened again.
	Close(ctx context.Context) error
}

// Watcher is called with everything that happens in a session.
type Watcher struct {
	// Applied is called after each entry is folded, in order. No other entry is folded
	// until it returns, so it must not call the backend.
	Applied func(s *loop.State, rec journal.Record)
	// Live is called with events that are not recorded: deltas, progress, refusals.
	Live func(ev events.Event)
	// Stopped is called when the backend cannot continue. The rules of Applied hold for it.
	Stopped func()
}
