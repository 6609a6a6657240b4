package natsservice

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/embedded"
	"github.com/turnlog/turnlog/tool"
)

func TestMain(m *testing.M) {
	embedded.PrepareForSynctest()
	os.Exit(m.Run())
}

// world is a server in a bubble, with a manager on a connection of its own.
type world struct {
	*testing.T

	server  *embedded.Server
	log     *observer.ObservedLogs
	manager *Manager
}

// within runs a test in a bubble, with a manager that follows the service words.
func within(t *testing.T, test func(t *testing.T, w *world)) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, err := embedded.Start(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		w := &world{T: t, server: s}
		core, log := observer.New(zap.InfoLevel)
		w.log = log
		if w.manager, err = Open(t.Context(), Config{Conn: w.connect(), Services: []string{"words"}, Reserved: "turnlog", Logger: zap.New(core)}); err != nil {
			t.Fatal(err)
		}
		defer w.manager.Close()
		test(t, w)
	})
}

const text = `{"type":"object","properties":{"text":{"type":"string"}},"required":["text"]}`

// meta returns the metadata of an endpoint.
func meta(more ...string) map[string]string {
	out := map[string]string{"description": "Counts.", "input": text}
	for i := 0; i < len(more); i += 2 {
		out[more[i]] = more[i+1]
	}
	return out
}

func (w *world) connect() *nats.Conn {
	w.Helper()
	nc, err := w.server.Connect()
	if err != nil {
		w.Fatal(err)
	}
	return nc
}

// add adds an instance of the service with an endpoint. Closing its connection ends it: the Stop of a service waits with a timer
// that leaves the bubble.
func (w *world) add(version string, meta map[string]string, handle micro.HandlerFunc) *nats.Conn {
	w.Helper()
	nc := w.connect()
	s, err := micro.AddService(nc, micro.Config{Name: "words", Version: version})
	if err == nil {
		err = s.AddGroup("words").AddEndpoint("count", handle, micro.WithEndpointMetadata(meta))
	}
	if err != nil {
		w.Fatal(err)
	}
	return nc
}

