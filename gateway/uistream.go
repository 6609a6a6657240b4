package gateway

import (
	"context"
	"encoding/json"
	"net/http"
	"strconv"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/turnlog/turnlog/client"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/gateway/internal/feed"
	"github.com/turnlog/turnlog/gateway/internal/problem"
	"github.com/turnlog/turnlog/gateway/internal/stream"
	"github.com/turnlog/turnlog/gateway/internal/uistream"
)

func (g *Gateway) uiRoutes() {
	o := op(http.MethodPost, "/api/chat", "Send a message of useChat, or decisions, and stream the answer", http.StatusOK, 400, 403, 404, 409, 410, 422)
	o.Description = "The endpoint of the AI SDK's DefaultChatTransport; responds with a UI message stream, version 1. " +
		"The chat has the ID of its session, which the first message opens. Only the last message is new; the others must be those of the session."
	o.Responses["200"], o.MaxBodyBytes = text("the UI message stream", "text/event-stream"), maxBody
	huma.Register(g.api, o, g.uiChat)
	o = op(http.MethodGet, "/api/chat/{id}/stream", "Stream the reply in progress from its beginning", http.StatusOK, 404, 410)
	o.Responses["200"], o.Responses["204"] = text("the UI message stream", "text/event-stream"), &huma.Response{Description: "no turn is open"}
	huma.Register(g.api, o, g.uiResume)
	handle(g, op(http.MethodGet, "/api/chat/{id}", "List the messages of a chat in the format of useChat", http.StatusOK, 404, 410), g.uiMessages)
	handle(g, op(http.MethodPost, "/api/chat/{id}/stop", "Cancel the open turn of a chat", http.StatusOK, 403, 404, 409, 410), g.uiStop)
}

type uiChatIn struct {
	CommandKey

	Body struct {
		ID        string            `json:"id" doc:"the ID of the chat and of its session: 1 to 128 letters, digits, - and _"`
		Messages  []json.RawMessage `json:"messages,omitempty" doc:"UIMessages: the messages of the session, and a new one, or decisions in tool parts"`
		Message   json.RawMessage   `json:"message,omitempty" doc:"the new message, instead of messages"`
		Trigger   string            `json:"trigger,omitempty" enum:"submit-message,regenerate-message"`
		MessageID string            `json:"messageId,omitempty" doc:"the ID of the message that has the decisions"`
		Model     string            `json:"model,omitempty" doc:"for a new session: an agent or model; without it, the gateway's default"`
	}
}

// uiAnswer has the parts of a turn that a response streams.
type uiAnswer struct {
	feed.Following

	chunks *uistream.Stream
}

// uiStream writes a session in the format of the AI SDK.
type uiStream struct {
	*uistream.Stream
	feed.Silent
}

func (d uiStream) Event(e *feed.Writer, ev stream.Event) (last bool) {
	if last = d.Show(ev, func(c uistream.Chunk) { e.Data(jsonOf(c)) }); last {
		e.Done()
	}
	return last
}

func (uiStream) Stop(e *feed.Writer, p *problem.Problem) {
	e.Data(jsonOf(uistream.Chunk{"type": "error", "errorText": p.Detail + ": " + p.Do}))
	e.Done()
}

func (d uiStream) Reconnect(e *feed.Writer, why string) {
	d.Stop(e, problem.New(http.StatusServiceUnavailable, "reconnect", why, "resume the stream, at this or another gateway"))
}

// stream returns the response that streams an answer.
func (a uiAnswer) stream(g *Gateway) *huma.StreamResponse {
	return &huma.StreamResponse{Body: func(hc huma.Context) {
		r, w := humago.Unwrap(hc)
		w.Header().Set("X-Vercel-Ai-Ui-Message-Stream", "v1")
		g.feeds.Serve(r.Context(), w, a.Following, uiStream{Stream: a.chunks})
	}}
}

// uiChat handles a new message, or decisions.
func (g *Gateway) uiChat(ctx context.Context, in *uiChatIn) (*huma.StreamResponse, error) {
	within, stop := context.WithTimeout(ctx, g.limits.Answer)
	defer stop()
	a, err := g.uiRespond(within, in)
	if err != nil {
		return nil, g.problemOf(ctx, err)
	}
	return a.stream(g), nil //nolint:contextcheck // it uses the request's context
}

