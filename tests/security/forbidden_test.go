package security

import (
	"cmp"
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/turnlog/turnlog/actor"
	"github.com/turnlog/turnlog/agent"
	"github.com/turnlog/turnlog/client"
	"github.com/turnlog/turnlog/commands"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/internal/celltest"
	"github.com/turnlog/turnlog/jetstream"
	"github.com/turnlog/turnlog/tool"
	"github.com/turnlog/turnlog/worker"
)

// single are the users with one role.
func single() []string {
	all := slices.Collect(maps.Keys(users()))
	return slices.Sorted(slices.Values(slices.DeleteFunc(all, func(n string) bool { return len(users()[n].Roles) > 1 })))
}

// lets reports whether the server lets a connection do something.
func (c *cell) lets(name string, nc *nats.Conn, do func(nc *nats.Conn) error) bool {
	c.t.Helper()
	c.violations(name)
	if err := do(nc); err != nil {
		c.t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(c.ctx, time.Minute)
	defer cancel()
	if err := nc.FlushWithContext(ctx); err != nil {
		c.t.Fatal(err)
	}
	synctest.Wait() // until the error has come
	return len(c.violations(name)) == 0
}

// publishes reports whether the server takes a message of the user's.
func (c *cell) publishes(name string, nc *nats.Conn, subject string) bool {
	c.t.Helper()
	return c.lets(name, nc, func(nc *nats.Conn) error { return nc.PublishRequest(subject, nc.NewInbox(), []byte("{")) })
}

// hears reports whether the server lets the user subscribe.
func (c *cell) hears(name string, nc *nats.Conn, subject string) bool {
	c.t.Helper()
	return c.lets(name, nc, func(nc *nats.Conn) error {
		sub, err := nc.SubscribeSync(subject)
		if err == nil {
			c.t.Cleanup(func() { _ = sub.Unsubscribe() })
		}
		return err
	})
}

// concrete fills in a subject of the table as it is written: a message for session s,
// on the queue that worlds have.
func concrete(subject string) string {
	tokens := strings.Split(subject, ".")
	for i, t := range tokens {
		switch {
		case t == "<queue>":
			tokens[i] = celltest.Queue
		case strings.HasPrefix(t, "<"):
			tokens[i] = "s"
		}
	}
	return strings.Join(tokens, ".")
}

func TestNobodyWritesOrHearsWhatTheTableDoesNotSay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCell(t, false)
		for _, name := range single() {
			nc, role := c.connect(name), users()[name].Roles[0]
			for _, row := range jetstream.Subjects(jetstream.DefaultNamespace) {
				subject := concrete(row.Subject)
				may := slices.Contains(row.Writers, role)
				if name == "worker_other" && strings.Contains(row.Subject, "<queue>") {
					may = false
				}
				if got := c.publishes(name, nc, subject); got != may {
					t.Errorf("%s publishes on %s: %t, want %t", name, subject, got, may)
				}
				may = row.Kept == "" && slices.Contains(row.Readers, role)
				if got := c.hears(name, nc, subject); got != may {
					t.Errorf("%s hears %s: %t, want %t", name, subject, got, may)
				}
			}
		}
	})
}

func TestNobodyHearsTheRepliesToOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCell(t, false)
		for _, name := range single() {
			nc := c.connect(name)
			for _, subject := range []string{">", "*.>", "_INBOX.>", "_INBOX_*.>", "turnlog.>", "turnlog.task.>", "$JS.>", "$KV.>", "$O.>", "$SYS.>"} {
				if c.hears(name, nc, subject) {
					t.Errorf("%s hears %s", name, subject)
				}
			}
			for of := range users() {
				if got := c.hears(name, nc, users()[of].Inbox+".x"); got != (of == name) {
					t.Errorf("%s hears replies to %s: %t", name, of, got)
				}
			}
		}
	})
}

