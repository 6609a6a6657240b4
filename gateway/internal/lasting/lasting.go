// Package lasting keeps responses open that others write, event by event, for as long as that takes.
//
// The one idea: a deadline for a whole response cuts off long ones, and none lets a reader that does not read hold its
// writer for ever. So each event has its own time, and while there are none, comments say that the stream is alive.
package lasting

import (
	"net/http"
	"sync"
	"time"
)

// Response is a response that lasts. It may be written by several goroutines, until End.
type Response struct {
	http.ResponseWriter

	rc    *http.ResponseController
	write time.Duration // for an event
	every time.Duration // between comments

	mu    sync.Mutex
	beat  *time.Timer // nil: no event was written
	ended bool
}

// New returns a response whose reader has a time for each event. Comments come in a stream of events, after its first one.
// The request must have been read.
func New(w http.ResponseWriter, write, every time.Duration) *Response {
	r := &Response{ResponseWriter: w, rc: http.NewResponseController(w), write: write, every: every}
	_ = r.rc.SetReadDeadline(time.Time{}) // it would end the request
	return r
}

// Unwrap returns the response for http.ResponseController.
func (r *Response) Unwrap() http.ResponseWriter { return r.ResponseWriter }

// Write writes one or more whole events.
func (r *Response) Write(b []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.put(b)
}

func (r *Response) put(b []byte) (int, error) {
	_ = r.rc.SetWriteDeadline(time.Now().Add(r.write)) // every connection has deadlines
	n, err := r.ResponseWriter.Write(b)
	switch {
	case r.ended || r.Header().Get("Content-Type") != "text/event-stream":
	case r.beat == nil:
		r.beat = time.AfterFunc(r.every, r.comment)
	default:
		r.beat.Reset(r.every)
	}
	return n, err //nolint:wrapcheck // it is a writer
}

func (r *Response) comment() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.ended {
		_, _ = r.put([]byte(": \n\n")) // the next event reports the error
		_ = r.rc.Flush()
	}
}

// FlushError sends what was written.
func (r *Response) FlushError() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.rc.Flush() //nolint:wrapcheck // it is a writer
}

// End ends the comments.
func (r *Response) End() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ended = true
	if r.beat != nil {
		r.beat.Stop()
	}
}
