package jetstream

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/nats-io/nats.go"

	"github.com/turnlog/turnlog/content"
)

// Answers to a delivered message.
const (
	answerAck      = "+ACK"
	answerNak      = "-NAK"
	answerProgress = "+WPI"
	answerTerm     = "+TERM"

	answerPrefix = "$JS.ACK."
)

// Runs holds the run tokens: the un-acknowledged token of a session is the lease
// to drive it. Whoever wants a session driven wakes it; whoever has capacity
// takes a token.
//
// No answer of the server proves that a token is still held: it accepts renewals
// and acknowledgements of a holder that was replaced long ago. The proof is a
// guarded append to the session's journal, and nothing else.
type Runs struct {
	cell   *Cell
	tokens *puller
}

// Runs returns the cell's run tokens. All takers of a process share one of it.
func (c *Cell) Runs() *Runs {
	r := &Runs{cell: c}
	r.tokens = newPuller(c.nc, c.names.runStream(), c.names.runConsumer(), func(msg *nats.Msg) {
		_ = msg.Respond([]byte(answerNak)) // unheard, the token comes back after AckWait
	})
	return r
}

// Wake sees to it that the session has a token, waiting or held.
func (r *Runs) Wake(ctx context.Context, s content.SessionID) error {
	msg := &nats.Msg{Subject: r.cell.names.run(s)}
	err := promptly(ctx, func(ctx context.Context) error {
		_, err := r.cell.publish(ctx, msg)
		return err
	})
	if err == nil || isAlreadyThere(err) {
		return nil
	}
	return fmt.Errorf("wake %s: %w", s, r.cell.explain(ctx, r.cell.names.runStream(), err))
}

// WakeSoon is Wake without waiting for what came of it; the sweep heals what is
// lost. Behind a command that was acknowledged it never comes too early.
func (r *Runs) WakeSoon(s content.SessionID) {
	_ = r.cell.nc.Publish(r.cell.names.run(s), nil) // healed by the sweep
}

// Take waits for a token. It returns context.Cause(ctx) when ctx ends; a token
// that arrives later goes back at once. Any number of goroutines may wait.
func (r *Runs) Take(ctx context.Context) (*Token, error) {
	msg, err := r.tokens.take(ctx)
	if err != nil {
		return nil, err
	}
	meta, err := msg.Metadata()
	if err != nil {
		return nil, fmt.Errorf("take %s: %w", msg.Subject, err)
	}
	return &Token{
		cell: r.cell, session: r.cell.names.sessionOf(msg.Subject),
		reply: msg.Reply, seq: meta.Sequence.Stream,
	}, nil
}

// Close withdraws the requests that stand at the server for takers that have left, and
// waits until what came for them meanwhile is back. A request that stood on would be
// given the next token, which waits for its lease if this process has ended by then.
// Tokens that are held stay held.
func (r *Runs) Close(ctx context.Context) error {
	if err := r.tokens.close(ctx); err != nil {
		return fmt.Errorf("close run tokens: %w", err)
	}
	return nil
}

// errNoReply says that something is not the reply subject of a token.
var errNoReply = errors.New("no reply subject of a token")

// NakFor hands a token back on behalf of a holder that is dead, whose reply
// subject is known from its last claim. A false alarm costs that holder a
// conflict.
func (r *Runs) NakFor(reply string) error {
	owner := "." + r.cell.names.runStream() + "." + r.cell.names.runConsumer() + "."
	if !strings.HasPrefix(reply, answerPrefix) || !strings.Contains(reply, owner) {
		return fmt.Errorf("nak for %q: %w", reply, errNoReply)
	}
	if err := r.cell.nc.Publish(reply, []byte(answerNak)); err != nil {
		return fmt.Errorf("nak for %s: %w", reply, err)
	}
	return nil
}
