package openai

import (
	"bytes"
	"cmp"
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/internal/provider"
	"github.com/turnlog/turnlog/model"
)

type apiError struct {
	code, kind, message string
}

// parseError parses an error. OpenAI puts {message, type, code} in "error". Other
// servers leave out that level, use a string, wrap the error in a list, or call the
// message "detail".
func parseError(body []byte) apiError {
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
		return apiError{message: string(body)}
	}
	var inner struct {
		Message json.RawMessage `json:"message"`
		Type    string          `json:"type"`
		Code    json.RawMessage `json:"code"`
	}
	if json.Unmarshal(outer.Error, &inner) == nil && len(inner.Message)+len(inner.Code)+len(inner.Type) > 0 {
		return apiError{code: plain(inner.Code), kind: inner.Type, message: plain(inner.Message)}
	}
	text := cmp.Or(plain(outer.Error), plain(outer.Message), plain(outer.Detail), string(body))
	return apiError{code: plain(outer.Code), kind: outer.Type, message: text}
}

// plain returns the text of a JSON string, "" for null, and the JSON of any other
// value.
func plain(raw json.RawMessage) string {
	var s string
	if json.Unmarshal(raw, &s) == nil {
		return s
	}
	return string(raw)
}

// lenient decodes a JSON object, see [provider.Lenient].
func lenient(data []byte, into any) bool {
	return bytes.HasPrefix(bytes.TrimSpace(data), []byte("{")) && provider.Lenient(data, into) == nil
}

// failure translates the error. The status is 0 for an error within a stream.
func (c apiError) failure(status int) *model.Error {
	if n, err := strconv.Atoi(c.code); err == nil && status == 0 && n >= http.StatusBadRequest {
		status = n // some servers use the status as the code
	}
	message := strings.TrimSpace(c.message)
	if message == "" && status != 0 {
		message = "status " + strconv.Itoa(status) + " " + http.StatusText(status)
	}
	return &model.Error{
		Class: c.class(status), Code: cmp.Or(c.code, c.kind), Message: cmp.Or(message, "the server gave no reason"),
	}
}

func (c apiError) class(status int) content.ErrorClass {
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
		return content.ClassServer // within a stream
	}
	return provider.ClassOf(status)
}

// classOfCode returns the class of codes and types that are more specific than the
// status.
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

// mayBeTooLong reports whether a status may mean that the prompt is too long. Even
// 429 may: if a request exceeds the limit of a minute, waiting does not help.
func mayBeTooLong(status int) bool {
	return slices.Contains([]int{
		0, http.StatusBadRequest, http.StatusRequestEntityTooLarge, http.StatusUnprocessableEntity,
		http.StatusTooManyRequests, http.StatusInternalServerError,
	}, status)
}

// tooLong looks at the message, because few servers have a code for this.
func tooLong(message string) bool {
	message = strings.ToLower(message)
	return slices.ContainsFunc([]string{
		"maximum context length", "context length", "context window", "context size", "prompt is too long",
		"request too large", "too many tokens", "input is too long",
	}, func(words string) bool { return strings.Contains(message, words) })
}
