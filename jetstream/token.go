package jetstream

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/turnlog/turnlog/content"
)

// tokenAckWait is how long a token is held without a renewal. A server that is
// killed takes up to 7 s to be replaced, and no token may change hands over that.
const tokenAckWait = 12 * time.Second

// Pauses between two looks at a token that is about to go.
const (
	firstLook = time.Millisecond
	lastLook  = 50 * time.Millisecond
)

// Token is the lease to drive one session. It is owned by the goroutine that took
// it. A holder that was fenced lets go of it without a word: an answer of any
// kind would concern the new holder.
type Token struct {
	cell    *Cell
	session content.SessionID
	reply   string
	seq     uint64 // of the token in its stream
}

// Session is the session that the token is for.
func (t *Token) Session() content.SessionID { return t.session }

// Reply is the subject that answers go to, for Runs.NakFor.
func (t *Token) Reply() string { return t.reply }

// AckWait is how long the token is held without a renewal; renew at a third of it.
func (t *Token) AckWait() time.Duration { return tokenAckWait }

// Extend renews the lease. It does not wait for an answer, which would prove
// nothing; it is an error if there is no connection to send it on.
func (t *Token) Extend() error { return t.answer(answerProgress) }

// Release hands the token to another node, at once.
func (t *Token) Release() error { return t.answer(answerNak) }

// ReleaseAfter hands the token to another node, or to this one again, once d has
// passed.
func (t *Token) ReleaseAfter(d time.Duration) error {
	return t.answer(fmt.Sprintf(`%s {"delay": %d}`, answerNak, d.Nanoseconds()))
}

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

// Done ends the lease and takes the token away. The server confirms it, also to a
// holder that was replaced, whose confirmation takes the token of the new one
// away: Done may follow only a guarded append under a fresh lease.
func (t *Token) Done(ctx context.Context) error {
	if err := t.cell.confirm(ctx, t.reply, answerAck); err != nil {
		return fmt.Errorf("token of %s: done: %w", t.session, err)
	}
	return nil
}

// WaitGone waits until the stream's leader no longer has the token: with several
// replicas that is a little after Done was confirmed, and until then a wake is
// refused.
func (t *Token) WaitGone(ctx context.Context) error {
	for pause := firstLook; ; pause = min(2*pause, lastLook) {
		m, err := t.cell.leaderLast(ctx, t.cell.names.runStream(), t.cell.names.run(t.session))
		if errors.Is(err, errNoMessage) || err == nil && m.Seq != t.seq {
			return nil
		}
		if err != nil {
			return fmt.Errorf("token of %s: wait until it is gone: %w", t.session, err)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("token of %s: wait until it is gone: %w", t.session, context.Cause(ctx))
		case <-time.After(pause):
		}
	}
}

// Held asks whether the session still has a token, by publishing one: that it is
// refused is what a holder expects. If it is accepted, the lease was lost, and
// the new token wakes whoever is to drive the session now. That there is a token
// does not prove whose it is.
func (t *Token) Held(ctx context.Context) (bool, error) {
	_, err := t.cell.publish(ctx, &nats.Msg{Subject: t.cell.names.run(t.session)})
	switch {
	case err == nil:
		return false, nil
	case isAlreadyThere(err):
		return true, nil
	}
	return false, fmt.Errorf("token of %s: still held: %w", t.session, err)
}
