package actor_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/turnlog/turnlog/actor"
	"github.com/turnlog/turnlog/client"
	"github.com/turnlog/turnlog/commands"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/engine"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/jetstream"
	"github.com/turnlog/turnlog/jetstream/trials"
	"github.com/turnlog/turnlog/model"
	"github.com/turnlog/turnlog/model/scripted"
	"github.com/turnlog/turnlog/session"
	"github.com/turnlog/turnlog/tool"
	"github.com/turnlog/turnlog/turnlogtest"
	"github.com/turnlog/turnlog/worker/task"
)

func (w *world) send(id content.SessionID, name string, c commands.Command) uint64 {
	w.T.Helper()
	seq, err := w.Cell.Inbox().Send(w.Ctx, commands.Envelope{ID: name, Session: id, Command: c})
	if err != nil {
		w.T.Fatal(err)
	}
	if err := w.Cell.Runs().Wake(w.Ctx, id); err != nil {
		w.T.Fatal(err)
	}
	return seq
}

// dropLiveCopies stops the live copies of a stream's messages.
func (w *world) dropLiveCopies(stream string) {
	w.T.Helper()
	w.reset(stream, func(cfg map[string]any) { delete(cfg, "republish") })
}

// reset changes the settings of a stream.
func (w *world) reset(stream string, change func(cfg map[string]any)) {
	w.T.Helper()
	nc := w.Connect()
	ask := func(subject string, body []byte) map[string]any {
		msg, err := nc.RequestWithContext(w.Ctx, subject, body)
		if err != nil {
			w.T.Fatal(err)
		}
		var answer map[string]any
		if err := json.Unmarshal(msg.Data, &answer); err != nil || answer["error"] != nil {
			w.T.Fatalf("%s: %v, %v", subject, err, answer["error"])
		}
		return answer
	}
	cfg, ok := ask("$JS.API.STREAM.INFO."+stream, nil)["config"].(map[string]any)
	if !ok {
		w.T.Fatal("no config")
	}
	change(cfg)
	body, err := json.Marshal(cfg)
	if err != nil {
		w.T.Fatal(err)
	}
	ask("$JS.API.STREAM.UPDATE."+stream, body)
}

func TestACancelThatWaitsForATakeoverEndsTheTurn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		first := w.node("n1")
		s := w.thinking("s")
		first.Crash(t)
		w.send("s", "stop", commands.Cancel{Scope: commands.ScopeTurn})
		second := w.node("n2")
		if got := w.finish(s); got.FinishReason != content.Cancelled {
			t.Errorf("the turn ended as %s, want cancelled", got.FinishReason)
		}
		w.Records("s")
		second.Drain(t)
	})
}

func TestACommandWithoutALiveCopyIsFound(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.workerOf(tool.Spec{Name: "echo"}, echoed) // its report is stored
		n := w.node("n1")
		s := w.Start("s", oneCall)
		w.dropLiveCopies("TURNLOG_INBOX")
		w.submit(s, "go")
		began := time.Now()
		if got := w.finish(s); got.Text() != `{"text":"hi"}` {
			t.Errorf("answer = %q", got.Text())
		}
		if took := time.Since(began); took > 10*time.Second {
			t.Errorf("the turn took %v, want the lost copies found in seconds", took)
		}
		n.Drain(t)
	})
}

func TestTheNodeEndsWithItsConnection(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		n := w.node("n1", func(c *actor.Config) { c.Capacity = 1 })
		w.thinking("s")
		n.Conn.Close()
		select {
		case <-n.Done():
			if err := n.Err(); !errors.Is(err, nats.ErrConnectionClosed) {
				t.Errorf("Run = %v, want ErrConnectionClosed", err)
			}
		case <-time.After(time.Minute):
			t.Error("Run continues without a connection")
			n.Drain(t)
		}
	})
}

// slowly allows every call, after a while.
type slowly time.Duration

func (d slowly) Evaluate(_ context.Context, r tool.Request) (tool.Verdict, error) {
	if string(r.Call.Input) == `{"text":"patched"}` {
		<-time.After(time.Duration(d))
	}
	return tool.Verdict{Ruling: tool.Ask, RequestKind: "test.call"}, nil
}

