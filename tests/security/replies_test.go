package security

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/turnlog/turnlog/jetstream"
	"github.com/turnlog/turnlog/jetstream/admin"
)

// replies are attacks by users with only the permissions of their role: they direct a reply of the server at
// a subject that they may not publish on. Each does harm if all users are in one account.
func replies() []attack {
	const journal, blobs = "$JS.API.DIRECT.GET.TURNLOG_JOURNAL", "$JS.API.DIRECT.GET.OBJ_TURNLOG_BLOBS"
	return []attack{
		{"an observer deletes all journals", "observer", journal, "$JS.API.STREAM.DELETE.TURNLOG_JOURNAL", ""},
		{"an observer purges all journals", "observer", journal, "$JS.API.STREAM.PURGE.TURNLOG_JOURNAL", ""},
		{"an observer stops every node", "observer", journal, "$JS.API.CONSUMER.DELETE.TURNLOG_RUN.drivers", ""},
		{"an observer stops a queue", "observer", journal, "$JS.API.CONSUMER.DELETE.TURNLOG_TASKS.q_q", ""},
		{"a client turns asks into decisions", "client", blobs, "$JS.API.STREAM.UPDATE.TURNLOG_INBOX", `{"name":"TURNLOG_INBOX","subjects":["turnlog.cmd.*.*"],
			"storage":"memory","duplicate_window":100000000,"republish":{"src":"turnlog.cmd.>","dest":"turnlog.live.cmd.>"},
			"subject_transform":{"src":"turnlog.cmd.*.ask","dest":"turnlog.cmd.{{wildcard(1)}}.decide"}}`},
		{"a worker copies the ticket key", "worker", blobs, "$JS.API.STREAM.CREATE.MINE", `{"name":"MINE","storage":"memory","sources":[{"name":"TURNLOG_KEYS"}]}`},
		{"a worker reads another queue", "worker", blobs, "$JS.API.CONSUMER.CREATE.TURNLOG_TASKS", `{"stream_name":"TURNLOG_TASKS",
			"config":{"ack_policy":"explicit","filter_subject":"turnlog.task.new.>","deliver_subject":"_INBOX_worker.stolen"}}`},
		{"an approver damages a journal", "approver", "turnlog.run.s", "turnlog.journal.s", ""},
		{"a client replaces a schedule", "client", "turnlog.run.s", "turnlog.schedule.s", ""},
		{"a client decides", "client", blobs, "turnlog.cmd.s.decide", "a decision"},
		{"a client offers a tool", "client", blobs, "$KV.TURNLOG_CATALOG.offer.w", "an offer"},
		{"a worker replaces an agent", "worker", blobs, "$KV.TURNLOG_AGENTS.ann", "an agent"},
		{"a scheduler writes a snapshot", "scheduler", "$JS.API.STREAM.MSG.GET.TURNLOG_SCHEDULES", "$KV.TURNLOG_SNAPSHOTS.s", ""},
	}
}

type attack struct{ name, by, request, reply, body string }

// do carries out the attack. Bytes of the attacker's choice come from a blob.
func (a attack) do(c *cell) {
	nc, query := c.connect(a.by), []byte(`{"last_by_subj":"none"}`)
	if a.body != "" {
		if _, err := nc.RequestWithContext(c.ctx, "$O.TURNLOG_BLOBS.C.bait", []byte(a.body)); err != nil {
			c.t.Fatal(err)
		}
		query = []byte(`{"last_by_subj":"$O.TURNLOG_BLOBS.C.bait"}`)
	}
	if !c.lets(a.by, nc, func(nc *nats.Conn) error { return nc.PublishRequest(a.request, a.reply, query) }) {
		c.t.Errorf("%s: the request is not permitted", a.by)
	}
}

