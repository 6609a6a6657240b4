package modeltest

import (
	"bytes"
	"io"
	"iter"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
)

// Answer is the response of a [Server] to one request.
type Answer struct {
	Status int               // zero: 200
	Header map[string]string // Content-Type is text/event-stream unless given
	Body   string
	Pieces int  // the body is flushed in this many pieces; zero: line by line
	Silent bool // send nothing after the body until the client disconnects
	Cut    bool // break the connection after the body
}

// Asked is a request that a [Server] received.
type Asked struct {
	Method, Path string
	Query        string
	Header       http.Header
	Body         []byte
}

// Server is a fake provider. It responds over HTTP, on loopback, with given bytes.
type Server struct {
	URL string

	mu    sync.Mutex
	asked []Asked
}

// Serve starts a server that responds with the result of answer. It stops at the end of
// the test.
func Serve(t testing.TB, answer func(Asked) Answer) *Server {
	t.Helper()
	s := &Server{}
	h := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return // the client disconnected
		}
		a := Asked{Method: r.Method, Path: r.URL.Path, Query: r.URL.RawQuery, Header: r.Header.Clone(), Body: body}
		s.note(a)
		play(w, r, answer(a))
	}))
	t.Cleanup(func() {
		h.CloseClientConnections()
		h.Close()
	})
	s.URL = h.URL
	return s
}

// ServeOne starts a server with the same response to every request.
func ServeOne(t testing.TB, a Answer) *Server {
	t.Helper()
	return Serve(t, func(Asked) Answer { return a })
}

func (s *Server) note(a Asked) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked = append(s.asked, a)
}

// Asked returns the requests so far, in order.
func (s *Server) Asked() []Asked {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.asked)
}

func play(w http.ResponseWriter, r *http.Request, a Answer) {
	w.Header().Set("Content-Type", "text/event-stream")
	for k, v := range a.Header {
		w.Header().Set(k, v)
	}
	if a.Status != 0 {
		w.WriteHeader(a.Status)
	}
	flush := http.NewResponseController(w)
	for piece := range pieces([]byte(a.Body), a.Pieces) {
		if _, err := w.Write(piece); err != nil {
			return
		}
		_ = flush.Flush() // the next write fails if the client has disconnected
	}
	switch {
	case a.Silent:
		<-r.Context().Done()
	case a.Cut:
		panic(http.ErrAbortHandler)
	}
}

// pieces splits body into n pieces of about the same size, or into lines if n is 0.
func pieces(body []byte, n int) iter.Seq[[]byte] {
	if n <= 0 {
		return bytes.Lines(body)
	}
	return slices.Chunk(body, max(1, (len(body)+n-1)/n))
}
