package mcptool

import (
	"encoding/json"
	"errors"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/turnlog/turnlog/client/report"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
)

// Form asks about an approval.
type Form struct {
	Message string
	Schema  json.RawMessage
}

// The answers of a form.
const (
	approve = "approve"
	always  = "approve always"
	deny    = "deny"
)

// FormOf returns the form about an approval.
func FormOf(a events.Approval) Form {
	f := Form{Message: a.Tool + " asks: " + report.QuestionOf(a) + "\n" + string(a.Input)}
	choices := []string{approve, deny}
	if covers := report.Covers(a); covers != "" {
		choices = []string{approve, always, deny}
		f.Message += "\n\"" + always + "\" covers " + covers + "."
	}
	f.Schema, _ = json.Marshal(map[string]any{ // it has only texts
		"type": "object", "required": []string{"decision"}, "properties": map[string]any{
			"decision": map[string]any{"type": "string", "title": "Decision", "enum": choices},
			"reason":   map[string]any{"type": "string", "title": "Reason", "description": "The agent sees the reason of a denial."},
		},
	})
	return f
}

// Answer is a decision.
type Answer struct {
	Approve, Always bool
	Reason          string
}

// AnswerOf reads an answer to a form. decided is false if the person postponed the decision.
func AnswerOf(action string, form map[string]any) (a Answer, decided bool, err error) {
	switch action {
	case "decline":
		return Answer{Reason: "declined"}, true, nil
	case "accept":
	default:
		return Answer{}, false, nil
	}
	a.Reason, _ = form["reason"].(string)
	switch choice, _ := form["decision"].(string); strings.TrimSpace(choice) {
	case always:
		a.Approve, a.Always = true, true
	case approve:
		a.Approve = true
	case deny:
	default:
		return Answer{}, false, errors.New("the answer has no decision")
	}
	return a, true, nil
}

// State is the state that a client keeps between the requests of a call: the turn, how much progress was reported, and
// the digests of the arguments in the questions.
type State struct {
	Session content.SessionID             `json:"session"`
	Turn    int                           `json:"turn"`
	Told    uint64                        `json:"told"`
	Asked   map[content.ApprovalID]string `json:"asked"`
}

// AsksForms reports whether a client can ask its person.
func AsksForms(s *mcp.ServerSession) bool {
	p := s.InitializeParams()
	if p == nil || p.Capabilities == nil || p.Capabilities.Elicitation == nil {
		return false
	}
	e := p.Capabilities.Elicitation
	return e.Form != nil || e.URL == nil // older clients name neither and support forms
}
