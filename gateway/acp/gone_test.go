package acp_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	sdk "github.com/coder/acp-go-sdk"
	"github.com/nats-io/nats.go"
	"go.uber.org/zap/zaptest"

	"github.com/turnlog/turnlog/actor"
	"github.com/turnlog/turnlog/client"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/embedded"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/events/seal"
	"github.com/turnlog/turnlog/gateway/acp"
	"github.com/turnlog/turnlog/jetstream/admin"
	"github.com/turnlog/turnlog/model"
	"github.com/turnlog/turnlog/model/scripted"
	"github.com/turnlog/turnlog/turnlogtest"
	"github.com/turnlog/turnlog/worker"
)

// A cancel in the same write as its prompt cancels the prompt.
func TestACancelRightAfterItsPromptCounts(t *testing.T) {
	for range 20 {
		turnlogtest.Bubble(t, func(t *testing.T, d *turnlogtest.Deployment) {
			toAgent, in := io.Pipe()
			out, fromAgent := io.Pipe()
			served := make(chan error, 1)
			o := client.Options{Config: events.Config{Model: "scripted:test", ModelData: []byte(once), Rules: []events.Rule{{Tool: "*", Action: events.RuleAsk}}}}
			go func() {
				served <- acp.Serve(d.Ctx, acp.Config{
					Open:   func(context.Context, string) (*acp.Host, error) { return &acp.Host{Client: d.Client, Start: o}, nil },
					Answer: 10 * time.Second, Log: zaptest.NewLogger(t),
				}, toAgent, fromAgent)
			}()
			lines := bufio.NewScanner(out)
			answer := func(id int) (result struct{ SessionID, StopReason string }) {
				var m struct {
					ID     any
					Method string
					Result json.RawMessage
				}
				for lines.Scan() {
					m.ID, m.Method = nil, ""
					if err := json.Unmarshal(lines.Bytes(), &m); err != nil {
						t.Fatal(err)
					}
					if m.Method == "" && m.ID == float64(id) {
						_ = json.Unmarshal(m.Result, &result)
						return result
					}
				}
				t.Fatal(lines.Err())
				return result
			}
			_, _ = fmt.Fprintln(in, `{"jsonrpc":"2.0","id":1,"method":"session/new","params":{"cwd":"/site","mcpServers":[]}}`)
			id := answer(1).SessionID
			_, _ = fmt.Fprintf(in, `{"jsonrpc":"2.0","id":2,"method":"session/prompt","params":{"sessionId":%q,"prompt":[{"type":"text","text":"Go."}]}}`+"\n"+
				`{"jsonrpc":"2.0","method":"session/cancel","params":{"sessionId":%q}}`+"\n", id, id)
			if got := answer(2).StopReason; got != "cancelled" {
				t.Errorf("the prompt ended with %q", got)
			}
			go func() {
				for lines.Scan() { // until the end
				}
			}()
			_ = in.Close()
			if err := <-served; err != nil {
				t.Error(err)
			}
			_ = fromAgent.Close()
		}, turnlogtest.Tools(stamp(t)))
	}
}

func TestAnEditorSeesThatItsSessionWasDeleted(t *testing.T) {
	turnlogtest.Bubble(t, func(t *testing.T, d *turnlogtest.Deployment) {
		e := connect(t, d, twice)
		defer e.leave()
		id := e.open()
		over := e.prompt(id, "Go.")
		<-e.asked
		last, err := d.Cell.Journal().Last(t.Context(), content.SessionID(id))
		if err == nil {
			_, err = admin.Of(d.Cell).Delete(t.Context(), last, events.SessionDeleted{By: "eve", Reason: "asked to"})
		}
		if err == nil {
			_, err = admin.Of(d.Cell).Clear(t.Context(), content.SessionID(id))
		}
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		gone := func(what string, err error) {
			t.Helper()
			if code(err) != -32603 && code(err) != -32602 || !strings.Contains(err.Error(), "deleted") || !strings.Contains(err.Error(), "eve") {
				t.Errorf("%s: %v", what, err)
			}
		}
		gone("the prompt", (<-over).err)
		gone("another prompt", (<-e.prompt(id, "More.")).err)
		_, err = e.agent.LoadSession(t.Context(), sdk.LoadSessionRequest{SessionId: id, Cwd: "/site", McpServers: []sdk.McpServer{}})
		gone("load", err)
		_, err = e.agent.ResumeSession(t.Context(), sdk.ResumeSessionRequest{SessionId: id, Cwd: "/site"})
		gone("resume", err)
		if list, err := e.agent.ListSessions(t.Context(), sdk.ListSessionsRequest{}); err != nil || len(list.Sessions) != 0 {
			t.Errorf("listed: %+v, %v", list, err)
		}
	}, turnlogtest.Tools(stamp(t)))
}

