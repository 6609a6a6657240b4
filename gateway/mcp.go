package gateway

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/turnlog/turnlog/gateway/internal/again"
	"github.com/turnlog/turnlog/gateway/internal/feed"
	"github.com/turnlog/turnlog/gateway/internal/lasting"
	"github.com/turnlog/turnlog/gateway/internal/mcptool"
	"github.com/turnlog/turnlog/gateway/internal/problem"
	"github.com/turnlog/turnlog/gateway/people"
)

const (
	mcpPath = "/mcp"

	// mcpStateless is the first protocol version without sessions. In it, a question ends the request. Earlier versions
	// ask within an MCP session, which only the gateway that started it holds.
	mcpStateless = "2026-07-28"

	// mcpIdle is how long an MCP session lives without requests, and how long a question waits for an answer.
	mcpIdle = 30 * time.Minute

	// mcpMost is how many MCP sessions a person may have. It is needed because some clients start sessions and never end them.
	mcpMost = 100

	// mcpDefault is the name of the tool that runs the default model.
	mcpDefault = "turnlog"
)

// mcpServers has an MCP server for each person. It lists the agents whose sessions the person may open.
type mcpServers struct {
	g               *Gateway
	sessions, alone *mcp.StreamableHTTPHandler // for clients with and without MCP sessions

	mu      sync.Mutex
	people  map[string]*mcp.Server // the key is the person as JSON
	leaving map[*mcp.ServerSession]bool
	left    sync.WaitGroup
}

func (g *Gateway) mcpRoutes() {
	m := &mcpServers{g: g, people: map[string]*mcp.Server{}, leaving: map[*mcp.ServerSession]bool{}}
	m.sessions = mcp.NewStreamableHTTPHandler(m.server, &mcp.StreamableHTTPOptions{
		EventStore: mcp.NewMemoryEventStore(nil), SessionTimeout: mcpIdle,
		MaxRequestBodyBytes: maxBody, DisableLocalhostProtection: true, // guard checked the host
	})
	m.alone = mcp.NewStreamableHTTPHandler(m.server, &mcp.StreamableHTTPOptions{
		Stateless: true, PropagateRequestCancellation: true, MaxRequestBodyBytes: maxBody, DisableLocalhostProtection: true,
	})
	g.mcp = m
	g.mux.Handle(mcpPath, m)
}

// errClosing ends the calls when the gateway stops. Their turns continue.
var errClosing = errors.New("the gateway is stopping")

// ServeHTTP serves an MCP request.
func (m *mcpServers) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodPost {
		body, err := bodyOf(w, r)
		if err != nil {
			refuse(w, r, m.g.problemOf(r.Context(), err))
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
	}
	p := lasting.New(w, feed.CutAfter*m.g.limits.Patience, m.g.limits.Heartbeat)
	defer p.End()
	if r.Method == http.MethodGet { // other streams end with their calls
		ctx, stop := context.WithCancel(r.Context())
		defer stop()
		defer context.AfterFunc(m.g.closing, stop)() //nolint:contextcheck // it ends when either does
		r = r.WithContext(ctx)
	}
	id := r.Header.Get("Mcp-Session-Id")
	switch {
	case r.Header.Get("Mcp-Protocol-Version") >= mcpStateless:
		m.alone.ServeHTTP(p, r)
	case id != "" && !ownsMCP(jsonText(person(r.Context())), id):
		refuse(p, r, problem.New(http.StatusNotFound, "no_mcp_session", "you have no MCP session "+strconv.Quote(id), "initialize a new one"))
	default:
		if id == "" && r.Method == http.MethodPost {
			m.makeRoom(m.server(r))
		}
		m.sessions.ServeHTTP(p, r)
	}
}

// newMCP returns the ID of an MCP session that only one person can use.
func newMCP(person string) string {
	nonce := rand.Text()
	return nonce + "-" + again.SessionOf(person, nonce)
}

func ownsMCP(person, id string) bool {
	nonce, of, _ := strings.Cut(id, "-")
	return of == again.SessionOf(person, nonce)
}

