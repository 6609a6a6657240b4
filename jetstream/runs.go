package jetstream

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/internal/pause"
	"github.com/turnlog/turnlog/jetstream/internal/api"
	"github.com/turnlog/turnlog/jetstream/internal/layout"
	"github.com/turnlog/turnlog/jetstream/internal/pull"
)

// Runs holds the run tokens. The unacknowledged token of a session is the lease to drive it. A process
// that wants a session driven wakes it, and a node with capacity takes its token.
//
// No answer of the server proves that a token is still held: it accepts renewals and acknowledgments from a
// holder that was replaced long ago. Only a guarded append to the session's journal is proof.
type Runs struct {
	cell   *Cell
	most   int // see maxListed
	tokens *pull.Puller
}

// Runs returns the cell's run tokens. All takers in a process share one Runs.
func (c *Cell) Runs() *Runs {
	return &Runs{c, maxListed, pull.New(c.nc, c.names.RunStream(), c.names.RunConsumer(), func(msg *nats.Msg) {
		_ = msg.Respond([]byte(api.Nak)) // if this is lost, the token returns when its lease expires
	})}
}

// Wake ensures that the session has a token, pending or held.
func (r *Runs) Wake(ctx context.Context, s content.SessionID) error {
	err := api.Patiently(ctx, func(ctx context.Context) error {
		_, err := r.cell.api.Publish(ctx, &nats.Msg{Subject: r.cell.names.Run(s)})
		return err
	})
	if err == nil || api.IsAlreadyThere(err) {
		return nil
	}
	return fmt.Errorf("wake %s: %w", s, r.cell.api.Explain(ctx, r.cell.names.RunStream(), err))
}

// WakeSoon is Wake without waiting for the outcome. If it is lost, a sweep wakes the session. Call it only
// after the command was acknowledged.
func (r *Runs) WakeSoon(s content.SessionID) { _ = r.cell.nc.Publish(r.cell.names.Run(s), nil) }

// Take waits for a token. It returns context.Cause(ctx) when ctx ends, and a token that arrives later
// goes back at once. Any number of goroutines may wait.
func (r *Runs) Take(ctx context.Context) (*Token, error) {
	msg, err := r.tokens.Take(ctx)
	for err == nil && r.cell.names.SessionOf(msg.Subject) == "" { // no session has this ID
		_ = msg.Respond([]byte(api.Term)) // if this is lost, the token returns
		msg, err = r.tokens.Take(ctx)
	}
	if err != nil {
		return nil, err
	}
	meta, err := msg.Metadata()
	if err != nil {
		return nil, fmt.Errorf("take %s: %w", msg.Subject, err)
	}
	return &Token{
		cell: r.cell, session: r.cell.names.SessionOf(msg.Subject),
		reply: msg.Reply, seq: meta.Sequence.Stream,
		first: meta.NumDelivered == 1, waiting: meta.NumPending,
	}, nil
}

// Close withdraws pending requests and waits until tokens that arrived for them have gone back.
// Otherwise a request would take the next token until its lease expires. Held tokens stay held.
func (r *Runs) Close(ctx context.Context) error {
	if err := r.tokens.Close(ctx); err != nil {
		return fmt.Errorf("close run tokens: %w", err)
	}
	return nil
}

// NakFor returns the token of a dead holder, whose reply subject is known from its list. If the holder is
// alive after all, it only loses a conflict.
func (r *Runs) NakFor(reply string) error {
	owner := "." + r.cell.names.RunStream() + "." + r.cell.names.RunConsumer() + "."
	if !strings.HasPrefix(reply, api.AckPrefix) || !strings.Contains(reply, owner) {
		return fmt.Errorf("nak for %q: not the reply subject of a token", reply)
	}
	if err := r.cell.nc.Publish(reply, []byte(api.Nak)); err != nil {
		return fmt.Errorf("nak for %s: %w", reply, err)
	}
	return nil
}

// maxTaken is how many tokens Taken reads at most.
const maxTaken = 128

