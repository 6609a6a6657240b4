package acp

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	sdk "github.com/coder/acp-go-sdk"
	"go.uber.org/zap"

	"github.com/turnlog/turnlog/client"
	"github.com/turnlog/turnlog/client/report"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/session"
)

// Host is a deployment, and how sessions start there.
type Host struct {
	Client *client.Client
	Start  client.Options // options of new sessions, without ID and metadata
	Lacks  string         // why it may not have all sessions of the folder; "": it has all
}

// Config configures an Agent.
type Config struct {
	// Open returns the host of the sessions of a folder; "" is the default folder.
	Open    func(ctx context.Context, folder string) (*Host, error)
	Version string        // of this program
	Answer  time.Duration // how long a node may take to accept a command
	Log     *zap.Logger
}

// Agent serves a connection.
type Agent struct {
	cfg  Config
	conn *sdk.Connection // set before the first message is read
	end  <-chan struct{} // closed when the connection or this program ends

	mu      sync.Mutex
	threads map[content.SessionID]*thread
	indexes map[*client.Client]*report.Index
	over    bool           // no more requests begin
	running sync.WaitGroup // requests
	prompts sync.WaitGroup // prompts that no session has received yet
}

// Why work for an editor ends.
var (
	errGone   = errors.New("the editor disconnected")
	errClosed = errors.New("the editor closed or reloaded the session; its turn continues")
)

// Serve serves an editor until it closes the connection or ctx ends. A closed connection is not an error.
func Serve(ctx context.Context, cfg Config, in io.Reader, out io.Writer) error {
	life, end := context.WithCancelCause(ctx)
	a := &Agent{cfg: cfg, end: life.Done(), threads: map[content.SessionID]*thread{}, indexes: map[*client.Client]*report.Index{}}
	opened := make(chan struct{})
	to := &writer{to: out}
	a.conn = sdk.NewConnection(func(ctx context.Context, method string, params json.RawMessage) (any, *sdk.RequestError) {
		return a.serve(life, ctx, method, params)
	}, to, &lines{ready: opened, from: in, refuse: to.refuse, prompts: &a.prompts})
	a.conn.SetLogger(slog.New(slog.DiscardHandler)) // the agent answers or logs the same itself
	close(opened)
	select {
	case <-a.conn.Done():
	case <-life.Done():
	}
	end(errGone)
	a.mu.Lock()
	a.over = true
	a.mu.Unlock()
	a.running.Wait()
	for _, t := range a.threads {
		t.close(ctx, errGone)
	}
	return context.Cause(ctx)
}

// gone reports whether the editor has disconnected or this program is ending.
func (a *Agent) gone() bool {
	select {
	case <-a.conn.Done():
		return true
	case <-a.end:
		return true
	default:
		return false
	}
}

// serve answers a request or handles a notification.
func (a *Agent) serve(life, ctx context.Context, method string, params json.RawMessage) (any, *sdk.RequestError) {
	taken := func() {}
	if method == sdk.AgentMethodSessionPrompt {
		taken = sync.OnceFunc(a.prompts.Done)
		defer taken()
	}
	a.mu.Lock()
	if a.over {
		a.mu.Unlock()
		return nil, problem(errGone)
	}
	a.running.Add(1)
	a.mu.Unlock()
	defer a.running.Done()
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	defer context.AfterFunc(life, func() { end(context.Cause(life)) })()
	result, err := a.handle(ctx, method, params, taken)
	if err != nil {
		a.cfg.Log.Debug("a request failed", zap.String("method", method), zap.Error(err))
		return nil, problem(err)
	}
	return result, nil
}

// handle runs a method. Methods that sessions do not support are missing. It calls taken when a session has received the prompt.
func (a *Agent) handle(ctx context.Context, method string, params json.RawMessage, taken func()) (any, error) {
	switch method {
	case sdk.AgentMethodInitialize:
		return with(ctx, params, a.initialize)
	case sdk.AgentMethodSessionNew:
		return with(ctx, params, a.open)
	case sdk.AgentMethodSessionLoad:
		return with(ctx, params, a.load)
	case sdk.AgentMethodSessionResume:
		return with(ctx, params, a.resume)
	case sdk.AgentMethodSessionList:
		return with(ctx, params, a.list)
	case sdk.AgentMethodSessionPrompt:
		return with(ctx, params, func(ctx context.Context, r *sdk.PromptRequest) (*sdk.PromptResponse, error) {
			return a.prompt(ctx, r, taken)
		})
	case sdk.AgentMethodSessionCancel:
		return with(ctx, params, a.cancel)
	case sdk.AgentMethodSessionClose:
		return with(ctx, params, a.leave)
	}
	return nil, &sdk.RequestError{Code: codeMethod, Message: "unknown method " + method}
}

