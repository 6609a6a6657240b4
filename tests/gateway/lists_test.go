package gateway

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/turnlog/turnlog/actor"
	"github.com/turnlog/turnlog/client/report"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/events/journal"
	"github.com/turnlog/turnlog/gateway"
	"github.com/turnlog/turnlog/gateway/people"
	"github.com/turnlog/turnlog/model"
	"github.com/turnlog/turnlog/model/scripted"
	"github.com/turnlog/turnlog/tool"
	"github.com/turnlog/turnlog/turnlogtest"
)

// rows are a part of a list of sessions.
type rows struct {
	Sessions    []struct{ Session string }
	Total, Next int
}

func (r rows) ids() string {
	var all []string
	for _, s := range r.Sessions {
		all = append(all, s.Session)
	}
	return strings.Join(all, " ")
}

func (s *service) list(query string) (r rows) {
	s.w.T.Helper()
	s.ok(http.MethodGet, "/api/sessions?"+query, nil).in(s.w.T, &r)
	return r
}

// opened writes the first entries of a session that no node has driven.
func (w *world) opened(id content.SessionID, owner string, items ...content.Item) (end func(...events.Event)) {
	w.T.Helper()
	var head journal.Head
	n := 0
	write := func(all ...events.Event) {
		w.T.Helper()
		n++
		next, err := w.Cell.Journal().Append(w.Ctx, head, events.Entry{Session: id, Cause: fmt.Sprint("test/", n), At: content.Time(n), Epoch: 1, Events: all})
		if err != nil {
			w.T.Fatal(err)
		}
		head = next
	}
	write(events.DriverClaimed{Epoch: 1}, events.RunStarted{Config: events.Config{Model: "m"}, Transcript: items, Metadata: content.Metadata{}.With("owner", owner)})
	return write
}

func called(tool, input string) content.Item {
	return content.NewItem(content.Assistant, content.CallPart(content.ToolCall{ID: "c", Name: tool, Input: []byte(input)}))
}

func answeredBy(tool, text string) content.Item {
	return content.NewItem(content.Tool, content.ResultPart(content.NewResult("c", tool, content.StatusOK, text)))
}

func TestSessionsAreFilteredAndPaged(t *testing.T) {
	t.Parallel()
	in(t, func(w *world) {
		g := w.gateway()
		w.opened("mail", "ann", content.UserText("Write to Ünal"), called("mail_send", `{"to":"Jo"}`), answeredBy("mail_send", "sent at NOON"), content.AssistantText("Done"))
		w.opened("code", "bob", content.UserText("Fix the bug"), called("shell_exec", `{}`), answeredBy("shell_exec", "ok"), content.AssistantText("Fixed"))
		dear := w.opened("dear", "ann", content.UserText("Think"))
		turn := content.TurnIDFor(1)
		dear(events.TurnStarted{Turn: turn}, events.RoundStarted{Turn: turn, Round: 1}, events.ModelCallStarted{Turn: turn, Round: 1, Attempt: 1})
		dear(events.ReplyRecorded{Turn: turn, Round: 1, Attempt: 1, Items: []content.Item{content.AssistantText("Hm")}},
			events.UsageUpdated{Turn: turn, Round: 1, Usage: content.Usage{OutputTokens: 9, CostMicros: 1_500_000, Currency: "USD"}})
		for query, want := range map[string]string{
			"sort=session":                   "code dear mail",
			"sort=cost":                      "dear code mail",
			"owner=ann&sort=session":         "dear mail",
			"tool=mail_*":                    "mail",
			"tool=*&sort=session":            "code mail",
			"tool=none":                      "",
			"cost=1.5":                       "dear",
			"cost=1.6":                       "",
			"text=ünal":                      "mail",
			"text=noon":                      "mail",
			"text=jo&owner=bob":              "",
			"text=shell_exec":                "code",
			"text=i&sort=session":            "code dear mail",
			"search=fix":                     "code",
			"sort=session&limit=2":           "code dear",
			"sort=session&limit=2&skip=2":    "mail",
			"sort=session&skip=9":            "",
			"text=i&sort=session&limit=1":    "code",
			"text=think&sort=session&skip=2": "",
		} {
			if got := g.list(strings.ReplaceAll(query, "ü", "%C3%BC")); got.ids() != want {
				t.Errorf("%s: %q, want %q", query, got.ids(), want)
			}
		}
		if r := g.list("sort=session&limit=2"); r.Total != 3 || r.Next != 2 {
			t.Errorf("the first part: %+v", r)
		}
		if r := g.list("sort=session&limit=2&skip=2"); r.Total != 3 || r.Next != 0 {
			t.Errorf("the last part: %+v", r)
		}
		if r := g.list("text=i&sort=session&limit=1"); r.Next != 1 {
			t.Errorf("the first part of a search: %+v", r)
		}
		for query, want := range map[string]string{"": "3", "text=noon": "1", "text=nowhere": "0", "text=i&limit=1": "null", "text=i&sort=session&skip=2": "null"} {
			var r struct{ Total *int }
			g.ok(http.MethodGet, "/api/sessions?"+query, nil).in(t, &r)
			if got, _ := json.Marshal(r.Total); string(got) != want {
				t.Errorf("%s: %s in all, want %s", query, got, want)
			}
		}
		for _, bad := range []string{"cost=-1", "cost=x", "skip=-1", "sort=name", "text=" + strings.Repeat("x", 1001)} {
			g.do(http.MethodGet, "/api/sessions?"+bad, nil).problem(t, http.StatusUnprocessableEntity, "bad_request")
		}
	})
}

