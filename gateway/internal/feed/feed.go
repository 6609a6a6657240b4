// Package feed writes the events of a session to one reader, in the format of a protocol.
//
// Each protocol is a [Dialect]; everything else is shared. Events are sent as soon as they arrive. Comments show that the
// stream is alive. A reader that is too slow, or whose gateway stops, gets an event that tells it to reconnect. So readers
// do not delay each other, and each uses bounded memory.
package feed

import (
	"context"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/turnlog/turnlog/client"
	"github.com/turnlog/turnlog/gateway/internal/problem"
	"github.com/turnlog/turnlog/gateway/internal/stream"
)

// Following is the events of a session after a place.
type Following struct {
	Stream  *stream.Stream
	Updates func(context.Context) Updates
	Place   stream.Cursor // where it begins
}

// Updates yields the updates of a session until the context ends.
type Updates = func(yield func(client.Update, error) bool)

// Dialect writes the events of a session in the format of a protocol.
type Dialect interface {
	// Begin writes where the stream begins. A reader that leaves before the first event continues there.
	Begin(w *Writer, at stream.Cursor)

	// Event writes an event of the stream and reports whether it was the last one.
	Event(w *Writer, ev stream.Event) (last bool)

	// Trouble writes why no events come at the moment.
	Trouble(w *Writer, p *problem.Problem)

	// Stop writes why the stream stops here.
	Stop(w *Writer, p *problem.Problem)

	// Reconnect tells the reader to reconnect at once, here or at another gateway.
	Reconnect(w *Writer, why string)
}

// Silent is for dialects that write only the events of the session.
type Silent struct{}

// Begin writes nothing.
func (Silent) Begin(*Writer, stream.Cursor) {}

// Trouble writes nothing.
func (Silent) Trouble(*Writer, *problem.Problem) {}

// Server writes streams.
type Server struct {
	Patience  time.Duration // how long a write may wait for its reader
	Heartbeat time.Duration // between comments
	Closing   <-chan struct{}
	Connected func() bool        // whether there is a server
	Open      prometheus.Gauge   // counts streams
	Slow      prometheus.Counter // counts readers that are too slow

	Problem func(context.Context, error) *problem.Problem
}

// received is an update of a session, or the reason why there are no more.
type received struct {
	update client.Update
	err    error
	over   bool
}

// writing is a stream that is being written. One goroutine owns it.
type writing struct {
	*Writer
	*Server

	stream *stream.Stream
	speaks Dialect
	last   bool // nothing follows
}

// Serve writes a stream until the reader leaves, is too slow, or nothing follows, as when the session is deleted.
func (s *Server) Serve(ctx context.Context, w http.ResponseWriter, f Following, speaks Dialect) {
	s.Open.Inc()
	defer s.Open.Dec()
	e := &writing{Writer: newWriter(w, s.Patience), Server: s, stream: f.Stream, speaks: speaks}
	e.Begin()
	w.WriteHeader(http.StatusOK)
	speaks.Begin(e.Writer, f.Place)
	if e.Flush() != nil {
		return
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	all := make(chan received)
	done := make(chan struct{})
	go func() {
		defer close(done)
		pass := func(h received) bool {
			select {
			case all <- h:
				return true
			case <-ctx.Done():
				return false
			}
		}
		for u, err := range f.Updates(ctx) {
			if !pass(received{update: u, err: err}) {
				return
			}
		}
		pass(received{over: true})
	}()
	e.write(ctx, all)
	stop()
	<-done
}

// reconnect tells the reader to reconnect at once, here or at another gateway.
func (e *writing) reconnect(why string) {
	e.Begin()
	e.speaks.Reconnect(e.Writer, why)
	_ = e.Flush()
}

func (e *writing) write(ctx context.Context, all <-chan received) {
	beat := time.NewTicker(e.Heartbeat)
	defer beat.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-e.Closing:
			e.reconnect("this gateway is stopping")
			return
		case <-beat.C:
			e.Begin()
			e.Line(": \n")
			if !e.Connected() {
				e.speaks.Trouble(e.Writer, problem.NoNATS())
			}
		case h := <-all:
			e.Begin()
			if e.take(ctx, h) {
				return
			}
			for more := true; more && e.Room(); { // also write what has arrived meanwhile
				select {
				case h := <-all:
					if e.take(ctx, h) {
						return
					}
				default:
					more = false
				}
			}
		}
		err := e.Flush()
		if e.Late() {
			e.Slow.Inc()
		}
		if err != nil {
			return
		}
		if e.Late() {
			e.reconnect("the client reads too slowly")
			return
		}
	}
}

// take writes an update, and reports whether it was the last one.
func (e *writing) take(ctx context.Context, h received) (last bool) {
	put := func(ev stream.Event) { e.last = e.last || e.speaks.Event(e.Writer, ev) }
	switch {
	case h.over:
		e.reconnect("the stream ended")
		return true
	case h.err != nil:
		e.speaks.Stop(e.Writer, e.Problem(ctx, h.err))
		e.last = true
	case h.update.Record == nil:
		e.stream.Live(h.update.Live, put)
	default:
		e.stream.Entry(*h.update.Record, put)
	}
	if e.last {
		_ = e.Flush()
	}
	return e.last
}
