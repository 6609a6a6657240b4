package actor

import (
	"errors"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/jetstream"
)

// maxBreak is the longest pause before a session that broke its driver is tried
// again: by then somebody may have mended what it needs.
const maxBreak = 10 * time.Minute

// breaks remembers the sessions that broke their drivers on this node.
type breaks struct {
	mu    sync.Mutex // guards known
	known map[content.SessionID]*broke
}

type broke struct {
	pause time.Duration
	why   string // as it was logged
}

// again says when the session may be tried again: at first as soon as after a
// crash, then after twice the time before.
func (b *breaks) again(t *jetstream.Token) time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.known == nil {
		b.known = make(map[content.SessionID]*broke)
	}
	k := b.known[t.Session()]
	if k == nil {
		k = &broke{pause: t.AckWait()}
		b.known[t.Session()] = k
		return k.pause
	}
	k.pause = min(2*k.pause, maxBreak)
	return k.pause
}

func (b *breaks) forget(s content.SessionID) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.known, s)
}

// log tells an operator of the session once, and again if something else is the
// matter with it.
func (b *breaks) log(log *zap.Logger, s content.SessionID, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if k := b.known[s]; k != nil {
		if k.why == err.Error() {
			log.Debug("session cannot be driven yet", zap.Error(err), zap.Duration("again", k.pause))
			return
		}
		k.why = err.Error()
	}
	fields := []zap.Field{zap.Error(err)}
	if broken, ok := errors.AsType[*brokenError](err); ok {
		fields = append(fields, zap.ByteString("stack", broken.stack))
	}
	log.Error("session cannot be driven", fields...)
}