func TestALongDecisionKeepsItsLease(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.worker(echoed)
		slow := func(c *actor.Config) { c.Effects = engine.Config{Permissions: slowly(30 * time.Second)} }
		first := w.node("n1", slow)
		s := w.Start("s", oneCall)
		w.submit(s, "go")
		step, err := s.Next(w.Ctx)
		if err != nil {
			t.Fatal(err)
		}
		second := w.node("n2", slow)
		if err := step.(*session.ApprovalRequest).ApproveWithInput(w.Ctx, []byte(`{"text":"patched"}`)); err != nil { //nolint:forcetypeassert // the test's point
			t.Fatal(err)
		}
		w.finish(s)
		if got := w.owners("s"); len(got) != 1 {
			t.Errorf("driven by %v, want one", got)
		}
		first.Drain(t)
		second.Drain(t)
	})
}

// stubborn is a model that ignores its context.
type stubborn struct{ rounds }

func (stubborn) Call(context.Context, model.Request, func(content.Delta)) (model.Reply, error) {
	<-time.After(30 * time.Second)
	return model.Reply{Items: []content.Item{content.AssistantText("done")}}, nil
}

func TestAHandOverDoesNotWaitForAModel(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		slow := func(c *actor.Config) {
			c.Models = func(string, []byte) (model.Model, error) { return stubborn{}, nil }
		}
		first := w.node("n1", slow)
		s := w.Start("s", oneReply)
		w.submit(s, "go")
		w.Until("s", events.KindModelCallStarted)
		second := w.node("n2")
		first.Stop()
		<-time.After(time.Second)
		if got := w.owners("s"); !slices.Equal(got, []string{"n1", "n2"}) {
			t.Errorf("driven by %v a second after the drain", got)
		}
		first.Drain(t)
		second.Drain(t)
	})
}

func TestAPanicEndsOnlyItsSession(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		var cured atomic.Bool
		n := w.node("n1", func(c *actor.Config) {
			c.Models = func(name string, data []byte) (model.Model, error) {
				if name != "broken" {
					return scripted.Parse(name, data)
				}
				if !cured.Load() {
					panic("no such thing")
				}
				return scripted.Parse("scripted:test", []byte(oneReply))
			}
		})
		bad, err := w.Client.Start(w.Ctx, client.Options{ID: "bad", Config: events.Config{Model: "broken"}})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = bad.Close(t.Context()) }()
		good := w.Start("good", oneReply)
		w.submit(bad, "go")
		<-time.After(time.Minute)
		w.submit(good, "go")
		w.finish(good)
		<-time.After(10 * time.Minute)
		if got := w.owners("bad"); len(got) != 2 {
			t.Errorf("the broken session was taken %d times in ten minutes, want two", len(got))
		}
		aside, err := trials.Of(w.Cell).Aside(w.Ctx)
		if err != nil || len(aside) != 1 || !strings.Contains(aside[0].Broke[1].Error, "no such thing") {
			t.Fatalf("set aside: %+v, %v", aside, err)
		}
		cured.Store(true)
		if err := trials.Of(w.Cell).Retry(w.Ctx, "bad", "eve"); err != nil {
			t.Fatal(err)
		}
		w.finish(bad)
		n.Drain(t)
	})
}

func TestAnAskForNoSessionIsRefusedAndForgotten(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		n := w.node("n1")
		w.send("absent", "x", commands.Cancel{Scope: commands.ScopeTurn})
		<-time.After(time.Minute)
		if any, err := w.Cell.Inbox().HasAny(w.Ctx, "absent"); any || err != nil {
			t.Errorf("inbox = %v, %v, want it empty", any, err)
		}
		if held, err := w.tokens("absent"); held || err != nil {
			t.Errorf("there is a token: %v, %v", held, err)
		}
		n.Drain(t)
	})
}

