package security

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/turnlog/turnlog/actor"
	"github.com/turnlog/turnlog/client"
	"github.com/turnlog/turnlog/commands"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/jetstream"
	"github.com/turnlog/turnlog/jetstream/admin"
	"github.com/turnlog/turnlog/jetstream/tickets"
	"github.com/turnlog/turnlog/session"
	"github.com/turnlog/turnlog/tool"
	"github.com/turnlog/turnlog/turnlogtest"
	"github.com/turnlog/turnlog/worker"
	"github.com/turnlog/turnlog/worker/task"
)

// single lists the users with one role.
func single() []string {
	all := slices.Collect(maps.Keys(users()))
	return slices.Sorted(slices.Values(slices.DeleteFunc(all, func(n string) bool { return len(users()[n].Roles) > 1 || users()[n].User != "" })))
}

// lets reports whether the server permits an action on a connection.
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

// publishes reports whether the server accepts a message of the user.
func (c *cell) publishes(name string, nc *nats.Conn, subject string) bool {
	c.t.Helper()
	return c.lets(name, nc, func(nc *nats.Conn) error { return nc.PublishRequest(subject, nc.NewInbox(), []byte("{")) })
}

// hears reports whether the server allows a subscription.
func (c *cell) hears(name string, nc *nats.Conn, subject string) bool {
	c.t.Helper()
	return c.hearsIn("", name, nc, subject)
}

// hearsIn reports whether the server allows a subscription in a queue group.
func (c *cell) hearsIn(group, name string, nc *nats.Conn, subject string) bool {
	c.t.Helper()
	return c.lets(name, nc, func(nc *nats.Conn) error {
		sub, err := nc.QueueSubscribe(subject, group, func(*nats.Msg) {}) // QueueSubscribeSync allocates half a megabyte
		if err == nil {
			c.t.Cleanup(func() { _ = sub.Unsubscribe() })
		}
		return err
	})
}

// concrete fills in a subject of the table: session s and the queue of worlds.
func concrete(subject string) string {
	tokens := strings.Split(subject, ".")
	for i, t := range tokens {
		switch {
		case t == "<queue>":
			tokens[i] = turnlogtest.Queue
		case strings.HasPrefix(t, "<"):
			tokens[i] = "s"
		}
	}
	return strings.Join(tokens, ".")
}

func TestRolesUseOnlyTheSubjectsOfTheTable(t *testing.T) {
	inEachLayout(t, func(t *testing.T, c *cell) {
		for _, name := range single() {
			nc, role := c.connect(name), users()[name].Roles[0]
			for _, row := range admin.Subjects(jetstream.DefaultNamespace) {
				subject := concrete(row.Subject)
				may := slices.Contains(row.Writers, role)
				if name == "worker_other" && strings.Contains(row.Subject, "<queue>") || strings.HasSuffix(row.Subject, ".<user>") && name != "driver" {
					may = false // these users have no names; a driver forwards what a schedule sends, in the name of its user
				}
				if got := c.publishes(name, nc, subject); got != may {
					t.Errorf("%s publishes on %s: %t, want %t", name, subject, got, may)
				}
				may = row.Kept == "" && slices.Contains(row.Readers, role) && (name != "worker_other" || !strings.Contains(row.Subject, "<queue>"))
				if got := c.hears(name, nc, subject); got != (may && row.Group == "") {
					t.Errorf("%s hears %s: %t", name, subject, got)
				}
				if got := row.Group != "" && c.hearsIn(row.Group, name, nc, subject); got != (may && row.Group != "") {
					t.Errorf("%s hears %s in the group %s: %t", name, subject, row.Group, got)
				}
			}
		}
	})
}

func TestRepliesReachOnlyTheirRequester(t *testing.T) {
	inEachLayout(t, func(t *testing.T, c *cell) {
		for _, name := range single() {
			nc := c.connect(name)
			for _, subject := range []string{">", "*.>", "_INBOX.>", "_INBOX_*.>", "turnlog.>", "turnlog.task.>", "$JS.>", "$KV.>", "$O.>", "$SYS.>"} {
				if c.hears(name, nc, subject) {
					t.Errorf("%s hears %s", name, subject)
				}
			}
			for of := range users() {
				if got := c.hears(name, nc, users()[of].Prefix()+".x"); got != (of == name) {
					t.Errorf("%s hears replies to %s: %t", name, of, got)
				}
			}
		}
	})
}

