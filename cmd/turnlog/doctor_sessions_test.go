package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/turnlog/turnlog/actor"
	"github.com/turnlog/turnlog/commands"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/embedded"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/events/journal"
	"github.com/turnlog/turnlog/internal/cli"
	"github.com/turnlog/turnlog/internal/release"
	"github.com/turnlog/turnlog/internal/testing/clitest"
	"github.com/turnlog/turnlog/jetstream"
	"github.com/turnlog/turnlog/jetstream/admin"
	"github.com/turnlog/turnlog/model/registry"
	"github.com/turnlog/turnlog/tool"
	"github.com/turnlog/turnlog/worker/task"
)

// impatient makes the doctor report everything that is not finished immediately.
func (p *examined) impatient(args ...string) doctorReport {
	p.t.Helper()
	return p.look(append([]string{"--profile", "dev", "--patience", "0s"}, args...)...)
}

func (p *examined) must(err error) {
	p.t.Helper()
	if err != nil {
		p.t.Fatal(err)
	}
}

// ask puts a command into a session's inbox without waking it.
func (p *examined) ask(s content.SessionID) {
	p.t.Helper()
	_, err := p.cell.Inbox().Send(p.t.Context(), commands.Envelope{
		ID: "ask-" + string(s), Session: s, By: "test", Command: commands.SubmitInput{Items: []content.Item{content.UserText("hi")}},
	})
	p.must(err)
}

// take wakes a session and takes its token.
func (p *examined) take(runs *jetstream.Runs, s content.SessionID) *jetstream.Token {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.t.Context(), clitest.Patience)
	defer cancel()
	p.must(runs.Wake(ctx, s))
	token, err := runs.Take(ctx)
	if err != nil || token.Session() != s {
		p.t.Fatalf("took the token of %v, %v, want that of %s", token, err, s)
	}
	return token
}

func TestUndrivenSessionsAreReported(t *testing.T) {
	t.Parallel()
	p := provisionedOnDisk(t)
	runs := p.cell.Runs()
	driven := p.take(runs, "driven")
	p.again(func(context.Context) { _ = driven.Extend() }) // or it comes again
	p.ask("driven")
	p.aliveNode(jetstream.HeldToken{Session: "driven", Reply: driven.Reply()})
	p.impatient().expect(t)

	p.ask("forgotten") // has a command and no token
	for range 2 {      // its node gives it up whenever it gets it
		head, err := p.cell.Journal().Last(t.Context(), "broken")
		if err != nil {
			head = journal.Record{}
		}
		_, err = p.cell.Journal().Append(t.Context(), head.Head, events.Entry{
			Session: "broken", Cause: fmt.Sprint("claim", head.Seq), At: content.TimeOf(time.Now()),
			Events: []events.Event{events.DriverClaimed{Epoch: head.Seq + 1, Node: "n7"}},
		})
		p.must(err)
	}
	p.must(p.take(runs, "broken").ReleaseAfter(time.Hour))
	_, err := p.conn.RequestWithContext(t.Context(), "turnlog.journal.torn", []byte("no entry"))
	p.must(err)
	p.must(p.take(runs, "torn").ReleaseAfter(time.Hour))

	p.look("--profile", "dev").expect(t) // nothing is stuck for long
	f := p.impatient().expect(t, "error session-unwoken", "error session-broken broken", "error session-unreadable torn")
	if do := f["session-unwoken"].Do; !strings.HasPrefix(do, "nats pub turnlog.run.forgotten '' ") {
		t.Errorf("to wake it: %s", do)
	}
	if what := f["session-broken"].What; !strings.HasSuffix(what, "no node holds it; the journal ends in 2 claims, the last one by node n7") {
		t.Errorf("broken: %s", what)
	}
	if do := f["session-unreadable"].Do; do != "observer verify torn" {
		t.Errorf("unreadable: %s", do)
	}

	p.must(runs.Wake(t.Context(), "forgotten")) // now it waits for a node that has room
	f = p.impatient().expect(t, "error session-waiting", "error session-broken broken", "error session-unreadable torn")
	if diff := cmp.Diff([]content.SessionID{"forgotten"}, f["session-waiting"].Sessions); diff != "" {
		t.Errorf("waiting (-want +got):\n%s", diff)
	}
}

func TestTheNumberOfExaminedSessionsIsLimited(t *testing.T) {
	t.Parallel()
	p := provisionedOnDisk(t)
	p.aliveNode()
	for n := range 3 {
		p.ask(content.SessionID(fmt.Sprint("s", n)))
	}
	f := p.impatient("--limit", "2").expect(t, "error session-unwoken", "warning not-examined sessions without a run token")
	if len(f["session-unwoken"].Sessions) != 2 || f["not-examined"].What != "only 2 of 3 sessions without a run token were examined" {
		t.Errorf("findings %+v", f)
	}
}

