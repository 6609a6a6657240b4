package gateway

import (
	"cmp"
	"context"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"
	"github.com/oklog/ulid/v2"
	"go.uber.org/zap"

	"github.com/turnlog/turnlog/client"
	"github.com/turnlog/turnlog/client/report"
	"github.com/turnlog/turnlog/commands"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/events/journal"
	"github.com/turnlog/turnlog/gateway/internal/again"
	"github.com/turnlog/turnlog/gateway/internal/problem"
	"github.com/turnlog/turnlog/gateway/people"
	"github.com/turnlog/turnlog/loop"
	"github.com/turnlog/turnlog/session"
)

// listedAs returns the subject of a session in a list, which decides who may see it.
func listedAs(s report.Summary) people.Subject {
	out := people.Subject{Owner: s.Owner}
	if s.Agent != nil {
		out.Agent = s.Agent.Name
	}
	return out
}

// seen is a session as it was read for a request.
type seen struct {
	state   *loop.State
	head    journal.Head
	subject people.Subject
}

// see reads a session if the sender of the request may see it. Otherwise it reports that the session does not exist.
func (g *Gateway) see(ctx context.Context, text string) (seen, error) {
	id, err := content.ParseSessionID(text)
	if err != nil {
		return seen{}, err
	}
	s, err := g.read(ctx, id)
	if err == nil && (!s.state.Opened || !person(ctx).MaySee(s.subject)) {
		return seen{}, problem.NoSession(id)
	}
	return s, err
}

// read reads a session without checking who may see it.
func (g *Gateway) read(ctx context.Context, id content.SessionID) (seen, error) {
	state, head, err := g.client.Read(ctx, id)
	if isNotFound(err) {
		return seen{}, problem.NoSession(id)
	}
	if err != nil {
		return seen{}, err
	}
	if state.Deleted != nil {
		return seen{}, &session.DeletedError{Session: id, Deletion: *state.Deleted}
	}
	s := seen{state, head, people.Subject{For: state.Metadata.Text(report.MetaOwner) == ""}}
	if state.Config.Agent != nil {
		s.subject.Agent = state.Config.Agent.Name
	}
	s.subject.Owner, err = report.Owner(ctx, g.client, state)
	return s, err
}

// drive reads a session if the sender may drive it.
func (g *Gateway) drive(ctx context.Context, id, what string) (seen, error) {
	s, err := g.see(ctx, id)
	if err == nil && !person(ctx).MayDrive(s.subject) {
		err = problem.MayNot(what + " a session that you did not open")
	}
	return s, err
}

// SessionPath names a session in a request path.
type SessionPath struct {
	ID string `path:"id" maxLength:"128" doc:"the session"`
}

// CommandKey is the idempotency key of a request.
type CommandKey struct {
	Key string `header:"Idempotency-Key" doc:"the ID of the command, 16 to 128 letters, digits, - and _: retries with the same ID take effect once; without it, the gateway chooses one"`
}

// minKey is the minimum length of a key: keys of different people must not collide by accident.
const minKey = 16

// command returns the ID of the command: the key, or a new ID.
func (k CommandKey) command() (string, error) {
	if k.Key == "" {
		return ulid.Make().String(), nil
	}
	if len(k.Key) < minKey || !content.IsToken(k.Key) {
		return "", problem.New(http.StatusBadRequest, "bad_key", "the Idempotency-Key is not 16 to 128 letters, digits, - and _", "use a new UUID or ULID for each command")
	}
	return k.Key, nil
}

// accepted is an accepted command.
type accepted struct {
	Session content.SessionID `json:"session"`
	Command string            `json:"command" doc:"the ID of the command, which is the cause of its journal entry"`
}

type acceptedOut struct{ Body accepted }

// op describes an operation.
func op(method, path, summary string, status int, errs ...int) huma.Operation {
	id := strings.ToLower(method) + strings.NewReplacer("/api", "", "/", "-", "{", "", "}", "").Replace(path)
	return huma.Operation{
		OperationID: id, Method: method, Path: path, Summary: summary, DefaultStatus: status,
		Errors: append([]int{http.StatusUnauthorized, http.StatusServiceUnavailable}, errs...), Responses: map[string]*huma.Response{"default": problem.Described()},
	}
}