// with decodes and checks the parameters of a method.
func with[P, R any, V interface {
	*P
	Validate() error
}](ctx context.Context, raw json.RawMessage, do func(context.Context, *P) (R, error)) (any, error) {
	var p P
	err := json.Unmarshal(raw, &p)
	if err == nil {
		err = V(&p).Validate()
	}
	if err != nil {
		return nil, &sdk.RequestError{Code: codeParams, Message: "invalid parameters: " + err.Error()}
	}
	return do(ctx, &p)
}

func (a *Agent) initialize(_ context.Context, r *sdk.InitializeRequest) (*sdk.InitializeResponse, error) {
	if c := r.ClientInfo; c != nil {
		a.cfg.Log.Info("an editor connected", zap.String("editor", c.Name), zap.String("version", c.Version))
	}
	return &sdk.InitializeResponse{
		ProtocolVersion: sdk.ProtocolVersionNumber,
		AgentInfo:       &sdk.Implementation{Name: "turnlog", Title: new("Turnlog"), Version: cmp.Or(a.cfg.Version, "dev")},
		AgentCapabilities: sdk.AgentCapabilities{
			LoadSession:        true,
			PromptCapabilities: sdk.PromptCapabilities{Image: true, Audio: true, EmbeddedContext: true},
			SessionCapabilities: sdk.SessionCapabilities{
				List: &sdk.SessionListCapabilities{}, Resume: &sdk.SessionResumeCapabilities{}, Close: &sdk.SessionCloseCapabilities{},
			},
		},
		AuthMethods: []sdk.AuthMethod{},
	}, nil
}

// host returns the host of a folder. The MCP servers of an editor are not used: the host decides which tools there are.
func (a *Agent) host(ctx context.Context, folder string, servers []sdk.McpServer) (*Host, error) {
	if folder != "" && !filepath.IsAbs(folder) {
		return nil, &sdk.RequestError{Code: codeParams, Message: "cwd " + strconv.Quote(folder) + " is not an absolute path"}
	}
	if len(servers) > 0 {
		a.cfg.Log.Warn("the editor's MCP servers are ignored: use --mcp to add servers", zap.Int("servers", len(servers)))
	}
	return a.cfg.Open(ctx, folder)
}

func (a *Agent) open(ctx context.Context, r *sdk.NewSessionRequest) (*sdk.NewSessionResponse, error) {
	h, err := a.host(ctx, r.Cwd, r.McpServers)
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithTimeout(ctx, a.cfg.Answer)
	defer stop()
	o := h.Start
	o.Metadata = o.Metadata.With(report.MetaFolder, r.Cwd)
	s, err := h.Client.Start(ctx, o)
	if err != nil {
		return nil, err
	}
	if err := a.show(ctx, h, s, r.Cwd, false); err != nil {
		return nil, err
	}
	return &sdk.NewSessionResponse{SessionId: sdk.SessionId(s.ID())}, nil
}

// load shows everything that happened in a session, and what follows.
func (a *Agent) load(ctx context.Context, r *sdk.LoadSessionRequest) (*sdk.LoadSessionResponse, error) {
	return &sdk.LoadSessionResponse{}, a.attach(ctx, r.SessionId, r.Cwd, r.McpServers, true)
}

// resume shows only what follows.
func (a *Agent) resume(ctx context.Context, r *sdk.ResumeSessionRequest) (*sdk.ResumeSessionResponse, error) {
	return &sdk.ResumeSessionResponse{}, a.attach(ctx, r.SessionId, r.Cwd, r.McpServers, false)
}

func (a *Agent) attach(ctx context.Context, name sdk.SessionId, folder string, servers []sdk.McpServer, past bool) error {
	id, err := content.ParseSessionID(string(name))
	if err != nil {
		return noSession(string(name), "")
	}
	h, err := a.host(ctx, folder, servers)
	if err != nil {
		return err
	}
	s, err := h.Client.Attach(ctx, id)
	if errors.Is(err, session.ErrNotFound) {
		return noSession(string(name), h.Lacks)
	}
	if err != nil {
		return err
	}
	return a.show(ctx, h, s, folder, past)
}