func TestSilentNodesAreReported(t *testing.T) {
	t.Parallel()
	p := provisionedOnDisk(t)
	lost := p.take(p.cell.Runs(), "lost")
	p.record("gone", jetstream.HeldToken{Session: "lost", Reply: lost.Reply()})
	f := p.impatient().expect(t, "error node-dead gone", "error no-nodes")
	if f["no-nodes"].Why != "1 session has work to do, and no node does it" || f["node-dead"].Do != "driver-node" {
		t.Errorf("findings %+v", f)
	}
	p.aliveNode()
	p.impatient().expect(t, "warning node-dead gone")
}

func TestANodeThatDoesNotHearASessionIsReported(t *testing.T) {
	t.Parallel()
	p := provisionedOnDisk(t)
	token := p.take(p.cell.Runs(), "deaf")
	p.again(func(context.Context) { _ = token.Extend() }) // or it comes again
	_, err := p.cell.Journal().Append(t.Context(), journal.Head{}, events.Entry{
		Session: "deaf", Cause: "claim", At: content.TimeOf(time.Now()), Epoch: 1, Events: []events.Event{events.DriverClaimed{Epoch: 1, Node: "n1"}},
	})
	p.must(err)
	p.ask("deaf")
	p.aliveNode(jetstream.HeldToken{Session: "deaf", Reply: token.Reply()})
	p.look("--profile", "dev").expect(t) // it is not late yet
	if f := p.look("--profile", "dev", "--stalled", "1ms").expect(t, "error inbox-lagging deaf")["inbox-lagging"]; !strings.HasPrefix(f.What, "session deaf has commands that node ") {
		t.Errorf("finding %+v", f)
	}
}

func TestStalledWorkIsReported(t *testing.T) {
	t.Parallel()
	p := provisionedOnDisk(t)
	p.must(admin.Of(p.cell).EnsureQueue(t.Context(), admin.QueueConfig{Name: defaultQueue}))
	began := make(chan struct{}, 1)
	hang, err := tool.Func("hang", "Hangs.", func(ctx context.Context, _ struct{}) (string, error) {
		began <- struct{}{}
		<-ctx.Done()
		return "", context.Cause(ctx)
	}, tool.ReadOnly())
	p.must(err)
	hostOn(t, &cli.Cell{Cell: p.cell, Conn: p.conn}, actor.Config{Models: registry.New(nil).Open}, hang)
	thinks := at(t, p.url, "run", "--session", "thinks", "-o", "jsonl", "--model", scripted(t, endless), "wait")
	thinks.out.Await(t, "model_call_started")
	calls := at(t, p.url, "run", "--session", "calls", "--model", scripted(t, "replies:\n  - calls: [{name: hang, input: {}}]\n  - text: done\n"), "wait")
	<-began
	ctx, cancel := context.WithTimeout(t.Context(), clitest.Patience)
	defer cancel()
	var f []finding
	for len(f) < 2 && ctx.Err() == nil { // until the node has recorded which tokens it holds
		f = p.look("--profile", "dev", "--stalled", "1ms").Findings
	}
	if len(f) != 2 || f[0].Check != "effect-stalled" || f[0].Object != "calls" || f[1].Object != "thinks" {
		t.Fatalf("findings %+v", f)
	}
	if !strings.HasPrefix(f[0].What, "session calls waits for the call ") || !strings.Contains(f[0].What, " of hang on queue default; ") ||
		!strings.HasPrefix(f[0].Do, "turnlog cancel calls --call ") || !strings.HasPrefix(f[1].Do, "turnlog cancel thinks, ") {
		t.Errorf("findings %+v", f)
	}
	p.look("--profile", "dev").expect(t)
	succeed(t, p.url, "cancel", "thinks")
	succeed(t, p.url, "cancel", "calls")
	for _, run := range []*program{thinks, calls} {
		if code := run.end(t); code != cli.CodeCancelled {
			t.Errorf("code %d:\n%s%s", code, run.out, run.err)
		}
	}
}