func (g *Gateway) uiRespond(ctx context.Context, in *uiChatIn) (uiAnswer, error) {
	raw, alone := in.Body.Messages, len(in.Body.Message) > 0
	switch {
	case in.Body.Trigger == "regenerate-message":
		return uiAnswer{}, problem.New(http.StatusConflict, "no_forks", "a session cannot answer the same message twice",
			"send a new message, or continue in a new session: POST /api/sessions/{id}/fork")
	case alone && len(raw) > 0:
		return uiAnswer{}, problem.Unprocessable("bad_messages", "there are both message and messages", "give one of them")
	case alone:
		raw = []json.RawMessage{in.Body.Message}
	}
	req, err := uistream.Parse(raw, in.Body.MessageID)
	if err != nil {
		return uiAnswer{}, problem.Unprocessable("bad_messages", err.Error(), "send what DefaultChatTransport sends: the last message must be the new user message")
	}
	s, err := g.see(ctx, in.Body.ID)
	none := problem.Is(err, http.StatusNotFound) && len(req.Decisions) == 0
	if err != nil && !none {
		return uiAnswer{}, err
	}
	if len(req.Decisions) > 0 {
		turn, first, last, err := g.resolve(ctx, s, req.Decisions, in.CommandKey)
		if err != nil {
			return uiAnswer{}, err
		}
		at, err := g.turnAt(ctx, s, turn)
		return uiAnswer{g.from(s.state.Session, at), uistream.NewStream(s.state.Session, turn, first, last)}, err
	}
	command, err := messageKey(in.CommandKey, req.ID)
	switch {
	case err != nil:
		return uiAnswer{}, err
	case !none:
		turn, again, f, err := g.say(ctx, s, news{req.Earlier, req.Input, in.Body.Model, alone}, command)
		if err == nil && again {
			return g.uiReplay(ctx, s, turn)
		}
		return uiAnswer{f, uistream.NewStream(s.state.Session, turn, 1, 1)}, err
	case len(req.Earlier) > 0:
		return uiAnswer{}, otherHistory("there is no session " + strconv.Quote(in.Body.ID) + ", so the chat cannot go on")
	}
	o := client.Options{ID: content.SessionID(in.Body.ID), Input: []content.Item{req.Input}, Command: command}
	a, err := g.begin(ctx, in.Body.Model, o)
	return uiAnswer{a.Following, uistream.NewStream(o.ID, 1, 1, 1)}, err
}

// uiReplay streams a turn from its beginning to its end, or to the question that it waits for.
func (g *Gateway) uiReplay(ctx context.Context, s seen, turn int) (uiAnswer, error) {
	at, err := g.turnAt(ctx, s, turn)
	if err != nil {
		return uiAnswer{}, err
	}
	probe := stream.NewTurn(turn)
	for rec, err := range g.shown(ctx, s.state.Session, at, probe.Skip) {
		if err != nil {
			return uiAnswer{}, err
		}
		if rec.Seq >= s.head.Seq {
			break
		}
	}
	return uiAnswer{g.from(s.state.Session, at), uistream.NewStream(s.state.Session, turn, 1, probe.Part())}, nil
}

// uiResume streams the message of the open turn.
func (g *Gateway) uiResume(ctx context.Context, in *SessionPath) (*huma.StreamResponse, error) {
	s, err := g.see(ctx, in.ID)
	if err != nil {
		return nil, g.problemOf(ctx, err)
	}
	if s.state.Turn == nil {
		return &huma.StreamResponse{Body: func(hc huma.Context) { hc.SetStatus(http.StatusNoContent) }}, nil
	}
	a, err := g.uiReplay(ctx, s, s.state.Turn.ID.Number())
	if err != nil {
		return nil, g.problemOf(ctx, err)
	}
	return a.stream(g), nil //nolint:contextcheck // it uses the request's context
}

type uiMessagesOut struct {
	Body struct {
		ID       string              `json:"id"`
		Messages []*uistream.Message `json:"messages"`
	}
}

func (g *Gateway) uiMessages(ctx context.Context, in *SessionPath) (*uiMessagesOut, error) {
	s, err := g.see(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	h, _, err := g.uiHistory(ctx, s)
	if err != nil {
		return nil, err
	}
	out := &uiMessagesOut{}
	out.Body.ID, out.Body.Messages = in.ID, h.Messages()
	return out, nil
}

// uiHistory reads the messages of a session's newest turns. whole reports whether there are no earlier turns.
func (g *Gateway) uiHistory(ctx context.Context, s seen) (h *uistream.History, whole bool, err error) {
	h = uistream.NewHistory(s.state.Session)
	at, whole, err := g.latelyAt(ctx, s)
	if err != nil {
		return nil, false, err
	}
	for _, err := range g.shown(ctx, s.state.Session, at, h.Show) {
		if err != nil {
			return nil, false, err
		}
	}
	return h, whole, nil
}

type uiStopIn struct {
	SessionPath
	CommandKey
}

func (g *Gateway) uiStop(ctx context.Context, in *uiStopIn) (*acceptedOut, error) {
	return g.cancelTurn(ctx, &cancelIn{SessionPath: in.SessionPath, CommandKey: in.CommandKey})
}
