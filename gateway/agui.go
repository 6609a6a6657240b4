package gateway

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strconv"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/turnlog/turnlog/client"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events/journal"
	"github.com/turnlog/turnlog/gateway/internal/agui"
	"github.com/turnlog/turnlog/gateway/internal/feed"
	"github.com/turnlog/turnlog/gateway/internal/problem"
	"github.com/turnlog/turnlog/gateway/internal/stream"
)

func (g *Gateway) aguiRoutes() {
	o := op(http.MethodPost, "/api/ag-ui", "Run an AG-UI thread", http.StatusOK, 400, 403, 404, 409, 410, 422)
	o.Description = "The endpoint of an AG-UI 1.0 HttpAgent: takes a RunAgentInput and streams the events of the run. A thread is a session, which its first message opens. " +
		"A run that needs an answer ends with interrupts, and the resume of the next run answers them. A run without a new message or resume starts with snapshots and then follows the session."
	o.Responses["200"] = text("the events of the run", "text/event-stream")
	o.MaxBodyBytes = maxBody
	huma.Register(g.api, o, g.aguiRun)
}

type aguiIn struct {
	CommandKey

	Body struct {
		_ struct{} `additionalProperties:"true"` // later versions add fields

		Thread   string            `json:"threadId" doc:"the session: 1 to 128 letters, digits, - and _"`
		Run      string            `json:"runId" maxLength:"256"`
		Messages []json.RawMessage `json:"messages" doc:"the messages of the session, and a new one"`
		Tools    []json.RawMessage `json:"tools,omitempty" maxItems:"0" doc:"must be empty: the session runs its own tools, not the client's"`
		Context  []json.RawMessage `json:"context,omitempty" maxItems:"0" doc:"must be empty: put context in messages"`
		Resume   []agui.Answer     `json:"resume,omitempty" doc:"an answer to each open interrupt"`
		Props    json.RawMessage   `json:"forwardedProps,omitempty" doc:"model: for a new session, an agent or a model; without it, the gateway's default"`
	}
}

// aguiStream writes a session as AG-UI events.
type aguiStream struct {
	*agui.Run
	feed.Silent
}

func (d aguiStream) Event(e *feed.Writer, ev stream.Event) (last bool) {
	return d.Show(ev, func(ev agui.Event) { e.Data(jsonOf(ev)) })
}

func (aguiStream) Stop(e *feed.Writer, p *problem.Problem) {
	e.Data(jsonOf(agui.Event{"type": "RUN_ERROR", "message": p.Detail + ": " + p.Do, "code": p.Code()}))
}

func (d aguiStream) Reconnect(e *feed.Writer, why string) {
	d.Stop(e, problem.New(http.StatusServiceUnavailable, "reconnect", why, "start another run without a new message, at this or another gateway"))
}

// aguiRun starts a run or rejoins the session's current one.
func (g *Gateway) aguiRun(ctx context.Context, in *aguiIn) (*huma.StreamResponse, error) {
	within, stop := context.WithTimeout(ctx, g.limits.Answer)
	defer stop()
	run, at, err := g.aguiStart(within, in)
	if err != nil {
		return nil, g.problemOf(ctx, err)
	}
	f := g.from(content.SessionID(in.Body.Thread), at)
	return &huma.StreamResponse{Body: func(hc huma.Context) { //nolint:contextcheck // it uses the request's context
		r, w := humago.Unwrap(hc)
		g.feeds.Serve(r.Context(), w, f, aguiStream{Run: run})
	}}, nil
}

// aguiStart carries out a request. It returns the run that shows the result, and the place before the newest turns: a
// run includes their messages.
func (g *Gateway) aguiStart(ctx context.Context, in *aguiIn) (run *agui.Run, at journal.Head, err error) {
	thread, id := content.SessionID(in.Body.Thread), in.Body.Run
	req, err := agui.Parse(in.Body.Messages)
	if err != nil {
		return nil, at, problem.Unprocessable("bad_messages", err.Error(), "send the messages of the thread, ending with a new user message")
	}
	s, err := g.see(ctx, in.Body.Thread)
	none := problem.Is(err, http.StatusNotFound) && len(in.Body.Resume) == 0 && req.Input != nil
	if err == nil {
		at, _, err = g.latelyAt(ctx, s)
	}
	switch {
	case err != nil && !none:
		return nil, at, err
	case len(in.Body.Resume) > 0:
		run, turn, err := g.aguiResume(ctx, s, in)
		if err == nil && turn <= s.state.Turns-keptTurns { // the decision is older than the kept turns
			at, err = g.turnAt(ctx, s, turn)
		}
		return run, at, err
	case req.Input == nil:
		return agui.Rejoin(thread, id, s.head.Seq), at, nil
	}
	command, err := messageKey(in.CommandKey, req.ID)
	if err != nil {
		return nil, at, err
	}
	var props struct {
		Model string `json:"model"`
	}
	_ = json.Unmarshal(in.Body.Props, &props) // ignore props meant for others
	switch {
	case !none:
		turn, again, _, err := g.say(ctx, s, news{earlier: req.Earlier, input: *req.Input, model: props.Model}, command)
		if err == nil && again {
			return agui.Rejoin(thread, id, s.head.Seq), at, nil
		}
		return agui.NewRun(thread, id, turn, 1, 1), at, err
	case len(req.Earlier) > 0:
		return nil, at, otherHistory("there is no session " + strconv.Quote(in.Body.Thread) + ", so the thread cannot go on")
	}
	_, err = g.begin(ctx, props.Model, client.Options{ID: thread, Input: []content.Item{*req.Input}, Command: command})
	return agui.NewRun(thread, id, 1, 1, 1), at, err
}

// aguiResume answers every open question of a run.
func (g *Gateway) aguiResume(ctx context.Context, s seen, in *aguiIn) (run *agui.Run, turn int, err error) {
	var all []stream.Decision
	for _, a := range in.Body.Resume {
		d, err := a.Decision()
		if err != nil {
			return nil, 0, problem.Unprocessable("bad_resume", err.Error(), "send the interrupt's ID unchanged and an answer that fits its responseSchema; a run without resume lists all open interrupts")
		}
		all = append(all, d)
	}
	for _, a := range s.state.PendingApprovals() {
		answers := func(d stream.Decision) bool { return d.Approval == a.ID }
		if s.state.Turn != nil && a.Turn == s.state.Turn.ID && !slices.ContainsFunc(all, answers) {
			return nil, 0, problem.New(http.StatusConflict, "partial_resume", "resume does not answer "+string(a.ID), "answer every open interrupt: a run without resume lists them")
		}
	}
	turn, first, last, err := g.resolve(ctx, s, all, in.CommandKey)
	return agui.NewRun(s.state.Session, in.Body.Run, turn, first, last), turn, err
}
