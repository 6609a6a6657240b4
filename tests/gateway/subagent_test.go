package gateway

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/turnlog/turnlog/client"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/gateway"
	"github.com/turnlog/turnlog/jetstream/admin"
	"github.com/turnlog/turnlog/tool"
	"github.com/turnlog/turnlog/worker"
)

// TestASubAgentIsOfWhoOpenedItsCaller has an approver, whose role does not cover these agents, open a session that other sessions work
// for.
func TestASubAgentIsOfWhoOpenedItsCaller(t *testing.T) {
	t.Parallel()
	in(t, func(w *world) {
		node := w.stamps()
		g := w.gateway(withPeople(t))
		defer g.stop()
		session := func(id, parent content.SessionID, owner string) {
			w.Start(id, asking, func(o *client.Options) {
				o.Parent, o.Input = parent, []content.Item{content.UserText("Stamp")}
				if o.Config.Rules = []events.Rule{{Tool: "*", Action: events.RuleAsk}}; owner != "" {
					o.Metadata = content.Metadata{}.With("owner", owner)
				}
			})
			w.Until(id, events.KindApprovalRequired)
		}
		session("caller", "", "ann")
		session("child", "caller", "")
		session("grandchild", "child", "")
		session("elder", "younger", "") // a circle
		session("younger", "elder", "")
		session("orphan", "none", "")
		session("unowned", "", "")

		hers := "caller child grandchild"
		for who, want := range map[string]string{"ann": hers, "bob": "", "vic": "", "ada": "", "ops": hers + " elder orphan unowned younger"} {
			all := strings.Fields(want)
			slices.Sort(all)
			want = strings.Join(all, " ")
			var list rows
			g.ok(http.MethodGet, "/api/sessions?sort=session", nil, as(who)).in(t, &list)
			if list.ids() != want {
				t.Errorf("%s lists %q, want %q", who, list.ids(), want)
			}
			var asks struct {
				Approvals []struct {
					Session, Owner string
					May            bool `json:"may_decide"`
				}
			}
			g.ok(http.MethodGet, "/api/approvals", nil, as(who)).in(t, &asks)
			var asked []string
			for _, a := range asks.Approvals {
				asked = append(asked, a.Session)
				if owned := strings.Contains(hers, a.Session); a.Owner == "ann" != owned || !a.May {
					t.Errorf("%s sees %+v", who, a)
				}
			}
			slices.Sort(asked)
			if got := strings.Join(slices.Compact(asked), " "); got != want {
				t.Errorf("%s sees questions of %q, want %q", who, got, want)
			}
			var used struct {
				Usage []struct {
					Owner    string
					Sessions int
				}
			}
			g.ok(http.MethodGet, "/api/usage", nil, as(who)).in(t, &used)
			sessions := 0
			for _, u := range used.Usage {
				if sessions += u.Sessions; u.Owner == "ann" && u.Sessions != 3 {
					t.Errorf("%s sees %d sessions of ann in the usage", who, u.Sessions)
				}
			}
			if sessions != len(all) {
				t.Errorf("%s sees the usage of %d sessions, want %d", who, sessions, len(all))
			}
			for _, id := range []string{"caller", "child", "grandchild", "elder", "younger", "orphan", "unowned"} {
				for _, path := range []string{"/api/sessions/" + id, "/api/sessions/" + id + "/calls", "/api/sessions/" + id + "/entries", "/v1/responses/resp_" + id + ".1", "/api/chat/" + id} {
					if a := g.do(http.MethodGet, path, nil, as(who)); (a.status == http.StatusOK) != slices.Contains(all, id) {
						t.Errorf("%s: %s: %d %s", who, path, a.status, a.body)
					}
				}
			}
		}
		var list rows
		if g.ok(http.MethodGet, "/api/sessions?sort=session&owner=ann", nil, as("ops")).in(t, &list); list.ids() != hers {
			t.Errorf("of ann: %q", list.ids())
		}
		g.ok(http.MethodPost, "/api/approvals/grandchild/t1-r1-c1-g1", fields{"decision": "deny"}, as("ann"))
		g.do(http.MethodPost, "/api/approvals/orphan/t1-r1-c1-g1", fields{"decision": "deny"}, as("ann")).problem(t, http.StatusNotFound, "no_session")

		// She may not send it input herself, since she may not open sessions of its agent.
		for _, path := range []string{"/api/sessions/child/input", "/api/chat/child/stop"} {
			g.do(http.MethodPost, path, fields{"text": "x"}, as("ann")).problem(t, http.StatusForbidden, "forbidden")
		}
		g.do(http.MethodPost, "/api/sessions/child/input", fields{"text": "x"}, as("ada")).problem(t, http.StatusNotFound, "no_session")
		session("other", "", "ada")
		session("others-child", "other", "")
		g.ok(http.MethodPost, "/api/sessions/others-child/input", fields{"text": "x"}, as("ada"))

		// With the caller deleted, its owner is unknown.
		node.Drain(w.T)
		last, err := w.Cell.Journal().Last(w.Ctx, "caller")
		if err != nil {
			t.Fatal(err)
		}
		k := admin.Of(w.Cell)
		if _, err := k.Delete(w.Ctx, last, events.SessionDeleted{By: "kim"}); err != nil {
			t.Fatal(err)
		}
		if _, err := k.Clear(w.Ctx, "caller"); err != nil {
			t.Fatal(err)
		}
		g.do(http.MethodGet, "/api/sessions/child", nil, as("ann")).problem(t, http.StatusNotFound, "no_session")
		if g.ok(http.MethodGet, "/api/sessions", nil, as("ann")).in(t, &list); list.ids() != "" {
			t.Errorf("after the deletion: %q", list.ids())
		}
	})
}

