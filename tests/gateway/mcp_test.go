package gateway

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/turnlog/turnlog/actor"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/engine"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/gateway"
	"github.com/turnlog/turnlog/gateway/people"
	"github.com/turnlog/turnlog/jetstream/agents"
	"github.com/turnlog/turnlog/model"
	"github.com/turnlog/turnlog/model/scripted"
	"github.com/turnlog/turnlog/tool"
	"github.com/turnlog/turnlog/worker"
)

// versions of MCP: with a session of the client, and without.
var versions = []string{"2025-06-18", "2025-11-25", "2026-07-28"}

// host is a client of MCP.
type host struct {
	t       testing.TB
	session *mcp.ClientSession

	mu    sync.Mutex
	lines []string // of progress
	steps []float64
}

// bearer sends requests in the name of a person.
type bearer struct {
	http.RoundTripper

	token string
}

func (b bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+b.token)
	return b.RoundTripper.RoundTrip(r)
}

// host connects a client. answer answers its questions; nil: it cannot be asked.
func (s *service) host(version, token string, answer func(*mcp.ElicitParams) *mcp.ElicitResult) *host {
	s.w.T.Helper()
	h := &host{t: s.w.T}
	o := &mcp.ClientOptions{ProgressNotificationHandler: func(_ context.Context, r *mcp.ProgressNotificationClientRequest) {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.lines, h.steps = append(h.lines, r.Params.Message), append(h.steps, r.Params.Progress)
	}}
	if answer != nil {
		o.ElicitationHandler = func(_ context.Context, r *mcp.ElicitRequest) (*mcp.ElicitResult, error) { return answer(r.Params), nil }
	}
	transport := &mcp.StreamableClientTransport{
		Endpoint:   "http://127.0.0.1:8410/mcp",
		HTTPClient: &http.Client{Transport: bearer{s.client().Transport, token}},
	}
	c := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, o)
	var err error
	if h.session, err = c.Connect(s.w.Ctx, transport, &mcp.ClientSessionOptions{ProtocolVersion: version}); err != nil {
		s.w.T.Fatal(err)
	}
	if got := h.session.InitializeResult().ProtocolVersion; got != version {
		s.w.T.Errorf("version %s, want %s", got, version)
	}
	s.w.T.Cleanup(h.close)
	return h
}

func (h *host) close() { _ = h.session.Close() }

// progress returns the progress that a host received. Notifications may arrive after the result that follows them.
func (h *host) progress() []string {
	synctest.Wait()
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.lines)
}

// result is the result of a tool call.
type result struct {
	Session, Turn, State string
	Pending              []struct{ Approval, Tool, Asks string }

	text   string
	failed bool
}

func (h *host) try(ctx context.Context, name string, args fields) (result, error) {
	p := &mcp.CallToolParams{Name: name, Arguments: args}
	p.SetProgressToken("p")
	res, err := h.session.CallTool(ctx, p)
	if err != nil {
		return result{}, err
	}
	out := result{failed: res.IsError}
	for _, c := range res.Content {
		out.text += c.(*mcp.TextContent).Text
	}
	raw, err := json.Marshal(res.StructuredContent)
	if err != nil {
		return out, err
	}
	return out, json.Unmarshal(raw, &out)
}

func (h *host) call(name string, args fields) result {
	h.t.Helper()
	r, err := h.try(h.t.Context(), name, args)
	if err != nil {
		h.t.Fatal(err)
	}
	return r
}

