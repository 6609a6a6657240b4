package gateway

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/turnlog/turnlog/audit/statement"
	"github.com/turnlog/turnlog/client"
	"github.com/turnlog/turnlog/client/report"
	"github.com/turnlog/turnlog/client/seek"
	"github.com/turnlog/turnlog/commands"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/events/journal"
	"github.com/turnlog/turnlog/gateway/internal/again"
	"github.com/turnlog/turnlog/gateway/internal/feed"
	"github.com/turnlog/turnlog/gateway/internal/openai"
	"github.com/turnlog/turnlog/gateway/internal/problem"
	"github.com/turnlog/turnlog/gateway/internal/stream"
	"github.com/turnlog/turnlog/loop"
)

// asked is the result of a request: the response or completion, and the session to follow.
type asked struct {
	feed.Following

	id    openai.ID
	model string
}

// createResponse starts a turn, or decides a turn's questions, and answers with the response or its stream.
func (g *Gateway) createResponse(w http.ResponseWriter, r *http.Request) error {
	body, err := bodyOf(w, r)
	if err != nil {
		return err
	}
	req, bad := openai.ParseResponse(body)
	if bad != nil {
		return bad
	}
	a, err := g.respond(r.Context(), req, CommandKey{r.Header.Get("Idempotency-Key")})
	if err != nil {
		return err
	}
	res := openai.NewResponses(a.id, a.model, -1)
	if req.Stream {
		g.feeds.Serve(r.Context(), w, a.Following, responses{Responses: res})
		return nil
	}
	show := func(ev stream.Event) { res.Show(ev, func(openai.Event) {}) }
	if err := g.fold(r.Context(), a.Following, show, func() bool { return res.Over() || req.Background && res.Begun() }); err != nil {
		return err
	}
	writeJSON(w, res.Response())
	return nil
}

// respond carries out a request for a response.
func (g *Gateway) respond(ctx context.Context, req *openai.Request, key CommandKey) (asked, error) {
	ctx, stop := context.WithTimeout(ctx, g.limits.Answer)
	defer stop()
	switch {
	case req.Previous != "":
		id, err := openai.ParseID(req.Previous)
		if err != nil {
			return asked{}, noResponse(req.Previous)
		}
		s, err := g.see(ctx, string(id.Session))
		if err != nil {
			return asked{}, err
		}
		if len(req.Decisions) > 0 {
			return g.decideAs(ctx, s, id, req, key)
		}
		return g.startTurn(ctx, s, req, key, id.Turn)
	case req.Conversation != "":
		id, err := openai.ParseConversation(req.Conversation)
		if err != nil {
			return asked{}, openai.NewError(http.StatusNotFound, "conversation_not_found", "conversation", err.Error())
		}
		s, err := g.see(ctx, string(id))
		if err != nil {
			return asked{}, err
		}
		return g.startTurn(ctx, s, req, key, 0)
	}
	command, err := key.command()
	if err != nil {
		return asked{}, err
	}
	return g.begin(ctx, req.Model, opening(req, again.SessionOf(person(ctx).Name, command), command))
}

// opening returns the options of a request's new session.
func opening(req *openai.Request, id, command string) client.Options {
	return client.Options{ID: content.SessionID(id), SystemPrompt: req.System, Transcript: req.History, Input: req.Input, Command: command}
}

// begin opens a session with its first turn. model is a name from GET /v1/models.
func (g *Gateway) begin(ctx context.Context, model string, o client.Options) (asked, error) {
	p := person(ctx)
	config, err := g.configFor(ctx, model)
	if err != nil {
		return asked{}, err
	}
	agent := ""
	if config.Agent != nil {
		agent = config.Agent.Name
	}
	if !p.MayOpen(agent) {
		return asked{}, problem.MayNot("open this session")
	}
	o.Config, o.Metadata = config, o.Metadata.With(report.MetaOwner, p.Name)
	if _, err := g.start(ctx, p, o); err != nil {
		return asked{}, err
	}
	return asked{g.from(o.ID, journal.Head{}), openai.ID{Session: o.ID, Turn: 1, Part: 1}, cmp.Or(agent, config.Model)}, nil
}

// configFor returns the configuration of a session for a name from GET /v1/models: an agent or a model.
func (g *Gateway) configFor(ctx context.Context, name string) (events.Config, error) {
	d := g.cfg.Defaults
	if name == "" || name == d.Model {
		return d, nil
	}
	all, err := g.client.Agents(ctx)
	if err != nil {
		return events.Config{}, err
	}
	for _, a := range all {
		if a.Name == name {
			return g.configOf("", name, "")
		}
	}
	if c, err := g.configOf(name, "", ""); err == nil && strings.Contains(name, ":") {
		return c, nil
	}
	return events.Config{}, problem.New(http.StatusNotFound, "model_not_found", "there is no agent or model "+strconv.Quote(name), "GET /v1/models lists them")
}