// Taken returns tokens, in no order, that the server has given to a node and that none of the known holders
// has. A node that died right after it took a token could not tell others about it. Or the token returns
// after a pause.
func (r *Runs) Taken(ctx context.Context, known map[content.SessionID]uint64) (out []HeldToken, err error) {
	n := r.cell.names
	info, err := r.cell.api.Consumer(ctx, n.RunStream(), n.RunConsumer())
	if err != nil || info.Held <= len(known) {
		return nil, err
	}
	subjects, err := r.cell.api.SubjectsUpTo(ctx, r.most, n.RunStream(), n.Run(AllSessions))
	if errors.Is(err, ErrTooMany) {
		return nil, nil // they return when their leases expire
	}
	if err != nil {
		return nil, fmt.Errorf("list run tokens: %w", err)
	}
	looked := 0
	for subject := range subjects {
		s := n.SessionOf(subject)
		if known[s] > 0 || s == "" {
			continue
		}
		if looked++; looked > maxTaken {
			break
		}
		m, err := r.cell.api.Last(ctx, n.RunStream(), subject)
		switch {
		case errors.Is(err, api.ErrNoMessage):
		case err != nil:
			return nil, fmt.Errorf("token of %s: %w", s, err)
		case m.Seq <= info.Delivered.StreamSeq:
			// The server looks at the two sequences only.
			out = append(out, HeldToken{Session: s, Reply: fmt.Sprintf("%s%s.%s.1.%d.%d.%d.0",
				api.AckPrefix, n.RunStream(), n.RunConsumer(), m.Seq, info.Delivered.ConsumerSeq, time.Now().UnixNano())})
		}
	}
	return out, nil
}

// ErrTooMany is returned instead of a list of sessions that would keep the server busy for long. Look at
// sessions one by one instead.
var ErrTooMany = api.ErrTooMany

// maxListed is how many subjects a stream may have for nodes to list them, at each sweep and when many
// tokens wait. Listing 20,000 takes the server as long as looking at 100 single sessions, and listing 3
// million takes 4 minutes.
const maxListed = 20_000

// Sessions lists the sessions that have a command, handled or not, and those that have a token. It lists
// tokens last, so a session that is woken meanwhile has one.
func (r *Runs) Sessions(ctx context.Context) (active, tokens map[content.SessionID]bool, err error) {
	if active, err = r.list(ctx, math.MaxInt, r.cell.names.Commands(AllSessions)...); err == nil {
		tokens, err = r.list(ctx, math.MaxInt, r.cell.tokens())
	}
	return active, tokens, err
}

// Tokens lists the sessions that have a token, pending or held, or returns ErrTooMany.
func (r *Runs) Tokens(ctx context.Context) (map[content.SessionID]bool, error) {
	return r.list(ctx, r.most, r.cell.tokens())
}

func (c *Cell) tokens() layout.Stored {
	return layout.Stored{Stream: c.names.RunStream(), Subject: c.names.Run(AllSessions)}
}

// Senders lists the sessions that have a command, handled or not, with the senders of their commands: named
// users, "" for all users without a name, and the lanes of other commands, which begin with a dot. Without
// sessions as arguments, it lists all of them, or returns ErrTooMany.
func (r *Runs) Senders(ctx context.Context, sessions ...content.SessionID) (map[content.SessionID][]string, error) {
	out := make(map[content.SessionID][]string)
	add := func(subject string) {
		lane, sender := r.cell.names.SenderOf(subject)
		if l := lane.Unnamed(); l != events.LaneAsk && l != events.LaneDecide {
			sender = "." + string(l)
		}
		s := r.cell.names.SessionOf(subject)
		if !slices.Contains(out[s], sender) {
			out[s] = append(out[s], sender)
		}
	}
	if len(sessions) == 0 {
		err := r.each(ctx, r.most, add, r.cell.names.Commands(AllSessions)...)
		delete(out, "") // subjects without a valid ID
		return out, err
	}
	var of []layout.Stored
	for _, s := range sessions {
		of = append(of, r.cell.names.Commands(s)...)
	}
	for some := range slices.Chunk(of, sessionsAtOnce) {
		for _, answer := range api.Together(some, func(o layout.Stored) (a subjects) {
			a.of, a.err = r.cell.api.Subjects(ctx, o.Stream, o.Subject)
			return a
		}) {
			if answer.err != nil {
				return nil, fmt.Errorf("read sessions with work: %w", answer.err)
			}
			for s := range answer.of {
				add(s)
			}
		}
	}
	return out, nil
}

