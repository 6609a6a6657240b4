package natsservice

import (
	"context"
	"time"

	"github.com/nats-io/nats.go"
)

// inbox receives the answers to one request. A synchronous subscription would allocate half a megabyte for
// each request, and one with a smaller queue would drop the outcome of a service that reports much progress.
type inbox struct {
	conn    *nats.Conn
	answers chan *nats.Msg // unbuffered: the subscription keeps what has not been read
	closed  chan struct{}
	sub     *nats.Subscription
}

func listen(nc *nats.Conn) (*inbox, error) {
	i := &inbox{conn: nc, answers: make(chan *nats.Msg), closed: make(chan struct{})}
	var err error
	i.sub, err = nc.Subscribe(nc.NewInbox(), func(m *nats.Msg) {
		select {
		case i.answers <- m:
		case <-i.closed:
		}
	})
	return i, err //nolint:wrapcheck // its callers wrap it
}

func (i *inbox) close() {
	close(i.closed)
	_ = i.sub.Unsubscribe() // also fails if the connection ended
}

// next returns the next answer. If none comes in time, the error is [context.DeadlineExceeded].
func (i *inbox) next(ctx context.Context, wait time.Duration) (*nats.Msg, error) {
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	select {
	case m := <-i.answers:
		if len(m.Data) == 0 && m.Header.Get("Status") == "503" {
			return nil, nats.ErrNoResponders
		}
		return m, nil
	case <-ctx.Done():
		if i.conn.IsClosed() {
			return nil, nats.ErrConnectionClosed
		}
		return nil, ctx.Err() //nolint:wrapcheck // likewise
	}
}