// TestAListReadsWhatHasChanged lists 600 sessions, and counts what the gateway reads when it lists them again.
func TestAListReadsWhatHasChanged(t *testing.T) {
	t.Parallel()
	in(t, func(w *world) {
		g := w.gateway()
		const sessions = 600
		var change func(...events.Event)
		for i := range sessions {
			change = w.opened(content.SessionID(fmt.Sprintf("s%03d", i)), "ann", content.UserText(fmt.Sprint("Say ", i)))
		}
		read := func(query string) (rows, uint64) {
			before := g.nats.Stats().InMsgs
			return g.list(query), g.nats.Stats().InMsgs - before
		}
		first, all := read("sort=session&limit=10")
		again, none := read("sort=session&limit=10")
		if first.Total != sessions || first.ids() != again.ids() || all < sessions || none > 20 {
			t.Errorf("%+v, with %d messages; then %+v, with %d", first, all, again, none)
		}
		change(events.ConfigChanged{Config: events.Config{Model: "other"}})
		if one, n := read("model=other"); one.ids() != "s599" || n > 30 {
			t.Errorf("changed: %+v, with %d messages", one, n)
		}
		if _, err := w.Client.Sessions(w.Ctx); err != nil {
			t.Fatal(err)
		}

		// a text is searched for in parts
		part, n := read("sort=session&text=say")
		if len(part.Sessions) != 100 || part.Next != 100 || n > 700 {
			t.Errorf("the first hundred: %d sessions, next %d, with %d messages", len(part.Sessions), part.Next, n)
		}
		var found []string
		parts := 0
		for skip, more := 0, true; more; parts++ {
			r := g.list(fmt.Sprintf("sort=session&text=say+599&skip=%d", skip))
			for _, s := range r.Sessions {
				found = append(found, s.Session)
			}
			skip, more = r.Next, r.Next > 0
		}
		if !slices.Equal(found, []string{"s599"}) || parts != 3 {
			t.Errorf("found %v in %d parts", found, parts)
		}
	})
}

