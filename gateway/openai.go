package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events/journal"
	"github.com/turnlog/turnlog/gateway/internal/feed"
	"github.com/turnlog/turnlog/gateway/internal/openai"
	"github.com/turnlog/turnlog/gateway/internal/problem"
	"github.com/turnlog/turnlog/gateway/internal/stream"
	"github.com/turnlog/turnlog/loop"
)

// openaiPath is the prefix of paths for OpenAI's clients.
const openaiPath = "/v1/"

func (g *Gateway) openaiRoutes() {
	for pattern, do := range map[string]func(http.ResponseWriter, *http.Request) error{
		"GET /v1/models":                 g.listOpenAI,
		"POST /v1/chat/completions":      g.completeChat,
		"POST /v1/responses":             g.createResponse,
		"GET /v1/responses/{id}":         g.getResponse,
		"POST /v1/responses/{id}/cancel": g.cancelResponse,

		"POST /v1/conversations":                     g.createConversation,
		"GET /v1/conversations/{id}":                 g.getConversation,
		"POST /v1/conversations/{id}":                g.never("metadata cannot be changed", "Give it when you create the conversation"),
		"DELETE /v1/conversations/{id}":              g.never("conversations cannot be deleted here", "An operator can: turnlog sessions rm"),
		"GET /v1/conversations/{id}/items":           g.listItems,
		"POST /v1/conversations/{id}/items":          g.never("items cannot be added alone", "Send them as the input of a response with this conversation"),
		"GET /v1/conversations/{id}/items/{item}":    g.getItem,
		"DELETE /v1/conversations/{id}/items/{item}": g.never("items cannot be deleted", "Continue without them in a fork: POST /api/sessions/{id}/fork"),
	} {
		g.mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			if err := do(w, r); err != nil {
				answering(w)
				if e, ok := errors.AsType[*openai.Error](err); ok {
					e.Write(w)
					return
				}
				refuse(w, r, g.problemOf(r.Context(), err))
			}
		})
	}
}

// openaiError converts a problem into the format that OpenAI's clients expect.
func openaiError(p *problem.Problem) *openai.Error {
	return openai.NewError(p.Status, p.Code(), "", p.Detail+": "+p.Do)
}

func writeJSON(w http.ResponseWriter, v any) {
	answering(w)
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(jsonOf(v)) // the client may be gone
}

// maxBody limits a request body, which may contain files.
const maxBody = 8 << 20

func bodyOf(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if _, large := errors.AsType[*http.MaxBytesError](err); large {
		return nil, problem.New(http.StatusRequestEntityTooLarge, "too_large", "the request has more than 8 MiB", "send smaller files")
	}
	if err != nil {
		return nil, problem.Truncated(http.StatusBadRequest, "the body ended early: "+err.Error())
	}
	_ = http.NewResponseController(w).SetReadDeadline(time.Time{}) // a deadline would end a request while it waits for its turn
	return body, nil
}

// listOpenAI lists the agents and the default model as models.
func (g *Gateway) listOpenAI(w http.ResponseWriter, r *http.Request) error {
	list, err := g.agents(r.Context(), nil)
	if err != nil {
		return err
	}
	row := func(id, owner string) map[string]any {
		return map[string]any{"id": id, "object": "model", "created": 0, "owned_by": owner}
	}
	data := []map[string]any{}
	for _, a := range list.Body.Agents {
		data = append(data, row(a.Name, "agent"))
	}
	if m := g.cfg.Defaults.Model; m != "" && person(r.Context()).MayOpen("") {
		data = append(data, row(m, "model"))
	}
	writeJSON(w, map[string]any{"object": "list", "data": data})
	return nil
}

// answersOf returns the name of the session's agent, or of its model if it has no agent.
func answersOf(s *loop.State) string {
	if s.Config.Agent != nil {
		return s.Config.Agent.Name
	}
	return s.Config.Model
}

// fold passes the events of a session to show until done returns true.
func (g *Gateway) fold(ctx context.Context, f feed.Following, show func(stream.Event), done func() bool) error {
	for u, err := range f.Updates(ctx) {
		if err != nil {
			return err
		}
		if u.Record != nil {
			f.Stream.Entry(*u.Record, show)
		} else {
			f.Stream.Live(u.Live, show)
		}
		if done() {
			return nil
		}
	}
	return context.Cause(ctx)
}

// response is an existing response.
type response struct {
	*openai.Responses

	seen seen
	at   journal.Head // the head before its turn
}

// responseOf returns an existing response, without the events up to a sequence number.
func (g *Gateway) responseOf(ctx context.Context, text string, after int64) (response, error) {
	id, err := openai.ParseID(text)
	if err != nil {
		return response{}, noResponse(text)
	}
	s, err := g.see(ctx, string(id.Session))
	if err != nil {
		return response{}, err
	}
	return g.responseIn(ctx, s, id, after)
}