// text describes a response that is not JSON.
func text(what, kind string) *huma.Response {
	return &huma.Response{Description: what, Content: map[string]*huma.MediaType{kind: {Schema: &huma.Schema{Type: "string"}}}}
}

// handle registers an operation whose errors become problems.
func handle[I, O any](g *Gateway, o huma.Operation, do func(context.Context, *I) (*O, error)) {
	huma.Register(g.api, o, func(ctx context.Context, in *I) (*O, error) {
		ctx, cancel := context.WithTimeout(ctx, g.limits.Answer)
		defer cancel()
		out, err := do(ctx, in)
		if err != nil {
			return nil, g.problemOf(ctx, err)
		}
		return out, nil
	})
}

func (g *Gateway) sessionRoutes() {
	handle(g, op(http.MethodGet, "/api/sessions", "List and search the sessions that you may see", http.StatusOK), g.listSessions)
	handle(g, op(http.MethodPost, "/api/sessions", "Open a session", http.StatusCreated, 403, 409, 422), g.openSession)
	handle(g, op(http.MethodGet, "/api/sessions/{id}", "Show a session", http.StatusOK, 404, 410), g.showSession)
	handle(g, op(http.MethodPost, "/api/sessions/{id}/fork", "Continue a session in a new one, from any entry", http.StatusCreated, 403, 404, 409, 410, 422), g.forkSession)
	handle(g, op(http.MethodPost, "/api/sessions/{id}/close", "Close a session for good", http.StatusOK, 403, 404, 409, 410, 422), g.closeSession)
}

type listIn struct {
	State  string `query:"state" enum:"idle,working,approval,yield,ready,closed,aside" doc:"only sessions in this state"`
	Agent  string `query:"agent" doc:"only sessions whose agent matches this pattern, in which * matches any characters"`
	Model  string `query:"model" doc:"only sessions whose model matches this pattern"`
	Owner  string `query:"owner" doc:"only sessions of this person, including those of their sub-agents"`
	Search string `query:"search" doc:"only sessions with this text in their ID or title, ignoring case"`
	Tool   string `query:"tool" doc:"only sessions that called a tool that matches this pattern"`
	Text   string `query:"text" maxLength:"1000" doc:"only sessions with this text in their transcript, ignoring case; a request searches at most 256"`

	Cost  float64 `query:"cost" minimum:"0" doc:"only sessions that cost at least this, in their currency"`
	Sort  string  `query:"sort" enum:"age,session,tokens,turns,cost" default:"age" doc:"newest or highest first; session: by ID"`
	Skip  int     `query:"skip" minimum:"0" doc:"skip this many sessions; see next of the previous page"`
	Limit int     `query:"limit" minimum:"0" maximum:"10000" default:"100" doc:"at most this many sessions; 0: all"`
}

type listOut struct {
	Body struct {
		Sessions []report.Summary `json:"sessions"`
		Total    *int             `json:"total,omitempty" doc:"how many sessions match in all pages; absent: not all were searched for text"`
		Next     int              `json:"next,omitempty" doc:"the skip of the next page; absent: this is the last page"`
	}
}

func (g *Gateway) listSessions(ctx context.Context, in *listIn) (*listOut, error) {
	p := person(ctx)
	q := report.Query{
		State: in.State, Agent: in.Agent, Model: in.Model, Search: in.Search, Tool: in.Tool, Text: in.Text, Owner: in.Owner, Cost: in.Cost,
		Sort: in.Sort, Skip: in.Skip, Limit: in.Limit,
		May: func(s report.Summary) bool { return p.MaySee(listedAs(s)) },
	}
	list, err := g.index.List(ctx, g.client, q, g.logUnlisted)
	out := &listOut{}
	out.Body.Sessions, out.Body.Next = list.Sessions, list.Next
	switch {
	case in.Text == "":
		out.Body.Total = &list.Total
	case in.Skip == 0 && list.Next == 0:
		out.Body.Total = new(len(list.Sessions))
	}
	return out, err
}

// logUnlisted logs why a list leaves out a session.
func (g *Gateway) logUnlisted(err error) { g.log.Warn("session not listed", zap.Error(err)) }