// fits checks that the model and the system prompt of a request are those of the session.
func fits(s seen, model, system string) error {
	if name := answersOf(s.state); model != "" && model != name {
		return problem.New(http.StatusBadRequest, "model_differs", "the session runs "+name, "name that one, or open another session")
	}
	is := func(it content.Item) bool { return it.Kind == content.System && it.Text() == system }
	if system != "" && !slices.ContainsFunc(s.state.Transcript, is) {
		return problem.New(http.StatusBadRequest, "instructions_differ", "the session has another system prompt, which cannot change", "leave it out, or open another session")
	}
	return nil
}

// startTurn starts the next turn of a session. If turn is not 0, it must be the number of the latest turn.
func (g *Gateway) startTurn(ctx context.Context, s seen, req *openai.Request, key CommandKey, turn int) (asked, error) {
	if !person(ctx).MayDrive(s.subject) {
		return asked{}, problem.MayNot("send input to a session that you did not open")
	}
	id := openai.ID{Session: s.state.Session, Part: 1}
	model := answersOf(s.state)
	if key.Key != "" { // a retry gets its original turn, no matter how old
		n, at, err := g.causedBy(ctx, s, key.Key, req.Input)
		if err != nil {
			return asked{}, err
		}
		if id.Turn = n; n > 0 {
			return asked{g.from(id.Session, at), id, model}, nil
		}
	}
	if err := fits(s, req.Model, req.System); err != nil {
		return asked{}, err
	}
	switch {
	case turn > s.state.Turns:
		return asked{}, noResponse(req.Previous)
	case turn > 0 && turn < s.state.Turns:
		return asked{}, openai.NewError(http.StatusConflict, "not_latest", "previous_response_id", fmt.Sprintf(
			"the session has a later turn: continue %s instead", openai.ID{Session: id.Session, Turn: s.state.Turns, Part: 1}))
	}
	command, err := key.command()
	if err != nil {
		return asked{}, err
	}
	turn, f, err := g.submit(ctx, s, command, req.Input)
	id.Turn = turn
	return asked{f, id, model}, err
}

// submit starts a turn with input. It returns the turn's number, and the session to follow from before the turn.
func (g *Gateway) submit(ctx context.Context, s seen, command string, input []content.Item) (turn int, f feed.Following, err error) {
	id := s.state.Session
	submit := commands.SubmitInput{Items: input, OnBusy: events.Reject}
	now, err := g.askIn(ctx, s, command, submit)
	if err != nil {
		return 0, f, err
	}
	rec, err := g.caused(ctx, s, now, command, submit)
	if err != nil {
		return 0, f, err
	}
	if turn, _ = startedIn(rec.Entry); turn == 0 {
		return 0, f, problem.New(http.StatusConflict, commands.ReasonBusy, "another command of the session comes first", "wait for its turn to end, then send the request again")
	}
	return turn, g.fromCursor(id, s.head, cursorOf(s)), nil
}

// startedIn returns the number of the turn that an entry starts, if it starts one.
func startedIn(e events.Entry) (int, bool) {
	for _, ev := range e.Events {
		if t, ok := ev.(events.TurnStarted); ok {
			return t.Turn.Number(), true
		}
	}
	return 0, false
}

// entryOf returns the entry that a command caused; 0: none.
func entryOf(s *loop.State, command string) uint64 {
	if i := slices.Index(s.Causes, command); i >= 0 { // one of the latest entries
		return s.Seq - uint64(len(s.Causes)-1-i) //nolint:gosec // an index
	}
	return commands.Recall(&s.Asks, command)
}

// caused reads the entry that a command caused. before and now are the session before and after the command was sent.
// The record has no sequence number if there is no such entry. If another command has the same ID, caused returns a
// problem.
func (g *Gateway) caused(ctx context.Context, before, now seen, command string, c commands.Command) (rec journal.Record, err error) {
	entry := entryOf(now.state, command)
	if entry > 0 && entry <= before.head.Seq {
		rec, err = seek.Entry(ctx, g.client, now.state.Session, now.head, entry)
	}
	if entry > before.head.Seq {
		for rec, err = range g.client.RecordsFrom(ctx, now.state.Session, before.head) {
			if err != nil || rec.Seq == entry {
				break
			}
		}
	}
	if err == nil && rec.Seq == entry && !again.Fits(rec.Entry, c, person(ctx).Name) {
		err = problem.KeyUsed()
	}
	return rec, err
}

