package gateway

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/turnlog/turnlog/actor"
	"github.com/turnlog/turnlog/client"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/embedded"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/events/journal"
	"github.com/turnlog/turnlog/gateway"
	"github.com/turnlog/turnlog/gateway/people"
	"github.com/turnlog/turnlog/internal/testing/clitest"
	"github.com/turnlog/turnlog/jetstream/admin"
	"github.com/turnlog/turnlog/model"
	"github.com/turnlog/turnlog/model/scripted"
	"github.com/turnlog/turnlog/turnlogtest"
)

// site is a deployment over TCP, with streams on disk.
type site struct {
	*turnlogtest.Deployment

	nats string
}

func newSite(b *testing.B) *site {
	b.Helper()
	srv, err := embedded.Start(b.Context(), embedded.WithListener("127.0.0.1:0"), embedded.WithStore(b.TempDir()))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(srv.Close)
	s := &site{nats: srv.ClientURL()}
	s.Deployment = turnlogtest.On(b.Context(), b, overTCP{s.nats}, admin.Config{})
	return s
}

// overTCP connects to a server like a program on another machine.
type overTCP struct{ url string }

func (t overTCP) Connect(opts ...nats.Option) (*nats.Conn, error) {
	return nats.Connect(t.url, opts...)
}

// gateway runs a gateway in this process and returns its address.
func (s *site) gateway() (addr string) {
	s.T.Helper()
	c, err := client.Open(s.Connect(), "")
	if err != nil {
		s.T.Fatal(err)
	}
	g, err := gateway.New(gateway.Config{
		Client: c, Defaults: events.Config{Model: "m", ModelData: []byte(hello)}, Access: people.Access{Token: token, Operator: "ops", Loopback: true},
	})
	if err != nil {
		s.T.Fatal(err)
	}
	var cfg net.ListenConfig
	l, err := cfg.Listen(s.Ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		s.T.Fatal(err)
	}
	ctx, cancel := context.WithCancel(s.Ctx)
	ended := make(chan error)
	go func() { ended <- g.Serve(ctx, l) }()
	s.T.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			s.T.Error(err)
		}
	})
	return l.Addr().String()
}

// writer appends to the journal of a session that no node drives.
type writer struct {
	s    *site
	id   content.SessionID
	head journal.Head
}

func (s *site) writer(id content.SessionID) *writer {
	w := &writer{s: s, id: id}
	w.append(events.DriverClaimed{Epoch: 1}, events.RunStarted{Config: events.Config{Model: "m"}})
	return w
}

func (w *writer) append(all ...events.Event) {
	e := events.Entry{Session: w.id, Cause: "bench/" + strconv.FormatUint(w.head.Seq, 10), At: content.TimeOf(time.Now()), Epoch: 1, Events: all}
	head, err := w.s.Cell.Journal().Append(w.s.Ctx, w.head, e)
	if err != nil {
		w.s.T.Fatal(err)
	}
	w.head = head
}

// follower is a client that follows a session over a connection of its own, using as little memory as possible.
type follower struct {
	conn  net.Conn
	lines *bufio.Reader
}

func (s *site) follower(addr string, id content.SessionID) *follower {
	var d net.Dialer
	conn, err := d.DialContext(s.Ctx, "tcp", addr)
	if err == nil {
		_, err = fmt.Fprintf(conn, "GET /api/sessions/%s/events?after=now HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\n\r\n", id, addr, token)
	}
	if err != nil {
		s.T.Fatal(err)
	}
	s.T.Cleanup(func() { _ = conn.Close() })
	return &follower{conn, bufio.NewReaderSize(conn, 4<<10)}
}

// await waits for a line that begins with a text.
func (f *follower) await(text string) error {
	for {
		line, err := f.lines.ReadSlice('\n')
		if err != nil && !errors.Is(err, bufio.ErrBufferFull) {
			return err
		}
		if bytes.HasPrefix(line, []byte(text)) {
			return nil
		}
	}
}

func percentile(all []time.Duration, p float64) float64 {
	slices.Sort(all)
	return float64(all[int(p*float64(len(all)-1))].Microseconds())
}

// BenchmarkAppendToClient measures the time from the append of an entry until a client of the gateway has it, and for
// comparison until a plain subscription has it.
func BenchmarkAppendToClient(b *testing.B) {
	s := newSite(b)
	w, f := s.writer("s"), s.follower(s.gateway(), "s")
	if err := f.await("id:"); err != nil {
		b.Fatal(err)
	}
	sub, err := s.Connect().SubscribeSync("turnlog.live.journal.s")
	if err != nil {
		b.Fatal(err)
	}
	var began time.Time
	plain, followed := make(chan time.Duration), make(chan time.Duration)
	watch := func(out chan<- time.Duration, wait func() error) {
		for wait() == nil {
			out <- time.Since(began)
		}
	}
	go watch(plain, func() error {
		_, err := sub.NextMsgWithContext(s.Ctx)
		return err
	})
	go watch(followed, func() error { return f.await("event: entry") })
	var subscribed, streamed []time.Duration
	for b.Loop() {
		began = time.Now()
		w.append(events.Warning{Code: "bench"})
		subscribed, streamed = append(subscribed, <-plain), append(streamed, <-followed)
	}
	b.ReportMetric(percentile(subscribed, 0.5), "µs/nats-p50")
	b.ReportMetric(percentile(subscribed, 0.99), "µs/nats-p99")
	b.ReportMetric(percentile(streamed, 0.5), "µs/sse-p50")
	b.ReportMetric(percentile(streamed, 0.99), "µs/sse-p99")
	b.ReportMetric(0, "ns/op")
}