// subjects are the subjects of a stream, with the number of messages on each.
type subjects struct {
	of  map[string]uint64
	err error
}

func (r *Runs) list(ctx context.Context, most int, of ...layout.Stored) (map[content.SessionID]bool, error) {
	out := make(map[content.SessionID]bool)
	err := r.each(ctx, most, func(subject string) { out[r.cell.names.SessionOf(subject)] = true }, of...)
	delete(out, "") // subjects without a valid ID
	return out, err
}

// each calls do for each subject in the streams. It returns ErrTooMany if a stream has more than most
// subjects.
func (r *Runs) each(ctx context.Context, most int, do func(subject string), of ...layout.Stored) error {
	for _, o := range of {
		subjects, err := r.cell.api.SubjectsUpTo(ctx, most, o.Stream, o.Subject)
		if err != nil {
			return fmt.Errorf("list sessions with work: %w", err)
		}
		for s := range subjects {
			do(s)
		}
	}
	return nil
}

// Forgotten lists the sessions that need a driver or wait for something, but that nothing will wake:
// streams have lost their token and commands, their timer, or a task. It reads the last entry of every
// journal. A session that changes meanwhile may be listed too, and waking it is harmless.
func (r *Runs) Forgotten(ctx context.Context) (out []content.SessionID, err error) {
	n := r.cell.names
	active, tokens, err := r.Sessions(ctx)
	if err != nil {
		return nil, err
	}
	held := make(map[string]map[content.SessionID]int) // by stream: how many messages each session has
	for _, of := range []layout.Stored{{Stream: n.TimersStream(), Subject: n.Timers(AllSessions)}, {Stream: n.TasksStream(), Subject: n.AllTasks()}} {
		subjects, err := r.cell.api.Subjects(ctx, of.Stream, of.Subject)
		if err != nil {
			return nil, fmt.Errorf("list what sessions wait for: %w", err)
		}
		held[of.Stream] = make(map[content.SessionID]int)
		for s := range subjects {
			held[of.Stream][n.SessionOf(s)]++
		}
	}
	all, err := r.cell.Journal().Sessions(ctx)
	if err != nil {
		return nil, err
	}
	for some := range slices.Chunk(all, sessionsAtOnce) {
		forgotten := api.Together(some, func(s content.SessionID) bool {
			if active[s] || tokens[s] {
				return false
			}
			last, err := r.cell.Journal().Last(ctx, s)
			if err != nil || last.Err != nil || len(last.Entry.Events) == 0 {
				return false // its driver cannot do more
			}
			if parked, ok := last.Entry.Events[len(last.Entry.Events)-1].(events.Parked); ok {
				return parked.Timer && held[n.TimersStream()][s] == 0 || parked.Calls > held[n.TasksStream()][s]
			}
			_, deleted := events.DeletionOf(last.Entry)
			return !deleted
		})
		for i, f := range forgotten {
			if f {
				out = append(out, some[i])
			}
		}
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
	}
	return out, nil
}

// Holds reports whether the streams hold what a parked session waits for, according to its last entry.
func (r *Runs) Holds(ctx context.Context, s content.SessionID, last events.Entry) (bool, error) {
	n := r.cell.names
	for _, ev := range last.Events {
		parked, ok := ev.(events.Parked)
		if !ok {
			continue
		}
		if parked.Timer {
			_, err := r.cell.api.Next(ctx, n.TimersStream(), n.Timers(s), 1)
			if errors.Is(err, api.ErrNoMessage) {
				return false, nil
			}
			if err != nil {
				return false, err
			}
		}
		if parked.Calls > 0 {
			tasks, err := r.cell.api.Subjects(ctx, n.TasksStream(), n.Task("*", s, "*"))
			if err != nil || len(tasks) < parked.Calls {
				return false, err
			}
		}
	}
	return true, nil
}

// Pauses between checks of whether a token is gone.
const (
	firstCheck = time.Millisecond
	lastCheck  = 50 * time.Millisecond
)