// causedBy returns the turn that input started, and the head before it. The turn is 0 if there is none.
func (g *Gateway) causedBy(ctx context.Context, s seen, command string, input []content.Item) (turn int, at journal.Head, err error) {
	rec, err := g.caused(ctx, s, s, command, commands.SubmitInput{Items: input})
	if err != nil || rec.Seq == 0 {
		return 0, at, err
	}
	turn, _ = startedIn(rec.Entry)
	return turn, seek.Before(rec), nil
}

// decideAs decides the questions of a response. The next response is the next part of the turn.
func (g *Gateway) decideAs(ctx context.Context, s seen, id openai.ID, req *openai.Request, key CommandKey) (asked, error) {
	if !person(ctx).MayDecide(s.subject) {
		return asked{}, problem.MayNot("decide what this session asks")
	}
	command, err := key.command()
	if err != nil {
		return asked{}, err
	}
	before, err := g.responseIn(ctx, s, id, 0)
	if err != nil {
		return asked{}, err
	}
	for i, d := range req.Decisions {
		one := command
		if i < len(req.Decisions)-1 {
			one += "-" + strconv.Itoa(i)
		}
		v := commands.ResolveApproval{Approval: d.Approval, Approve: d.Approve, Reason: d.Reason, By: person(ctx).Name}
		if a, pending := pendingAbout(s.state.PendingApprovals(), d.Approval); pending {
			if was, ok := before.Asks(d.Approval); ok { // another person may have changed the arguments
				a.Input = was.Input
			}
			v.Shown = statement.Shown(a)
		}
		if _, err := g.ask(ctx, s, CommandKey{one}, v); err != nil {
			return asked{}, err
		}
	}
	res := openai.NewResponses(openai.ID{Session: id.Session, Turn: id.Turn, Part: 1 << 20}, "", 0)
	for rec, err := range g.shown(ctx, id.Session, before.at, func(ev stream.Event) { res.Show(ev, func(openai.Event) {}) }) {
		if err != nil {
			return asked{}, err
		}
		if rec.Entry.Cause == command {
			id.Part = res.Part()
			return asked{g.from(id.Session, before.at), id, answersOf(s.state)}, nil
		}
	}
	return asked{}, errors.New("the decision is not in the journal")
}

// completeChat starts a turn with the user's last message.
func (g *Gateway) completeChat(w http.ResponseWriter, r *http.Request) error {
	body, err := bodyOf(w, r)
	if err != nil {
		return err
	}
	req, bad := openai.ParseChat(body)
	if bad != nil {
		return bad
	}
	a, err := g.chat(r.Context(), w.Header(), req, openai.ChatKey(r.Header), CommandKey{r.Header.Get("Idempotency-Key")})
	if err != nil {
		return err
	}
	w.Header().Set("X-Turnlog-Session", string(a.id.Session))
	c := openai.NewChat(a.id.Session, a.id.Turn, a.model)
	if req.Stream {
		g.feeds.Serve(r.Context(), w, a.Following, chat{Chat: c, usage: req.Usage})
		return nil
	}
	over := false
	show := func(ev stream.Event) { over = c.Show(ev, func(map[string]any) {}) || over }
	if err := g.fold(r.Context(), a.Following, show, func() bool { return over }); err != nil {
		return err
	}
	if failed := c.Failed(); failed != nil {
		return failed
	}
	writeJSON(w, c.Completion())
	return nil
}

func (g *Gateway) chat(ctx context.Context, h http.Header, req *openai.Request, chat string, key CommandKey) (asked, error) {
	ctx, stop := context.WithTimeout(ctx, g.limits.Answer)
	defer stop()
	command, err := key.command()
	if err != nil {
		return asked{}, err
	}
	if chat == "" { // without a chat, only the last message counts
		if n := len(req.History); n > 0 {
			h.Set("X-Turnlog-Dropped-Messages", strconv.Itoa(n))
		}
		req.History = nil
		return g.begin(ctx, req.Model, opening(req, again.SessionOf(person(ctx).Name, command), command))
	}
	id := again.SessionOf(person(ctx).Name, "chat\x00"+chat)
	s, err := g.see(ctx, id)
	if problem.Is(err, http.StatusNotFound) {
		return g.begin(ctx, req.Model, opening(req, id, command))
	}
	if err != nil {
		return asked{}, err
	}
	if s.subject.Owner != person(ctx).Name { // a person who sees all sessions must not continue another person's chat by mistake
		return asked{}, problem.MayNot("continue a chat in a session that you did not open")
	}
	if key.Key == "" && s.state.Rewritten == 0 && !slices.Equal(stream.SaidBy(req.History), stream.SaidBy(s.state.Transcript)) {
		return asked{}, openai.NewError(http.StatusConflict, "history_differs", "messages",
			"the user messages of the chat differ from those of its session, as after an edit: history cannot be changed, so begin a new chat")
	}
	return g.startTurn(ctx, s, req, key, 0)
}
