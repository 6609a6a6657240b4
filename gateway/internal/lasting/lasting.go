// Package lasting keeps responses open that are written event by event for a long time.
//
// A deadline for the whole response would cut off long responses. Without a deadline, a reader that does not read would
// block its writer forever. So each event has a deadline, and comments between events show that the stream is alive.
package lasting

import (
	"net/http"
	"sync"
	"time"
)

// Response is a long response. Several goroutines may write to it, until End.
type Response struct {
	http.ResponseWriter

	rc    *http.ResponseController
	write time.Duration // deadline of an event
	every time.Duration // between comments

	mu    sync.Mutex
	beat  *time.Timer // nil: no event was written
	ended bool
}

// New returns a response. write is how long the reader may take for each event, and every the time between comments, which
// start after the first event of a stream. The request must have been read.
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
