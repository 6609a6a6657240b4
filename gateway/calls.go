package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"

	"github.com/turnlog/turnlog/audit/explain"
	"github.com/turnlog/turnlog/audit/render"
	"github.com/turnlog/turnlog/client/report"
	"github.com/turnlog/turnlog/commands"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/gateway/internal/problem"
	"github.com/turnlog/turnlog/loop"
)

func (g *Gateway) callRoutes() {
	const call = "/api/sessions/{id}/calls/{call}"
	handle(g, op(http.MethodGet, "/api/sessions/{id}/calls", "List the open calls of a session", http.StatusOK, 404, 410), g.listCalls)
	handle(g, op(http.MethodGet, call, "Explain a call: what requested it, what permitted it, and its result", http.StatusOK, 404, 410), g.explainCall)
	handle(g, op(http.MethodPost, call+"/cancel", "Cancel one call; its turn goes on", http.StatusOK, 403, 404, 409, 410, 422), g.cancelCall)
	handle(g, op(http.MethodPost, call+"/detach", "Send a running call to the background", http.StatusOK, 403, 404, 409, 410, 422), g.detachCall)
	handle(g, op(http.MethodGet, "/api/dead", "List calls that lost their workers, and sessions that nodes no longer drive", http.StatusOK), g.listDead)
	handle(g, op(http.MethodPost, "/api/dead/{id}/{call}", "Retry or drop a call that lost its workers", http.StatusOK, 403, 404, 409, 410, 422), g.settleDead)
}

type callsOut struct {
	Body struct {
		Calls []report.OpenCall `json:"calls"`
	}
}

func (g *Gateway) listCalls(ctx context.Context, in *SessionPath) (*callsOut, error) {
	s, err := g.see(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	out := &callsOut{}
	out.Body.Calls = report.OpenCalls(s.state)
	return out, nil
}

type explainedOut struct {
	Body struct {
		Text string          `json:"text" doc:"as sentences, each with the entry that proves it"`
		Call json.RawMessage `json:"call" doc:"the same as data"`
	}
}

func (g *Gateway) explainCall(ctx context.Context, in *CallPath) (*explainedOut, error) {
	s, err := g.see(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	c, err := g.callsOf(s).Explain(ctx, string(in.Call))
	if errors.Is(err, explain.ErrNoCall) || errors.Is(err, explain.ErrSeveral) {
		return nil, problem.New(http.StatusNotFound, "no_call", err.Error(), "GET …/transcript shows the ID of each call")
	}
	out := &explainedOut{}
	var text strings.Builder
	if err == nil {
		err = render.Explain(&text, render.Style{}, c)
	}
	if err == nil {
		out.Body.Call, err = events.MarshalView(c)
	}
	out.Body.Text = text.String()
	return out, err
}

// CallPath names a call in a request path.
type CallPath struct {
	SessionPath

	Call content.CallID `path:"call" maxLength:"128" doc:"the ID or path of the call"`
}

// callIn returns the ID of a call. The request names the call by its ID or its place.
func callIn(s *loop.State, id content.CallID) content.CallID {
	at, ok := s.CallAt(report.PlaceOf(id))
	if _, is := s.Call(id); is || !ok {
		return id
	}
	return at.ID
}

type cancelCallIn struct {
	CallPath
	CommandKey

	Body struct {
		Reason string `json:"reason,omitempty" maxLength:"1000"`
	}
}

func (g *Gateway) cancelCall(ctx context.Context, in *cancelCallIn) (*acceptedOut, error) {
	s, err := g.drive(ctx, in.ID, "cancel a call of")
	if err != nil {
		return nil, err
	}
	return g.ask(ctx, s, in.CommandKey, commands.Cancel{Scope: commands.ScopeCall, Call: callIn(s.state, in.Call), Reason: in.Body.Reason})
}

type detachIn struct {
	CallPath
	CommandKey
}

func (g *Gateway) detachCall(ctx context.Context, in *detachIn) (*acceptedOut, error) {
	s, err := g.drive(ctx, in.ID, "detach a call of")
	if err != nil {
		return nil, err
	}
	return g.ask(ctx, s, in.CommandKey, commands.DetachCall{Call: callIn(s.state, in.Call)})
}

type deadOut struct {
	Body struct {
		Calls []letter `json:"calls"`
		Aside []aside  `json:"aside" doc:"sessions that crashed nodes, so no node drives them"`
	}
}

// letter is a dead letter: a lost call that a person must decide about.
type letter struct {
	report.Call

	May bool `json:"may_decide"`
}

type aside struct {
	Session content.SessionID `json:"session"`
	Broke   []string          `json:"broke" doc:"the nodes that it crashed"`
}

func (g *Gateway) listDead(ctx context.Context, _ *struct{}) (*deadOut, error) {
	ids, err := g.client.Dead(ctx)
	if err != nil {
		return nil, err
	}
	out := &deadOut{}
	out.Body.Calls, out.Body.Aside = []letter{}, []aside{}
	for _, id := range ids {
		s, err := g.see(ctx, string(id))
		var calls []*report.Call
		if err == nil {
			calls, err = g.callsOf(s).Dead(ctx)
		}
		if err := g.unlisted(ctx, err); err != nil {
			return nil, err
		}
		for _, c := range calls {
			out.Body.Calls = append(out.Body.Calls, letter{*c, person(ctx).MayDecide(s.subject)})
		}
	}
	if !person(ctx).MayOperate() {
		return out, nil
	}
	all, err := g.client.SetAside(ctx)
	for _, t := range all {
		one := aside{Session: t.Session, Broke: []string{}}
		for _, b := range t.Broke {
			one.Broke = append(one.Broke, b.Node)
		}
		out.Body.Aside = append(out.Body.Aside, one)
	}
	return out, err
}

type settleIn struct {
	CallPath
	CommandKey

	Body struct {
		Action    string `json:"action" enum:"retry,drop"`
		MayRepeat bool   `json:"may_repeat,omitempty" doc:"with retry: the call may run twice"`
		Reason    string `json:"reason,omitempty" maxLength:"4000"`
	}
}

func (g *Gateway) settleDead(ctx context.Context, in *settleIn) (*acceptedOut, error) {
	s, err := g.see(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	if !person(ctx).MayDecide(s.subject) {
		return nil, problem.MayNot("decide about calls of this session")
	}
	return g.ask(ctx, s, in.CommandKey, commands.SettleDeadLetter{
		Call: callIn(s.state, in.Call), Retry: in.Body.Action == "retry", MayRepeat: in.Body.MayRepeat, Reason: in.Body.Reason, By: person(ctx).Name,
	})
}
