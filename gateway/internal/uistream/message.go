package uistream

import (
	"encoding/base64"
	"maps"
	"slices"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/gateway/internal/stream"
)

// Message is a message in the format in which clients store it.
type Message struct {
	ID       string  `json:"id"`
	Role     string  `json:"role"`
	Metadata Chunk   `json:"metadata,omitempty"`
	Parts    []Chunk `json:"parts"`
}

// History projects a stream that begins with the session onto its messages.
type History struct {
	session  content.SessionID
	messages []*Message
	texts    []string
	turn     *Stream  // the last one; nil: none
	open     *Message // the assistant's open message
}

// NewHistory returns the projection of a session that has no entries yet.
func NewHistory(s content.SessionID) *History { return &History{session: s, messages: []*Message{}} }

// Messages returns the messages so far.
func (h *History) Messages() []*Message { return h.messages }

// UserTexts returns the texts of users' messages.
func (h *History) UserTexts() []string { return h.texts }

// Show takes an event of the stream.
func (h *History) Show(ev stream.Event) {
	take := func(c Chunk) { h.open.take(c) }
	if h.turn != nil {
		h.turn.Show(ev, take)
	}
	if ev.Entry == nil {
		return
	}
	accepted := 0
	for _, e := range ev.Entry.Entry.Events {
		switch e := any(e).(type) {
		case events.InputAccepted:
			h.onInput(e, ev.Entry.Entry.Cause, accepted)
			accepted += len(e.Items)
		case events.TurnStarted:
			n := e.Turn.Number()
			h.turn, h.open = NewStream(h.session, n, 1, 1<<20), &Message{ID: string(e.Turn), Role: "assistant", Parts: []Chunk{}}
			h.messages = append(h.messages, h.open)
			h.turn.Show(ev, take)
		}
	}
}

// onInput handles input. Input that joins a running turn is a part of that turn's message.
func (h *History) onInput(e events.InputAccepted, cause string, before int) {
	joins := h.turn != nil && h.turn.id == e.Turn
	for i, it := range e.Items {
		if it.Kind != content.User {
			continue
		}
		h.texts = append(h.texts, it.Text())
		if !joins {
			h.messages = append(h.messages, &Message{ID: stream.MessageID(cause, before+i), Role: "user", Parts: partsOf(it)})
		}
	}
}

// partsOf returns the parts of a user's message.
func partsOf(it content.Item) []Chunk {
	out := []Chunk{}
	for _, p := range it.Parts {
		switch {
		case p.Kind == content.TextKind:
			out = append(out, Chunk{"type": "text", "text": p.Text})
		case p.Media != nil:
			url := p.Media.URI
			if len(p.Media.Bytes) > 0 {
				url = "data:" + p.Media.MIME + ";base64," + base64.StdEncoding.EncodeToString(p.Media.Bytes)
			}
			c := Chunk{"type": "file", "mediaType": p.Media.MIME, "url": url}
			if p.Name != "" {
				c["filename"] = p.Name
			}
			out = append(out, c)
		}
	}
	return out
}

// take applies a chunk to the message, as clients do.
func (m *Message) take(c Chunk) {
	switch kind := c["type"]; kind {
	case "start", "finish":
		if m.Metadata == nil {
			m.Metadata = Chunk{}
		}
		meta, _ := c["messageMetadata"].(Chunk)
		maps.Copy(m.Metadata, meta)
	case "start-step":
		m.Parts = append(m.Parts, Chunk{"type": "step-start"})
	case "reset-step":
		for i := len(m.Parts) - 1; i >= 0 && m.Parts[i]["type"] != "step-start"; i-- {
			m.Parts = m.Parts[:i]
		}
	case "text-start":
		m.Parts = append(m.Parts, Chunk{"type": "text", "text": "", "state": "streaming"})
	case "reasoning-start":
		m.Parts = append(m.Parts, Chunk{"type": "reasoning", "id": c["id"], "text": "", "state": "streaming"})
	case "text-delta", "reasoning-delta":
		p := m.Parts[len(m.Parts)-1]
		p["text"] = p["text"].(string) + c["delta"].(string) //nolint:forcetypeassert // both are set here
	case "text-end", "reasoning-end":
		m.Parts[len(m.Parts)-1]["state"] = "done"
	case "tool-input-start":
		m.Parts = append(m.Parts, Chunk{
			"type": "dynamic-tool", "toolName": c["toolName"], "toolCallId": c["toolCallId"], "state": "input-streaming", "providerExecuted": true,
		})
	case "data-structured", "file", "steering-message":
		m.Parts = append(m.Parts, maps.Clone(c))
	case "tool-approval-response":
		for _, p := range m.Parts {
			if a, ok := p["approval"].(Chunk); ok && a["id"] == c["approvalId"] {
				p["state"], a["approved"] = "approval-responded", c["approved"]
				if c["reason"] != nil {
					a["reason"] = c["reason"]
				}
			}
		}
	default:
		m.change(c)
	}
}

// change changes the part of a call.
func (m *Message) change(c Chunk) {
	for _, p := range slices.Backward(m.Parts) {
		if p["type"] != "dynamic-tool" || p["toolCallId"] != c["toolCallId"] {
			continue
		}
		switch c["type"] {
		case "tool-input-available":
			p["state"], p["input"] = "input-available", c["input"]
		case "tool-approval-request":
			a := Chunk{"id": c["approvalId"]}
			if c["reason"] != nil {
				a["requestReason"] = c["reason"]
			}
			p["state"], p["approval"] = "approval-requested", a
		case "tool-output-available":
			p["state"], p["output"] = "output-available", c["output"]
		case "tool-output-error":
			p["state"], p["errorText"] = "output-error", c["errorText"]
		case "tool-output-denied":
			p["state"] = "output-denied"
		}
		return
	}
}