// wait lets virtual time pass.
func (*world) wait(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

func (w *world) tools() []tool.Tool {
	w.Helper()
	tools, err := w.manager.Sources()[0].Tools(w.Context())
	if err != nil {
		w.Fatal(err)
	}
	return tools
}

// only waits for the service and returns its only tool.
func (w *world) only() tool.Tool {
	w.Helper()
	w.wait(2 * time.Second)
	tools := w.tools()
	if len(tools) != 1 {
		w.Fatalf("%d tools, want 1; log: %v", len(tools), w.log.All())
	}
	return tools[0]
}

func call(input string) tool.Call {
	return tool.Call{ID: "c1", Session: "s1", Input: json.RawMessage(input), Attempt: 2, IdempotencyKey: "key-1"}
}

func TestAnEndpointIsATool(t *testing.T) {
	within(t, func(t *testing.T, w *world) {
		var got micro.Headers
		w.add("1.0.0", meta("effects", "read_only", "timeout", "5s", "exclusive", "true"), func(r micro.Request) {
			got = r.Headers()
			_ = r.Respond([]byte("half"), micro.WithHeaders(micro.Headers{"Turnlog-Progress": {"0.5"}}))
			switch {
			case strings.Contains(string(r.Data()), "fail"):
				_ = r.Error("404", "there is no such thing", nil)
			case strings.Contains(string(r.Data()), "json"):
				_ = r.RespondJSON(map[string]int{"n": 3})
			default:
				_ = r.Respond(append([]byte("got "), r.Data()...))
			}
		})
		x := w.only()
		if s := x.Spec(); s.Name != "words_count" || s.Effects != content.ReadOnly || s.Timeout != 5*time.Second || !s.Exclusive || s.Description != "Counts." {
			t.Errorf("spec = %+v", s)
		}
		for input, want := range map[string]string{
			`{"text":"a"}`:    `ok  got {"text":"a"} [half 0.5]`,
			`{"text":"json"}`: `ok  {"n":3} [half 0.5]`,
			`{"text":"fail"}`: `error service_404 Tool failed: words: there is no such thing [half 0.5]`,
			`{}`:              `error invalid_arguments Invalid arguments: text: is missing []`,
		} {
			reports := []string{}
			c := call(input)
			c.Progress = func(text string, share float64) { reports = append(reports, fmt.Sprint(text, " ", share)) }
			r := tool.Invoke(t.Context(), x, c).Result
			if got := fmt.Sprintf("%s %s %s %v", r.Status, r.Code, r.Text(), reports); got != want && input != `{}` || r.Status == content.StatusOK && input == `{}` {
				t.Errorf("%s\n got %s\nwant %s", input, got, want)
			}
		}
		for name, want := range map[string]string{"Idempotency-Key": "key-1", "Turnlog-Session": "s1", "Turnlog-Call": "c1", "Turnlog-Attempt": "2"} {
			if got.Get(name) != want {
				t.Errorf("header %s = %q, want %q", name, got.Get(name), want)
			}
		}
	})
}

func TestAnOfferGoesWithItsService(t *testing.T) {
	within(t, func(t *testing.T, w *world) {
		w.wait(3 * time.Second)
		if n := len(w.tools()); n != 0 {
			t.Errorf("%d tools without a service", n)
		}
		old := w.add("1.9.0", meta("description", "Old."), func(r micro.Request) { _ = r.Respond(nil) })
		if s := w.only().Spec(); s.Description != "Old." {
			t.Errorf("spec = %+v", s)
		}
		newer := w.add("1.10.0", meta("description", "New."), func(r micro.Request) { _ = r.Respond(nil) })
		if s := w.only().Spec(); s.Description != "New." {
			t.Errorf("with a newer instance: spec = %+v", s)
		}
		old.Close()
		newer.Close()
		w.wait(2 * time.Second)
		if n := len(w.tools()); n != 0 {
			t.Errorf("%d tools after the service stopped", n)
		}
		var said []string
		for _, e := range w.log.All() {
			said = append(said, e.Message)
		}
		if diff := cmp.Diff([]string{"NATS service unavailable", "NATS service available", "NATS service unavailable"}, said); diff != "" {
			t.Errorf("log (-want +got):\n%s", diff)
		}
	})
}

func TestCancelReachesTheService(t *testing.T) {
	within(t, func(t *testing.T, w *world) {
		stopped := make(chan string, 1)
		w.add("1.0.0", meta(), func(micro.Request) {}) // it never answers
		if _, err := w.connect().Subscribe("words.cancel", func(m *nats.Msg) { stopped <- m.Header.Get("Idempotency-Key") }); err != nil {
			t.Fatal(err)
		}
		x := w.only()
		ctx, cancel := context.WithCancelCause(t.Context())
		result := make(chan content.ToolResult, 1)
		go func() { result <- tool.Invoke(ctx, x, call(`{"text":"a"}`)).Result }()
		w.wait(time.Minute)
		cancel(tool.ErrCancelled)
		if key := <-stopped; key != "key-1" {
			t.Errorf("canceled %q", key)
		}
		if r := <-result; r.Status != content.StatusCancelled {
			t.Errorf("result = %+v", r)
		}
	})
}

// A service that ends in the middle of a call leaves an unknown outcome.
func TestRetriesFollowTheEffects(t *testing.T) {
	for _, c := range []struct{ effects, want string }{{"read_only", "ok 2"}, {"idempotent", "ok 2"}, {"none", tool.CodeUnknown + " 1"}} {
		t.Run(c.effects, func(t *testing.T) {
			within(t, func(t *testing.T, w *world) {
				var seen atomic.Int32
				first := w.add("1.0.0", meta("effects", c.effects), func(micro.Request) { seen.Add(1) })
				x := w.only()
				result := make(chan content.ToolResult, 1)
				go func() { result <- tool.Invoke(t.Context(), x, call(`{"text":"a"}`)).Result }()
				synctest.Wait()
				first.Close()
				synctest.Wait()
				if _, err := w.connect().Subscribe("words.count", func(m *nats.Msg) { // it is in no catalog
					seen.Add(1)
					_ = m.Respond([]byte("ok"))
				}); err != nil {
					t.Fatal(err)
				}
				r := <-result
				got := fmt.Sprint(r.Code, " ", seen.Load())
				if r.Status == content.StatusOK {
					got = fmt.Sprint(r.Text(), " ", seen.Load())
				}
				if got != c.want {
					t.Errorf("%s, want %s: %s", got, c.want, r.Text())
				}
			})
		})
	}
}

// The outcome arrives although 70,000 reports of progress wait unread before it: more than a synchronous subscription keeps.
func TestProgressDoesNotDisplaceTheOutcome(t *testing.T) {
	within(t, func(t *testing.T, w *world) {
		sent := make(chan struct{})
		w.add("1.0.0", meta(), func(r micro.Request) {
			for range 70_000 {
				_ = r.Respond(nil, micro.WithHeaders(micro.Headers{progressHeader: {"0.5"}}))
			}
			_ = r.Respond([]byte("done"))
			close(sent)
		})
		c, read := call(`{"text":"a"}`), sync.OnceFunc(func() {
			<-sent
			synctest.Wait() // all have arrived
		})
		c.Progress = func(string, float64) { read() }
		if r := tool.Invoke(t.Context(), w.only(), c).Result; r.Text() != "done" {
			t.Errorf("result = %+v", r)
		}
	})
}

func BenchmarkCall(b *testing.B) {
	s, err := embedded.Start(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	nc, err := s.Connect()
	if err != nil {
		b.Fatal(err)
	}
	if _, err := nc.Subscribe("words.count", func(m *nats.Msg) { _ = m.Respond([]byte("ok")) }); err != nil {
		b.Fatal(err)
	}
	e := &endpoint{service: &service{name: "words", all: Config{Conn: nc, every: time.Second}}, subject: "words.count"}
	b.ReportAllocs()
	for b.Loop() {
		if out, err := e.send(b.Context(), call(`{"text":"a"}`)); err != nil {
			b.Fatal(out, err)
		}
	}
}

func TestWithoutAServiceNothingIsDone(t *testing.T) {
	within(t, func(t *testing.T, w *world) {
		s := w.add("1.0.0", meta(), func(micro.Request) {})
		x := w.only()
		s.Close()
		synctest.Wait()
		if r := tool.Invoke(t.Context(), x, call(`{"text":"a"}`)).Result; r.Code != tool.CodeUnavailable || !strings.Contains(r.Text(), "nothing was done") {
			t.Errorf("result = %+v", r)
		}
		if r := tool.Invoke(t.Context(), x, call(`{"text":"`+strings.Repeat("a", 2<<20)+`"}`)).Result; r.Code != tool.CodeInvalidArguments {
			t.Errorf("a large call: %s %s", r.Code, r.Text())
		}
	})
}

// A service could declare a subject of the deployment as its endpoint, to make the worker publish there.
func TestEndpointsStayBelowTheirService(t *testing.T) {
	within(t, func(t *testing.T, w *world) {
		s, err := micro.AddService(w.connect(), micro.Config{Name: "words", Version: "1.0.0"})
		if err != nil {
			t.Fatal(err)
		}
		ignore := micro.HandlerFunc(func(micro.Request) {})
		for name, e := range map[string]struct {
			subject string
			meta    map[string]string
		}{
			"spoof": {"turnlog.cmd.s1.decide", meta()}, "api": {"$JS.API.STREAM.DELETE.X", meta()}, "all": {"words.>", meta()}, "part": {"words.*", meta()},
			"stop": {"words.cancel", meta()}, "other": {"wordsy.a", meta()}, "plain": {"words.plain", map[string]string{"a": "b"}},
			"schema": {"words.schema", meta("input", `{"type":7}`)}, "none": {"words.none", meta("description", "")}, "once": {"words.once", meta("effects", "maybe")},
			"excl": {"words.excl", meta("exclusive", "perhaps")}, "good": {"words.a.b", meta()},
		} {
			if err := s.AddEndpoint(name, ignore, micro.WithEndpointSubject(e.subject), micro.WithEndpointMetadata(e.meta)); err != nil {
				t.Fatal(name, err)
			}
		}
		if x := w.only(); x.Spec().Name != "words_good" {
			t.Errorf("tool %s", x.Spec().Name)
		}
		omitted := map[string]bool{}
		for _, e := range w.log.FilterMessage("endpoint of a NATS service omitted").All() {
			omitted[fmt.Sprint(e.ContextMap()["endpoint"])] = true
		}
		want := []string{"all", "api", "excl", "none", "once", "other", "part", "schema", "spoof", "stop"}
		if diff := cmp.Diff(want, slices.Sorted(maps.Keys(omitted))); diff != "" {
			t.Errorf("omitted (-want +got):\n%s", diff)
		}
	})
}

func TestAnswersOfOthersDoNotCount(t *testing.T) {
	within(t, func(t *testing.T, w *world) {
		if _, err := w.connect().Subscribe(Subject("words"), func(m *nats.Msg) {
			for _, junk := range []string{"junk", strings.Repeat("[", 1000), `{"name":"other"}`, `7`} {
				_ = m.Respond([]byte(junk))
			}
		}); err != nil {
			t.Fatal(err)
		}
		w.wait(10 * time.Second)
		if n := len(w.tools()); n != 0 {
			t.Errorf("%d tools", n)
		}
	})
}

// Endless junk messages must not keep the worker from noticing that the service is gone.
func TestJunkWithoutEndDoesNotCount(t *testing.T) {
	within(t, func(t *testing.T, w *world) {
		x := w.add("1.0.0", meta(), func(micro.Request) {})
		w.only()
		junk := w.connect()
		if _, err := junk.Subscribe(Subject("words"), func(m *nats.Msg) {
			go func() {
				for range 300 { // a minute of it
					w.wait(nextAnswers / 2)
					for range 10 {
						_ = m.Respond([]byte("junk"))
					}
				}
			}()
		}); err != nil {
			t.Fatal(err)
		}
		w.wait(2 * time.Second)
		x.Close()
		w.wait(25 * time.Second)
		if n := len(w.tools()); n != 0 {
			t.Errorf("%d tools", n)
		}
		junk.Close()
		w.wait(time.Minute)
	})
}

func TestConfigsAreChecked(t *testing.T) {
	t.Parallel()
	for want, cfg := range map[string]Config{
		`service "a.b": use a name`:    {Services: []string{"a.b"}},
		`service "_INBOX": use a`:      {Services: []string{"_INBOX"}},
		"two services have the name a": {Services: []string{"a", "a"}},
		"belong to the deploymen":      {Services: []string{"turnlog"}, Reserved: "turnlog"},
		"no connection":                {Services: []string{"a"}},
	} {
		if _, err := Open(t.Context(), cfg); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error = %v, want %q", err, want)
		}
	}
}