// TestAnOperatorSeesWhatQueuesHaveToDo has a call wait for a worker that has stopped.
func TestAnOperatorSeesWhatQueuesHaveToDo(t *testing.T) {
	t.Parallel()
	in(t, func(w *world) {
		stamp, err := tool.Func("stamp", "Stamps.", func(context.Context, struct{}) (string, error) { return "", nil })
		if err != nil {
			t.Fatal(err)
		}
		w.Offer("gone", stamp)
		node := w.Node(actor.Config{Models: func(name string, data []byte) (model.Model, error) { return scripted.Parse(name, data) }})
		defer node.Crash(w.T)
		g := w.gateway(func(c *gateway.Config) {
			c.Defaults = events.Config{Model: "m", ModelData: []byte("replies:\n  - calls: [{name: stamp, input: {}}]\n")}
		})
		w.Until(g.open(map[string]any{"text": "Go"}), events.KindToolDispatched)
		<-time.After(time.Minute)
		var out struct {
			Nodes  int
			Queues []struct {
				Queue            string
				Waiting, Running int
				Oldest           float64 `json:"oldest_wait_seconds"`
			}
			Sessions struct{ Driven int }
		}
		g.ok(http.MethodGet, "/api/queues", nil).in(t, &out)
		if q := out.Queues[0]; out.Nodes != 1 || q.Queue != turnlogtest.Queue || q.Waiting != 1 || q.Running != 0 || math.Round(q.Oldest) != 60 || out.Sessions.Driven != 1 {
			t.Errorf("%+v", out)
		}
		g.do(http.MethodGet, "/api/stuck", nil).problem(t, http.StatusNotFound, "not_found")
		var stuck struct{ Findings []report.Finding }
		finding := report.Finding{Severity: "error", Check: "queue-unattended", Object: "q", What: "a call waits", Why: "its turn waits", Do: "tool-worker --queue q", Sessions: []content.SessionID{"s"}}
		knows := func(c *gateway.Config) {
			c.Stuck = func(context.Context) ([]report.Finding, error) { return []report.Finding{finding}, nil }
		}
		if w.gateway(knows).ok(http.MethodGet, "/api/stuck", nil).in(t, &stuck); len(stuck.Findings) != 1 || stuck.Findings[0].Do != finding.Do || !slices.Equal(stuck.Findings[0].Sessions, finding.Sessions) {
			t.Errorf("%+v", stuck)
		}
		g = w.gateway(knows, func(c *gateway.Config) { c.Access = people.Access{Loopback: true, People: []byte(staff())} })
		g.do(http.MethodGet, "/api/stuck", nil, with("Authorization", "Bearer approver-token")).problem(t, http.StatusForbidden, "forbidden")
		g.do(http.MethodGet, "/api/queues", nil, with("Authorization", "Bearer approver-token")).problem(t, http.StatusForbidden, "forbidden")
	})
}

// TestPeopleSeeWhatTheirSessionsUsed asks for the usage of some days, as the one who opened a session and as another person.
func TestPeopleSeeWhatTheirSessionsUsed(t *testing.T) {
	t.Parallel()
	in(t, func(w *world) {
		turn := content.TurnIDFor(1)
		use := func(tokens int64) []events.Event {
			return []events.Event{
				events.TurnStarted{Turn: turn},
				events.RoundStarted{Turn: turn, Round: 1},
				events.ModelCallStarted{Turn: turn, Round: 1, Attempt: 1},
				events.ReplyRecorded{Turn: turn, Round: 1, Attempt: 1},
				events.UsageUpdated{Turn: turn, Round: 1, Source: "model", Usage: content.Usage{OutputTokens: tokens}},
			}
		}
		w.opened("hers", "ada")(use(5)...)
		w.opened("his", "bob")(use(7)...)
		g := w.gateway(withPeople(t))
		defer g.stop()
		for who, want := range map[string]string{"ada": "[5]", "bob": "[7]", "ops": "[5 7]"} {
			for query, found := range map[string]string{"": want, "?from=1970-01-01&to=1970-01-01": want, "?from=1970-01-02": "[]", "?to=1969-12-31": "[]"} {
				var out struct {
					Usage []struct {
						Owner string
						Usage struct {
							Out int64 `json:"output_tokens"`
						}
					}
					Days []struct{ Day string }
				}
				g.ok(http.MethodGet, "/api/usage"+query, nil, as(who)).in(t, &out)
				tokens := []int64{}
				for _, u := range out.Usage {
					tokens = append(tokens, u.Usage.Out)
				}
				if got := fmt.Sprint(tokens); got != found || len(out.Days) != min(1, len(tokens)) || len(tokens) > 0 && out.Days[0].Day != "1970-01-01" {
					t.Errorf("%s, %s: %s of %v, want %s", who, query, got, out.Days, found)
				}
			}
		}
		g.do(http.MethodGet, "/api/usage?from=yesterday", nil, as("ops")).problem(t, http.StatusUnprocessableEntity, "bad_request")
	})
}

