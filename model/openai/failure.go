package openai

import (
	"bytes"
	"cmp"
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/internal/provider"
	"github.com/turnlog/turnlog/model"
)

// maxErrorBody is how much of an error's body is read.
const maxErrorBody = 64 << 10

// refused says why the server did not answer with a stream.
func (m *Model) refused(resp *http.Response) error {
	body, _ := io.ReadAll(io.LimitReader(resp.Body, maxErrorBody)) // what has come is what there is
	e := m.failure(resp.StatusCode, complaintOf(body))
	e.RetryAfter = provider.RetryAfter(resp.Header, time.Now())
	return e
}

// complaint is what a server says of a failure.
type complaint struct {
	code, kind, message string
}

// complaintOf reads an error's body. OpenAI wraps {message, type, code} into
// "error"; other servers do not wrap it, give a text instead, put a list around
// it, or say "detail".
func complaintOf(body []byte) complaint {
	var list []json.RawMessage
	if json.Unmarshal(body, &list) == nil && len(list) > 0 {
		body = list[0]
	}
	var outer struct {
		Error   json.RawMessage `json:"error"`
		Message json.RawMessage `json:"message"`
		Detail  json.RawMessage `json:"detail"`
		Type    string          `json:"type"`
		Code    json.RawMessage `json:"code"`
	}
	if json.Unmarshal(body, &outer) != nil {
		return complaint{message: brief(string(body))}
	}
	var inner struct {
		Message json.RawMessage `json:"message"`
		Type    string          `json:"type"`
		Code    json.RawMessage `json:"code"`
	}
	if json.Unmarshal(outer.Error, &inner) == nil && len(inner.Message)+len(inner.Code)+len(inner.Type) > 0 {
		return complaint{code: plain(inner.Code), kind: inner.Type, message: brief(plain(inner.Message))}
	}
	text := cmp.Or(plain(outer.Error), plain(outer.Message), plain(outer.Detail), string(body))
	return complaint{code: plain(outer.Code), kind: outer.Type, message: brief(text)}
}

// plain returns the text of a JSON string, and any other value as it is written;
// nothing for null.
func plain(raw json.RawMessage) string {
	var s string
	if json.Unmarshal(raw, &s) == nil {
		return s
	}
	return string(raw)
}

// brief cuts what is too long for a message.
func brief(s string) string {
	const most = 1000
	s = strings.ToValidUTF8(strings.TrimSpace(s), "\uFFFD")
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "…"
}

// failure returns what the complaint means. The status is 0 for a complaint that
// came within a stream.
func (m *Model) failure(status int, c complaint) *model.Error {
	if n, err := strconv.Atoi(c.code); err == nil && status == 0 && n >= http.StatusBadRequest {
		status = n // some servers put the status where the code belongs
	}
	message := c.message
	if message == "" && status != 0 {
		message = "status " + strconv.Itoa(status) + " " + http.StatusText(status)
	}
	return &model.Error{
		Class: classOf(status, c), Code: m.scrub(cmp.Or(c.code, c.kind)),
		Message: m.scrub(cmp.Or(message, "the server did not say why")),
	}
}

func (m *Model) scrub(text string) string { return provider.Scrub(text, m.cfg.APIKey) }

func classOf(status int, c complaint) content.ErrorClass {
	for _, word := range []string{c.code, c.kind} {
		if class, ok := classOfCode(word); ok {
			return class
		}
	}
	if mayBeTooLong(status) && tooLong(c.message) {
		return content.ClassTooLong
	}
	if c.code == "rate_limit_exceeded" || c.kind == "rate_limit_error" {
		return content.ClassRateLimit
	}
	if status == 0 {
		return content.ClassServer // it had begun to answer
	}
	return provider.ClassOf(status)
}

// classOfCode knows the codes and types that mean more than their status.
func classOfCode(code string) (content.ErrorClass, bool) {
	switch code {
	case "insufficient_quota", "billing_not_active", "billing_hard_limit_reached", "insufficient_balance":
		return content.ClassBilling, true
	case "context_length_exceeded", "exceed_context_size_error":
		return content.ClassTooLong, true
	case "invalid_api_key", "account_deactivated", "authentication_error", "permission_error":
		return content.ClassAuth, true
	case "content_filter", "content_policy_violation", "invalid_prompt", "bio_policy", "cyber_policy",
		"misalignment_policy_violation", "image_content_policy_violation":
		return content.ClassBlocked, true
	case "server_is_overloaded", "slow_down", "overloaded_error", "engine_overloaded":
		return content.ClassOverloaded, true
	case "server_error", "internal_error", "internal_server_error":
		return content.ClassServer, true
	case "model_not_found", "invalid_image", "image_too_large", "unsupported_image_media_type":
		return content.ClassInvalid, true
	}
	return "", false
}

// mayBeTooLong keeps the message of a failure that is about something else from
// being taken for one about the length. A 429 can be: a request may be larger than
// what a minute allows, and then waiting does not help.
func mayBeTooLong(status int) bool {
	return slices.Contains([]int{
		0, http.StatusBadRequest, http.StatusRequestEntityTooLarge, http.StatusUnprocessableEntity,
		http.StatusTooManyRequests, http.StatusInternalServerError,
	}, status)
}

// tooLong reads the message: only OpenAI and a few others have a code for it.
func tooLong(message string) bool {
	message = strings.ToLower(message)
	return slices.ContainsFunc([]string{
		"maximum context length", "context length", "context window", "context size", "prompt is too long",
		"request too large", "too many tokens", "input is too long",
	}, func(words string) bool { return strings.Contains(message, words) })
}

// malformed is the failure of a stream that is not what it should be.
func (m *Model) malformed(what string, data []byte) *model.Error {
	return &model.Error{
		Class: content.ClassServer, Code: "malformed_stream",
		Message: m.scrub(what + ": " + brief(string(bytes.TrimSpace(data)))),
	}
}
