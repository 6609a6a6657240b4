package client

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"slices"
	"sync"
	"time"

	"github.com/turnlog/turnlog/audit/statement"
	"github.com/turnlog/turnlog/commands"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/engine"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/events/journal"
	"github.com/turnlog/turnlog/loop"
	"github.com/turnlog/turnlog/session"
)

// remote is the backend of a session that a driver of the deployment drives. Commands go to the session's
// inbox, and entries come from its journal.
type remote struct {
	client *Client
	id     content.SessionID
	cancel context.CancelFunc
	done   chan struct{} // closed when following has ended
	news   chan struct{} // has a value if something arrived

	mu      sync.Mutex // guards the rest
	state   *loop.State
	head    journal.Head
	failed  error // why nothing more arrives
	asks    []*ask
	cursors map[events.Lane]uint64 // how far the session has handled each lane of its inbox
	watcher session.Watcher
	verify  verifying

	observers engine.Observers
}

// ask is a command that waits for its outcome.
type ask struct {
	id      string
	lane    events.Lane
	seq     uint64 // on its lane; 0: not yet known
	outcome chan error
	refused *refusal    // set while the entries before the refusal have not arrived
	silence *time.Timer // fires when the refusal counts as lost; nil: the command may still be handled
}

// refusal is the outcome of a command that caused no entry.
type refusal struct {
	after uint64 // the last entry when the command was refused; entries come over another subscription
	err   error
}

// attach joins a session in the state that it has at from.Head. It subscribes to live events before any
// command is sent, so that it misses no refusal.
func (c *Client) attach(ctx context.Context, from engine.Replica) (*session.Session, error) {
	id := from.State.Session
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	r := &remote{
		client: c, id: id, cancel: cancel, done: make(chan struct{}), news: make(chan struct{}, 1),
		state: from.State, head: from.Head, cursors: make(map[events.Lane]uint64), verify: verifying{ctx: ctx},
		observers: engine.Observers{Session: id, Events: c.observers, Items: c.items, Log: c.log},
	}
	updates, err := c.feed(ctx, id, func(ctx context.Context) records { return c.journal.FollowFrom(ctx, id, from.Head) })
	if err != nil {
		cancel()
		return nil, fmt.Errorf("attach %s: %w", id, err)
	}
	r.moveCursors(from.State.Cursors)
	s := session.New(r, session.Config{Approver: c.approver, By: c.name})
	go r.run(updates) //nolint:contextcheck // Close waits for it; verifications end with Close, too
	return s, nil
}

// Watch sets the watcher.
func (r *remote) Watch(w session.Watcher) { r.watcher = w }

// View calls f with the session as of the last entry that arrived.
func (r *remote) View(f func(*loop.State, journal.Head)) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	f(r.state, r.head)
	return r.failed
}

// Enter begins a Next. It does nothing, since the driver runs the session.
func (r *remote) Enter(context.Context) (leave func(), err error) { return func() {}, nil }

// Sync does nothing: entries are folded as they arrive.
func (r *remote) Sync(context.Context) error { return nil }

// Wait waits for the next entry.
func (r *remote) Wait(ctx context.Context) error {
	select {
	case <-r.news:
		return nil
	case <-r.done: // entries that arrived before the end still count
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Read yields the session's entries so far.
func (r *remote) Read(ctx context.Context) iter.Seq2[journal.Record, error] {
	return r.client.journal.Read(ctx, r.id, 0)
}

// Close stops following the session, which continues.
func (r *remote) Close(context.Context) error {
	r.mu.Lock()
	r.cancel() // so that no verification starts
	r.mu.Unlock()
	<-r.done
	r.verify.runs.Wait()
	return nil
}

func (r *remote) failure() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.failed
}

// run handles updates and answers the commands that wait for them.
func (r *remote) run(updates iter.Seq2[Update, error]) {
	defer close(r.done)
	err := r.handleUpdates(updates)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.fail(err)
	r.watcher.Stopped()
}

func (r *remote) fail(err error) { r.failed = fmt.Errorf("session %s: %w", r.id, err) }

func (r *remote) handleUpdates(updates iter.Seq2[Update, error]) error {
	for u, err := range updates {
		switch {
		case err != nil:
			return err
		case u.Record == nil:
			r.handleLive(u.Live)
		case u.Record.Err != nil:
			return u.Record.Err
		default:
			r.handleEntry(*u.Record)
			if d, ok := events.DeletionOf(u.Record.Entry); ok {
				return &session.DeletedError{Session: r.id, Deletion: d}
			}
		}
	}
	return session.ErrClosed
}

// handleLive handles a live event. A refusal without a reason means that the command would have changed nothing.
func (r *remote) handleLive(ev events.Event) {
	if refused, ok := ev.(events.Refused); ok {
		var err error
		if refused.Reason != "" {
			err = &commands.Rejection{Reason: refused.Reason, Detail: refused.Detail}
		}
		r.refuse(refused.Command, refusal{refused.After, err})
	}
	if events.KindOf(ev) == events.KindContentRepeated {
		return // watchers and observers show fragments as they come, and would show these twice
	}
	r.watcher.Live(ev)
	r.observers.ShowLive(ev)
}

// handleEntry folds an entry. If the entry's cursors pass a command that has no entry of its own, the command was
// refused or changed nothing, and the live event that said so was lost.
func (r *remote) handleEntry(rec journal.Record) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if d, ok := events.DeletionOf(rec.Entry); ok { // a deleted session has no state, so it is not idle
		r.fail(&session.DeletedError{Session: r.id, Deletion: d})
	}
	before := engine.See(r.state)
	r.state.Fold(rec.Entry)
	r.observers.Show(rec.Entry, before, r.state)
	r.head = rec.Head
	r.answerLocked(rec.Entry.Cause, nil)
	r.moveCursors(rec.Entry.Cursors)
	for _, a := range slices.Clone(r.asks) {
		if a.refused != nil && a.refused.after <= r.head.Seq {
			r.answerLocked(a.id, a.refused.err)
		} else {
			r.passOver(a)
		}
	}
	r.watcher.Applied(r.state, rec)
	r.verifyLocked()
	select {
	case r.news <- struct{}{}:
	default:
	}
}

