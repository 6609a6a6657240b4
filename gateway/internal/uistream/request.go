package uistream

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/gateway/internal/stream"
	"github.com/turnlog/turnlog/tool"
)

// Request is the input or the decisions in a client's messages.
type Request struct {
	Earlier   []string     // the texts of the user's earlier messages
	ID        string       // ID of the message with the input
	Input     content.Item // without parts if there are decisions
	Decisions []stream.Decision
}

// message is a message that a client sends. Most of its content is in the journal and is not read.
type message struct {
	ID    string `json:"id"`
	Role  string `json:"role"`
	Parts []part `json:"parts"`
}

type part struct {
	Type  string `json:"type"`
	Text  string `json:"text"`
	Name  string `json:"filename"`
	URL   string `json:"url"`
	State string `json:"state"`
	Parts []part `json:"parts"` // of a steering message

	Input    json.RawMessage `json:"input"` // of a call, as the client has it
	Approval struct {
		ID       content.ApprovalID `json:"id"`
		Approved *bool              `json:"approved"`
		Reason   string             `json:"reason"`
	} `json:"approval"`
}

// Parse reads the messages of a request. decides is the ID of the message with the decisions; "": the last message.
func Parse(raw []json.RawMessage, decides string) (*Request, error) {
	if len(raw) == 0 {
		return nil, errors.New("messages: there are none")
	}
	all := make([]message, len(raw))
	for i := range raw {
		if err := json.Unmarshal(raw[i], &all[i]); err != nil {
			return nil, fmt.Errorf("messages[%d]: %w", i, err)
		}
	}
	r := &Request{}
	last := all[len(all)-1]
	if last.Role == "user" {
		all = all[:len(all)-1]
		r.ID = last.ID
		var err error
		if r.Input, err = itemOf(last); err != nil {
			return nil, fmt.Errorf("messages[%d]: %w", len(all), err)
		}
	}
	for i, m := range all {
		if m.Role != "user" && m.Role != "assistant" {
			return nil, fmt.Errorf("messages[%d]: the role is %q: remove it, since the system prompt belongs to the session's agent", i, m.Role)
		}
		r.Earlier = append(r.Earlier, m.userTexts()...)
		if last.Role != "user" && m.Role == "assistant" && (m.ID == decides || decides == "" && i == len(all)-1) {
			r.Decisions = m.decisions()
		}
	}
	if last.Role != "user" && len(r.Decisions) == 0 {
		return nil, errors.New("messages: the last one must be a user message, or have a tool part in the state approval-responded")
	}
	return r, nil
}

// userTexts returns the texts of a user's message, or of the steering messages within a message.
func (m message) userTexts() (out []string) {
	if m.Role == "user" {
		return []string{textOf(m.Parts)}
	}
	for _, p := range m.Parts {
		if p.Type == "steering-message" {
			out = append(out, textOf(p.Parts))
		}
	}
	return out
}

func textOf(parts []part) string {
	var b strings.Builder
	for _, p := range parts {
		if p.Type == "text" {
			b.WriteString(p.Text)
		}
	}
	return b.String()
}

func (m message) decisions() (out []stream.Decision) {
	for _, p := range m.Parts {
		if a := p.Approval; p.State == "approval-responded" && a.Approved != nil {
			d := stream.Decision{Approval: a.ID, Approve: *a.Approved, Reason: a.Reason}
			if p.Input != nil {
				d.Shown = tool.Digest(p.Input)
			}
			out = append(out, d)
		}
	}
	return out
}

func itemOf(m message) (content.Item, error) {
	it := content.NewItem(content.User)
	for _, p := range m.Parts {
		switch p.Type {
		case "text":
			if p.Text != "" {
				it.Parts = append(it.Parts, content.TextPart(p.Text))
			}
		case "file":
			f, err := content.DataURLPart(p.Name, p.URL)
			if err != nil {
				return it, err
			}
			it.Parts = append(it.Parts, f)
		default:
			return it, errors.New("parts of the type " + p.Type + " are not supported in user messages")
		}
	}
	if len(it.Parts) == 0 {
		return it, errors.New("the message is empty")
	}
	return it, nil
}