func TestAnAgentIsAToolOfMCP(t *testing.T) {
	t.Parallel()
	for _, version := range versions {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			in(t, func(w *world) {
				defer w.drive().Drain(w.T)
				publish := func(name string) {
					if err := agents.Of(w.Cell).Publish(w.Ctx, name, "v1", []byte("model: scripted:x\ndescription: Writes.\n")); err != nil {
						t.Fatal(err)
					}
				}
				publish("ann")
				g := w.gateway(func(c *gateway.Config) { c.Access = people.Access{Loopback: true, People: []byte(staff())} })
				h := g.host(version, "user-token", nil)
				tools := func(h *host) (names []string) {
					for x, err := range h.session.Tools(w.Ctx, nil) {
						if err != nil {
							t.Fatal(err)
						}
						names = append(names, x.Name+": "+x.Description)
					}
					return names
				}
				if got := tools(h); len(got) != 2 || got[0] != "ann: Writes." {
					t.Errorf("tools %q", got)
				}
				if publish("bob"); len(tools(h)) != 3 {
					t.Errorf("a new agent is no tool: %q", tools(h))
				}
				first := h.call("turnlog", fields{"prompt": "Hi"})
				if first.text != "Hello, world" || first.State != "completed" || first.Turn != "turn-1" || first.failed {
					t.Fatalf("first %+v", first)
				}
				if got, want := h.progress(), []string{"session " + first.Session + ", turn 1", "Hello, world"}; !slices.Equal(got, want) {
					t.Errorf("progress %q, want %q", got, want)
				}
				second := h.call("turnlog", fields{"prompt": "More", "session": first.Session})
				if second.text != "Hello, world" || second.Turn != "turn-2" || second.Session != first.Session {
					t.Errorf("second %+v", second)
				}
				if again := h.call("turnlog", fields{"session": first.Session}); again.text != second.text || again.Turn != "turn-2" {
					t.Errorf("again %+v", again)
				}
				other := g.host(version, "other-token", nil)
				for _, r := range []result{
					h.call("turnlog", fields{}), h.call("turnlog", fields{"prompt": 1}), h.call("turnlog", fields{"prompt": "Hi", "more": 1}),
					h.call("turnlog", fields{"session": "none"}), h.call("ann", fields{"session": first.Session, "prompt": "Hi"}),
					other.call("turnlog", fields{"session": first.Session}),
				} {
					if !r.failed || r.text == "" || r.Session != "" {
						t.Errorf("accepted: %+v", r)
					}
				}
				if _, err := h.try(w.Ctx, "none", fields{}); err == nil {
					t.Error("a tool that there is not")
				}
				viewer := g.host(version, "viewer-token", nil)
				if got := tools(viewer); len(got) > 0 {
					t.Errorf("a viewer has tools: %q", got)
				}
			})
		})
	}
}

func TestAnMCPSessionIsOfOnePerson(t *testing.T) {
	t.Parallel()
	in(t, func(w *world) {
		g := w.gateway(func(c *gateway.Config) { c.Access = people.Access{Loopback: true, People: []byte(staff())} })
		h := g.host("2025-11-25", "user-token", nil)
		list := func(change ...request) answer {
			change = append(change, with("Accept", "application/json, text/event-stream"), with("Mcp-Protocol-Version", "2025-11-25"))
			return g.do(http.MethodPost, "/mcp", `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`, change...)
		}
		id := with("Mcp-Session-Id", h.session.ID())
		if a := list(id, with("Authorization", "Bearer user-token")); a.status != http.StatusOK || !strings.Contains(string(a.body), `"turnlog"`) {
			t.Errorf("the own session: %d %s", a.status, a.body)
		}
		list(id, with("Authorization", "Bearer other-token")).problem(t, http.StatusNotFound, "no_mcp_session")
		list(id, with("Authorization", "Bearer wrong")).problem(t, http.StatusUnauthorized, "wrong_token")
		list(id, with("Authorization", "Bearer user-token"), with("Sec-Fetch-Site", "cross-site")).problem(t, http.StatusForbidden, "cross_origin")
		list(id, with("Authorization", "Bearer user-token"), with("Host", "evil.example")).problem(t, http.StatusMisdirectedRequest, "wrong_host")
	})
}

// stamping runs a node with a tool that needs approval, and a gateway for all people.
func stamping(t *testing.T, w *world) (g *service, drain func()) {
	t.Helper()
	stamp, err := tool.Func("stamp", "Stamps.", func(_ context.Context, in struct {
		N int `json:"n"`
	},
	) (string, error) {
		return fmt.Sprint("stamp ", in.N), nil
	})
	if err != nil {
		t.Fatal(err)
	}
	node := w.NodeWithTools(actor.Config{Models: func(name string, data []byte) (model.Model, error) { return scripted.Parse(name, data) }}, worker.Config{}, stamp)
	return w.gateway(func(c *gateway.Config) {
		c.Defaults = events.Config{Model: "m", ModelData: []byte(asking), Rules: []events.Rule{{Tool: "*", Action: events.RuleAsk}}}
		c.Access = people.Access{Loopback: true, People: []byte(staff())}
	}), func() { node.Drain(w.T) }
}