func (r *remote) moveCursors(cursors []events.Cursor) {
	for _, c := range cursors {
		r.cursors[c.Lane] = c.Seq
	}
}

// refusalDelay is how long to wait for a refusal after a later entry has arrived. The two come over different
// subscriptions.
const refusalDelay = 250 * time.Millisecond

func (r *remote) passOver(a *ask) {
	switch {
	case r.state.Handled(a.id): // it was sent before
		r.answerLocked(a.id, nil)
	case a.refused == nil && a.seq != 0 && a.seq <= r.cursors[a.lane] && a.silence == nil:
		a.silence = time.AfterFunc(refusalDelay, func() {
			r.answer(a.id, &commands.Rejection{Reason: session.ReasonPassedOver, Detail: "the session rejected it, and the reason was lost"})
		})
	}
}

// refuse answers a command once the client has every entry that the session had when it refused the command.
func (r *remote) refuse(id string, why refusal) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if why.after <= r.head.Seq {
		r.answerLocked(id, why.err)
	} else if i := slices.IndexFunc(r.asks, func(a *ask) bool { return a.id == id }); i >= 0 {
		r.asks[i].refused = &why
	}
}

func (r *remote) answer(id string, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.answerLocked(id, err)
}

func (r *remote) answerLocked(id string, err error) {
	if i := slices.IndexFunc(r.asks, func(a *ask) bool { return a.id == id }); i >= 0 {
		r.asks[i].outcome <- err
		r.asks = slices.Delete(r.asks, i, i+1)
	}
}

// Ask sends a command and waits until its entry is in the journal, or it is refused.
func (r *remote) Ask(ctx context.Context, id string, c commands.Command) error {
	a := &ask{id: id, lane: r.client.inbox.LaneOf(c), outcome: make(chan error, 1)}
	r.mu.Lock()
	failed, before := r.failed, r.cursors[a.lane]
	r.asks = append(r.asks, a)
	r.mu.Unlock()
	defer r.forget(a)
	if failed != nil {
		return fmt.Errorf("%s: %w", commands.NameOf(c), failed)
	}
	seq, err := r.client.send(ctx, r.id, a.id, r.asShown(c))
	if err != nil {
		return err
	}
	r.mu.Lock()
	a.seq = seq
	if seq <= before && r.cursors[a.lane] == before {
		r.cursors[a.lane] = 0 // the stream lost commands, and its sequences started again
	}
	r.passOver(a)
	r.mu.Unlock()
	select {
	case err := <-a.outcome:
		return err
	case <-ctx.Done():
	case <-r.done:
	}
	select {
	case err := <-a.outcome: // it arrived at the last moment
		return err
	case <-r.done:
		return fmt.Errorf("%s: %w", commands.NameOf(c), r.failure())
	default:
		return fmt.Errorf("%s to %s: %w (%w)", commands.NameOf(c), r.id, session.ErrNoAnswer, context.Cause(ctx))
	}
}

func (r *remote) forget(a *ask) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if a.silence != nil {
		a.silence.Stop()
	}
	r.asks = slices.DeleteFunc(r.asks, func(b *ask) bool { return a == b })
}

// asShown completes a decision that will be signed: it names the question and what was asked. If the caller
// has already set what the user was shown, that stays, since the question may have changed since.
func (r *remote) asShown(c commands.Command) commands.Command {
	decision, ok := c.(commands.ResolveApproval)
	if !ok || r.client.cell.Key() == nil {
		return c
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if a, ok := statement.Asked(r.state.PendingApprovals(), decision); ok {
		decision.Approval, decision.Call, decision.Shown = a.ID, a.CallID, cmp.Or(decision.Shown, statement.Shown(a))
	}
	return decision
}