// show begins to show a session and replaces an earlier thread of the session. With past, it returns when the past has been sent.
func (a *Agent) show(ctx context.Context, h *Host, s *session.Session, folder string, past bool) error {
	t := newThread(a, h.Client, s, folder, past)
	a.mu.Lock()
	before := a.threads[s.ID()]
	a.threads[s.ID()] = t
	a.mu.Unlock()
	if before != nil {
		before.close(ctx, errClosed)
	}
	t.start(ctx)
	return t.await(ctx)
}

// listed is the number of sessions on a page of a list.
const listed = 50

// list lists the sessions of a folder, the latest first. A cursor is the number of sessions on the previous pages.
func (a *Agent) list(ctx context.Context, r *sdk.ListSessionsRequest) (*sdk.ListSessionsResponse, error) {
	folder, skip := "", 0
	if r.Cwd != nil {
		folder = *r.Cwd
	}
	if r.Cursor != nil {
		var err error
		if skip, err = strconv.Atoi(*r.Cursor); err != nil || skip < 1 {
			return nil, &sdk.RequestError{Code: codeParams, Message: "cursor " + strconv.Quote(*r.Cursor) + " is not from session/list: send its nextCursor, or omit it to start from the beginning"}
		}
	}
	h, err := a.host(ctx, folder, nil)
	if err != nil {
		return nil, err
	}
	q := report.Query{Sort: "age", Skip: skip, Limit: listed, May: func(s report.Summary) bool {
		return s.Folder != "" && (folder == "" || s.Folder == folder)
	}}
	page, err := a.indexOf(h.Client).List(ctx, h.Client, q, func(err error) { a.cfg.Log.Warn("a session cannot be listed", zap.Error(err)) })
	if err != nil {
		return nil, err
	}
	out := &sdk.ListSessionsResponse{Sessions: []sdk.SessionInfo{}}
	for _, row := range page.Sessions {
		info := sdk.SessionInfo{SessionId: sdk.SessionId(row.Session), Cwd: row.Folder, UpdatedAt: new(row.Changed.Std().UTC().Format(time.RFC3339))}
		if row.Title != "" {
			info.Title = new(row.Title)
		}
		out.Sessions = append(out.Sessions, info)
	}
	if page.Next > 0 {
		out.NextCursor = new(strconv.Itoa(page.Next))
	}
	return out, nil
}

// indexOf returns the index of the sessions of a deployment.
func (a *Agent) indexOf(c *client.Client) *report.Index {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.indexes[c] == nil {
		a.indexes[c] = new(report.Index)
	}
	return a.indexes[c]
}

// threadOf returns a session that the editor has open.
func (a *Agent) threadOf(id sdk.SessionId) (*thread, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if t := a.threads[content.SessionID(id)]; t != nil {
		return t, nil
	}
	return nil, &sdk.RequestError{Code: codeMissing, Message: "session " + strconv.Quote(string(id)) + " is not open here: use session/new or session/load first"}
}

func (a *Agent) prompt(ctx context.Context, r *sdk.PromptRequest, taken func()) (*sdk.PromptResponse, error) {
	t, err := a.threadOf(r.SessionId)
	if err != nil {
		return nil, err
	}
	item, err := itemOf(r.Prompt, t.folder)
	if err != nil {
		return nil, err
	}
	return t.prompt(ctx, item, taken)
}

func (a *Agent) cancel(ctx context.Context, r *sdk.CancelNotification) (struct{}, error) {
	t, err := a.threadOf(r.SessionId)
	if err != nil {
		return struct{}{}, err
	}
	return struct{}{}, t.cancel(ctx)
}

// leave cancels the work of a session, as the protocol requires, and stops showing it. The session can be loaded again.
func (a *Agent) leave(ctx context.Context, r *sdk.CloseSessionRequest) (*sdk.CloseSessionResponse, error) {
	t, err := a.threadOf(r.SessionId)
	if err != nil {
		return nil, err
	}
	err = t.cancel(ctx)
	a.mu.Lock()
	delete(a.threads, t.id)
	a.mu.Unlock()
	t.close(ctx, errClosed)
	return &sdk.CloseSessionResponse{}, err
}
