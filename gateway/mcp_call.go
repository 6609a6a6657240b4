package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"go.uber.org/zap"

	"github.com/turnlog/turnlog/client"
	"github.com/turnlog/turnlog/commands"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/gateway/internal/again"
	"github.com/turnlog/turnlog/gateway/internal/feed"
	"github.com/turnlog/turnlog/gateway/internal/mcptool"
	"github.com/turnlog/turnlog/gateway/internal/openai"
	"github.com/turnlog/turnlog/gateway/internal/problem"
	"github.com/turnlog/turnlog/gateway/internal/stream"
)

// mcpTurn is the turn that a tool call follows.
type mcpTurn struct {
	feed.Following

	id       content.SessionID
	n        int
	reported uint64 // the client knows the progress up to this entry
	known    uint64 // questions before this entry are no longer open
	later    bool   // a person postponed a question
}

// mcpCall follows a turn until it ends, or waits for a decision that this client cannot make.
func (g *Gateway) mcpCall(ctx context.Context, model string, req *mcp.CallToolRequest, in mcptool.Input) (res *mcp.CallToolResult, data mcptool.Result, err error) {
	t, err := g.mcpBegin(ctx, model, req, in)
	if err != nil {
		return nil, data, err
	}
	sent := 0
	tell := func(text string) {
		if token := req.Params.GetProgressToken(); token != nil {
			sent++
			_ = req.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{ProgressToken: token, Progress: float64(sent), Message: text}) // the client may be gone
		}
	}
	tell("session " + string(t.id) + ", turn " + strconv.Itoa(t.n))
	for {
		c := mcptool.NewCall(t.id, t.n, t.reported, t.known)
		if err := g.fold(ctx, t.Following, func(ev stream.Event) { c.Show(ev, tell) }, c.Done); err != nil {
			return nil, data, g.mcpLeave(ctx, t, err)
		}
		asks := len(c.Open()) > 0 && !t.later && mcptool.AsksForms(req.Session)
		if asks {
			s, err := g.see(ctx, string(t.id))
			if err != nil {
				return nil, data, err
			}
			asks = person(ctx).MayDecide(s.subject)
		}
		switch {
		case !asks:
			text, data, failed := c.Result()
			return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: text}}, IsError: failed}, data, nil
		case req.Session.InitializeParams().ProtocolVersion >= mcpStateless:
			return mcpAsks(t, c), data, nil
		}
		if err := g.mcpAsk(ctx, req.Session, &t, c); err != nil {
			return nil, data, g.mcpLeave(ctx, t, err)
		}
	}
}

// mcpBegin carries out a call: it starts a turn, answers a turn's questions, or joins the latest turn.
func (g *Gateway) mcpBegin(ctx context.Context, model string, req *mcp.CallToolRequest, in mcptool.Input) (mcpTurn, error) {
	ctx, stop := context.WithTimeout(ctx, g.limits.Answer)
	defer stop()
	input := []content.Item{content.UserText(in.Prompt)}
	switch {
	case req.Params.RequestState != "":
		return g.mcpAnswer(ctx, req.Params)
	case strings.TrimSpace(in.Prompt) == "" && in.Session == "":
		return mcpTurn{}, problem.Unprocessable(commands.ReasonEmptyInput, "there is neither a prompt nor a session", "give a prompt, a session or both")
	case in.Session == "":
		command, err := CommandKey{}.command()
		if err != nil {
			return mcpTurn{}, err
		}
		a, err := g.begin(ctx, model, client.Options{ID: content.SessionID(again.SessionOf(person(ctx).Name, command)), Input: input, Command: command})
		return mcpTurn{Following: a.Following, id: a.id.Session, n: a.id.Turn}, err
	}
	s, err := g.see(ctx, in.Session)
	if err != nil {
		return mcpTurn{}, err
	}
	if err := fits(s, model, ""); err != nil {
		return mcpTurn{}, err
	}
	if strings.TrimSpace(in.Prompt) != "" {
		a, err := g.startTurn(ctx, s, &openai.Request{Input: input}, CommandKey{}, 0)
		return mcpTurn{Following: a.Following, id: a.id.Session, n: a.id.Turn}, err
	}
	if s.state.Turns == 0 {
		return mcpTurn{}, problem.Unprocessable(commands.ReasonEmptyInput, "the session has no turn yet", "give a prompt")
	}
	return g.mcpJoin(ctx, s, s.state.Turns, s.head.Seq)
}

// mcpJoin returns the n-th turn of a session. The client already knows its progress up to the entry reported.
func (g *Gateway) mcpJoin(ctx context.Context, s seen, n int, reported uint64) (mcpTurn, error) {
	at, err := g.turnAt(ctx, s, n)
	return mcpTurn{Following: g.from(s.state.Session, at), id: s.state.Session, n: n, reported: reported, known: s.head.Seq}, err
}

func elicit(a events.Approval) *mcp.ElicitParams {
	f := mcptool.FormOf(a)
	return &mcp.ElicitParams{Mode: "form", Message: f.Message, RequestedSchema: f.Schema}
}

// mcpAsks ends a request with the questions that its turn waits for. The client repeats the request with the answers.
func mcpAsks(t mcpTurn, c *mcptool.Call) *mcp.CallToolResult {
	asks, st := mcp.InputRequestMap{}, mcptool.State{Session: t.id, Turn: t.n, Told: c.Entry(), Asked: map[content.ApprovalID]string{}}
	for _, a := range c.Open() {
		asks[string(a.ID)], st.Asked[a.ID] = elicit(a), a.Digest
	}
	return &mcp.CallToolResult{InputRequests: asks, RequestState: jsonText(st)}
}