// TestRequestsShareAnExamination has the pages of several operators request the stuck sessions.
func TestRequestsShareAnExamination(t *testing.T) {
	t.Parallel()
	in(t, func(w *world) {
		var begun atomic.Int64
		g := w.gateway(func(c *gateway.Config) {
			c.Stuck = func(ctx context.Context) ([]report.Finding, error) {
				n := begun.Add(1)
				select {
				case <-time.After(3 * time.Second):
					return []report.Finding{{What: fmt.Sprint("examination ", n)}}, nil
				case <-ctx.Done():
					return nil, context.Cause(ctx)
				}
			}
		})
		ask := func() string {
			var out struct{ Findings []report.Finding }
			if g.ok(http.MethodGet, "/api/stuck", nil).in(t, &out); len(out.Findings) != 1 {
				t.Fatalf("%+v", out)
			}
			return out.Findings[0].What
		}
		all := func(want string) {
			t.Helper()
			said := make(chan string)
			for range 10 {
				go func() { said <- ask() }()
			}
			for range 10 {
				if got := <-said; got != want {
					t.Errorf("%s, want %s", got, want)
				}
			}
		}
		all("examination 1")
		<-time.After(4 * time.Second)
		all("examination 1")
		<-time.After(2 * time.Second) // changes are visible after that
		all("examination 2")

		// The client whose request runs the examination disconnects.
		<-time.After(time.Minute)
		ctx, leave := context.WithCancel(w.Ctx)
		left := make(chan error)
		go func() {
			resp, err := g.send(http.MethodGet, "/api/stuck", nil, func(r *http.Request) { *r = *r.WithContext(ctx) })
			if err == nil {
				_ = resp.Body.Close()
			}
			left <- err
		}()
		<-time.After(time.Second)
		said := make(chan string)
		go func() { said <- ask() }()
		<-time.After(time.Second)
		leave()
		if err := <-left; err == nil {
			t.Error("who left got an answer")
		}
		if got := <-said; got != "examination 4" {
			t.Errorf("after the first one left: %s", got)
		}
	})
}

// TestQuestionsAreReadOnceForAllPages has a gateway list questions repeatedly. Decisions elsewhere show at once.
func TestQuestionsAreReadOnceForAllPages(t *testing.T) {
	t.Parallel()
	in(t, func(w *world) {
		defer w.stamps().Drain(w.T)
		const sessions = 8
		asks := func(c *gateway.Config) {
			c.Defaults = events.Config{Model: "m", ModelData: []byte(asking), Rules: []events.Rule{{Tool: "*", Action: events.RuleAsk}}}
		}
		g, other := w.gateway(asks), w.gateway(asks)
		for range sessions {
			w.Until(g.open(map[string]any{"text": "Stamp"}), events.KindApprovalRequired)
		}
		type question struct{ Session, ID string }
		list := func(g *service) (all []question, sent uint64) {
			var out struct{ Approvals []question }
			sent = g.nats.Stats().OutMsgs
			g.ok(http.MethodGet, "/api/approvals", nil).in(t, &out)
			return out.Approvals, g.nats.Stats().OutMsgs - sent
		}
		first, _ := list(g)
		again, sent := list(g)
		if !slices.Equal(first, again) || len(first) < sessions || sent > sessions+4 {
			t.Errorf("%d and %d questions of %d sessions, the latter with %d requests", len(first), len(again), sessions, sent)
		}
		other.ok(http.MethodPost, "/api/approvals/"+first[0].Session+"/"+first[0].ID, fields{"decision": "deny"})
		if now, _ := list(g); len(now) >= len(first) || slices.Contains(now, first[0]) {
			t.Errorf("%d questions of %d are left, of which one was decided", len(now), len(first))
		}
	})
}