// condition describes all streams and consumers of the server and their content, except what attackers may
// change: blobs and wakes.
func (c *cell) condition() string {
	c.t.Helper()
	nc := c.spy()
	var out strings.Builder
	var list struct {
		Streams []struct {
			Config struct {
				Name string `json:"name"`
			} `json:"config"`
		} `json:"streams"`
	}
	ask := func(subject string) []byte {
		answer, err := nc.RequestWithContext(c.ctx, subject, nil)
		if err != nil {
			c.t.Fatal(err)
		}
		return answer.Data
	}
	if err := json.Unmarshal(ask("$JS.API.STREAM.LIST"), &list); err != nil {
		c.t.Fatal(err)
	}
	for _, s := range list.Streams {
		var info struct {
			Config json.RawMessage `json:"config"`
			State  struct {
				Messages uint64 `json:"messages"`
			} `json:"state"`
		}
		if err := json.Unmarshal(ask("$JS.API.STREAM.INFO."+s.Config.Name), &info); err != nil {
			c.t.Fatal(err)
		}
		if s.Config.Name == "OBJ_TURNLOG_BLOBS" || s.Config.Name == "TURNLOG_RUN" {
			info.State.Messages = 0
		}
		var names struct {
			Consumers []string `json:"consumers"`
		}
		if err := json.Unmarshal(ask("$JS.API.CONSUMER.NAMES."+s.Config.Name), &names); err != nil {
			c.t.Fatal(err)
		}
		slices.Sort(names.Consumers)
		fmt.Fprintf(&out, "%s %d %v\n%s\n", s.Config.Name, info.State.Messages, names.Consumers, info.Config)
	}
	return out.String()
}

// spy connects as a user of the cell's account who may do everything.
func (c *cell) spy() *nats.Conn {
	c.t.Helper()
	nc, err := c.srv.Connect(c.as("spy"))
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(nc.Close)
	return nc
}

func TestRepliesOfTheServerDoHarmInOneAccountOnly(t *testing.T) {
	harms := func(c *cell, a attack) bool {
		before := c.condition()
		a.do(c)
		synctest.Wait()
		return c.condition() != before
	}
	for name, start := range layouts() {
		begin := func(t *testing.T) *cell {
			t.Helper()
			c := start(t, false)
			if _, err := c.spy().RequestWithContext(c.ctx, "turnlog.journal.other", []byte("an entry")); err != nil {
				t.Fatal(err)
			}
			return c
		}
		if name != "one account" {
			t.Run(name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					c := begin(t)
					for _, a := range replies() {
						if harms(c, a) {
							t.Errorf("%s does harm", a.name)
						}
					}
				})
			})
			continue
		}
		for _, a := range replies() {
			t.Run(name+"/"+a.name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					if !harms(begin(t), a) {
						t.Error("it does no harm")
					}
				})
			})
		}
	}
}

// targets are the subjects at which a reply may be directed: every request about a stream of the cell or its
// consumers, and every subject of the cell.
func targets() (out []string) {
	for _, row := range admin.Topology(jetstream.DefaultNamespace, admin.Config{}) {
		for _, verb := range []string{
			"CREATE", "UPDATE", "INFO", "PURGE", "DELETE", "SNAPSHOT", "RESTORE", "MSG.DELETE", "MSG.GET", "LEADER.STEPDOWN", "PEER.REMOVE",
		} {
			out = append(out, "$JS.API.STREAM."+verb+"."+row.Stream)
		}
		out = append(out, "$JS.API.DIRECT.GET."+row.Stream, "$JS.API.CONSUMER.CREATE."+row.Stream)
		for _, verb := range []string{"CREATE", "DURABLE.CREATE", "DELETE", "INFO", "PAUSE", "UNPIN", "RESET", "LEADER.STEPDOWN", "MSG.NEXT"} {
			out = append(out, "$JS.API.CONSUMER."+verb+"."+row.Stream+".drivers")
		}
		out = append(out, "$JS.ACK."+row.Stream+".drivers.1.1.1.1.1", "$JS.FC."+row.Stream+".drivers.x")
	}
	for _, row := range admin.Subjects(jetstream.DefaultNamespace) {
		out = append(out, strings.ReplaceAll(concrete(row.Subject), ".s.", ".target."))
	}
	return append(out, "_INBOX_driver.x", "_INBOX_worker.x")
}