type openIn struct {
	CommandKey

	Body struct {
		ID       string   `json:"id,omitempty" maxLength:"128" pattern:"^[A-Za-z0-9_-]*$" doc:"the ID of the session; without it, the gateway chooses one"`
		Model    string   `json:"model,omitempty" doc:"such as anthropic:claude-sonnet-5-5; without model and agent, the gateway's default"`
		Agent    string   `json:"agent,omitempty" doc:"the name of a published agent"`
		Version  string   `json:"version,omitempty" doc:"the version of the agent; without it, the newest"`
		System   string   `json:"system,omitempty" doc:"the system prompt"`
		Text     string   `json:"text,omitempty" doc:"the first input, which starts a turn"`
		Files    []file   `json:"files,omitempty" doc:"files of the first input"`
		Sealed   bool     `json:"sealed,omitempty" doc:"encrypt the content, so that it can be erased; the gateway needs --seal-key"`
		Metadata metadata `json:"metadata,omitempty" doc:"labels for reports; the keys owner and folder are reserved"`
	}
}

// maxMetadata is the maximum number of metadata keys of a session: adding a key searches the others.
const maxMetadata = 100

// metadata maps keys to JSON values.
type metadata map[string]json.RawMessage

// openedOut names the session that was opened.
type openedOut struct {
	Location string `header:"Location"`
	Body     accepted
}

func (g *Gateway) openSession(ctx context.Context, in *openIn) (*openedOut, error) {
	p := person(ctx)
	command, err := in.command()
	if err != nil {
		return nil, err
	}
	config, err := g.configOf(in.Body.Model, in.Body.Agent, in.Body.Version)
	if err != nil {
		return nil, err
	}
	agent := ""
	if config.Agent != nil {
		agent = config.Agent.Name
	}
	if !p.MayOpen(agent) {
		return nil, problem.MayNot("open this session")
	}
	o := client.Options{
		ID: content.SessionID(cmp.Or(in.Body.ID, again.SessionOf(p.Name, command))), Config: config, SystemPrompt: in.Body.System, Command: command, Sealed: in.Body.Sealed,
	}
	if o.Metadata, err = in.Body.Metadata.of(p.Name); err != nil {
		return nil, err
	}
	if in.Body.Text != "" || len(in.Body.Files) > 0 {
		item, err := inputItem(in.Body.Text, in.Body.Files)
		if err != nil {
			return nil, err
		}
		o.Input = []content.Item{item}
	}
	return g.start(ctx, p, o)
}

// start starts a session for a person.
func (g *Gateway) start(ctx context.Context, p *people.Person, o client.Options) (*openedOut, error) {
	s, err := g.clientOf(p).Start(ctx, o)
	if err != nil {
		return nil, err
	}
	_ = s.Close(ctx)
	got, err := g.see(ctx, string(o.ID)) // another person may have used the same command ID
	if err == nil {
		_, err = g.caused(ctx, seen{}, got, o.Command, commands.OpenSession{Input: o.Input, From: o.From.Place()})
	}
	if err != nil {
		return nil, err
	}
	return &openedOut{"/api/sessions/" + string(o.ID), accepted{o.ID, o.Command}}, nil
}

type forkIn struct {
	CommandKey

	ID   string `path:"id"`
	Body struct {
		Entry uint64 `json:"entry,omitempty" doc:"the last entry to copy; 0: the newest"`
		ID    string `json:"id,omitempty" maxLength:"128" pattern:"^[A-Za-z0-9_-]*$" doc:"the ID of the fork; without it, the gateway chooses one"`
		Model string `json:"model,omitempty" doc:"the model, instead of the session's"`
		Agent string `json:"agent,omitempty" doc:"the name of a published agent that continues, with its own prompt and settings"`
		Text  string `json:"text,omitempty" doc:"the fork's first input"`
	}
}