// powers are the requests about a stream and the roles that may send them, besides the
// provisioner, which may send the first seven.
func powers(stream string) map[string][]string {
	everybody := []string{"approver", "client", "driver", "observer", "worker", "worker_other"}
	readers := []string{"approver", "client", "driver", "observer"}
	out := map[string][]string{}
	for _, verb := range []string{"CREATE", "UPDATE", "INFO", "PURGE", "DELETE", "SNAPSHOT", "RESTORE"} {
		out["$JS.API.STREAM."+verb+"."] = []string{"provisioner"}
	}
	for _, verb := range []string{"MSG.DELETE", "MSG.GET", "LEADER.STEPDOWN", "PEER.REMOVE"} {
		out["$JS.API.STREAM."+verb+"."] = nil
	}
	out["$JS.API.DIRECT.GET."] = nil
	may := func(request string, names ...string) { out[request] = append(out[request], names...) }
	info, get, direct, purge := "$JS.API.STREAM.INFO.", "$JS.API.STREAM.MSG.GET.", "$JS.API.DIRECT.GET.", "$JS.API.STREAM.PURGE."
	may(info, "driver", "doctor")
	switch stream {
	case "JOURNAL":
		out[info] = append(readers, "provisioner", "doctor")
		may(info, "keeper", "notary")
		may(get, append(readers, "keeper", "doctor", "notary", "messenger", "provisioner")...)
		may(direct, append(readers, "keeper", "doctor", "notary", "messenger")...)
		may(purge, "keeper")
	case "BLOBS":
		may(info, "keeper")
		may(get, append(everybody, "keeper", "doctor", "notary", "messenger")...)
		may(direct, append(everybody, "keeper", "doctor", "notary", "messenger")...)
		may(purge, "driver", "keeper")
	case "INBOX", "NAMED", "TIMERS":
		may(get, "driver", "keeper", "doctor")
		may(purge, "driver", "keeper")
	case "SNAPSHOTS":
		may(get, "approver", "client", "driver", "keeper", "doctor")
		may(direct, "approver", "client", "driver", "keeper")
		may(purge, "driver", "keeper")
	case "RUN":
		may(get, "driver", "doctor")
		may(purge, "keeper")
	case "MEMORY":
		may(get, "driver")
	case "WEBHOOKS":
		may(info, "messenger")
		may(get, "messenger")
		may(direct, "messenger")
	case "LOG", "CHECKPOINTS":
		may(get, "observer", "notary")
	case "KEYS":
		may(get, "driver", "doctor")
	case "SIGNERS":
		may(get, "driver", "worker", "worker_other", "observer", "provisioner", "doctor", "notary")
	case "SEALS":
		may(info, "keeper")
		may(get, append(everybody, "keeper", "doctor", "messenger")...)
		may(purge, "keeper")
		may("$JS.API.STREAM.MSG.DELETE.", "keeper")
	case "SCHEDULES", "NAMED_SCHEDULES":
		may(info, "scheduler")
		may(get, "driver", "scheduler", "keeper")
		may(purge, "driver", "scheduler")
	case "TASKS":
		may(get, "driver", "keeper", "doctor")
		may(purge, "keeper")
		may("$JS.API.STREAM.MSG.DELETE.", "driver")
	case "APPROVALS", "DEAD":
		may(info, "keeper")
		may(get, "driver")
		may(direct, "approver", "client", "doctor")
		may(purge, "keeper")
	case "CATALOG":
		may(get, "worker", "worker_other")
		may(direct, "client", "doctor")
	case "FENCES":
		may(get, "driver", "worker", "worker_other")
		may(purge, "keeper")
	case "NODES":
		may(get, "driver")
		may(direct, "driver", "doctor")
	case "AGENTS":
		may(info, "client")
		may(get, "client", "driver", "provisioner")
	}
	return out
}