// Token is the lease to drive one session. The goroutine that took it owns it. A replaced holder drops it
// without an answer, since an answer would affect the new holder.
type Token struct {
	cell    *Cell
	session content.SessionID
	reply   string
	seq     uint64 // of the token in its stream
	first   bool   // it was not delivered before
	waiting uint64 // tokens that no node had taken when this one was taken

	back time.Time // when it returns; zero: not released
	gone bool      // it was deleted
}

// Session returns the session that the token is for.
func (t *Token) Session() content.SessionID { return t.session }

// IsFirst reports whether no other driver had the token, so the session's last driver gave it up in order.
func (t *Token) IsFirst() bool { return t.first }

// Waiting returns how many tokens waited for a node when this one was taken.
func (t *Token) Waiting() uint64 { return t.waiting }

// Reply returns the subject of answers, for Runs.NakFor.
func (t *Token) Reply() string { return t.reply }

// AckWait returns how long the token is held without a renewal. Renew it after a third of that time.
func (t *Token) AckWait() time.Duration { return layout.TokenAckWait }

// Extend renews the lease. It fails without a connection. It does not wait for an answer, which would prove
// nothing.
func (t *Token) Extend() error { return t.answer(api.Progress) }

// ExtendFor is Extend for another duration. To the server it is a return of the token after d.
func (t *Token) ExtendFor(d time.Duration) error {
	return t.answer(fmt.Sprintf(`%s {"delay": %d}`, api.Nak, d.Nanoseconds()))
}

// Release hands the token to another node at once.
func (t *Token) Release() error { return t.ReleaseAfter(0) }

// ReleaseAfter hands the token to any node, including this one, after d.
func (t *Token) ReleaseAfter(d time.Duration) error {
	t.back = time.Now().Add(d)
	if d > 0 {
		return t.ExtendFor(d)
	}
	return t.answer(api.Nak)
}

// Back returns when the token was to return, and whether it is gone. If no node has it some time later, the
// server did not get the answer.
func (t *Token) Back() (at time.Time, gone bool) { return t.back, t.gone }

func (t *Token) answer(what string) error {
	err := nats.ErrDisconnected
	if t.cell.nc.IsConnected() {
		err = t.cell.nc.Publish(t.reply, []byte(what))
	}
	if err != nil {
		return fmt.Errorf("token of %s: %s: %w", t.session, what, err)
	}
	return nil
}

// Done ends the lease and deletes the token. For a replaced holder the server would delete the new
// holder's token, so Done may only follow a guarded append under a fresh lease.
func (t *Token) Done(ctx context.Context) error {
	if err := t.cell.api.Confirm(ctx, t.reply, api.Ack); err != nil {
		return fmt.Errorf("token of %s: done: %w", t.session, err)
	}
	t.gone = true
	return nil
}

// Discard is Done without an answer, for a token that was just taken. If it is lost, the token returns when
// its lease expires.
func (t *Token) Discard() error { return t.answer(api.Ack) }

// WaitGone waits until the stream's leader no longer has the token. With several replicas that is shortly
// after Done was confirmed, and until then a wake has no effect.
func (t *Token) WaitGone(ctx context.Context) error {
	for wait := firstCheck; ; wait = min(2*wait, lastCheck) {
		m, err := t.cell.api.Last(ctx, t.cell.names.RunStream(), t.cell.names.Run(t.session))
		if errors.Is(err, api.ErrNoMessage) || err == nil && m.Seq != t.seq {
			return nil
		}
		if err != nil {
			return fmt.Errorf("token of %s: wait until it is gone: %w", t.session, err)
		}
		if !pause.For(ctx, wait) {
			return fmt.Errorf("token of %s: wait until it is gone: %w", t.session, context.Cause(ctx))
		}
	}
}

// Held reports whether the session still has a token, though not who holds it. It publishes one: if the
// server accepts it, the lease was lost, and the new token wakes the session for its next driver.
func (t *Token) Held(ctx context.Context) (bool, error) {
	_, err := t.cell.api.Publish(ctx, &nats.Msg{Subject: t.cell.names.Run(t.session)})
	if err != nil && !api.IsAlreadyThere(err) {
		return false, fmt.Errorf("token of %s: still held: %w", t.session, err)
	}
	return err != nil, nil
}