// BenchmarkFollowers has 2,000 clients follow 100 sessions at one gateway, which is a process of its own, and measures its memory for each, and
// the time until all of them have an entry of every session.
func BenchmarkFollowers(b *testing.B) {
	const sessions, each = 100, 20
	s := newSite(b)
	bin, err := clitest.Build(b.Context(), "./cmd/turnlog")
	if err != nil {
		b.Fatal(err)
	}
	screen := clitest.NewScreen()
	ctx, stop := context.WithCancel(b.Context())
	cmd := exec.CommandContext(ctx, filepath.Join(bin, "turnlog"), "gateway", "--listen", "127.0.0.1:0")
	cmd.Env, cmd.Stdout, cmd.Stderr = append(cmd.Environ(), "NATS_URL="+s.nats, "TURNLOG_GATEWAY_TOKEN="+token), screen, screen
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		stop()
		_ = cmd.Wait()
	})
	addr := screen.AwaitMatch(b, `http://(127\.0\.0\.1:\d+)`)
	resident := func() int {
		out, err := exec.CommandContext(ctx, "ps", "-o", "rss=", "-p", strconv.Itoa(cmd.Process.Pid)).Output()
		kb, bad := strconv.Atoi(strings.TrimSpace(string(out)))
		if err != nil || bad != nil {
			b.Fatal(err, bad)
		}
		return kb
	}
	var writers []*writer
	for i := range sessions {
		writers = append(writers, s.writer(content.SessionID(fmt.Sprint("s", i))))
	}
	before := resident()
	got := make(chan error)
	for i := range sessions * each {
		f := s.follower(addr, writers[i%sessions].id)
		if err := f.await("id:"); err != nil {
			b.Fatal(err)
		}
		go func() {
			for err := error(nil); err == nil; got <- err {
				err = f.await("event: entry")
			}
		}()
	}
	after := resident()
	for b.Loop() {
		for _, w := range writers {
			w.append(events.Warning{Code: "bench"})
		}
		for range sessions * each {
			if err := <-got; err != nil {
				b.Fatal(err)
			}
		}
	}
	b.ReportMetric(float64(after-before)/(sessions*each), "KB/follower")
	b.ReportMetric(float64(resident()-before)/(sessions*each), "KB/follower-later")
	b.ReportMetric(float64(b.Elapsed().Milliseconds())/float64(b.N), "ms/entry-for-all")
	b.ReportMetric(0, "ns/op")
}

// BenchmarkResponses measures turns over the Responses API, by 32 clients at once, with everything in this process: each turn in a new session,
// or in the session of the previous turn.
func BenchmarkResponses(b *testing.B) {
	s := newSite(b)
	node := s.Node(actor.Config{Models: func(name string, data []byte) (model.Model, error) { return scripted.Parse(name, data) }})
	defer node.Drain(b)
	addr := s.gateway()
	hc := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}}
	respond := func(previous string) (id string, err error) {
		body, _ := json.Marshal(fields{"model": "m", "input": "Hi", "previous_response_id": previous})
		r, err := http.NewRequestWithContext(s.Ctx, http.MethodPost, "http://"+addr+"/v1/responses", bytes.NewReader(body))
		if err != nil {
			return "", err
		}
		r.Header.Set("Authorization", "Bearer "+token)
		resp, err := hc.Do(r)
		if err != nil {
			return "", err
		}
		defer func() { _ = resp.Body.Close() }()
		raw, err := io.ReadAll(resp.Body)
		var out response
		if err == nil {
			err = json.Unmarshal(raw, &out)
		}
		if err == nil && out.Status != "completed" {
			err = fmt.Errorf("%d %s", resp.StatusCode, raw)
		}
		return out.ID, err
	}
	for name, keep := range map[string]bool{"new": false, "next": true} {
		b.Run(name, func(b *testing.B) {
			var mu sync.Mutex
			var all []time.Duration
			b.SetParallelism(32 / runtime.GOMAXPROCS(0))
			b.RunParallel(func(pb *testing.PB) {
				previous := ""
				for pb.Next() {
					began := time.Now()
					id, err := respond(previous)
					if err != nil {
						b.Error(err)
						return
					}
					if keep {
						previous = id
					}
					mu.Lock()
					all = append(all, time.Since(began))
					mu.Unlock()
				}
			})
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "turns/s")
			b.ReportMetric(percentile(all, 0.5)/1000, "ms/p50")
			b.ReportMetric(percentile(all, 0.99)/1000, "ms/p99")
			b.ReportMetric(0, "ns/op")
		})
	}
}
