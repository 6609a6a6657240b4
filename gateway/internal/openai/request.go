package openai

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/gateway/internal/stream"
)

// Request is a client's request in either protocol.
type Request struct {
	Model      string
	System     string         // the system prompt; "": none
	History    []content.Item // before the input
	Input      []content.Item // empty: only decisions
	Decisions  []stream.Decision
	Stream     bool
	Usage      bool // a chat's stream ends with the usage
	Background bool

	Previous     string // a response
	Conversation string
}

// auxiliary has the beginnings of prompts that chat UIs send to get titles, tags and similar texts.
var auxiliary = []string{"### Task:", "Provide a concise, 5-word-or-less title", "Please generate a concise, 5-word-or-less title", "Write a concise title for this conversation"} //nolint:gochecknoglobals,lll // a constant

type fields map[string]json.RawMessage

// parse reads the fields of a request. Only the fields in known have an effect. Other fields may only have values that
// change nothing.
func parse(body []byte, known []string) (fields, *Error) {
	var f fields
	if err := json.Unmarshal(body, &f); err != nil {
		return nil, NewError(http.StatusBadRequest, "invalid_json", "", "the body is not a JSON object: "+err.Error())
	}
	for name, value := range f {
		if !slices.Contains(known, name) && !changesNothing(name, string(value)) {
			return nil, NewError(http.StatusBadRequest, "unsupported_parameter", name, name+" is not supported: the session's agent or model sets it. Leave it out")
		}
	}
	return f, nil
}

// changesNothing reports whether a field has a value that does not change the behavior.
func changesNothing(name, value string) bool {
	neutral := map[string][]string{
		"n": {"1"}, "temperature": {"1", "1.0"}, "top_p": {"1", "1.0"}, "frequency_penalty": {"0"}, "presence_penalty": {"0"},
		"logprobs": {"false"}, "top_logprobs": {"0"}, "tools": {"[]"}, "functions": {"[]"}, "tool_choice": {`"auto"`}, "stop": {"[]"},
		"parallel_tool_calls": {"true"}, "service_tier": {`"auto"`, `"default"`}, "truncation": {`"disabled"`, `"auto"`},
		"include": {"[]"}, "logit_bias": {"{}"}, "modalities": {`["text"]`}, "response_format": {`{"type":"text"}`}, "text": {`{"format":{"type":"text"}}`, "{}"},
	}
	if value == "null" || slices.Contains([]string{"user", "metadata", "safety_identifier", "prompt_cache_key", "prompt_cache_retention"}, name) {
		return true
	}
	return slices.Contains(neutral[name], strings.ReplaceAll(value, " ", ""))
}

func (f fields) read(name string, into any) *Error {
	raw, ok := f[name]
	if !ok || string(raw) == "null" {
		return nil
	}
	if err := json.Unmarshal(raw, into); err != nil {
		return bad(name, err.Error())
	}
	return nil
}

func firstError(all ...*Error) *Error {
	for _, e := range all {
		if e != nil {
			return e
		}
	}
	return nil
}

// ParseChat reads the body of a request for a chat completion.
func ParseChat(body []byte) (*Request, *Error) {
	f, err := parse(body, []string{"model", "messages", "stream", "stream_options", "store"})
	if err != nil {
		return nil, err
	}
	r := &Request{}
	var messages []message
	var options struct {
		Usage bool `json:"include_usage"`
	}
	if err := firstError(f.read("model", &r.Model), f.read("messages", &messages), f.read("stream", &r.Stream), f.read("stream_options", &options)); err != nil {
		return nil, err
	}
	r.Usage = options.Usage
	if err := r.take(messages, "messages"); err != nil {
		return nil, err
	}
	if len(r.Input) == 0 {
		return nil, bad("messages", "the last message must be a user message")
	}
	for _, begin := range auxiliary {
		if strings.HasPrefix(strings.TrimSpace(r.Input[0].Text()), begin) {
			return nil, NewError(http.StatusUnprocessableEntity, "auxiliary_request", "messages",
				"this request for a title or tags would become part of the session: turn such requests off in the client, or give them another model")
		}
	}
	return r, nil
}

// ParseResponse reads the body of a request for a response.
func ParseResponse(body []byte) (*Request, *Error) {
	f, err := parse(body, []string{"model", "input", "instructions", "stream", "stream_options", "background", "previous_response_id", "conversation", "store"})
	if err != nil {
		return nil, err
	}
	r := &Request{}
	store := true
	if err := firstError(f.read("model", &r.Model), f.read("instructions", &r.System), f.read("stream", &r.Stream), f.read("background", &r.Background),
		f.read("previous_response_id", &r.Previous), f.read("store", &store), r.readConversation(f["conversation"]), r.readInput(f["input"])); err != nil {
		return nil, err
	}
	switch {
	case !store:
		return nil, bad("store", "store cannot be false: sessions are always stored")
	case r.Previous != "" && r.Conversation != "":
		return nil, bad("conversation", "give conversation or previous_response_id, not both")
	case len(r.Input) == 0 && len(r.Decisions) == 0:
		return nil, bad("input", "end the input with a user message, or send only mcp_approval_response items")
	case len(r.Input) > 0 && len(r.Decisions) > 0:
		return nil, bad("input", "answer the pending approvals first, then send the message")
	case len(r.Decisions) > 0 && r.Previous == "":
		return nil, bad("previous_response_id", "name the response that has the mcp_approval_request")
	case len(r.History) > 0 && (r.Previous != "" || r.Conversation != ""):
		return nil, bad("input", "the session has the history: send only the new user message")
	}
	return r, nil
}

