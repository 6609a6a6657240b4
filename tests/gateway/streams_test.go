package gateway

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/turnlog/turnlog/actor"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/gateway"
	"github.com/turnlog/turnlog/model"
	"github.com/turnlog/turnlog/model/scripted"
	"github.com/turnlog/turnlog/turnlogtest"
)

// ticking is a model that takes a while for each fragment.
type ticking struct{ model.Model }

func (m ticking) Call(ctx context.Context, r model.Request, emit func(content.Delta)) (model.Reply, error) {
	return m.Model.Call(ctx, r, func(d content.Delta) {
		emit(d)
		select {
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
		}
	})
}

func (w *world) slowNode(name string) *turnlogtest.Process {
	return w.Node(actor.Config{Name: name, Models: func(name string, data []byte) (model.Model, error) {
		m, err := scripted.Parse(name, data)
		return ticking{m}, err
	}})
}

// long is a reply that takes seconds.
const long = "replies:\n  - text: \"{{.Prompt}}: " + longText + "\"\n    chunk: 5\n    repeat: true\n"

const longText = "Ein Satz mit Umlauten äöü, 日本語 und 🙂, der sich eine ganze Weile hinzieht, damit viel dazwischenkommen kann."

// reader follows a session over many connections and checks what it receives.
type reader struct {
	t     testing.TB
	last  string
	seen  int
	text  map[string]string // of replies in flight
	turns []string          // the text of each turn, by its pieces
	voids int
}

func (r *reader) take(e event) (turnEnded bool) {
	r.t.Helper()
	switch e.kind {
	case "entry":
		var line struct {
			Seq   int
			Kinds []events.Kind
		}
		e.in(r.t, &line)
		if line.Seq != r.seen+1 {
			r.t.Fatalf("entry %d after %d", line.Seq, r.seen)
		}
		r.seen = line.Seq
		for _, k := range line.Kinds {
			if k == events.KindReplyRecorded {
				for _, text := range r.text {
					r.turns = append(r.turns, text)
				}
				r.text = map[string]string{}
			}
			turnEnded = turnEnded || k == events.KindTurnFinished
		}
	case "piece", "void":
		var p struct {
			Turn, Text     string
			Round, Attempt int
		}
		e.in(r.t, &p)
		call := fmt.Sprint(p.Turn, p.Round, p.Attempt)
		if e.kind == "void" {
			r.voids++
			delete(r.text, call)
			break
		}
		r.text[call] += p.Text
		if len(r.text) > 1 {
			r.t.Fatalf("pieces of %d attempts at once: %v", len(r.text), r.text)
		}
	}
	return turnEnded
}

// receive follows the session until the given number of turns has ended, at whichever gateway answers.
func (r *reader) receive(id content.SessionID, at func() *service, turns int) {
	for ended := 0; ended < turns; {
		f, err := at().follow(id, r.last)
		if err != nil { // that gateway is gone
			<-time.After(50 * time.Millisecond)
			continue
		}
		for {
			e, err := f.next()
			if err != nil {
				break
			}
			r.last = f.last
			if r.take(e) {
				if ended++; ended == turns {
					break
				}
			}
		}
		f.close()
	}
}

