package jetstream

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/turnlog/turnlog/content"
)

// end is where a session's journal ended when a read of it began, as the leader knows it:
// the replica that is read from may lag behind. It is asked for beside the first read.
type end struct {
	journal *Journal
	session content.SessionID
	known   chan struct{} // closed when at and err are set
	stop    context.CancelFunc

	at  uint64 // the position of the last entry in the stream, 0 if there was none
	err error

	lags  time.Duration // how long an entry was waited for
	pause time.Duration // before the next look
}

func (j *Journal) endOf(ctx context.Context, s content.SessionID) *end {
	ctx, stop := context.WithCancel(ctx)
	e := &end{journal: j, session: s, known: make(chan struct{}), stop: stop, pause: firstPause}
	go func() { // close waits for it
		defer close(e.known)
		e.at, e.err = e.ask(ctx)
	}()
	return e
}

func (e *end) close() {
	e.stop()
	<-e.known
}

func (e *end) ask(ctx context.Context) (uint64, error) {
	n := e.journal.cell.names
	last, err := e.journal.cell.leaderLast(ctx, n.journalStream(), n.journal(e.session))
	if errors.Is(err, errNoMessage) {
		return 0, nil
	}
	return last.Seq, err
}

// missing reports whether a read that came to a position has to go on, and waits a little
// if it has. What was deleted meanwhile is not waited for.
func (e *end) missing(ctx context.Context, read uint64) (bool, error) {
	<-e.known
	if e.err != nil || read >= e.at {
		return false, e.err
	}
	if e.lags >= patience {
		return false, fmt.Errorf("the entry at %d of the stream was acknowledged, and after %v none behind %d can be read", e.at, patience, read)
	}
	select {
	case <-time.After(e.pause):
	case <-ctx.Done():
		return false, context.Cause(ctx)
	}
	e.lags, e.pause = e.lags+e.pause, min(2*e.pause, lastPause)
	now, err := e.ask(ctx)
	e.at = min(e.at, now)
	return read < e.at, err
}
