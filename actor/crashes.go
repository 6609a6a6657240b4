package actor

import (
	"errors"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/engine"
	"github.com/turnlog/turnlog/jetstream"
)

// maxBackoff is the longest pause before a session that broke its driver is tried again: by
// then an operator may have repaired what it needs.
const maxBackoff = 10 * time.Minute

// crashBackoff remembers the sessions that broke their drivers on this node.
type crashBackoff struct {
	mu    sync.Mutex // guards known
	known map[content.SessionID]*crash
}

type crash struct {
	pause time.Duration
	why   string // as it was logged
}

// next is the pause before the session is tried again: at first as after a crashed node,
// then twice the one before.
func (b *crashBackoff) next(t *jetstream.Token) time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.known == nil {
		b.known = make(map[content.SessionID]*crash)
	}
	c := b.known[t.Session()]
	if c == nil {
		c = &crash{pause: t.AckWait()}
		b.known[t.Session()] = c
		return c.pause
	}
	c.pause = min(2*c.pause, maxBackoff)
	return c.pause
}

func (b *crashBackoff) forget(s content.SessionID) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.known, s)
}

// log logs an error once, and again when the session breaks for another reason.
func (b *crashBackoff) log(log *zap.Logger, s content.SessionID, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if c := b.known[s]; c != nil {
		if c.why == err.Error() {
			log.Debug("session still cannot be driven", zap.Error(err), zap.Duration("again", c.pause))
			return
		}
		c.why = err.Error()
	}
	fields := []zap.Field{zap.Error(err)}
	if p, ok := errors.AsType[*engine.PanicError](err); ok {
		fields = append(fields, zap.ByteString("stack", p.Stack))
	}
	log.Error("session cannot be driven", fields...)
}