func TestAReaderSeesEverythingOnceWhileNodesAndGatewaysDie(t *testing.T) {
	t.Parallel()
	in(t, func(w *world) {
		const turns = 50
		dice := func(n uint64) *rand.Rand { return rand.New(rand.NewPCG(16, n)) } //nolint:gosec // reproducible
		which, chaos, pauses := dice(1), dice(2), dice(3)
		defaults := func(c *gateway.Config) { c.Defaults = events.Config{Model: "m", ModelData: []byte(long)} }
		var mu sync.Mutex
		services := []*service{w.gateway(defaults), w.gateway(defaults)}
		pick := func() *service {
			mu.Lock()
			defer mu.Unlock()
			return services[which.IntN(2)]
		}
		node := w.slowNode("n0")
		id := services[0].open(map[string]any{"id": "long"})
		stopped := make(chan struct{})
		done := make(chan struct{})
		go func() { // something is killed every few seconds, while there is something to read
			defer close(done)
			for n := 1; ; n++ {
				select {
				case <-stopped:
					node.Drain(w.T)
					return
				case <-time.After(time.Duration(500+chaos.IntN(9000)) * time.Millisecond):
				}
				switch chaos.IntN(4) {
				case 0:
					if n%4 == 0 { // a session that ends two nodes in a row is set aside
						node.Crash(w.T)
					} else {
						node.Drain(w.T)
					}
					node = w.slowNode(fmt.Sprint("n", n))
				case 1:
					fresh, i := w.gateway(defaults), chaos.IntN(2)
					mu.Lock()
					old := services[i]
					services[i] = fresh
					mu.Unlock()
					old.pipe.cut()
					old.stop()
				case 2:
					fresh := []*service{w.gateway(defaults), w.gateway(defaults)}
					mu.Lock()
					old := services
					services = fresh
					mu.Unlock()
					for _, s := range old {
						s.stop()
					}
				default:
					pick().pipe.cut()
				}
			}
		}()
		sent := make(chan struct{})
		go func() {
			defer close(sent)
			for n := range turns {
				key := with("Idempotency-Key", fmt.Sprintf("input-%016d", n))
				for { // until one of the gateways has taken it, under the same key
					resp, err := pick().send(http.MethodPost, "/api/sessions/long/input", map[string]any{"text": fmt.Sprint("Turn ", n), "on_busy": "queue"}, key)
					if err == nil {
						_, err = io.Copy(io.Discard, resp.Body)
						_ = resp.Body.Close()
					}
					if err == nil && resp.StatusCode == http.StatusAccepted {
						break
					}
					<-time.After(100 * time.Millisecond)
				}
				<-time.After(time.Duration(pauses.IntN(15000)) * time.Millisecond)
			}
		}()
		r := &reader{t: w.T, text: map[string]string{}}
		began := time.Now()
		r.receive(id, pick, turns)
		<-sent
		close(stopped)
		<-done
		for i, text := range r.turns {
			if want := fmt.Sprintf("Turn %d: %s", i, longText); text != want {
				t.Errorf("turn %d is %q, want %q", i, text, want)
			}
		}
		if len(r.turns) != turns || r.voids == 0 {
			t.Errorf("%d turns, %d voids", len(r.turns), r.voids)
		}
		t.Logf("%v of virtual time, %d entries, %d replies, %d voids", time.Since(began), r.seen, len(r.turns), r.voids)
		w.Records(id)
	})
}

func TestAStreamBeginsNowOrAnywhere(t *testing.T) {
	t.Parallel()
	in(t, func(w *world) {
		defer w.drive().Drain(w.T)
		g := w.gateway()
		id := g.open(map[string]any{"text": "one"})
		w.Until(id, events.KindParked)
		var at struct {
			Cursor  string
			Journal struct{ Seq int }
		}
		g.ok(http.MethodGet, "/api/sessions/"+string(id), nil).in(t, &at)
		var ids [2][]string // from the start, and from a place in the middle of the reply
		for i, from := range []string{"", "2.5"} {
			f, err := g.follow(id, from)
			if err != nil {
				t.Fatal(err)
			}
			for e := (event{}); !strings.HasPrefix(e.id, fmt.Sprint(at.Journal.Seq, ".0")); {
				if e, err = f.next(); err != nil {
					t.Fatal(err)
				}
				ids[i] = append(ids[i], e.id)
			}
			f.close()
		}
		if all, rest := strings.Join(ids[0], " "), strings.Join(ids[1], " "); len(ids[1]) >= len(ids[0]) || !strings.HasSuffix(all, rest) {
			t.Errorf("the rest has other IDs:\n%s\n%s", all, rest)
		}
		for _, place := range []func() string{func() string { return "now" }, func() string { return at.Cursor }} {
			f, err := g.follow(id, "", func(r *http.Request) { r.URL.RawQuery = "after=" + place() })
			if err != nil {
				t.Fatal(err)
			}
			g.ok(http.MethodPost, "/api/sessions/"+string(id)+"/input", map[string]any{"text": "more"})
			e, err := f.next()
			if err != nil || !strings.HasPrefix(e.id, fmt.Sprint(at.Journal.Seq+1, ".")) {
				t.Errorf("from %s the first event is %+v, %v", place(), e, err)
			}
			for e.kind != "entry" || !strings.Contains(e.data, string(events.KindParked)) {
				if e, err = f.next(); err != nil {
					t.Fatal(err)
				}
			}
			f.close()
			g.ok(http.MethodGet, "/api/sessions/"+string(id), nil).in(t, &at)
		}
	})
}