// TestAGuessedNameOpensNoSubAgentsSession has a person guess the ID of a call's session, which would then
// answer the call.
func TestAGuessedNameOpensNoSubAgentsSession(t *testing.T) {
	t.Parallel()
	in(t, func(w *world) {
		w.Worker("helps", worker.Config{}, func(nc *nats.Conn) []tool.Tool {
			c, err := client.Open(nc, "")
			if err != nil {
				t.Fatal(err)
			}
			helper, err := c.Tool("helper", "Helps.", client.Options{Config: events.Config{Model: "m", ModelData: []byte("replies: [{text: done}]")}})
			if err != nil {
				t.Fatal(err)
			}
			return []tool.Tool{helper}
		})
		defer w.drive().Drain(w.T)
		g := w.gateway(withPeople(t), func(c *gateway.Config) {
			c.Defaults.ModelData = []byte("replies:\n  - calls: [{name: helper, input: {prompt: help}}]\n  - text: \"{{(index .Results 0).Text}}\"\n")
		})
		defer g.stop()
		other := w.gateway(withPeople(t), func(c *gateway.Config) { c.Defaults.ModelData = []byte("replies: [{text: EVIL, repeat: true}]") })
		defer other.stop()
		const child = "hers-t1-r1-c1"
		message := fields{"role": "user", "id": "0123456789-evil-1", "content": "Hi", "parts": []fields{{"type": "text", "text": "Hi"}}}
		for path, body := range map[string]fields{
			"/api/sessions": {"id": child, "text": "Hi"}, "/api/chat": {"id": child, "message": message}, "/api/ag-ui": {"threadId": child, "runId": "r", "messages": []fields{message}},
		} {
			if a := other.do(http.MethodPost, path, body, as("bob")); a.status != http.StatusUnprocessableEntity {
				t.Errorf("%s: %d %s", path, a.status, a.body)
			}
		}
		id := g.open(map[string]any{"id": "hers", "text": "Go"}, as("ada"))
		w.Until(id, events.KindTurnFinished)
		if a := g.ok(http.MethodGet, "/api/sessions/hers/transcript", nil, as("ada")); !strings.Contains(string(a.body), `"done"`) || strings.Contains(string(a.body), "EVIL") {
			t.Errorf("%s", a.body)
		}

		// A node of an earlier release opened one.
		w.opened("theirs-t1-r1-c1", "bob", content.UserText("Hi"), content.AssistantText("EVIL"))
		w.Until(g.open(map[string]any{"id": "theirs", "text": "Go"}, as("ada")), events.KindTurnFinished)
		if a := g.ok(http.MethodGet, "/api/sessions/theirs/transcript", nil, as("ada")); !strings.Contains(string(a.body), "is not a sub-agent of theirs") {
			t.Errorf("%s", a.body)
		}
	})
}

