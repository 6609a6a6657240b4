package gemini

import (
	"cmp"
	"encoding/json"
	"errors"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/internal/provider"
	"github.com/turnlog/turnlog/model"
)

// customPart is the name of parts of an unknown kind.
const customPart = name + ".part"

// answer builds a reply from the pieces of a response.
type answer struct {
	reply  *provider.Reply
	finish string // why the reply ended, or why the prompt was blocked; empty: not yet known
}

// response is a piece of the response, or an error.
type response struct {
	ID       string       `json:"responseId"`
	Model    string       `json:"modelVersion"`
	Usage    *usage       `json:"usageMetadata"`
	Error    *statusError `json:"error"`
	Feedback struct {
		Block string `json:"blockReason"`
	} `json:"promptFeedback"`
	Candidates []struct {
		Finish  string `json:"finishReason"`
		Content struct {
			Parts []json.RawMessage `json:"parts"`
		} `json:"content"`
	} `json:"candidates"`
}

// usage contains the totals so far.
type usage struct {
	Prompt  int64 `json:"promptTokenCount"`
	Tools   int64 `json:"toolUsePromptTokenCount"`
	Reply   int64 `json:"candidatesTokenCount"`
	Thought int64 `json:"thoughtsTokenCount"`
	Cached  int64 `json:"cachedContentTokenCount"`
}

// part is a part of a reply. Any other field makes it a part of an unknown kind.
type part struct {
	Text      string `json:"text"`
	Thought   bool   `json:"thought"`
	Signature []byte `json:"thoughtSignature"`
	Call      *struct {
		ID   string          `json:"id"`
		Name string          `json:"name"`
		Args json.RawMessage `json:"args"`
	} `json:"functionCall"`
	Media *struct {
		Name string `json:"displayName"`
		MIME string `json:"mimeType"`
		Data []byte `json:"data"`
	} `json:"inlineData"`
}

// blocked is our finish reason for a blocked prompt: the API has none.
const blocked = "PROMPT_BLOCKED"

// Event implements provider.Handler.
func (a *answer) Event(_ string, data []byte) (bool, error) {
	var r response
	if err := json.Unmarshal(data, &r); err != nil {
		return false, err //nolint:wrapcheck // the caller adds the context
	}
	if r.Error != nil {
		return false, r.Error.failure()
	}
	a.reply.Model, a.reply.ID = cmp.Or(r.Model, a.reply.Model), cmp.Or(r.ID, a.reply.ID)
	if u := r.Usage; u != nil { // thoughts count as output
		a.reply.Usage = content.Usage{
			InputTokens: u.Prompt + u.Tools, OutputTokens: u.Reply + u.Thought, ReasoningTokens: u.Thought, CacheReadTokens: u.Cached,
		}
	}
	if b := r.Feedback.Block; b != "" && b != "BLOCKED_REASON_UNSPECIFIED" {
		a.finish = cmp.Or(a.finish, blocked)
	}
	if len(r.Candidates) == 0 {
		return false, nil
	}
	c := r.Candidates[0] // the request asks for one
	if c.Finish != "FINISH_REASON_UNSPECIFIED" {
		a.finish = cmp.Or(c.Finish, a.finish)
	}
	for _, raw := range c.Content.Parts {
		if err := a.part(raw); err != nil {
			return false, err
		}
	}
	return false, nil
}

func (a *answer) part(raw json.RawMessage) error {
	var p part
	var fields map[string]json.RawMessage
	if err := errors.Join(json.Unmarshal(raw, &p), json.Unmarshal(raw, &fields)); err != nil {
		return err
	}
	for _, known := range []string{"text", "thought", "thoughtSignature", "functionCall", "inlineData"} {
		delete(fields, known)
	}
	var sealed *content.Reasoning
	if len(p.Signature) > 0 {
		sealed = &content.Reasoning{Signature: p.Signature}
	}
	switch {
	case p.Call != nil:
		c := content.CallPart(content.ToolCall{Name: p.Call.Name, Input: p.Call.Args, ProviderID: p.Call.ID})
		c.Reasoning = sealed
		return a.whole(c)
	case p.Media != nil:
		return a.whole(content.Part{
			Kind: content.MediaKind, Name: p.Media.Name, Reasoning: sealed,
			Media: &content.Media{Modality: content.Modality(p.Media.MIME), MIME: p.Media.MIME, Bytes: p.Media.Data},
		})
	case p.Text == "" && len(fields) > 0:
		return a.whole(content.Part{Kind: content.CustomKind, Name: customPart, Data: raw})
	case p.Text == "" && sealed == nil:
		return nil
	}
	text := content.Part{Kind: content.TextKind, Text: p.Text, Reasoning: sealed}
	if p.Thought || p.Text == "" {
		text.Kind, text.Name = content.ReasoningKind, name
	}
	if sealed != nil { // it is a part of its own
		return a.whole(text)
	}
	_, err := a.reply.Grow(text)
	return err
}

// whole adds a complete part.
func (a *answer) whole(p content.Part) error {
	i, err := a.reply.Begin(p)
	if err != nil {
		return err
	}
	return a.reply.Commit(i)
}

// Reason implements provider.Handler. A malformed call and a call of an unknown tool
// are errors, because another attempt may succeed.
func (a *answer) Reason() (content.FinishReason, error) {
	switch a.finish {
	case "":
		return "", nil
	case "STOP":
		if a.reply.HasCalls() {
			return content.ToolCalls, nil
		}
		return content.Completed, nil
	case "MAX_TOKENS":
		return content.MaxTokens, nil
	case blocked, "SAFETY", "RECITATION", "LANGUAGE", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII",
		"IMAGE_SAFETY", "IMAGE_PROHIBITED_CONTENT", "IMAGE_RECITATION":
		return content.Blocked, nil
	case "MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL":
		return "", &model.Error{Class: content.ClassServer, Code: a.finish, Message: "the model made a malformed call"}
	case "MISSING_THOUGHT_SIGNATURE":
		return "", &model.Error{Class: content.ClassInvalid, Code: a.finish, Message: "the request lacks a thought signature"}
	}
	return content.Other, nil
}
