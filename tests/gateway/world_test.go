package gateway

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/turnlog/turnlog/actor"
	"github.com/turnlog/turnlog/client"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/gateway"
	"github.com/turnlog/turnlog/gateway/people"
	"github.com/turnlog/turnlog/jetstream/admin"
	"github.com/turnlog/turnlog/model"
	"github.com/turnlog/turnlog/model/scripted"
	"github.com/turnlog/turnlog/turnlogtest"
)

func TestMain(m *testing.M) { turnlogtest.Main(m) }

// token is that of the operator of every gateway here, unless the test has people.
const token = "the-token-of-the-operator"

// world is a cell in a bubble.
type world struct{ *turnlogtest.Deployment }

// in runs a test in a bubble.
func in(t *testing.T, test func(*world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 24*time.Hour)
		t.Cleanup(cancel)
		test(&world{turnlogtest.Empty(ctx, t, turnlogtest.Lease(5*time.Second))})
	})
}

func (w *world) drive() *turnlogtest.Process {
	return w.Node(actor.Config{Models: func(name string, data []byte) (model.Model, error) { return scripted.Parse(name, data) }})
}

// service is a gateway that runs.
type service struct {
	w    *world
	nats *nats.Conn
	pipe *pipes

	stop func()
}

// gateway runs a gateway, with a connection to NATS of its own.
func (w *world) gateway(change ...func(*gateway.Config)) *service {
	w.T.Helper()
	nc := w.Connect()
	c, err := client.Open(nc, "")
	if err != nil {
		w.T.Fatal(err)
	}
	cfg := gateway.Config{
		Client: c, Connected: nc.IsConnected, Backlog: admin.Of(w.Open(nc)).Backlog, Defaults: events.Config{Model: "m", ModelData: []byte(hello)},
		Access: people.Access{Token: token, Operator: "ops", Loopback: true},
	}
	for _, f := range change {
		f(&cfg)
	}
	g, err := gateway.New(cfg)
	if err != nil {
		w.T.Fatal(err)
	}
	ctx, cancel := context.WithCancel(w.Ctx)
	s := &service{w: w, nats: nc, pipe: newPipes()}
	described.once.Do(func() { described.read(w.T, g) })
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if err := g.Serve(ctx, s.pipe); err != nil {
			w.T.Errorf("gateway: %v", err)
		}
	}()
	s.stop = func() { // once or more; no lock is held while it waits, which would stop virtual time
		cancel()
		<-ended
	}
	w.T.Cleanup(s.stop)
	return s
}

const hello = "replies:\n  - text: Hello, world\n    chunk: 3\n    repeat: true\n"

// pipes is a listener without a network.
type pipes struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once

	mu  sync.Mutex
	all []net.Conn
}

func newPipes() *pipes { return &pipes{conns: make(chan net.Conn), closed: make(chan struct{})} }

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error {
	p.once.Do(func() { close(p.closed) })
	return nil
}

func (p *pipes) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 8410} }

func (p *pipes) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	near, far := net.Pipe()
	select {
	case p.conns <- far:
		p.mu.Lock()
		p.all = append(p.all, near)
		p.mu.Unlock()
		return near, nil
	case <-p.closed:
		return nil, errors.New("connection refused")
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// buffered is a client's end of a pipe that takes what is written after the gateway has closed its end, as a socket's buffer does.
// A gateway that refuses a body answers and closes while the client still writes: the client must read the answer, not fail to write.
type buffered struct{ net.Conn }

func (c buffered) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(b)
	if errors.Is(err, io.ErrClosedPipe) {
		return len(b), nil
	}
	return n, err
}

// dialBuffered is dial for an HTTP client.
func (p *pipes) dialBuffered(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := p.dial(ctx, network, address)
	if err != nil {
		return nil, err
	}
	return buffered{conn}, nil
}

// cut ends every connection.
func (p *pipes) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.all {
		_ = c.Close()
	}
	p.all = nil
}

// answer is a response.
type answer struct {
	status int
	header http.Header
	body   []byte
}

// in decodes the body.
func (a answer) in(t testing.TB, v any) {
	t.Helper()
	if err := json.Unmarshal(a.body, v); err != nil {
		t.Fatalf("%d %s: %v", a.status, a.body, err)
	}
}