func TestQueuesAndWorkersAreExamined(t *testing.T) {
	t.Parallel()
	p := provisionedOnDisk(t)
	p.aliveNode()
	call := func(queue string, n int) {
		p.must(p.cell.Tasks().Dispatch(t.Context(), task.Task{
			Session: "s", Turn: "turn-1", Call: "c1", Place: content.PlaceOf(1, 1, n), Attempt: 1, Queue: queue, Tool: "x", IdempotencyKey: "k",
		}))
	}
	spec := []tool.Spec{{Name: "x"}}
	call("nowhere", 1)
	p.look("--profile", "dev").expect(t) // nothing waits for a call of a session at rest: its worker was lost
	p.must(p.cell.Runs().Wake(t.Context(), "s"))
	p.must(admin.Of(p.cell).EnsureQueue(t.Context(), admin.QueueConfig{Name: "alone"}))
	p.must(admin.Of(p.cell).EnsureQueue(t.Context(), admin.QueueConfig{Name: "narrow", Concurrency: 1}))
	p.must(admin.Of(p.cell).EnsureQueue(t.Context(), admin.QueueConfig{Name: "mute"}))
	p.look("--profile", "dev").expect(t, "error queue-missing nowhere")
	call("alone", 2)
	f := p.look("--profile", "dev").expect(t, "error queue-missing nowhere", "error queue-unattended alone")
	if f["queue-unattended"].Do != "tool-worker --queue alone" || len(f["queue-unattended"].Sessions) != 1 {
		t.Errorf("finding %+v", f["queue-unattended"])
	}
	p.must(p.cell.Catalog().Advertise(t.Context(), jetstream.Offer{Release: release.Version(), Worker: "w1", Queue: "alone", Tools: spec}))
	p.look("--profile", "dev").expect(t, "error queue-missing nowhere")

	call("narrow", 3)
	call("narrow", 4)
	p.must(p.cell.Catalog().Advertise(t.Context(), jetstream.Offer{Release: release.Version(), Worker: "w2", Queue: "narrow"}))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	claim := func(queue string) (task.Claim, error) {
		q, err := p.cell.Queue(ctx, queue)
		if err != nil {
			return nil, err
		}
		return q.Claim(ctx)
	}
	_, err := claim("narrow")
	p.must(err)
	idle := make(chan error, 1)
	go func() {
		_, err := claim("mute")
		idle <- err
	}()
	bounded, stop := context.WithTimeout(t.Context(), clitest.Patience)
	defer stop()
	for !strings.Contains(string(p.api("CONSUMER.INFO.TURNLOG_TASKS.q_mute", "")), `"num_waiting":1`) && bounded.Err() == nil {
		continue
	}
	f = p.look("--profile", "dev").expect(t, "error queue-missing nowhere", "warning queue-full narrow",
		"warning worker-toolless w2", "warning worker-toolless mute")
	if do := f["queue-full"].Do; do != "nats consumer edit TURNLOG_TASKS q_narrow --max-pending 2 --force" {
		t.Errorf("to do: %s", do)
	}
	cancel()
	if err := <-idle; err == nil {
		t.Error("an empty queue gave a call")
	}
}

func TestTenThousandBusySessionsAreCheapToExamine(t *testing.T) {
	t.Parallel()
	monitor := freePort(t)
	p := provisionedOnDisk(t, embedded.WithSettings("http: "+monitor))
	const sessions = 10_000
	held := make([]jetstream.HeldToken, sessions)
	for i := range held {
		s := fmt.Sprintf("session-%05d", i)
		held[i] = jetstream.HeldToken{Session: content.SessionID(s), Reply: fmt.Sprintf("$JS.ACK.TURNLOG_RUN.drivers.1.%d.%[1]d.1.0", i+1)}
		for _, subject := range []string{"turnlog.run." + s, "turnlog.cmd." + s + ".ask", "turnlog.journal." + s} {
			p.must(p.conn.Publish(subject, nil))
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*clitest.Patience)
	defer cancel()
	p.must(p.conn.FlushWithContext(ctx))
	for ctx.Err() == nil { // publishing is not confirmed
		work, err := admin.Of(p.cell).Work(ctx)
		p.must(err)
		if len(work.Tokens) == sessions && len(work.Active) == sessions {
			break
		}
	}
	p.aliveNode(held...)
	before := received(t, monitor)
	r := p.look("--profile", "dev")
	r.expect(t)
	if *r.Looked.Sessions != sessions {
		t.Errorf("looked at %+v", r.Looked)
	}
	if n := received(t, monitor) - before; n > 100 {
		t.Errorf("the server took %d messages from the doctor", n)
	}
	t.Logf("took %d ms", r.Looked.Took)
}

// received is how many messages clients have sent to a server.
func received(t *testing.T, monitor string) int {
	t.Helper()
	var v struct {
		In int `json:"in_msgs"`
	}
	_, page := clitest.Get(t, "http://"+monitor+"/varz")
	if err := json.Unmarshal([]byte(page), &v); err != nil {
		t.Fatal(err)
	}
	return v.In
}