// A gateway that did not follow a reply from its start gets its text within seconds, long before the reply ends.
func TestAReaderThatComesInTheMiddleOfAReplyCatchesUp(t *testing.T) {
	t.Parallel()
	in(t, func(w *world) {
		defer w.slowNode("n1").Drain(w.T)
		text := strings.Repeat("word ", 400)
		g := w.gateway(func(c *gateway.Config) {
			c.Defaults = events.Config{Model: "m", ModelData: []byte("replies:\n  - {text: \"" + text + "\", chunk: 5}\n")}
		})
		id := g.open(map[string]any{"text": "Begin."})
		<-time.After(20 * time.Second) // of 40
		f, err := w.gateway().follow(id, "")
		if err != nil {
			t.Fatal(err)
		}
		defer f.close()
		joined, got := time.Now(), ""
		for {
			e, err := f.next()
			if err != nil {
				t.Fatal(err)
			}
			if strings.Contains(e.data, string(events.KindReplyRecorded)) {
				break
			}
			var p struct{ Text string }
			if e.kind != "piece" || json.Unmarshal([]byte(e.data), &p) != nil || p.Text == "" {
				continue
			}
			if took := time.Since(joined); got == "" && (took > 5*time.Second || len(p.Text) < 900) {
				t.Errorf("after %s, it has %q", took, p.Text)
			}
			got += p.Text
		}
		if got != text {
			t.Errorf("%d bytes, want %d", len(got), len(text))
		}
	})
}

func TestAStreamHasCommentsAndSaysWhenToReconnect(t *testing.T) {
	t.Parallel()
	in(t, func(w *world) {
		defer w.drive().Drain(w.T)
		g := w.gateway()
		id := g.open(map[string]any{})
		f, err := g.follow(id, "")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.next(); err != nil {
			t.Fatal(err)
		}
		time.AfterFunc(time.Minute, g.stop)
		kind := ""
		for err == nil {
			var e event
			if e, err = f.next(); e.kind != "" {
				kind = e.kind
			}
		}
		if f.beats < 5 || kind != "reconnect" || f.retry == "" {
			t.Errorf("%d comments in a minute, last event %q, retry %q", f.beats, kind, f.retry)
		}
	})
}

// value returns what a counter or gauge has, in all its series.
func value(t testing.TB, from prometheus.Gatherer, name string) (sum float64) {
	t.Helper()
	all, err := from.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range all {
		for _, m := range f.GetMetric() {
			if f.GetName() == name {
				sum += m.GetCounter().GetValue() + m.GetGauge().GetValue()
			}
		}
	}
	return sum
}

func TestASlowReaderIsToldToReconnectAndMissesNothing(t *testing.T) {
	t.Parallel()
	in(t, func(w *world) {
		defer w.drive().Drain(w.T)
		metrics := prometheus.NewRegistry()
		g := w.gateway(func(c *gateway.Config) { c.Metrics = metrics })
		id := g.open(map[string]any{"text": strings.Repeat("long ", 8<<10)}) // more than the reader's connection takes at once
		w.Until(id, events.KindTurnFinished)
		f, err := g.follow(id, "")
		if err != nil {
			t.Fatal(err)
		}
		r := &reader{t: t, text: map[string]string{}}
		told := false
		for {
			<-time.After(6 * time.Second) // a pipe has no buffer, so the gateway waits as long
			e, err := f.next()
			if err != nil {
				break
			}
			told = told || e.kind == "reconnect"
			r.last = f.last
			r.take(e)
		}
		if !told {
			t.Error("it was not told to reconnect")
		}
		if n := value(t, metrics, "turnlog_gateway_slow_readers_total"); n != 1 {
			t.Errorf("%v slow readers", n)
		}
		seen := r.seen
		if r.receive(id, func() *service { return g }, 1); seen == r.seen || len(r.turns) != 1 || r.turns[0] != "Hello, world" {
			t.Errorf("after %d entries it received %d, %q", seen, r.seen, r.turns)
		}
	})
}