// TestAQuestionOfASubAgentIsListedOnce has a sub-agent ask a question, which its caller asks, too.
func TestAQuestionOfASubAgentIsListedOnce(t *testing.T) {
	t.Parallel()
	in(t, func(w *world) {
		w.Worker("helps", worker.Config{}, func(nc *nats.Conn) []tool.Tool {
			c, err := client.Open(nc, "")
			if err != nil {
				t.Fatal(err)
			}
			helper, err := c.Tool("helper", "Helps.", client.Options{Config: events.Config{Model: "m", ModelData: []byte(asking), Rules: []events.Rule{{Tool: "*", Action: events.RuleAsk}}}})
			if err != nil {
				t.Fatal(err)
			}
			return []tool.Tool{helper}
		})
		defer w.stamps().Drain(w.T)
		g := w.gateway(withPeople(t), func(c *gateway.Config) {
			c.Defaults.ModelData = []byte("replies:\n  - calls: [{name: helper, input: {prompt: help}}]\n  - text: \"{{(index .Results 0).Text}}\"\n")
		})
		defer g.stop()
		g.open(map[string]any{"id": "hers", "text": "Go"}, as("ada"))
		w.Until("hers", events.KindApprovalRequired)
		list := func(query, who string) string {
			t.Helper()
			var out struct {
				Approvals []struct {
					Session, ID string
					May         bool `json:"may_decide"`
				}
			}
			g.ok(http.MethodGet, "/api/approvals"+query, nil, as(who)).in(t, &out)
			return fmt.Sprint(out.Approvals)
		}
		const first, second = "hers-t1-r1-c1 t1-r1-c1-g1", "hers-t1-r1-c1 t1-r1-c2-g1" // of the sub-agent; its caller does not ask the second one yet
		for _, row := range [][3]string{
			{"", "ops", "[{hers t1-r1-c1-g1 true} {" + second + " true}]"},
			{"", "ada", "[{hers t1-r1-c1-g1 false} {" + second + " false}]"},
			{"?session=hers-t1-r1-c1", "ops", "[{" + first + " true} {" + second + " true}]"},
			{"", "bob", "[]"},
		} {
			if got := list(row[0], row[1]); got != row[2] {
				t.Errorf("%s, %s: %s, want %s", row[1], row[0], got, row[2])
			}
		}
		g.ok(http.MethodPost, "/api/approvals/hers/t1-r1-c1-g1", fields{"decision": "approve"}, as("ops"))
		<-time.After(time.Minute)
		if got := list("", "ops"); got != "[{hers t1-r1-c1-g2 true}]" {
			t.Errorf("after the first decision: %s", got)
		}
		g.ok(http.MethodPost, "/api/approvals/hers/t1-r1-c1-g2", fields{"decision": "approve"}, as("ops"))
		w.Until("hers", events.KindTurnFinished)
		if a := g.ok(http.MethodGet, "/api/sessions/hers/transcript", nil, as("ada")); !strings.Contains(string(a.body), "stamp 1 and stamp 2") {
			t.Errorf("%s", a.body)
		}
	})
}
