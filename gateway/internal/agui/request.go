package agui

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/gateway/internal/stream"
)

// Request is the relevant part of a client's messages.
type Request struct {
	Earlier []string // the texts of the user's earlier messages
	ID      string   // ID of the last message, if the user sent it
	Input   *content.Item
}

// message is a message that a client sends. Most of its content is in the journal and is not read.
type message struct {
	ID      string          `json:"id"`
	Role    string          `json:"role"`
	Content json.RawMessage `json:"content"`
}

// Parse reads the messages of a request.
func Parse(raw []json.RawMessage) (*Request, error) {
	r := &Request{}
	for i := range raw {
		var m message
		if err := json.Unmarshal(raw[i], &m); err != nil {
			return nil, fmt.Errorf("messages[%d]: %w", i, err)
		}
		switch m.Role {
		case "user":
			it, err := m.item()
			if err != nil {
				return nil, fmt.Errorf("messages[%d]: %w", i, err)
			}
			if i == len(raw)-1 {
				r.ID, r.Input = m.ID, &it
			} else {
				r.Earlier = append(r.Earlier, it.Text())
			}
		case "assistant", "tool", "reasoning", "activity":
		default:
			return nil, fmt.Errorf("messages[%d]: the role is %q: remove it, since the system prompt belongs to the session's agent", i, m.Role)
		}
	}
	return r, nil
}

// item returns a user's message as an item.
func (m message) item() (content.Item, error) {
	var text string
	if json.Unmarshal(m.Content, &text) == nil && text != "" {
		return content.UserText(text), nil
	}
	it := content.NewItem(content.User)
	var parts []struct {
		Type   string `json:"type"`
		Text   string `json:"text"`
		Source struct {
			Type  string `json:"type"`
			Value string `json:"value"`
			MIME  string `json:"mimeType"`
		} `json:"source"`
	}
	if err := json.Unmarshal(m.Content, &parts); err != nil || len(parts) == 0 {
		return it, errors.New("content must be a string or a list of parts")
	}
	for _, p := range parts {
		switch p.Type {
		case "text":
			it.Parts = append(it.Parts, content.TextPart(p.Text))
		case "image", "audio", "video", "document":
			data, err := base64.StdEncoding.DecodeString(p.Source.Value)
			if p.Source.Type != "data" || err != nil || p.Source.MIME == "" {
				return it, errors.New("send files as base64 data with a mimeType: the gateway fetches no URLs")
			}
			it.Parts = append(it.Parts, content.FilePart(p.Type, p.Source.MIME, data))
		default:
			return it, errors.New("parts of the type " + p.Type + " are not supported in user messages")
		}
	}
	return it, nil
}

// Answer is an answer to an interrupt.
type Answer struct {
	Interrupt string          `json:"interruptId"`
	Status    string          `json:"status" enum:"resolved,cancelled"`
	Payload   json.RawMessage `json:"payload,omitempty" doc:"with resolved: approved, and reason or editedArgs"`
}

// interruptID returns the ID of the interrupt for an approval. It identifies the question and the arguments.
func interruptID(a events.Approval) string { return string(a.ID) + "." + a.Digest }

// Decision returns the decision in an answer. An abandoned question counts as denied.
func (a Answer) Decision() (stream.Decision, error) {
	id, shown, ok := strings.Cut(a.Interrupt, ".")
	if !ok || shown == "" {
		return stream.Decision{}, fmt.Errorf("resume: %s is not an interrupt's ID: send the ID unchanged", a.Interrupt)
	}
	d := stream.Decision{Approval: content.ApprovalID(id), Reason: "cancelled", Shown: shown}
	if a.Status == "cancelled" {
		return d, nil
	}
	var payload struct {
		Approved *bool           `json:"approved"`
		Reason   string          `json:"reason"`
		Edited   json.RawMessage `json:"editedArgs"`
	}
	if err := json.Unmarshal(a.Payload, &payload); err != nil || payload.Approved == nil {
		return d, fmt.Errorf("resume: the payload for %s does not fit its responseSchema: send an object with approved", a.Interrupt)
	}
	if d.Approve, d.Reason = *payload.Approved, payload.Reason; d.Approve && len(payload.Edited) > 0 {
		d.Input = payload.Edited
	}
	return d, nil
}
