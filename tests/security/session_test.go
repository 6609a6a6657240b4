package security

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/turnlog/turnlog/actor"
	"github.com/turnlog/turnlog/client"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/events/journal"
	"github.com/turnlog/turnlog/internal/testing/natstest"
	"github.com/turnlog/turnlog/jetstream"
	"github.com/turnlog/turnlog/jetstream/admin"
	"github.com/turnlog/turnlog/jetstream/agents"
	"github.com/turnlog/turnlog/jetstream/memory"
	"github.com/turnlog/turnlog/policy/notes"
	"github.com/turnlog/turnlog/session"
	"github.com/turnlog/turnlog/tool"
	"github.com/turnlog/turnlog/turnlogtest"
	"github.com/turnlog/turnlog/worker"
)

// bubble runs a test like inEachLayout, but with both forms of the subjects on which deliveries are acknowledged. JWTs
// make the same accounts as a configuration, so one form does for them.
func bubble(t *testing.T, test func(c *cell)) {
	t.Helper()
	t.Parallel()
	for name, start := range layouts() {
		for _, v2 := range []bool{false, true} {
			if v2 && name == "JWTs" {
				continue
			}
			t.Run(fmt.Sprintf("%s, v2 %t", name, v2), func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) { test(start(t, v2)) })
			})
		}
	}
}

// large is a text that does not fit into a message.
func large() string { return strings.Repeat("0123456789abcdef", 5<<10) }