func choose(decision, reason string) *mcp.ElicitResult {
	return &mcp.ElicitResult{Action: "accept", Content: map[string]any{"decision": decision, "reason": reason}}
}

func TestApprovalsAreElicited(t *testing.T) {
	t.Parallel()
	for _, version := range versions {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			in(t, func(w *world) {
				g, drain := stamping(t, w)
				defer drain()
				h := g.host(version, "approver-token", func(p *mcp.ElicitParams) *mcp.ElicitResult {
					if strings.Contains(p.Message, `{"n":1}`) {
						return choose("approve", "")
					}
					return choose("deny", "why not")
				})
				first := h.call("turnlog", fields{"prompt": "Stamp"})
				if !strings.HasPrefix(first.text, "stamp 1 and ") || !strings.Contains(first.text, "why not") || first.State != "completed" {
					t.Fatalf("first %+v", first)
				}
				told := []string{"t1-r1-c1-g1: approved", "t1-r1-c2-g1: denied", "stamp: denied", `stamp {"n":1}`, "stamp: ok", first.text}
				if got := h.progress(); !slices.Equal(got[len(got)-len(told):], told) {
					t.Errorf("progress %q, want %q", got, told)
				}
				var by []string
				for _, rec := range w.Records(content.SessionID(first.Session)) {
					for _, ev := range rec.Entry.Events {
						if e, ok := ev.(events.ApprovalResolved); ok {
							by = append(by, e.By)
						}
					}
				}
				if !slices.Equal(by, []string{"approver", "approver"}) {
					t.Errorf("decided by %q", by)
				}

				// A client that cannot be asked, may not decide, or postpones the decision sees what is pending. It is decided
				// elsewhere.
				user := func(*mcp.ElicitParams) *mcp.ElicitResult { t.Error("a user was asked"); return choose("approve", "") }
				later := func(*mcp.ElicitParams) *mcp.ElicitResult { return &mcp.ElicitResult{Action: "cancel"} }
				for _, c := range []struct {
					as     string
					answer func(*mcp.ElicitParams) *mcp.ElicitResult
				}{{"approver-token", nil}, {"user-token", user}, {"approver-token", later}} {
					h := g.host(version, c.as, c.answer)
					r := h.call("turnlog", fields{"prompt": "Stamp"})
					if r.State != "waiting" || len(r.Pending) != 2 || r.failed || !strings.Contains(r.text, r.Pending[0].Approval) || !strings.Contains(r.text, r.Session) {
						t.Fatalf("pending %+v", r)
					}
					for _, p := range r.Pending {
						g.ok(http.MethodPost, "/api/approvals/"+r.Session+"/"+p.Approval, fields{"decision": "approve"}, with("Authorization", "Bearer approver-token"))
					}
					if r = h.call("turnlog", fields{"session": r.Session}); r.text != "stamp 1 and stamp 2" {
						t.Errorf("decided elsewhere: %+v", r)
					}
				}

				// A permanent approval covers the other call.
				always := g.host(version, "approver-token", func(*mcp.ElicitParams) *mcp.ElicitResult { return choose("approve always", "") })
				if r := always.call("turnlog", fields{"prompt": "Stamp"}); r.text != "stamp 1 and stamp 2" {
					t.Errorf("always: %+v", r)
				}
			})
		})
	}
}