// mcpAnswer sends the client's answers to the session as decisions.
func (g *Gateway) mcpAnswer(ctx context.Context, p *mcp.CallToolParamsRaw) (mcpTurn, error) {
	var st mcptool.State
	if err := json.Unmarshal([]byte(p.RequestState), &st); err != nil {
		return mcpTurn{}, problem.Unprocessable("bad_state", "the requestState is not one that the gateway sent", "send it unchanged, or call again with the session")
	}
	s, err := g.see(ctx, string(st.Session))
	if err != nil {
		return mcpTurn{}, err
	}
	later := false
	for _, a := range s.state.PendingApprovals() {
		answer, ok := p.InputResponses[string(a.ID)].(*mcp.ElicitResult)
		if !ok || st.Asked[a.ID] != a.Digest { // ask again: there is no answer, or the arguments changed
			continue
		}
		put, err := g.mcpDecide(ctx, st.Session, a, answer)
		if err != nil {
			return mcpTurn{}, err
		}
		later = later || put
	}
	if s, err = g.see(ctx, string(st.Session)); err != nil {
		return mcpTurn{}, err
	}
	t, err := g.mcpJoin(ctx, s, st.Turn, st.Told)
	if problem.Is(err, http.StatusNotFound) {
		err = problem.Unprocessable("bad_state", "the session has no such turn", "call again with the session and without a prompt")
	}
	t.later = later
	return t, err
}

// mcpAsk asks the client's person each open question in turn, over the MCP session. It stops when one is postponed.
func (g *Gateway) mcpAsk(ctx context.Context, ss *mcp.ServerSession, t *mcpTurn, c *mcptool.Call) error {
	for _, a := range c.Open() {
		s, err := g.see(ctx, string(t.id))
		if err != nil {
			return err
		}
		if _, pending := pendingAbout(s.state.PendingApprovals(), a.ID); !pending {
			continue
		}
		answer, err := g.mcpElicit(ctx, ss, s, a)
		if err != nil {
			return err
		}
		if answer == nil {
			continue
		}
		if t.later, err = g.mcpDecide(ctx, t.id, a, answer); err != nil {
			return err
		}
		if t.later {
			break
		}
	}
	s, err := g.see(ctx, string(t.id))
	if err != nil {
		return err
	}
	later := t.later
	*t, err = g.mcpJoin(ctx, s, t.n, c.Entry())
	t.later = later
	return err
}

// mcpElicit asks about an approval. It returns nil if another client decides it first. No answer postpones the question.
func (g *Gateway) mcpElicit(ctx context.Context, ss *mcp.ServerSession, s seen, a events.Approval) (*mcp.ElicitResult, error) {
	asking, stop := context.WithTimeout(ctx, mcpIdle)
	decided, done := false, make(chan struct{})
	go func() {
		defer close(done)
		for u, err := range g.follows.FollowFrom(asking, s.state.Session, s.head) {
			if err != nil || u.Record == nil {
				continue
			}
			for _, ev := range u.Record.Entry.Events {
				if e, ok := ev.(events.ApprovalResolved); ok && e.Approval == a.ID {
					decided = true
					stop()
				}
			}
		}
	}()
	answer, err := ss.Elicit(asking, elicit(a))
	stop()
	<-done
	switch {
	case decided:
		return nil, nil //nolint:nilnil // no answer is needed
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case err != nil: // the client cannot ask, or its answer is invalid
		return &mcp.ElicitResult{Action: "cancel"}, nil //nolint:nilerr // nothing is decided
	}
	return answer, nil
}

// mcpDecide sends a person's answer as a decision and reports whether they postponed it. An earlier decision by
// another client stands.
func (g *Gateway) mcpDecide(ctx context.Context, id content.SessionID, a events.Approval, answer *mcp.ElicitResult) (later bool, err error) {
	ctx, stop := context.WithTimeout(ctx, g.limits.Answer)
	defer stop()
	d, decided, err := mcptool.AnswerOf(answer.Action, answer.Content)
	if err != nil {
		return false, problem.Unprocessable("bad_answer", err.Error(), "give an answer that fits the requestedSchema")
	}
	if !decided {
		return true, nil
	}
	in := &decideIn{ApprovalPath: ApprovalPath{SessionPath: SessionPath{string(id)}, Approval: a.ID}}
	in.Body.Decision, in.Body.Always, in.Body.Reason, in.Body.Shown = "deny", d.Always, d.Reason, a.Digest
	if d.Approve {
		in.Body.Decision = "approve"
	}
	_, err = g.decide(ctx, in)
	if err != nil && g.problemOf(ctx, err).Status == http.StatusConflict {
		return false, nil
	}
	return false, err
}

// mcpLeave ends a call before its turn. It cancels the turn if the client canceled the request, or closed the
// connection of a request without a session. The turn continues if the gateway stops or the MCP session ends.
func (g *Gateway) mcpLeave(ctx context.Context, t mcpTurn, err error) error {
	switch cause := context.Cause(ctx); {
	case errors.Is(cause, errClosing):
		return problem.New(http.StatusServiceUnavailable, "reconnect", "this gateway is stopping, and session "+string(t.id)+" goes on",
			"call again with the session and without a prompt, at this or another gateway")
	case cause != context.Canceled: //nolint:errorlint // other causes wrap it
		return err
	}
	ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), g.limits.Answer)
	defer stop()
	in := &cancelIn{SessionPath: SessionPath{string(t.id)}}
	in.Body.Turn, in.Body.Reason = content.TurnIDFor(t.n), "the client cancelled its call"
	if _, failed := g.cancelTurn(ctx, in); failed != nil {
		g.log.Warn("turn not cancelled", zap.Error(failed))
	}
	return err
}