func TestRequestsToTheServerAreThoseOfTheRole(t *testing.T) {
	inEachLayout(t, func(t *testing.T, c *cell) {
		for _, name := range single() {
			nc := c.connect(name)
			for _, row := range admin.Topology(jetstream.DefaultNamespace, admin.Config{}) {
				for request, who := range powers(row.Name) {
					if got, want := c.publishes(name, nc, request+row.Stream), slices.Contains(who, name); got != want {
						t.Errorf("%s asks %s%s: %t, but powers in this file says %t", name, request, row.Stream, got, want)
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
	inEachLayout(t, func(t *testing.T, c *cell) {
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

			// The server reads nine tokens as the older form, whatever they are. With the body +NXT
			// each of these would be a pull.
			"$JS.ACK.TURNLOG_TASKS.q_other.TURNLOG_TASKS.q_q.1.0.0": false,
			"$JS.ACK.TURNLOG_RUN.drivers.TURNLOG_TASKS.q_q.1.0.0":   false,

			"$JS.ACK.TURNLOG_TASKS.q_q.TURNLOG_TASKS.q_other.1.1.1.1.1":   false,
			"$JS.ACK.TURNLOG_TASKS.q_q.TURNLOG_TASKS.q_other.1.1.1.1.1.1": false,
			"$JS.ACK.TURNLOG_TASKS.q_q.1.1.1.1":                           false,
		} {
			if got := c.publishes("worker", nc, subject); got != want {
				t.Errorf("worker of queue %s asks %s: %t, want %t", turnlogtest.Queue, subject, got, want)
			}
		}
	})
}

// refusal sends a request with a header and returns the server's error.
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
	inEachLayout(t, func(t *testing.T, c *cell) {
		for name, subject := range map[string]string{
			"client": "turnlog.cmd.s.ask", "approver": "turnlog.cmd.s.decide", "worker": "turnlog.cmd.s.report", "ada": "turnlog.cmd.s.ask.ada",
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

// forgeries counts the reports without the ticket of their call.
type forgeries struct{ forged atomic.Int64 }

// SessionTaken counts nothing.
func (*forgeries) SessionTaken() {}

// SessionLeft counts nothing.
func (*forgeries) SessionLeft(string) {}

// EntryAppended counts nothing.
func (*forgeries) EntryAppended(events.Entry, bool, time.Duration) {}

// EffectStarted counts nothing.
func (*forgeries) EffectStarted(string) {}

// CommandHandled counts.
func (f *forgeries) CommandHandled(_, outcome string) {
	if outcome == "forged" {
		f.forged.Add(1)
	}
}

// ticketOfOther returns the ticket that the other queue's worker got for a call of the session.
func (c *cell) ticketOfOther() string {
	c.t.Helper()
	driver := c.open("driver")
	issued, err := tickets.Of(c.ctx, driver)
	if err != nil {
		c.t.Fatal(err)
	}
	x := task.Task{Session: "s", Place: "t1-r1-c9", Attempt: 1, Queue: other, Ticket: issued.Of("s", "t1-r1-c9", 1)}
	if err := driver.Tasks().Dispatch(c.ctx, x); err != nil {
		c.t.Fatal(err)
	}
	q, err := c.open("worker_other").Queue(c.ctx, other)
	if err != nil {
		c.t.Fatal(err)
	}
	claim, err := q.Claim(c.ctx)
	if err != nil {
		c.t.Fatal(err)
	}
	return claim.Task().Ticket
}

// TestAForgedResultHasNoEffect has another queue's worker report a result for a guessed
// call, with its own queue or the right one, and with the ticket of another call.
func TestAForgedResultHasNoEffect(t *testing.T) {
	inEachLayout(t, func(t *testing.T, c *cell) {
		w := c.person("client")
		release := make(chan struct{})
		runtime := c.world("worker").Worker("w1", worker.Config{DrainTimeout: time.Second}, func(*nats.Conn) []tool.Tool {
			wait, err := tool.Func("wait", "Waits.", func(context.Context, struct{}) (string, error) {
				<-release
				return "true", nil
			})
			if err != nil {
				t.Fatal(err)
			}
			return []tool.Tool{wait}
		})
		metrics := &forgeries{}
		node := c.world("driver").Node(actor.Config{Metrics: metrics})
		s := w.Start("s", "replies:\n  - calls: [{name: wait, input: {}}]\n  - text: '{{(index .Results 0).Text}}'\n")
		defer func() { _ = s.Close(t.Context()) }()
		submit(w, s)
		w.Until("s", events.KindToolDispatched)

		forger := c.connect("worker_other")
		mine := c.ticketOfOther()
		forged := tool.Result{Result: content.NewResult("call_1_1", "forged", content.StatusOK, "forged")}
		for i, cmd := range []commands.Command{
			commands.ReportResult{Place: "t1-r1-c1", Attempt: 1, Queue: other, Outcome: forged},
			commands.ReportResult{Place: "t1-r1-c1", Attempt: 1, Outcome: forged},
			commands.ReportResult{Place: "t1-r1-c2", Attempt: 1, Queue: turnlogtest.Queue, Outcome: forged},
			commands.ReportResult{Place: "t1-r1-c1", Attempt: 1, Queue: turnlogtest.Queue, Outcome: forged},
			commands.ReportAttemptLost{Place: "t1-r1-c1", Attempt: 1, Queue: turnlogtest.Queue},
			commands.ReportOvertaken{Place: "t1-r1-c1", Attempt: 1, Task: 1},
			commands.ReportQuestion{Place: "t1-r1-c1", Attempt: 1, Question: commands.Question{RequestKind: "x"}},
		} {
			env := commands.Envelope{ID: fmt.Sprint("forged/", i), Session: "s", Command: cmd}
			data, err := env.Encode()
			if err != nil {
				t.Fatal(err)
			}
			for _, ticket := range []string{"", "guessed", mine} {
				msg := &nats.Msg{Subject: "turnlog.cmd.s.report", Header: nats.Header{}, Data: data}
				msg.Header.Set("Turnlog-Ticket", ticket)
				if _, err := forger.RequestMsgWithContext(c.ctx, msg); err != nil {
					t.Fatal(err)
				}
				direct := &nats.Msg{Subject: "turnlog.report.s", Header: msg.Header, Data: data}
				if err := forger.PublishMsg(direct); err != nil {
					t.Fatal(err)
				}
			}
		}
		<-time.After(time.Minute) // until the driver checks its call
		if n := metrics.forged.Load(); n != 42 {
			t.Errorf("%d forged reports were counted, want 42", n)
		}
		if n := len(turnlogtest.Facts[events.ToolResultReceived](w, "s")) + len(turnlogtest.Facts[events.ToolAttemptLost](w, "s")) + len(turnlogtest.Facts[events.ApprovalRequired](w, "s")); n != 0 {
			t.Errorf("%d reports of another queue were taken", n)
		}
		close(release)
		if got := next[*session.Finished](w, s).Result.Text(); got != "true" {
			t.Errorf("result = %q", got)
		}
		runtime.Drain(t)
		node.Drain(t)
	})
}

func TestAClientCannotApprove(t *testing.T) {
	inEachLayout(t, func(t *testing.T, c *cell) {
		w := c.person("client")
		runtime := c.world("worker").Worker("w1", worker.Config{DrainTimeout: time.Second}, echoes(t))
		node := c.world("driver").Node(actor.Config{})
		s := w.Start("s", "replies:\n  - calls: [{name: echo, input: {text: hi}}]\n  - text: done\n", func(o *client.Options) {
			o.Config.Rules = []events.Rule{{Tool: "echo", Action: events.RuleAsk}}
		})
		defer func() { _ = s.Close(t.Context()) }()
		submit(w, s)
		ask := next[*session.ApprovalRequest](w, s)
		if err := ask.Approve(c.ctx); err == nil {
			t.Error("a client approved")
		}
		env := commands.Envelope{ID: "smuggled", Session: "s", Command: commands.ResolveApproval{Approval: ask.ID, Approve: true}}
		data, err := env.Encode()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.Conn.RequestWithContext(c.ctx, "turnlog.cmd.s.ask", data); err != nil { // on its own lane
			t.Fatal(err)
		}
		// The server publishes a stored schedule to any subject that it names.
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
		if n := len(turnlogtest.Facts[events.ApprovalResolved](w, "s")); n != 0 {
			t.Errorf("%d approvals were settled", n)
		}
		runtime.Drain(t)
		node.Drain(t)
	})
}

// TestATokenForAllSessionsLosesNoCommand sends a message on the very subject that the permission to wake
// any session names. Its session would match all sessions.
func TestATokenForAllSessionsLosesNoCommand(t *testing.T) {
	inEachLayout(t, func(t *testing.T, c *cell) {
		w := c.person("client")
		nc := c.connect("client")
		sessions := []content.SessionID{"s1", "s2", "s3"}
		for _, subject := range []string{"turnlog.run.*", "turnlog.cmd.*.ask"} {
			if err := nc.Publish(subject, nil); err != nil {
				t.Fatal(err)
			}
		}
		for _, s := range sessions {
			open := commands.OpenSession{Config: events.Config{Model: "scripted:test", ModelData: []byte("replies: [{text: hi}]")}}
			data, err := commands.Envelope{ID: "open/" + string(s), Session: s, Command: open}.Encode()
			if err != nil {
				t.Fatal(err)
			}
			if _, err := nc.RequestWithContext(c.ctx, "turnlog.cmd."+string(s)+".ask", data); err != nil {
				t.Fatal(err)
			}
		}
		node := c.world("driver").Node(actor.Config{})
		for _, s := range sessions {
			until(w, s, events.KindRunStarted, 1)
		}
		node.Drain(t)
	})
}