// responseIn is responseOf for a session that is already read.
func (g *Gateway) responseIn(ctx context.Context, s seen, id openai.ID, after int64) (response, error) {
	at, err := g.turnAt(ctx, s, id.Turn)
	if problem.Is(err, http.StatusNotFound) {
		err = noResponse(id.String())
	}
	if err != nil {
		return response{}, err
	}
	r := response{openai.NewResponses(id, answersOf(s.state), after), s, at}
	for rec, err := range g.shown(ctx, id.Session, at, func(ev stream.Event) { r.Show(ev, func(openai.Event) {}) }) {
		if err != nil {
			return r, err
		}
		if r.Over() || rec.Seq >= s.head.Seq {
			break
		}
	}
	if !r.Begun() {
		return r, noResponse(id.String())
	}
	return r, nil
}

func noResponse(id string) error {
	return openai.NewError(http.StatusNotFound, "response_not_found", "", "there is no response "+strconv.Quote(id)+": use the id of a response that this deployment returned")
}

func (g *Gateway) getResponse(w http.ResponseWriter, r *http.Request) error {
	q := r.URL.Query()
	after := int64(-1)
	if text := q.Get("starting_after"); text != "" {
		var err error
		if after, err = strconv.ParseInt(text, 10, 64); err != nil || after < 0 || q.Get("stream") != "true" {
			return openai.NewError(http.StatusBadRequest, "invalid_value", "starting_after", "starting_after must be the sequence_number of an event and needs stream=true")
		}
	}
	res, err := g.responseOf(r.Context(), r.PathValue("id"), after)
	if err != nil {
		return err
	}
	if q.Get("stream") != "true" {
		writeJSON(w, res.Response())
		return nil
	}
	f := g.from(res.ID().Session, res.at)
	g.feeds.Serve(r.Context(), w, f, responses{Responses: openai.NewResponses(res.ID(), answersOf(res.seen.state), after)})
	return nil
}

func (g *Gateway) cancelResponse(w http.ResponseWriter, r *http.Request) error {
	if _, err := bodyOf(w, r); err != nil {
		return err
	}
	ctx, stop := context.WithTimeout(r.Context(), g.limits.Answer)
	defer stop()
	res, err := g.responseOf(ctx, r.PathValue("id"), 0)
	if err != nil {
		return err
	}
	s := res.seen
	if turn := content.TurnIDFor(res.ID().Turn); s.state.Turn != nil && s.state.Turn.ID == turn {
		in := &cancelIn{SessionPath: SessionPath{string(s.state.Session)}, CommandKey: CommandKey{r.Header.Get("Idempotency-Key")}}
		in.Body.Turn = turn
		if _, err := g.cancelTurn(ctx, in); err != nil {
			return err
		}
		if res, err = g.responseOf(ctx, r.PathValue("id"), 0); err != nil {
			return err
		}
	} else if !person(ctx).MayDrive(s.subject) {
		return problem.MayNot("cancel a session that you did not open")
	}
	writeJSON(w, res.Response())
	return nil
}

// responses writes a session in the format of the Responses API.
type responses struct {
	*openai.Responses
	feed.Silent
}

func (d responses) Event(e *feed.Writer, ev stream.Event) (last bool) {
	return d.Show(ev, func(ev openai.Event) { e.Event(ev.Type, "", jsonOf(ev.Data)) })
}

// Stop ends the stream without its last event. A client continues with starting_after.
func (responses) Stop(*feed.Writer, *problem.Problem) {}

func (responses) Reconnect(*feed.Writer, string) {}

// chat writes a session in the format of Chat Completions.
type chat struct {
	*openai.Chat
	feed.Silent

	usage bool
}

func (d chat) Event(e *feed.Writer, ev stream.Event) (last bool) {
	if !d.Show(ev, func(chunk map[string]any) { e.Data(jsonOf(chunk)) }) {
		return false
	}
	switch failed := d.Failed(); {
	case failed != nil:
		e.Data(jsonOf(map[string]any{"error": failed}))
	case d.usage:
		e.Data(jsonOf(d.Usage()))
	}
	e.Done()
	return true
}

func (d chat) Stop(e *feed.Writer, p *problem.Problem) {
	e.Data(jsonOf(map[string]json.RawMessage{"error": jsonOf(openaiError(p))}))
}

func (d chat) Reconnect(e *feed.Writer, why string) {
	d.Stop(e, problem.New(http.StatusServiceUnavailable, "reconnect", why, "reconnect now, to this or another gateway"))
}