// makeRoom ends a person's oldest MCP sessions to keep the limit. Closing a session waits for its calls.
func (m *mcpServers) makeRoom(s *mcp.Server) {
	m.mu.Lock()
	defer m.mu.Unlock()
	all := slices.DeleteFunc(slices.Collect(s.Sessions()), func(ss *mcp.ServerSession) bool { return m.leaving[ss] })
	for _, ss := range all[:max(0, len(all)-mcpMost+1)] {
		m.leaving[ss] = true
		m.left.Go(func() {
			_ = ss.Close() // its client starts another one
			m.mu.Lock()
			defer m.mu.Unlock()
			delete(m.leaving, ss)
		})
	}
}

// end ends all MCP sessions.
func (m *mcpServers) end() {
	m.mu.Lock()
	for _, s := range m.people {
		for ss := range s.Sessions() {
			_ = ss.Close() // its client no longer has a stream
		}
	}
	m.mu.Unlock()
	m.left.Wait()
}

// server returns the MCP server of the request's sender.
func (m *mcpServers) server(r *http.Request) *mcp.Server {
	p := person(r.Context())
	m.mu.Lock()
	defer m.mu.Unlock()
	key := jsonText(p) // another role needs another server
	if s := m.people[key]; s != nil {
		return s
	}
	s := mcp.NewServer(&mcp.Implementation{Name: "turnlog", Title: "Turnlog", Version: cmp.Or(m.g.cfg.Version, "dev")}, &mcp.ServerOptions{
		Instructions: "Each tool is an agent. A call is a turn of a durable session. Its result names the session, which another call can continue. " +
			"A turn outlives the connection of its client: a call with the session and without a prompt returns its result.",
		Capabilities: &mcp.ServerCapabilities{Tools: &mcp.ToolCapabilities{}}, GetSessionID: func() string { return newMCP(key) },
	})
	s.AddReceivingMiddleware((&mcpTools{g: m.g, person: p, server: s}).refresh)
	m.people[key] = s
	return s
}

// mcpTools keeps the tools of an MCP server up to date.
type mcpTools struct {
	g      *Gateway
	person *people.Person
	server *mcp.Server

	mu   sync.Mutex
	rows []agentRow
}

// refresh is middleware that updates the tools to the current agents before a client lists or calls them.
func (t *mcpTools) refresh(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
		ctx, stop := context.WithCancelCause(context.WithValue(ctx, personKey{}, t.person))
		defer stop(nil)
		defer context.AfterFunc(t.g.closing, func() { stop(errClosing) })() //nolint:contextcheck // it ends when either does
		if method == "tools/list" || method == "tools/call" {
			if err := t.update(ctx); err != nil {
				p := t.g.problemOf(ctx, err)
				return nil, &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: p.Detail + ": " + p.Do}
			}
		}
		return next(ctx, method, req)
	}
}

func (t *mcpTools) update(ctx context.Context) error {
	ctx, stop := context.WithTimeout(ctx, t.g.limits.Answer)
	defer stop()
	list, err := t.g.agents(ctx, nil)
	if err != nil {
		return err
	}
	rows := list.Body.Agents
	is := func(r agentRow) bool { return r.Name == mcpDefault }
	if m := t.g.cfg.Defaults.Model; m != "" && t.person.MayOpen("") && !slices.ContainsFunc(rows, is) {
		rows = append(rows, agentRow{Name: mcpDefault, Version: m, Description: "Asks the model " + m + ", in a session with the tools of this deployment."})
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if slices.Equal(rows, t.rows) {
		return nil
	}
	for _, r := range t.rows {
		t.server.RemoveTools(r.Name)
	}
	t.rows = rows
	for _, r := range rows {
		model := r.Name
		if is(r) && r.Version == t.g.cfg.Defaults.Model {
			model = r.Version
		}
		mcp.AddTool(t.server, &mcp.Tool{Name: r.Name, Description: cmp.Or(r.Description, "Asks the agent "+r.Name+".")}, t.g.mcpTool(model))
	}
	return nil
}

// mcpTool returns the handler of a tool that runs an agent or a model.
func (g *Gateway) mcpTool(model string) mcp.ToolHandlerFor[mcptool.Input, mcptool.Result] {
	return func(ctx context.Context, req *mcp.CallToolRequest, in mcptool.Input) (*mcp.CallToolResult, mcptool.Result, error) {
		res, data, err := g.mcpCall(ctx, model, req, in)
		if err != nil {
			p := g.problemOf(ctx, err)
			err = errors.New(p.Detail + ": " + p.Do)
		}
		return res, data, err
	}
}
