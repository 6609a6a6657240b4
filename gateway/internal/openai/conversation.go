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

// History projects a stream that begins before a turn onto the items of a conversation. Items of replies have the same IDs
// as in responses.
type History struct {
	session content.SessionID
	items   []shownItem
	turn    *Responses // the last one; nil: none
	has     map[string]bool
}

// shownItem is an item of the conversation.
type shownItem struct {
	id   string
	json func() map[string]any // returns its current state
}

// NewHistory returns the projection of a session onto the items that follow.
func NewHistory(s content.SessionID) *History { return &History{session: s, has: map[string]bool{}} }

// Turn returns the number of the last turn, or 0.
func (h *History) Turn() int {
	if h.turn == nil {
		return 0
	}
	return h.turn.id.Turn
}

// Item returns the item with an ID; nil: there is none.
func (h *History) Item(id string) map[string]any {
	if i := h.index(id); i >= 0 {
		return h.items[i].json()
	}
	return nil
}

func (h *History) index(id string) int {
	return slices.IndexFunc(h.items, func(s shownItem) bool { return s.id == id })
}

// allParts is a part number that no turn reaches, so that a projection goes through all parts.
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
			h.onInput(e, fmt.Sprintf(inputPrefix+"%d_%d", ev.Entry.Seq, i))
		case events.TurnStarted:
			h.turn = NewResponses(ID{h.session, e.Turn.Number(), allParts}, "", -1)
			h.follow(ev)
		}
	}
}

// follow handles an event of a turn.
func (h *History) follow(ev stream.Event) {
	if h.turn == nil {
		return
	}
	h.turn.Show(ev, func(Event) {})
	for _, it := range h.turn.output {
		if !h.has[it.id] { // a question that stays open is in several responses
			h.has[it.id] = true
			h.items = append(h.items, shownItem{it.id, it.json})
		}
	}
}

// inputPrefix is the prefix of the ID of a user's item. The number of its entry follows.
const inputPrefix = "msg_in_"

// onInput handles the users' input.
func (h *History) onInput(e events.InputAccepted, id string) {
	for i, it := range e.Items {
		if it.Kind != content.User {
			continue
		}
		m := object{"type": messageKind, "id": fmt.Sprintf("%s_%d", id, i), "role": "user", "status": completed, "content": inputOf(it)}
		h.items = append(h.items, shownItem{fmt.Sprint(m["id"]), func() map[string]any { return m }})
	}
}

// PlaceOfItem returns the turn of an item, or the entry that has it. Both are 0 if the text is not the ID of an item.
func PlaceOfItem(id string) (turn int, entry uint64) {
	if rest, ok := strings.CutPrefix(id, inputPrefix); ok {
		text, _, _ := strings.Cut(rest, "_")
		entry, _ = strconv.ParseUint(text, 10, 64)
		return 0, entry
	}
	kind, rest, _ := strings.Cut(id, "_")
	if kind == "mcpr" { // the place of the call that it asks about
		_, _ = fmt.Sscanf(rest, "t%d-", &turn)
		return max(turn, 0), 0
	}
	text, _, _ := strings.Cut(rest, "_")
	turn, _ = strconv.Atoi(text)
	return max(turn, 0), 0
}

// inputOf returns the content parts of a user's item.
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

// ParseConversationBody reads the metadata of a conversation to create.
func ParseConversationBody(body []byte) (map[string]string, *Error) {
	var in struct {
		Items    []json.RawMessage `json:"items"`
		Metadata map[string]string `json:"metadata"`
	}
	if len(body) > 0 {
		if err := json.Unmarshal(body, &in); err != nil {
			return nil, NewError(http.StatusBadRequest, "invalid_json", "", "send an object with metadata, whose values are strings: "+err.Error())
		}
	}
	if len(in.Items) > 0 {
		return nil, NewError(http.StatusBadRequest, "unsupported_parameter", "items", "items: send them as input to POST /v1/responses without a conversation, which creates one")
	}
	return in.Metadata, nil
}

// Paging describes the requested page of a conversation.
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

// ParsePaging reads the paging parameters of a query.
func ParsePaging(q url.Values) (Paging, *Error) {
	p := Paging{after: q.Get("after"), limit: defaultItems, asc: q.Get("order") == "asc"}
	if text := q.Get("limit"); text != "" {
		p.limit, _ = strconv.Atoi(text) // 0 is refused
	}
	switch {
	case p.limit < 1 || p.limit > maxItems:
		return p, bad("limit", "use 1 to "+strconv.Itoa(maxItems))
	case !p.asc && q.Get("order") != "" && q.Get("order") != "desc":
		return p, bad("order", "use asc or desc")
	}
	return p, nil
}

// After returns the item after which the page begins; "": none.
func (p Paging) After() string { return p.after }

// Limit returns the maximum number of items of the page.
func (p Paging) Limit() int { return p.limit }

// Ascending reports whether the oldest item is the first one.
func (p Paging) Ascending() bool { return p.asc }

// Full reports whether a history has the whole page and at least one item after it.
func (p Paging) Full(h *History) bool {
	at := h.index(p.after)
	switch {
	case p.after != "" && at < 0:
		return false
	case p.asc:
		return len(h.items)-(at+1) > p.limit
	case p.after == "":
		at = len(h.items)
	}
	return at > p.limit
}

// Of returns the page. The history must be full or have all items.
func (p Paging) Of(h *History) (map[string]any, *Error) {
	all := slices.Clone(h.items)
	if !p.asc {
		slices.Reverse(all)
	}
	at := slices.IndexFunc(all, func(s shownItem) bool { return s.id == p.after })
	if p.after != "" && at < 0 {
		return nil, NoItem("after", p.after)
	}
	rest := all[at+1:]
	part := rest[:min(p.limit, len(rest))]
	data := []object{}
	for _, s := range part {
		data = append(data, s.json())
	}
	page := object{"object": "list", "data": data, "first_id": nil, "last_id": nil, "has_more": len(part) < len(rest)}
	if n := len(part); n > 0 {
		page["first_id"], page["last_id"] = part[0].id, part[n-1].id
	}
	return page, nil
}

// NoItem returns the error for a conversation without an item of that ID. param is the parameter that names it.
func NoItem(param, id string) *Error {
	return NewError(http.StatusNotFound, "item_not_found", param, "the conversation has no item "+strconv.Quote(id)+": use the ID of an item of this conversation")
}