// problem checks that the answer is a problem with that code and says what to do.
func (a answer) problem(t testing.TB, status int, code string) {
	t.Helper()
	var p struct {
		Type, Title, Detail, Do string
		Status                  int
	}
	if a.status != status || a.header.Get("Content-Type") != "application/problem+json" {
		t.Errorf("%d %s, want %d %s: %s", a.status, a.header.Get("Content-Type"), status, code, a.body)
		return
	}
	a.in(t, &p)
	if p.Type != "urn:turnlog:problem:"+code || p.Status != status || p.Title == "" || p.Detail == "" || p.Do == "" {
		t.Errorf("problem %s, want %s", a.body, code)
	}
}

// request changes a request of the operator.
type request func(*http.Request)

func with(header, value string) request {
	return func(r *http.Request) {
		if header == "Host" {
			r.Host = value
		}
		r.Header.Set(header, value)
	}
}

func (s *service) client() *http.Client {
	return &http.Client{Transport: &http.Transport{DialContext: s.pipe.dialBuffered, DisableKeepAlives: true}, CheckRedirect: func(*http.Request, []*http.Request) error {
		return http.ErrUseLastResponse
	}}
}

// send sends a request as the operator, with JSON or raw bytes as its body.
func (s *service) send(method, path string, body any, change ...request) (*http.Response, error) {
	var src io.Reader
	switch b := body.(type) {
	case nil:
	case io.Reader:
		src = b
	case string:
		src = strings.NewReader(b)
	default:
		raw, err := json.Marshal(b)
		if err != nil {
			return nil, err
		}
		src = bytes.NewReader(raw)
	}
	r, err := http.NewRequestWithContext(s.w.Ctx, method, "http://127.0.0.1:8410"+path, src)
	if err != nil {
		return nil, err
	}
	r.Header.Set("Authorization", "Bearer "+token)
	r.Header.Set("Content-Type", "application/json")
	for _, f := range change {
		f(r)
	}
	return s.client().Do(r)
}

func (s *service) do(method, path string, body any, change ...request) answer {
	s.w.T.Helper()
	resp, err := s.send(method, path, body, change...)
	if err != nil {
		s.w.T.Fatalf("%s %s: %v", method, path, err)
	}
	defer func() { _ = resp.Body.Close() }()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		s.w.T.Fatalf("%s %s: %v", method, path, err)
	}
	a := answer{resp.StatusCode, resp.Header, raw}
	described.check(s.w.T, resp.Request, a)
	return a
}

// ok is do for a request that succeeds.
func (s *service) ok(method, path string, body any, change ...request) answer {
	s.w.T.Helper()
	a := s.do(method, path, body, change...)
	if a.status >= 300 {
		s.w.T.Fatalf("%s %s: %d %s", method, path, a.status, a.body)
	}
	return a
}

// open opens a session and returns its ID.
func (s *service) open(body map[string]any, change ...request) content.SessionID {
	s.w.T.Helper()
	var out struct{ Session content.SessionID }
	s.ok(http.MethodPost, "/api/sessions", body, change...).in(s.w.T, &out)
	return out.Session
}

// event is a server-sent event.
type event struct{ id, kind, data string }

func (e event) in(t testing.TB, v any) {
	t.Helper()
	if err := json.Unmarshal([]byte(e.data), v); err != nil {
		t.Fatalf("%s %s: %v", e.kind, e.data, err)
	}
}

// feed is an open stream.
type feed struct {
	resp  *http.Response
	lines *bufio.Reader
	last  string // the last event's ID
	beats int    // comments
	retry string
}

func (s *service) follow(id content.SessionID, after string, change ...request) (*feed, error) {
	if after != "" {
		change = append(change, with("Last-Event-ID", after))
	}
	resp, err := s.send(http.MethodGet, "/api/sessions/"+string(id)+"/events", nil, change...) //nolint:bodyclose // the feed closes it
	if err != nil {
		return nil, err
	}
	return &feed{resp: resp, lines: bufio.NewReader(resp.Body), last: after}, nil
}

func (f *feed) close() { _ = f.resp.Body.Close() }

// next returns the next event, or an error when the stream ends.
func (f *feed) next() (e event, err error) {
	for {
		line, err := f.lines.ReadString('\n')
		if err != nil {
			return e, err
		}
		name, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ": ")
		switch name {
		case "id":
			e.id, f.last = value, value
		case "event":
			e.kind = value
		case "data":
			e.data = value
		case "retry":
			f.retry = value
		case "":
			if strings.HasPrefix(line, ":") {
				f.beats++
			} else if e.kind != "" {
				return e, nil
			}
		}
	}
}
