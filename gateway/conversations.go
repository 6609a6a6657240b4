package gateway

import (
	"net/http"
	"slices"
	"strconv"

	"github.com/turnlog/turnlog/client"
	"github.com/turnlog/turnlog/client/report"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/gateway/internal/openai"
)

// createConversation opens a session without input.
func (g *Gateway) createConversation(w http.ResponseWriter, r *http.Request) error {
	body, err := bodyOf(w, r)
	if err != nil {
		return err
	}
	said, bad := openai.ParseConversationBody(body)
	if bad != nil {
		return bad
	}
	command, err := CommandKey{r.Header.Get("Idempotency-Key")}.command()
	if err != nil {
		return err
	}
	m := metadata{}
	for k, v := range said {
		m[k] = jsonOf(v)
	}
	o := client.Options{ID: content.SessionID(sessionOf(person(r.Context()).Name, command)), Command: command}
	if o.Metadata, err = m.of(person(r.Context()).Name); err != nil {
		return err
	}
	if _, err := g.begin(r.Context(), said["model"], o); err != nil {
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
	said := map[string]string{}
	for _, f := range s.state.Metadata {
		if text := s.state.Metadata.Text(f.Key); text != "" && f.Key != report.MetaOwner && !content.Reserved(f.Key) {
			said[f.Key] = text
		}
	}
	var began int64
	for rec, err := range g.client.Records(r.Context(), s.state.Session, 0) {
		if err != nil {
			return err
		}
		began = rec.Entry.At.Std().Unix()
		break
	}
	writeJSON(w, map[string]any{"id": openai.Conversation(s.state.Session), "object": "conversation", "created_at": began, "metadata": said})
	return nil
}

// items returns the items of a conversation, the oldest first.
func (g *Gateway) items(r *http.Request) ([]map[string]any, error) {
	s, err := g.conversation(r)
	if err != nil {
		return nil, err
	}
	h := openai.NewHistory(s.state.Session)
	for _, err := range g.shown(r.Context(), s.state.Session, h.Show) {
		if err != nil {
			return nil, err
		}
	}
	return h.Items(), nil
}

func (g *Gateway) listItems(w http.ResponseWriter, r *http.Request) error {
	p, bad := openai.ParsePaging(r.URL.Query())
	if bad != nil {
		return bad
	}
	items, err := g.items(r)
	if err != nil {
		return err
	}
	page, bad := p.Of(items)
	if bad != nil {
		return bad
	}
	writeJSON(w, page)
	return nil
}

func (g *Gateway) getItem(w http.ResponseWriter, r *http.Request) error {
	items, err := g.items(r)
	if err != nil {
		return err
	}
	i := slices.IndexFunc(items, func(o map[string]any) bool { return o["id"] == r.PathValue("item") })
	if i < 0 {
		return openai.NewError(http.StatusNotFound, "item_not_found", "", "the conversation has no item "+strconv.Quote(r.PathValue("item")))
	}
	writeJSON(w, items[i])
	return nil
}

// never returns what answers a request that would change what a journal says.
func (g *Gateway) never(what, do string) func(http.ResponseWriter, *http.Request) error {
	return func(_ http.ResponseWriter, r *http.Request) error {
		if _, err := g.conversation(r); err != nil {
			return err
		}
		return openai.NewError(http.StatusMethodNotAllowed, "append_only", "", what+": a conversation is a session, whose journal only grows. "+do)
	}
}