func TestAQuestionOfMCPThatIsDecidedElsewhereHoldsNothing(t *testing.T) {
	t.Parallel()
	in(t, func(w *world) {
		g, drain := stamping(t, w)
		defer drain()
		var asked int
		h := g.host("2025-11-25", "approver-token", func(*mcp.ElicitParams) *mcp.ElicitResult {
			if asked++; asked > 1 {
				return choose("approve", "")
			}
			var all struct {
				Approvals []struct {
					ID      string
					Session string
				}
			}
			g.ok(http.MethodGet, "/api/approvals", nil, with("Authorization", "Bearer approver-token")).in(t, &all)
			for _, a := range all.Approvals[:1] {
				g.ok(http.MethodPost, "/api/approvals/"+a.Session+"/"+a.ID, fields{"decision": "deny", "reason": "no"}, with("Authorization", "Bearer approver-token"))
			}
			return choose("approve", "") // too late
		})
		if r := h.call("turnlog", fields{"prompt": "Stamp"}); !strings.Contains(r.text, "no") || !strings.HasSuffix(r.text, " and stamp 2") || asked != 2 {
			t.Errorf("%d, %+v", asked, r)
		}
	})
}

func TestACancelledCallOfMCPCancelsItsTurn(t *testing.T) {
	t.Parallel()
	for _, version := range versions {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			in(t, func(w *world) {
				defer w.slowNode("n1").Drain(w.T)
				g := w.gateway(func(c *gateway.Config) { c.Defaults = events.Config{Model: "m", ModelData: []byte(long)} })
				h := g.host(version, token, nil)
				id := g.open(map[string]any{})
				ctx, stop := context.WithCancel(w.Ctx)
				time.AfterFunc(time.Second, stop)
				if r, err := h.try(ctx, "turnlog", fields{"session": id, "prompt": "Los"}); err == nil {
					t.Errorf("cancelled: %+v", r)
				}
				w.Until(id, events.KindTurnFinished)
				if r := h.call("turnlog", fields{"session": id}); r.State != "cancelled" || !r.failed {
					t.Errorf("after the cancel: %+v", r)
				}
			})
		})
	}
}

func TestACallOfMCPGoesOnAtAnotherGateway(t *testing.T) {
	t.Parallel()
	for _, version := range versions {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			in(t, func(w *world) {
				node := w.slowNode("n1")
				defer func() { node.Drain(w.T) }()
				defaults := func(c *gateway.Config) { c.Defaults = events.Config{Model: "m", ModelData: []byte(long)} }
				g := w.gateway(defaults)
				id := g.open(map[string]any{})
				h := g.host(version, token, nil)
				time.AfterFunc(time.Second, g.stop)
				if r, err := h.try(w.Ctx, "turnlog", fields{"session": id, "prompt": "Los"}); err != nil || !r.failed || !strings.Contains(r.text, string(id)) {
					t.Errorf("the gateway stopped: %+v, %v", r, err)
				}
				node.Crash(w.T)
				node = w.slowNode("n2")
				h = w.gateway(defaults).host(version, token, nil)
				if r := h.call("turnlog", fields{"session": id}); r.text != "Los: "+longText || r.Turn != "turn-1" || r.State != "completed" {
					t.Errorf("rest %+v", r)
				}
			})
		})
	}
}

func TestACallOfMCPOutlivesAConnection(t *testing.T) {
	t.Parallel()
	for _, version := range versions {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			in(t, func(w *world) {
				defer w.slowNode("n1").Drain(w.T)
				g := w.gateway(func(c *gateway.Config) { c.Defaults = events.Config{Model: "m", ModelData: []byte(long)} })
				h := g.host(version, token, nil)
				id := g.open(map[string]any{})
				time.AfterFunc(time.Second, g.pipe.cut)
				r, err := h.try(w.Ctx, "turnlog", fields{"session": id, "prompt": "Los"})
				if version < "2026" && (err != nil || r.text != "Los: "+longText) {
					t.Errorf("the call went on: %+v, %v", r, err)
				}
				if version < "2026" {
					return
				}
				w.Until(id, events.KindTurnFinished) // a closed connection cancels
				if r := g.host(version, token, nil).call("turnlog", fields{"session": id}); r.State != "cancelled" {
					t.Errorf("after the cut: %+v", r)
				}
			})
		})
	}
}