// TestNoReplyReachesTheCell directs replies to every request of every role at targets. Each request has only some of
// them, and all requests of a role together have all of them: where the account of a reply ends depends on the request,
// and who may publish on its subject on the target. JWTs make the same accounts, so with them there are fewer pairs.
func TestNoReplyReachesTheCell(t *testing.T) {
	for name, start := range layouts() {
		every := 3
		switch name {
		case "one account":
			continue // any reply does
		case "JWTs":
			every = 8
		}
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { noReplyReaches(t, start(t, false), every) })
		})
	}
}

// noReplyReaches directs replies to each request at every n-th target.
func noReplyReaches(t *testing.T, c *cell, every int) {
	t.Helper()
	var mu sync.Mutex
	heard := map[string]bool{}
	sub, err := c.spy().Subscribe(">", func(m *nats.Msg) {
		mu.Lock()
		defer mu.Unlock()
		heard[m.Subject] = true
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = sub.Unsubscribe() }()
	synctest.Wait()                               // until the server knows of the subscription
	reached := func(targets ...string) []string { // of messages since the last call
		synctest.Wait()
		mu.Lock()
		defer mu.Unlock()
		defer clear(heard)
		return slices.DeleteFunc(targets, func(s string) bool { return !heard[s] })
	}
	if err := c.connect("driver").PublishRequest("$JS.API.DIRECT.GET.TURNLOG_JOURNAL", "turnlog.journal.canary", []byte(`{"last_by_subj":"none"}`)); err != nil {
		t.Fatal(err)
	}
	if len(reached("turnlog.journal.canary")) == 0 {
		t.Fatal("a reply within the cell's account is not noticed")
	}
	for _, name := range single() {
		g := users()[name]
		if slices.ContainsFunc([]admin.Role{admin.RoleDriver, admin.RoleKeeper, admin.RoleProvisioner}, func(r admin.Role) bool { return r == g.Roles[0] }) {
			continue // trusted with the cell
		}
		p, err := admin.PermissionsOf(g)
		if err != nil {
			t.Fatal(err)
		}
		nc := c.connect(name)
		others := slices.DeleteFunc(targets(), func(target string) bool { // that it may not use itself
			return slices.ContainsFunc(p.Publish, func(s string) bool { return matches(s, target) })
		})
		every := min(every, len(p.Publish))
		for i, target := range others {
			for j, request := range p.Publish {
				if (i+j)%every != 0 {
					continue
				}
				request = strings.NewReplacer("*", "s", ">", "s").Replace(request)
				if err := nc.PublishRequest(request, target, []byte(`{"last_by_subj":"none"}`)); err != nil {
					t.Fatal(err)
				}
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		err = nc.FlushWithContext(ctx)
		cancel()
		if err != nil {
			t.Fatal(err)
		}
		for _, target := range reached(others...) {
			t.Errorf("%s can direct a reply at %s", name, target)
		}
		v := slices.DeleteFunc(c.violations(name), func(v string) bool {
			return strings.Contains(v, `with Reply of "$JS.`) // which the server never permits
		})
		if len(v) > 0 {
			t.Errorf("%s may not send its own requests: %v", name, v)
		}
	}
}

// matches reports whether a subject matches a pattern.
func matches(pattern, subject string) bool {
	p, s := strings.Split(pattern, "."), strings.Split(subject, ".")
	for i, token := range p {
		if token == ">" {
			return len(s) > i
		}
		if i >= len(s) || token != "*" && token != s[i] {
			return false
		}
	}
	return len(p) == len(s)
}
