package openai

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/gateway/internal/stream"
)

// History projects a stream that begins with the session onto the items of its conversation. Items of answers have the IDs
// that they have in responses.
type History struct {
	session content.SessionID
	said    []func() map[string]any // what there is so far, as it is when it is asked for
	turn    *Responses              // the last one; nil: none
	has     map[string]bool
}

// NewHistory returns the projection of a session that has no entries yet.
func NewHistory(s content.SessionID) *History { return &History{session: s, has: map[string]bool{}} }

// Items returns the items so far, the oldest first.
func (h *History) Items() (all []map[string]any) {
	for _, f := range h.said {
		all = append(all, f())
	}
	return all
}

// allParts is a part that no turn has, so that a projection goes through all of them.
const allParts = 1 << 20

// Show takes an event of the stream.
func (h *History) Show(ev stream.Event) {
	h.follow(ev)
	if ev.Entry == nil {
		return
	}
	for i, e := range ev.Entry.Entry.Events {
		switch e := any(e).(type) {
		case events.InputAccepted:
			h.hear(e, fmt.Sprintf("msg_in_%d_%d", ev.Entry.Seq, i))
		case events.TurnStarted:
			h.turn = NewResponses(ID{h.session, e.Turn.Number(), allParts}, "", -1)
			h.follow(ev)
		}
	}
}

// follow takes what a turn says.
func (h *History) follow(ev stream.Event) {
	if h.turn == nil {
		return
	}
	h.turn.Show(ev, func(Event) {})
	for _, it := range h.turn.output {
		if !h.has[it.id] { // a question that stays open is in several responses
			h.has[it.id] = true
			h.said = append(h.said, it.json)
		}
	}
}

// hear takes what users say.
func (h *History) hear(e events.InputAccepted, id string) {
	for i, it := range e.Items {
		if it.Kind != content.User {
			continue
		}
		m := object{"type": messageKind, "id": fmt.Sprintf("%s_%d", id, i), "role": "user", "status": completed, "content": inputOf(it)}
		h.said = append(h.said, func() map[string]any { return m })
	}
}

// inputOf returns the parts of what a user said.
func inputOf(it content.Item) []object {
	out := []object{}
	for _, p := range it.Parts {
		switch {
		case p.Kind == content.TextKind:
			out = append(out, object{"type": "input_text", "text": p.Text})
		case p.Media != nil:
			url := p.Media.URI
			if len(p.Media.Bytes) > 0 {
				url = "data:" + p.Media.MIME + ";base64," + base64.StdEncoding.EncodeToString(p.Media.Bytes)
			}
			if strings.HasPrefix(p.Media.MIME, "image/") {
				out = append(out, object{"type": "input_image", "image_url": url, "detail": "auto"})
			} else {
				out = append(out, object{"type": "input_file", "filename": p.Name, "file_data": url})
			}
		}
	}
	return out
}

// ParseConversationBody reads the metadata of a conversation that is to be created.
func ParseConversationBody(body []byte) (map[string]string, *Error) {
	var in struct {
		Items    []json.RawMessage `json:"items"`
		Metadata map[string]string `json:"metadata"`
	}
	if len(body) > 0 {
		if err := json.Unmarshal(body, &in); err != nil {
			return nil, NewError(http.StatusBadRequest, "invalid_json", "", "the body is an object with metadata, whose values are texts: "+err.Error())
		}
	}
	if len(in.Items) > 0 {
		return nil, NewError(http.StatusBadRequest, "unsupported_parameter", "items", "items: send them as the input of a response without a conversation, which opens one")
	}
	return in.Metadata, nil
}

// Paging is which items of a conversation are asked for.
type Paging struct {
	after string
	limit int
	asc   bool
}

// The number of items of a page, as at OpenAI.
const (
	defaultItems = 20
	maxItems     = 100
)

// ParsePaging reads what a query asks for.
func ParsePaging(q url.Values) (Paging, *Error) {
	p := Paging{after: q.Get("after"), limit: defaultItems, asc: q.Get("order") == "asc"}
	if text := q.Get("limit"); text != "" {
		p.limit, _ = strconv.Atoi(text) // 0 is refused
	}
	switch {
	case p.limit < 1 || p.limit > maxItems:
		return p, bad("limit", "it is 1 to "+strconv.Itoa(maxItems))
	case !p.asc && q.Get("order") != "" && q.Get("order") != "desc":
		return p, bad("order", "it is asc or desc")
	}
	return p, nil
}

// Of returns the page of items, which come with the oldest first.
func (p Paging) Of(items []map[string]any) (map[string]any, *Error) {
	if !p.asc {
		slices.Reverse(items)
	}
	at := slices.IndexFunc(items, func(o map[string]any) bool { return o["id"] == p.after })
	if p.after != "" && at < 0 {
		return nil, bad("after", "the conversation has no item "+strconv.Quote(p.after))
	}
	rest := items[at+1:]
	part := rest[:min(p.limit, len(rest))]
	page := object{"object": "list", "data": append([]object{}, part...), "first_id": nil, "last_id": nil, "has_more": len(part) < len(rest)}
	if n := len(part); n > 0 {
		page["first_id"], page["last_id"] = part[0]["id"], part[n-1]["id"]
	}
	return page, nil
}