func (r *Request) readConversation(raw json.RawMessage) *Error {
	if len(raw) == 0 || string(raw) == "null" || json.Unmarshal(raw, &r.Conversation) == nil {
		return nil
	}
	var o struct {
		ID string `json:"id"`
	}
	if json.Unmarshal(raw, &o) != nil || o.ID == "" {
		return bad("conversation", "use an ID or an object with an id")
	}
	r.Conversation = o.ID
	return nil
}

func (r *Request) readInput(raw json.RawMessage) *Error {
	var text string
	if json.Unmarshal(raw, &text) == nil && text != "" {
		r.Input = []content.Item{content.UserText(text)}
		return nil
	}
	var messages []message
	if err := json.Unmarshal(raw, &messages); err != nil {
		return bad("input", "use a string or a list of items")
	}
	return r.take(messages, "input")
}

// message is a message of a chat, or an item of a response's input.
type message struct {
	Type    string          `json:"type"`
	Role    string          `json:"role"`
	Content json.RawMessage `json:"content"`
	Calls   json.RawMessage `json:"tool_calls"`

	Request string `json:"approval_request_id"`
	Approve *bool  `json:"approve"`
	Reason  string `json:"reason"`
}

// take sorts messages into the system prompt, the history and the input: the user's last message.
func (r *Request) take(messages []message, param string) *Error {
	for i, m := range messages {
		at := fmt.Sprintf("%s[%d]", param, i)
		switch {
		case m.Type == "mcp_approval_response":
			id, ok := strings.CutPrefix(m.Request, "mcpr_")
			if !ok || m.Approve == nil {
				return bad(at, "give an mcp_approval_response approve and the approval_request_id of its mcp_approval_request")
			}
			r.Decisions = append(r.Decisions, stream.Decision{Approval: content.ApprovalID(id), Approve: *m.Approve, Reason: m.Reason})
			continue
		case m.Type != "" && m.Type != "message":
			return bad(at, "items of the type "+m.Type+" are not supported")
		}
		it := content.Item{}
		var err error
		if it.Parts, err = partsOf(m.Content); err != nil {
			return bad(at, err.Error())
		}
		switch m.Role {
		case "system", "developer":
			if len(r.History) > 0 {
				return bad(at, "put the system prompt first")
			}
			r.System = strings.TrimPrefix(r.System+"\n\n"+it.Text(), "\n\n")
			continue
		case "user":
			it.Kind = content.User
		case "assistant":
			it.Kind = content.Assistant
		default:
			return bad(at, "messages of the role "+m.Role+" are not supported: the session runs its own tools")
		}
		if m.Calls != nil && string(m.Calls) != "null" && string(m.Calls) != "[]" {
			return bad(at, "tool_calls are not supported: the session runs its own tools")
		}
		r.History = append(r.History, it)
	}
	if n := len(r.History); n > 0 && r.History[n-1].Kind == content.User {
		r.Input, r.History = r.History[n-1:], r.History[:n-1:n-1]
	} else if n > 0 {
		return bad(param, "the last message must be a user message")
	}
	return nil
}

// partsOf reads the content of a message.
func partsOf(raw json.RawMessage) ([]content.Part, error) {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return []content.Part{content.TextPart(text)}, nil
	}
	var all []struct {
		Type  string          `json:"type"`
		Text  string          `json:"text"`
		Image json.RawMessage `json:"image_url"`
		Name  string          `json:"filename"`
		Data  string          `json:"file_data"`
		File  struct {
			Name string `json:"filename"`
			Data string `json:"file_data"`
		} `json:"file"`
	}
	if err := json.Unmarshal(raw, &all); err != nil {
		return nil, errors.New("content must be a string or a list of parts")
	}
	var parts []content.Part
	for _, p := range all {
		switch p.Type {
		case "text", "input_text", "output_text":
			parts = append(parts, content.TextPart(p.Text))
		case "image_url", "input_image":
			var o struct {
				URL string `json:"url"`
			}
			if json.Unmarshal(p.Image, &o.URL) != nil && json.Unmarshal(p.Image, &o) != nil {
				return nil, errors.New("image_url is missing")
			}
			part, err := content.DataURLPart("image", o.URL)
			if err != nil {
				return nil, err
			}
			parts = append(parts, part)
		case "file", "input_file":
			part, err := content.DataURLPart(p.Name+p.File.Name, p.Data+p.File.Data)
			if err != nil {
				return nil, err
			}
			parts = append(parts, part)
		default:
			return nil, errors.New("parts of the type " + p.Type + " are not supported")
		}
	}
	return parts, nil
}

// ChatKey returns the ID of the chat that a client sends in a header, or "".
func ChatKey(h http.Header) string {
	for _, name := range []string{"X-Turnlog-Chat-Id", "X-OpenWebUI-Chat-Id", "X-LibreChat-Conversation-Id"} {
		if v := h.Get(name); v != "" && v != "new" && v != "null" && v != "undefined" && !strings.Contains(v, "{{") {
			return v
		}
	}
	return ""
}
