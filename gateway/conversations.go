package gateway

import (
	"context"
	"net/http"

	"github.com/turnlog/turnlog/client"
	"github.com/turnlog/turnlog/client/report"
	"github.com/turnlog/turnlog/client/seek"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/events/journal"
	"github.com/turnlog/turnlog/gateway/internal/again"
	"github.com/turnlog/turnlog/gateway/internal/openai"
)

// createConversation opens a session without input.
func (g *Gateway) createConversation(w http.ResponseWriter, r *http.Request) error {
	body, err := bodyOf(w, r)
	if err != nil {
		return err
	}
	given, bad := openai.ParseConversationBody(body)
	if bad != nil {
		return bad
	}
	command, err := CommandKey{r.Header.Get("Idempotency-Key")}.command()
	if err != nil {
		return err
	}
	ctx, stop := context.WithTimeout(r.Context(), g.limits.Answer)
	defer stop()
	m := metadata{}
	for k, v := range given {
		m[k] = jsonOf(v)
	}
	o := client.Options{ID: content.SessionID(again.SessionOf(person(r.Context()).Name, command)), Command: command}
	if o.Metadata, err = m.of(person(r.Context()).Name); err != nil {
		return err
	}
	if _, err := g.begin(ctx, given["model"], o); err != nil {
		return err
	}
	return g.writeConversation(w, r, string(o.ID))
}

// conversation returns the session of a request about a conversation.
func (g *Gateway) conversation(r *http.Request) (seen, error) {
	id, err := openai.ParseConversation(r.PathValue("id"))
	if err != nil {
		return seen{}, openai.NewError(http.StatusNotFound, "conversation_not_found", "", err.Error())
	}
	return g.see(r.Context(), string(id))
}

func (g *Gateway) getConversation(w http.ResponseWriter, r *http.Request) error {
	s, err := g.conversation(r)
	if err != nil {
		return err
	}
	return g.writeConversation(w, r, string(s.state.Session))
}

func (g *Gateway) writeConversation(w http.ResponseWriter, r *http.Request, id string) error {
	s, err := g.see(r.Context(), id)
	if err != nil {
		return err
	}
	shown := map[string]string{}
	for _, f := range s.state.Metadata {
		if text := s.state.Metadata.Text(f.Key); text != "" && f.Key != report.MetaOwner && !content.Reserved(f.Key) {
			shown[f.Key] = text
		}
	}
	first, err := g.client.EntryFrom(r.Context(), s.state.Session, 0)
	if err != nil {
		return err
	}
	began := first.Entry.At.Std().Unix()
	writeJSON(w, map[string]any{"id": openai.Conversation(s.state.Session), "object": "conversation", "created_at": began, "metadata": shown})
	return nil
}

// items reads the items of the turns first to last, or stops earlier once enough reports true.
func (g *Gateway) items(ctx context.Context, s seen, first, last int, enough func(*openai.History) bool) (*openai.History, error) {
	h := openai.NewHistory(s.state.Session)
	var at journal.Head
	if first > 1 {
		var err error
		if at, err = g.turnAt(ctx, s, first); err != nil {
			return nil, err
		}
	}
	turn := 0
	for rec, err := range g.shown(ctx, s.state.Session, at, h.Show) {
		if err != nil {
			return nil, err
		}
		if n := h.Turn(); n > turn { // the turns before n are complete
			if turn = n; n > last || enough(h) {
				break
			}
		}
		if rec.Seq >= s.head.Seq {
			break
		}
	}
	return h, nil
}

// turnOfItem returns the turn of an item, which follows from the item's ID.
func (g *Gateway) turnOfItem(ctx context.Context, s seen, param, id string) (int, error) {
	turn, entry := openai.PlaceOfItem(id)
	if entry > 0 {
		rec, err := seek.Entry(ctx, g.client, s.state.Session, s.head, entry)
		if err != nil && !isNotFound(err) {
			return 0, err
		}
		for _, ev := range rec.Entry.Events {
			if e, ok := ev.(events.InputAccepted); ok {
				turn = e.Turn.Number()
			}
		}
	}
	if turn < 1 || turn > s.state.Turns {
		return 0, openai.NoItem(param, id)
	}
	return turn, nil
}

func (g *Gateway) listItems(w http.ResponseWriter, r *http.Request) error {
	p, bad := openai.ParsePaging(r.URL.Query())
	if bad != nil {
		return bad
	}
	s, err := g.conversation(r)
	if err != nil {
		return err
	}
	first, last := 1, s.state.Turns
	if p.After() != "" {
		if last, err = g.turnOfItem(r.Context(), s, "after", p.After()); err != nil {
			return err
		}
	}
	if p.Ascending() {
		first, last = last, s.state.Turns
		if p.After() == "" {
			first = 1
		}
	}
	var h *openai.History
	for turns := p.Limit(); ; turns *= 2 { // most turns have at least two items
		if !p.Ascending() {
			first = max(1, last-turns/2)
		}
		if h, err = g.items(r.Context(), s, first, last, func(h *openai.History) bool { return p.Ascending() && p.Full(h) }); err != nil {
			return err
		}
		if p.Ascending() || first == 1 || p.Full(h) {
			break
		}
	}
	page, bad := p.Of(h)
	if bad != nil {
		return bad
	}
	writeJSON(w, page)
	return nil
}

func (g *Gateway) getItem(w http.ResponseWriter, r *http.Request) error {
	s, err := g.conversation(r)
	if err != nil {
		return err
	}
	id := r.PathValue("item")
	turn, err := g.turnOfItem(r.Context(), s, "", id)
	if err != nil {
		return err
	}
	h, err := g.items(r.Context(), s, turn, turn, func(*openai.History) bool { return false })
	if err != nil {
		return err
	}
	item := h.Item(id)
	if item == nil {
		return openai.NoItem("", id)
	}
	writeJSON(w, item)
	return nil
}

// never returns a handler that refuses requests to change or delete items, since a journal only grows.
func (g *Gateway) never(what, do string) func(http.ResponseWriter, *http.Request) error {
	return func(_ http.ResponseWriter, r *http.Request) error {
		if _, err := g.conversation(r); err != nil {
			return err
		}
		return openai.NewError(http.StatusMethodNotAllowed, "append_only", "", what+": a conversation is a session, whose journal is append-only. "+do)
	}
}