func (w *world) tokens(id content.SessionID) (bool, error) {
	msg, err := w.Connect().RequestWithContext(w.Ctx, "$JS.API.STREAM.MSG.GET.TURNLOG_RUN", []byte(`{"last_by_subj":"turnlog.run.`+string(id)+`"}`))
	if err != nil {
		return false, err
	}
	var answer struct{ Error any }
	err = json.Unmarshal(msg.Data, &answer)
	return answer.Error == nil, err
}

// There are two results in the inbox. The first must not cause another run of the call that the
// second one answers.
func TestANewDriverHandlesAllWaitingResultsFirst(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		var mu sync.Mutex // guards ran
		ran := make(map[content.Place]int)
		release := make(chan struct{})
		for range 2 {
			w.worker(func(x task.Task) tool.Result {
				mu.Lock()
				ran[x.Place]++
				mu.Unlock()
				<-release
				return echoed(x)
			})
		}
		first := w.node("n1")
		s := w.startWith("s", twoCalls, func(c *events.Config) { c.MaxParallel = 2 })
		w.submit(s, "go")
		<-time.After(time.Second)
		first.Crash(t)
		close(release)
		<-time.After(time.Second)
		second := w.node("n2")
		w.finish(s)
		<-time.After(time.Minute)
		mu.Lock()
		defer mu.Unlock()
		if len(ran) != 2 || ran["t1-r1-c1"] != 1 || ran["t1-r1-c2"] != 1 {
			t.Errorf("calls ran %v times, want once each", ran)
		}
		second.Drain(t)
	})
}

// The process of a draining node may end at any time. A session whose token it got back would have
// to wait for the lease.
func TestADrainingNodeDoesNotGetItsTokensBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		first := w.node("n1")
		w.thinking("s")
		first.Drain(t)
		second := w.node("n2")
		<-time.After(time.Second)
		claims := turnlogtest.Facts[events.DriverClaimed](w.Deployment, "s")
		if given := strings.Split(claims[1].Token, ".")[4]; claims[1].Node != "n2" || given != "2" {
			t.Errorf("%s has the session with a token that was delivered %s times, want n2 and 2", claims[1].Node, given)
		}
		second.Drain(t)
	})
}

const twoCalls = `
replies:
  - calls: [{name: echo, input: {text: a}}, {name: echo, input: {text: b}}]
  - text: done
`

func TestACrashedNodesSessionsAreHandedOn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		first := w.node("n1")
		w.thinking("s")
		second := w.node("n2")
		<-time.After(2 * time.Second) // n1 recorded its token
		first.Crash(t)
		<-time.After(4 * time.Second)
		if got := w.owners("s"); !slices.Equal(got, []string{"n1", "n2"}) {
			t.Errorf("driven by %v 4 s after the crash", got)
		}
		second.Drain(t)
	})
}

// A node that hangs does not answer, but the server does not notice. It may give a token that
// was handed on to the pending request of that node.
func TestAFrozenNodesSessionsAreHandedOn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		frozen := w.Open(w.Connect())
		if _, err := w.Connect().Subscribe("turnlog.node.frozen", func(*nats.Msg) {}); err != nil {
			t.Fatal(err)
		}
		w.send("s", "open", commands.OpenSession{Config: events.Config{Model: "scripted:test", ModelData: []byte("replies: [{text: ok}]")}})
		runs := frozen.Runs()
		token, err := runs.Take(w.Ctx)
		if err != nil {
			t.Fatal(err)
		}
		if err := frozen.Nodes().Record(w.Ctx, jetstream.NodeRecord{Node: "frozen", Held: []jetstream.HeldToken{{Session: "s", Reply: token.Reply()}}}); err != nil {
			t.Fatal(err)
		}
		standing := make(chan error, 1)
		go func() {
			_, err := runs.Take(w.Ctx)
			standing <- err
		}()
		synctest.Wait()
		second := w.node("n2")
		<-time.After(8 * time.Second)
		if got := w.owners("s"); !slices.Equal(got, []string{"n2"}) {
			t.Errorf("driven by %v after 8 s", got)
		}
		if err := <-standing; err != nil {
			t.Errorf("the frozen node got no token: %v", err)
		}
		second.Drain(t)
	})
}