// echo is a tool that answers with its input, twice.
func echo(t testing.TB) tool.Tool {
	t.Helper()
	e, err := tool.Func("echo", "Echoes.", func(_ context.Context, in struct {
		Text string `json:"text"`
	},
	) (string, error) {
		return in.Text + in.Text, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func echoes(t testing.TB) func(*nats.Conn) []tool.Tool {
	return func(*nats.Conn) []tool.Tool { return []tool.Tool{echo(t)} }
}

func next[S session.Step](w *turnlogtest.Deployment, s *session.Session) S {
	w.T.Helper()
	step, err := s.Next(w.Ctx)
	got, ok := step.(S)
	if err != nil || !ok {
		w.T.Fatalf("Next = %T %+v, %v; want %T", step, step, err, got)
	}
	return got
}

// until follows a journal up to the n-th entry with an event of the kind.
func until(w *turnlogtest.Deployment, id content.SessionID, k events.Kind, n int) {
	w.T.Helper()
	for rec, err := range w.Cell.Journal().Follow(w.Ctx, id, 0) {
		if err != nil {
			w.T.Fatal(err)
		}
		if slices.Contains(rec.Entry.Kinds(), k) {
			n--
		}
		if n == 0 {
			return
		}
	}
}

func submit(w *turnlogtest.Deployment, s *session.Session) {
	w.T.Helper()
	if err := s.Send(w.Ctx, "", content.UserText("go")); err != nil {
		w.T.Fatal(err)
	}
}

// person is a world with a client.
func (c *cell) person(name string) *turnlogtest.Deployment {
	c.t.Helper()
	w := c.world(name)
	var err error
	if w.Client, err = client.Open(w.Conn, "", client.WithName(name)); err != nil {
		c.t.Fatal(err)
	}
	return w
}

func TestEachRoleMayDoWhatASessionNeeds(t *testing.T) {
	bubble(t, func(c *cell) {
		w := c.person("client")
		crew := c.world("worker").Worker("w1", worker.Config{DrainTimeout: time.Second}, echoes(c.t))
		node := c.world("driver").Node(actor.Config{Name: "n1", Snapshot: 3})
		seen := c.observe()

		script := "replies:\n  - calls: [{name: echo, input: {text: " + large() + "}}]\n  - text: done\n" +
			"  - calls: [{name: echo, input: {text: again}}]\n  - text: no answer\n  - text: slow\n    delay: 30m\n"
		s := w.Start("s", script, func(o *client.Options) {
			o.Config.Rules = []events.Rule{{Tool: "echo", Action: events.RuleAsk}}
			o.Config.ApprovalTTL = 10 * time.Minute
		})
		submit(w, s)
		next[*session.ApprovalRequest](w, s)
		c.decide("s", true)
		if got := next[*session.Finished](w, s).Result.Text(); got != "done" {
			c.t.Errorf("first turn: %q", got)
		}

		submit(w, s) // without a decision: the session is parked, with its timer in NATS
		next[*session.ApprovalRequest](w, s)
		until(w, "s", events.KindTurnFinished, 2)
		synctest.Wait()
		if got := next[*session.Finished](w, s).Result.Text(); got != "no answer" {
			c.t.Errorf("second turn: %q", got)
		}

		submit(w, s)
		until(w, "s", events.KindModelCallStarted, 5)
		node.Crash(c.t) // its peer returns its token
		peer := c.world("driver").Node(actor.Config{Name: "n2", Snapshot: 3})
		if err := s.Cancel(w.Ctx, ""); err != nil {
			c.t.Fatal(err)
		}
		if got := next[*session.Finished](w, s).Result.FinishReason; got != content.Cancelled {
			c.t.Errorf("third turn: %s", got)
		}
		_ = s.Close(t.Context())
		if ids, err := w.Client.Sessions(w.Ctx); err != nil || !slices.Equal(ids, []content.SessionID{"s"}) {
			c.t.Errorf("sessions: %v, %v", ids, err)
		}
		crew.Drain(c.t)
		peer.Drain(c.t)
		w.Records("s")
		if n := seen(); n != len(w.Records("s")) {
			c.t.Errorf("the observer saw %d entries of %d", n, len(w.Records("s")))
		}
		c.clean()
	})
}

// The worker and the driver are in different accounts, and so are the subjects of the call and its outcome. The first call of
// a node is stored.
func TestACallAndItsOutcomeAreNotStored(t *testing.T) {
	inEachLayout(t, func(t *testing.T, c *cell) {
		reports, err := c.spy().SubscribeSync("turnlog.live.cmd.*.report")
		natstest.Must(t, err)
		tasks, err := c.spy().SubscribeSync("turnlog.task.>")
		natstest.Must(t, err)
		synctest.Wait() // until the server knows of the subscription
		stored := func(what string, wantTasks, wantReports int) {
			for sub, want := range map[*nats.Subscription]int{reports: wantReports, tasks: wantTasks} {
				if n, _, err := sub.Pending(); n != want || err != nil {
					t.Errorf("%s: %d messages on %s, %v, want %d", what, n, sub.Subject, err, want)
				}
			}
		}
		w := c.person("client")
		hire := func() *turnlogtest.Process {
			return c.world("worker").Worker("w1", worker.Config{DrainTimeout: time.Second}, func(*nats.Conn) []tool.Tool {
				read, err := tool.Func("read", "Reads.", func(context.Context, struct{}) (string, error) { return "true", nil }, tool.ReadOnly())
				natstest.Must(t, err)
				return []tool.Tool{read}
			})
		}
		crew, node := hire(), c.world("driver").Node(actor.Config{})
		const call = "  - calls: [{name: read, input: {}}]\n"
		s := w.Start("s", "replies:\n"+call+call+call+"    delay: 10s\n  - text: '{{(index .Results 2).Text}}'\n")
		defer func() { _ = s.Close(t.Context()) }()
		submit(w, s)
		<-time.After(5 * time.Second)
		stored("the first call, which finds out about direct calls, and the second one", 1, 0)
		crew.Drain(t)
		<-time.After(6 * time.Second)
		stored("no worker is left", 2, 0)
		crew = hire()
		if got := next[*session.Finished](w, s).Result.Text(); got != "true" {
			t.Errorf("result = %q", got)
		}
		stored("it is back", 2, 0)
		crew.Drain(t)
		node.Drain(t)
	})
}

// observe follows all sessions as an observer. The function that it returns stops it and returns
// the number of entries.
func (c *cell) observe() func() int {
	c.t.Helper()
	o := c.open("observer")
	ctx, stop := context.WithCancel(c.ctx)
	live, err := o.Live().Subscribe(ctx, jetstream.AllSessions)
	if err != nil {
		c.t.Fatal(err)
	}
	go func() {
		for range live { // being permitted is enough
		}
	}()
	n, over := 0, make(chan struct{})
	go func() {
		defer close(over)
		for rec, err := range o.Journal().Observe(ctx, jetstream.AllSessions, jetstream.Cursor{}) {
			if err = errors.Join(err, rec.Err); err != nil {
				c.t.Error(err)
				return
			}
			n++
		}
	}()
	return func() int {
		synctest.Wait()
		stop()
		<-over
		return n
	}
}

// decide decides the next approval of a session as an approver.
func (c *cell) decide(id content.SessionID, yes bool) {
	c.t.Helper()
	w := c.person("approver")
	w.Until(id, events.KindApprovalRequired)
	ids, err := w.Client.Asking(w.Ctx)
	if err != nil || !slices.Contains(ids, id) {
		c.t.Fatalf("sessions that ask: %v, %v", ids, err)
	}
	s, err := w.Client.Attach(w.Ctx, id)
	if err != nil {
		c.t.Fatal(err)
	}
	defer func() { _ = s.Close(w.Ctx) }()
	ask := next[*session.ApprovalRequest](w, s)
	if yes {
		err = ask.Approve(w.Ctx)
	} else {
		err = ask.Deny(w.Ctx)
	}
	if err != nil {
		c.t.Fatal(err)
	}
	synctest.Wait() // until all have received it
}

func TestAWorkerWithSubAgentsHasThreeRoles(t *testing.T) {
	bubble(t, func(c *cell) {
		w := c.person("client")
		crew := c.world("delegate").Worker("w1", worker.Config{DrainTimeout: time.Second}, func(nc *nats.Conn) []tool.Tool {
			caller, err := client.Open(nc, "")
			if err != nil {
				c.t.Fatal(err)
			}
			child := client.Options{Config: events.Config{
				Model: "scripted:child", ModelData: []byte("replies:\n  - calls: [{name: echo, input: {text: hi}}]\n  - text: ok\n"),
				Rules: []events.Rule{{Tool: "echo", Action: events.RuleAsk}},
			}}
			helper, err := caller.Tool("helper", "Helps.", child)
			if err != nil {
				c.t.Fatal(err)
			}
			return []tool.Tool{helper, echo(c.t)}
		})
		node := c.world("driver").Node(actor.Config{})
		const script = "replies:\n  - calls: [{name: helper, input: {prompt: help}}]\n  - text: '{{(index .Results 0).Text}}'\n" +
			"  - calls: [{name: helper, input: {prompt: more}}]\n  - text: '{{(index .Results 0).Text}}'\n"
		s := w.Start("s", script)
		defer func() { _ = s.Close(t.Context()) }()
		submit(w, s)
		next[*session.ApprovalRequest](w, s)
		c.decide("s", true)
		if got := next[*session.Finished](w, s).Result.Text(); got != "ok" {
			c.t.Errorf("first turn: %q", got)
		}
		submit(w, s)
		next[*session.ApprovalRequest](w, s)
		if err := s.Cancel(w.Ctx, ""); err != nil { // the driver cancels the sub-agent
			c.t.Fatal(err)
		}
		next[*session.Finished](w, s)
		w.Until("s-t2-r1-c1", events.KindTurnFinished)
		crew.Drain(c.t)
		node.Drain(c.t)
		c.clean()
	})
}

func TestEachRoleReachesTheBucketsThatItNeeds(t *testing.T) {
	inEachLayout(t, func(_ *testing.T, c *cell) {
		must := func(what string, err error) {
			c.t.Helper()
			if err != nil {
				c.t.Errorf("%s: %v", what, err)
			}
		}
		ctx := c.ctx
		driver, publisher, w := c.open("driver"), c.open("provisioner"), c.open("worker")
		must("publish an agent", agents.Of(publisher).Publish(ctx, "ann", "v1", []byte("x")))
		for _, name := range []string{"client", "driver", "provisioner"} {
			_, err := agents.Of(c.open(name)).Get(ctx, "ann", "")
			must(name+" gets an agent", err)
			_, err = agents.Of(c.open(name)).List(ctx)
			must(name+" lists agents", err)
		}
		must("withdraw an agent", agents.Of(publisher).Withdraw(ctx, "ann"))

		must("leave a note", memory.Of(driver).Put(ctx, "team", notes.Note{Goal: "g"}, time.Hour))
		_, err := memory.Of(driver).Notes(ctx, "team")
		must("read notes", err)
		must("forget a note", memory.Of(driver).Forget(ctx, "team", "g"))

		must("advertise", w.Catalog().Advertise(ctx, jetstream.Offer{Worker: "w", Queue: turnlogtest.Queue}))
		offers, err := c.open("client").Catalog().List(ctx)
		must("list offers", err)
		if len(offers) != 1 || offers[0].Worker != "w" {
			c.t.Errorf("offers: %+v", offers)
		}
		must("withdraw tools", w.Catalog().Withdraw(ctx, "w"))

		for _, name := range []string{"client", "approver", "worker", "driver"} {
			_, _, err := c.open(name).Blobs().PutFrom(ctx, strings.NewReader(name+large()))
			must(name+" puts a blob", err)
		}
		id, _, err := w.Blobs().PutFrom(ctx, strings.NewReader(large()))
		must("put a blob", err)
		for _, name := range []string{"client", "approver", "worker", "driver", "observer", "keeper"} {
			data, ok, err := c.open(name).Blobs().Get(ctx, id)
			must(name+" gets a blob", err)
			if !ok || string(data) != large() {
				c.t.Errorf("%s got %d bytes, %t", name, len(data), ok)
			}
		}
		_, err = driver.Journal().Append(ctx, journal.Head{}, events.Entry{Session: "old", Cause: "c", Epoch: 1, Events: []events.Event{events.Parked{}}})
		must("append an entry", err)
		keeper := c.open("keeper")
		held, err := admin.Of(keeper).Holdings(ctx)
		must("list what is held", err)
		if len(held) != 1 || held[0].Session != "old" {
			c.t.Errorf("held: %+v", held)
		}
		last, err := keeper.Journal().Last(ctx, "old")
		must("look at a session", err)
		_, err = natstest.Collect(keeper.Inbox().Read(ctx, "old", nil, 0))
		must("look into its inbox", err)
		_, err = admin.Of(keeper).Delete(ctx, last, events.SessionDeleted{By: "ada"})
		must("delete a session", err)
		_, err = admin.Of(keeper).Clear(ctx, "old")
		must("clear a session", err)
		<-time.After(time.Hour)
		if found, err := admin.Of(keeper).Collect(ctx, time.Minute, false); err != nil || found.Removed != 5 {
			c.t.Errorf("collect blobs: %+v, %v", found, err)
		}
		for name, role := range map[string]admin.Role{
			"client": admin.RoleClient, "approver": admin.RoleApprover, "worker": admin.RoleWorker,
			"driver": admin.RoleDriver, "observer": admin.RoleObserver, "keeper": admin.RoleKeeper,
		} {
			must(name+" checks the cell", admin.Of(c.open(name)).Check(ctx, role))
		}
		must("the driver checks all of it", admin.Of(driver).Check(ctx))
		c.clean()
	})
}