// powers are the requests about a stream and those who may make them, beside the
// provisioner, to whom the first five belong.
func powers(stream string) map[string][]string {
	everybody := []string{"approver", "client", "driver", "observer", "worker", "worker_other"}
	readers := []string{"approver", "client", "driver", "observer"}
	out := map[string][]string{}
	for _, verb := range []string{"CREATE", "UPDATE", "INFO", "PURGE", "DELETE"} {
		out["$JS.API.STREAM."+verb+"."] = []string{"provisioner"}
	}
	for _, verb := range []string{"SNAPSHOT", "RESTORE", "MSG.DELETE", "MSG.GET", "LEADER.STEPDOWN", "PEER.REMOVE"} {
		out["$JS.API.STREAM."+verb+"."] = nil
	}
	out["$JS.API.DIRECT.GET."] = nil
	may := func(request string, names ...string) { out[request] = append(out[request], names...) }
	info, get, direct, purge := "$JS.API.STREAM.INFO.", "$JS.API.STREAM.MSG.GET.", "$JS.API.DIRECT.GET.", "$JS.API.STREAM.PURGE."
	may(info, "driver")
	switch stream {
	case "JOURNAL":
		out[info] = append(readers, "provisioner")
		may(get, readers...)
		may(direct, readers...)
	case "BLOBS":
		may(get, everybody...)
		may(direct, everybody...)
		may(purge, "driver")
	case "INBOX", "TIMERS":
		may(get, "driver")
		may(purge, "driver")
	case "RUN", "SNAPSHOTS", "MEMORY":
		may(get, "driver")
	case "TASKS":
		may(get, "driver")
		may("$JS.API.STREAM.MSG.DELETE.", "driver")
	case "APPROVALS":
		may(get, "driver")
		may(direct, "approver", "client")
	case "CATALOG":
		may(get, "worker", "worker_other")
		may(direct, "client")
	case "NODES":
		may(direct, "driver")
	case "AGENTS":
		may(info, "client")
		may(get, "client", "driver", "provisioner")
	}
	return out
}

func TestRequestsToTheServerAreThoseOfTheRole(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCell(t, false)
		for _, name := range single() {
			nc := c.connect(name)
			for _, row := range jetstream.Topology(jetstream.DefaultNamespace, jetstream.Config{}) {
				for request, who := range powers(row.Name) {
					if got, want := c.publishes(name, nc, request+row.Stream), slices.Contains(who, name); got != want {
						t.Errorf("%s asks %s%s: %t, want %t", name, request, row.Stream, got, want)
					}
				}
				for _, request := range []string{"CREATE." + row.Stream, "DURABLE.CREATE." + row.Stream + ".x"} {
					if c.publishes(name, nc, "$JS.API.CONSUMER."+request) {
						t.Errorf("%s asks $JS.API.CONSUMER.%s", name, request)
					}
				}
				for _, request := range []string{"CREATE." + row.Stream + ".x", "CREATE." + row.Stream + ".x.turnlog.>", "DELETE." + row.Stream + ".q_other"} {
					want := name == "provisioner" || name == "driver" && row.Name == "CATALOG" && strings.HasPrefix(request, "DELETE")
					if got := c.publishes(name, nc, "$JS.API.CONSUMER."+request); got != want {
						t.Errorf("%s asks $JS.API.CONSUMER.%s: %t", name, request, got)
					}
				}
			}
		}
	})
}

func TestAWorkerHasItsOwnQueueOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCell(t, false)
		nc := c.connect("worker")
		for subject, want := range map[string]bool{
			"$JS.API.CONSUMER.MSG.NEXT.TURNLOG_TASKS.q_q":               true,
			"$JS.API.CONSUMER.MSG.NEXT.TURNLOG_TASKS.q_other":           false,
			"$JS.API.CONSUMER.MSG.NEXT.TURNLOG_RUN.drivers":             false,
			"$JS.API.CONSUMER.INFO.TURNLOG_TASKS.q_other":               false,
			"$JS.ACK.TURNLOG_TASKS.q_q.1.1.1.1.1":                       true,
			"$JS.ACK.TURNLOG_TASKS.q_other.1.1.1.1.1":                   false,
			"$JS.ACK._.abcdefgh.TURNLOG_TASKS.q_q.1.1.1.1.1.abcdefgh":   true,
			"$JS.ACK._.abcdefgh.TURNLOG_TASKS.q_other.1.1.1.1.1.abcdef": false,
			"$JS.ACK.TURNLOG_RUN.drivers.1.1.1.1.1":                     false,
		} {
			if got := c.publishes("worker", nc, subject); got != want {
				t.Errorf("worker of queue %s asks %s: %t, want %t", celltest.Queue, subject, got, want)
			}
		}
	})
}

// refusal asks the server with a header, and returns the error that it answers with.
func refusal(ctx context.Context, t *testing.T, nc *nats.Conn, subject, header, value string) string {
	t.Helper()
	msg := nats.NewMsg(subject)
	msg.Header.Set(header, value)
	answer, err := nc.RequestMsgWithContext(ctx, msg)
	if err != nil {
		t.Fatalf("%s with %s: %v", subject, header, err)
	}
	var ack struct {
		Error *struct {
			Description string `json:"description"`
		} `json:"error"`
	}
	if err := json.Unmarshal(answer.Data, &ack); err != nil {
		t.Fatal(err)
	}
	if ack.Error == nil {
		return ""
	}
	return cmp.Or(ack.Error.Description, "refused")
}

func TestHeadersThatWipeOrPostponeAreRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCell(t, false)
		for name, subject := range map[string]string{
			"client": "turnlog.cmd.s.ask", "approver": "turnlog.cmd.s.decide", "worker": "turnlog.cmd.s.report",
		} {
			nc := c.connect(name)
			for header, value := range map[string]string{
				"Nats-Rollup": "all", "Nats-TTL": "1s", "Nats-Schedule": "@at 2035-01-01T00:00:00Z", "Nats-Incr": "1",
			} {
				for _, at := range []string{subject, "turnlog.run.s", "$O.TURNLOG_BLOBS.C.x"} {
					if refusal(c.ctx, t, nc, at, header, value) == "" {
						t.Errorf("%s: %s on %s was taken", name, header, at)
					}
				}
			}
		}
	})
}

func TestAResultCountsOnlyForTheQueueThatItNames(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCell(t, false)
		w := c.person("client")
		release := make(chan struct{})
		crew := c.world("worker").Worker("w1", worker.Config{DrainTimeout: time.Second}, func(*nats.Conn) []tool.Tool {
			wait, err := tool.Func("wait", "Waits.", func(context.Context, struct{}) (string, error) {
				<-release
				return "true", nil
			})
			if err != nil {
				t.Fatal(err)
			}
			return []tool.Tool{wait}
		})
		node := c.world("driver").Node(actor.Config{})
		s := w.Start("s", "replies:\n  - calls: [{name: wait, input: {}}]\n  - text: '{{(index .Results 0).Text}}'\n")
		defer s.Close()
		submit(w, s)
		w.Until("s", events.KindToolDispatched)

		forger := c.open("worker_other")
		for _, r := range []commands.ReportResult{
			{Place: "t1-r1-c1", Attempt: 1, Queue: other},
			{Place: "t1-r1-c1", Attempt: 1},
			{Place: "t1-r1-c2", Attempt: 1, Queue: celltest.Queue},
		} {
			r.Outcome = tool.Result{Result: content.NewResult("call_1_1", "forged", content.StatusOK, "forged")}
			env := commands.Envelope{ID: "forged/" + r.Queue + string(r.Place), Session: "s", Command: r}
			if _, err := forger.Inbox().Send(c.ctx, env); err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait()
		if n := len(celltest.Facts[events.ToolResultReceived](w, "s")); n != 0 {
			t.Errorf("%d results of another queue were taken", n)
		}
		close(release)
		if got := next[*agent.Finished](w, s).Result.Text(); got != "true" {
			t.Errorf("result = %q", got)
		}
		crew.Drain(t)
		node.Drain(t)
	})
}

func TestAClientCannotApprove(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCell(t, false)
		w := c.person("client")
		crew := c.world("worker").Worker("w1", worker.Config{DrainTimeout: time.Second}, echoes(t))
		node := c.world("driver").Node(actor.Config{})
		s := w.Start("s", "replies:\n  - calls: [{name: echo, input: {text: hi}}]\n  - text: done\n", func(o *client.Options) {
			o.Config.Rules = []events.Rule{{Tool: "echo", Action: events.RuleAsk}}
		})
		defer s.Close()
		submit(w, s)
		ask := next[*agent.ApprovalRequest](w, s)
		if err := ask.Approve(c.ctx); err == nil {
			t.Error("a client approved")
		}
		env := commands.Envelope{ID: "smuggled", Session: "s", Command: commands.ResolveApproval{Approval: ask.ID, Approve: true}}
		data, err := env.Encode()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.Conn.RequestWithContext(c.ctx, "turnlog.cmd.s.ask", data); err != nil { // on the lane that it may use
			t.Fatal(err)
		}
		// What it may store, the server sends to whatever subject it says.
		if err := w.Conn.Publish("$O.TURNLOG_BLOBS.C.bait", data); err != nil {
			t.Fatal(err)
		}
		query := []byte(`{"last_by_subj":"$O.TURNLOG_BLOBS.C.bait"}`)
		if !c.lets("client", w.Conn, func(nc *nats.Conn) error {
			return nc.PublishRequest("$JS.API.DIRECT.GET.OBJ_TURNLOG_BLOBS", "turnlog.cmd.s.decide", query)
		}) {
			t.Error("reads of blobs are forbidden")
		}
		synctest.Wait()
		if n := len(celltest.Facts[events.ApprovalResolved](w, "s")); n != 0 {
			t.Errorf("%d approvals were settled", n)
		}
		crew.Drain(t)
		node.Drain(t)
	})
}