// TestAStreamOfMCPIsKeptOpen has a call whose agent sends nothing for an hour, which is longer than a response may
// take.
func TestAStreamOfMCPIsKeptOpen(t *testing.T) {
	t.Parallel()
	in(t, func(w *world) {
		defer w.drive().Drain(w.T)
		g := w.gateway(func(c *gateway.Config) {
			c.Defaults = events.Config{Model: "m", ModelData: []byte("replies:\n  - text: At last\n    delay: 1h\n")}
		})
		var calls sync.WaitGroup
		defer calls.Wait()
		for _, version := range versions {
			h := g.host(version, token, nil)
			calls.Go(func() {
				if r, err := h.try(w.T.Context(), "turnlog", fields{"prompt": "Los"}); err != nil || r.text != "At last" {
					t.Errorf("%s: %+v, %v", version, r, err)
				}
			})
		}
		resp, err := g.send(http.MethodPost, "/mcp", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"turnlog","arguments":{"prompt":"Los"},"_meta":{"progressToken":1,`+
			`"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"x","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}}}`,
			with("Accept", "application/json, text/event-stream"), with("Mcp-Protocol-Version", "2026-07-28"), with("Mcp-Method", "tools/call"), with("Mcp-Name", "turnlog"))
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = resp.Body.Close() }()
		raw, err := io.ReadAll(resp.Body)
		if n := strings.Count(string(raw), "\n: \n"); err != nil || n < 350 || !strings.Contains(string(raw), "At last") {
			t.Errorf("%d comments: %v: %.500s", n, err, raw)
		}
	})
}

// asksToo is a policy that asks about every call, besides the rules.
type asksToo struct{}

func (asksToo) Evaluate(context.Context, tool.Request) (tool.Verdict, error) {
	return tool.Verdict{Ruling: tool.Ask, RequestKind: "test.call", Summary: "may it?"}, nil
}

// asksTwice is a gateway, and a node that asks twice about the call of a turn.
func (w *world) asksTwice() (g *service, drain func()) {
	w.T.Helper()
	stamp, err := tool.Func("stamp", "Stamps.", func(_ context.Context, in struct {
		N int `json:"n"`
	},
	) (string, error) {
		return fmt.Sprint("stamp ", in.N), nil
	})
	if err != nil {
		w.T.Fatal(err)
	}
	node := w.NodeWithTools(actor.Config{
		Effects: engine.Config{Permissions: asksToo{}},
		Models:  func(name string, data []byte) (model.Model, error) { return scripted.Parse(name, data) },
	}, worker.Config{}, stamp)
	return w.gateway(func(c *gateway.Config) {
		script := "replies:\n  - calls: [{name: stamp, input: {n: 1}}]\n  - text: \"{{(index .Results 0).Text}}\"\n"
		c.Defaults = events.Config{Model: "m", ModelData: []byte(script), Rules: []events.Rule{{Tool: "*", Action: events.RuleAsk}}}
	}), func() { node.Drain(w.T) }
}

// TestAnAnswerOfMCPIsAboutWhatWasShown has another person change the arguments of a call while a client is asked about it.
func TestAnAnswerOfMCPIsAboutWhatWasShown(t *testing.T) {
	t.Parallel()
	for _, version := range versions {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			in(t, func(w *world) {
				g, drain := w.asksTwice()
				defer drain()
				id := g.open(map[string]any{})
				var mu sync.Mutex
				changed := false
				h := g.host(version, token, func(p *mcp.ElicitParams) *mcp.ElicitResult {
					mu.Lock()
					defer mu.Unlock()
					if strings.Contains(p.Message, `{"n":13}`) {
						return choose("deny", "not that many")
					}
					if !changed {
						changed = true
						g.ok(http.MethodPost, "/api/approvals/"+string(id)+"/t1-r1-c1-g1", fields{"decision": "approve", "input": fields{"n": 13}})
					}
					return choose("approve", "")
				})
				if r := h.call("turnlog", fields{"session": id, "prompt": "Stamp"}); !strings.Contains(r.text, "not that many") {
					t.Errorf("what was not shown was approved: %+v", r)
				}
			})
		})
	}
}