// forkSession starts a fork. Its owner is the sender of the request.
func (g *Gateway) forkSession(ctx context.Context, in *forkIn) (*openedOut, error) {
	p := person(ctx)
	origin, err := g.see(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	command, err := in.command()
	if err != nil {
		return nil, err
	}
	if !p.MayOpen(cmp.Or(in.Body.Agent, origin.subject.Agent)) {
		return nil, problem.MayNot("open this session")
	}
	o := client.Options{
		ID: content.SessionID(cmp.Or(in.Body.ID, again.SessionOf(p.Name, command))), Command: command,
		From:     events.EntryRef{Session: origin.state.Session, Seq: in.Body.Entry},
		Metadata: content.Metadata{}.With(report.MetaOwner, p.Name),
	}
	if in.Body.Model != "" || in.Body.Agent != "" {
		if o.Config, err = g.configOf(in.Body.Model, in.Body.Agent, ""); err != nil {
			return nil, err
		}
	}
	if in.Body.Text != "" {
		o.Input = []content.Item{content.UserText(in.Body.Text)}
	}
	return g.start(ctx, p, o)
}

func (m metadata) of(owner string) (content.Metadata, error) {
	for _, key := range []string{report.MetaOwner, report.MetaFolder} { // editors list sessions by folder
		if _, ok := m[key]; ok {
			return nil, problem.Unprocessable("bad_metadata", "the metadata has the key "+key, "leave it out: the gateway sets the owner, and editors their folder")
		}
	}
	if len(m) > maxMetadata {
		return nil, problem.Unprocessable("bad_metadata", "the metadata has "+strconv.Itoa(len(m))+" keys", "send at most "+strconv.Itoa(maxMetadata))
	}
	var out content.Metadata
	for k, v := range m {
		out = out.With(k, v)
	}
	return out.With(report.MetaOwner, owner), nil
}

// configOf returns the configuration of a new session.
func (g *Gateway) configOf(model, agent, version string) (events.Config, error) {
	if model == "" && agent == "" {
		return g.cfg.Defaults, nil
	}
	c := events.Config{Model: model}
	if agent != "" {
		c.Agent = &events.AgentRef{Name: agent, Version: version}
	} else {
		c.Rules = []events.Rule{{Tool: "*", Action: events.RuleGuard}}
	}
	if model != "" && g.cfg.Models != nil {
		if err := g.cfg.Models.Usable(model); err != nil {
			return c, problem.Unprocessable("bad_model", err.Error(), "GET /api/models lists the models; a name may have options, as in openai:gpt-5.5?effort=low")
		}
	}
	return c, nil
}

type sessionOut struct{ Body shown }

// shown is a session and what the sender may do with it.
type shown struct {
	report.Session

	Title  string `json:"title"`
	Owner  string `json:"owner,omitempty" doc:"the person who opened the session through a gateway, or whose session called this sub-agent"`
	Cursor string `json:"cursor" doc:"where GET …/events?after= continues without a gap"`
	May    may    `json:"may"`
}

type may struct {
	Drive  bool `json:"drive"`
	Decide bool `json:"decide"`
}

func (g *Gateway) showSession(ctx context.Context, in *SessionPath) (*sessionOut, error) {
	s, err := g.see(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	p := person(ctx)
	return &sessionOut{shown{
		Session: report.Of(s.state, s.head), Title: report.TitleOf(s.state), Owner: s.subject.Owner, Cursor: cursorOf(s).String(),
		May: may{p.MayDrive(s.subject), p.MayDecide(s.subject)},
	}}, nil
}

type closeIn struct {
	SessionPath
	CommandKey

	Body struct {
		Reason string `json:"reason,omitempty" maxLength:"1000"`
	}
}

func (g *Gateway) closeSession(ctx context.Context, in *closeIn) (*acceptedOut, error) {
	s, err := g.drive(ctx, in.ID, "close")
	if err != nil {
		return nil, err
	}
	return g.ask(ctx, s, in.CommandKey, commands.Close{Reason: in.Body.Reason})
}

// ask sends a command in the sender's name and waits for the session's decision.
func (g *Gateway) ask(ctx context.Context, s seen, key CommandKey, c commands.Command) (*acceptedOut, error) {
	id, err := key.command()
	if err != nil {
		return nil, err
	}
	now, err := g.askIn(ctx, s, id, c)
	if err == nil && key.Key != "" {
		_, err = g.caused(ctx, s, now, id, c)
	}
	if err != nil {
		return nil, err
	}
	return &acceptedOut{accepted{s.state.Session, id}}, nil
}

// askIn is ask with a command ID. It returns the session after the decision.
func (g *Gateway) askIn(ctx context.Context, s seen, id string, c commands.Command) (now seen, err error) {
	state := s.state.Fork() // do not change the caller's state
	one, err := g.clientOf(person(ctx)).AttachTo(ctx, &state, s.head)
	if err != nil {
		return seen{}, err
	}
	err = one.AskAs(ctx, id, c)
	_ = one.Close(context.WithoutCancel(ctx)) // nothing else uses this state
	return seen{&state, one.Head(), s.subject}, err
}