// A sealed session is closed to an agent without its key.
func TestASealedSessionNeedsItsKey(t *testing.T) {
	file := filepath.Join(t.TempDir(), "seal.key")
	if _, err := seal.Create(file); err != nil {
		t.Fatal(err)
	}
	ring, err := seal.Read(file)
	if err != nil {
		t.Fatal(err)
	}
	turnlogtest.Bubble(t, func(t *testing.T, d *turnlogtest.Deployment) {
		s := d.Script("replies: [{text: secret}]", turnlogtest.Sealed, func(o *client.Options) { o.Metadata = content.Metadata{}.With("folder", "/site") })
		s.Say("Tell me.")
		e := connect(t, d, "")
		defer e.leave()
		for what, do := range map[string]func() error{
			"load": func() error {
				_, err := e.agent.LoadSession(t.Context(), sdk.LoadSessionRequest{SessionId: sdk.SessionId(s.ID()), Cwd: "/site", McpServers: []sdk.McpServer{}})
				return err
			},
			"resume": func() error {
				_, err := e.agent.ResumeSession(t.Context(), sdk.ResumeSessionRequest{SessionId: sdk.SessionId(s.ID()), Cwd: "/site"})
				return err
			},
		} {
			if err := do(); code(err) != -32603 || !strings.Contains(err.Error(), "seal") || strings.Contains(err.Error(), "secret") {
				t.Errorf("%s: %v", what, err)
			}
		}
		if all := e.lines(); len(all) != 0 {
			t.Errorf("shown: %q", all)
		}
		if list, err := e.agent.ListSessions(t.Context(), sdk.ListSessionsRequest{}); err != nil || len(list.Sessions) != 0 {
			t.Errorf("listed: %+v, %v", list, err)
		}
	}, turnlogtest.SealKeys(ring))
}

// as connects as a user of NATS.
type as struct {
	srv  *embedded.Server
	user string
}

func (a as) Connect(opts ...nats.Option) (*nats.Conn, error) {
	return a.srv.Connect(append(opts, nats.UserInfo(a.user, "pass"))...)
}

// An editor gets an error for what its user may not do, and the session waits for a user with the permission.
func TestAnEditorIsToldWhatItsUserMayNotDo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv, err := embedded.Start(t.Context(), embedded.WithSettings(`authorization { users: [
			{user: all, password: pass}
			{user: user, password: pass, permissions: {publish: {deny: ["turnlog.cmd.*.decide"]}}}
			{user: reader, password: pass, permissions: {publish: {deny: ["turnlog.cmd.>"]}}}
		] }`))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(srv.Close)
		d := turnlogtest.On(t.Context(), t, as{srv, "all"}, admin.Config{})
		node := d.NodeWithTools(actor.Config{Models: func(name string, data []byte) (model.Model, error) { return scripted.Parse(name, data) }}, worker.Config{}, stamp(t))
		defer node.Drain(t)
		over := func(user string) *nats.Conn {
			nc, err := as{srv, user}.Connect()
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(nc.Close)
			return nc
		}
		e := connectOver(t, d, over("user"), once)
		defer e.leave()
		id := e.open()
		ends := e.prompt(id, "Go.")
		<-e.asked
		e.answers <- "allow_once"
		d.Advance(time.Second)
		all := e.lines()
		if last := all[len(all)-1]; !strings.Contains(last, "The question about stamp is still open") || !strings.Contains(last, "forbidden") {
			t.Errorf("shown: %q", all)
		}
		reader := connectOver(t, d, over("reader"), once)
		defer reader.leave()
		reader.load(id)
		if err := (<-reader.prompt(id, "And then?")).err; code(err) != -32603 || !strings.Contains(err.Error(), "forbidden") {
			t.Errorf("prompt: %v", err)
		}
		if _, err := reader.agent.NewSession(t.Context(), sdk.NewSessionRequest{Cwd: "/site", McpServers: []sdk.McpServer{}}); code(err) != -32603 || !strings.Contains(err.Error(), "forbidden") {
			t.Errorf("new: %v", err)
		}
		may := connectOver(t, d, over("all"), once)
		defer may.leave()
		may.load(id)
		<-may.asked
		may.answers <- "allow_once"
		expect(t, ends, sdk.StopReasonEndTurn)
	})
}

func TestAListOfSessionsHasPages(t *testing.T) {
	turnlogtest.Bubble(t, func(t *testing.T, d *turnlogtest.Deployment) {
		e := connect(t, d, once)
		defer e.leave()
		want := map[sdk.SessionId]bool{}
		for range 70 {
			want[e.open()] = true
		}
		r := sdk.ListSessionsRequest{}
		var sizes []int
		for {
			list, err := e.agent.ListSessions(t.Context(), r)
			if err != nil {
				t.Fatal(err)
			}
			for _, s := range list.Sessions {
				if !want[s.SessionId] {
					t.Errorf("%s comes twice, or is no session", s.SessionId)
				}
				delete(want, s.SessionId)
			}
			sizes = append(sizes, len(list.Sessions))
			if r.Cursor = list.NextCursor; r.Cursor == nil {
				break
			}
		}
		if fmt.Sprint(sizes) != "[50 20]" || len(want) != 0 {
			t.Errorf("pages of %v; %d are missing", sizes, len(want))
		}
		for _, bad := range []string{"", "x", "-1"} {
			if _, err := e.agent.ListSessions(t.Context(), sdk.ListSessionsRequest{Cursor: &bad}); code(err) != -32602 || !strings.Contains(err.Error(), "nextCursor") {
				t.Errorf("cursor %q: %v", bad, err)
			}
		}
	})
}
