package anthropic

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/internal/provider"
	"github.com/turnlog/turnlog/model"
)

// apiError translates an error of the API, which may come instead of a reply or, with
// status 0, in the middle of one.
func apiError(status int, raw []byte, request string) *model.Error {
	var body struct {
		Error struct {
			Type    string `json:"type"`
			Message string `json:"message"`
		} `json:"error"`
		RequestID string `json:"request_id"`
	}
	if json.Unmarshal(raw, &body) != nil || body.Error.Message == "" {
		body.Error.Message = cmp.Or(provider.Brief(string(raw)), "no message") // for example a proxy's error page
	}
	e := &model.Error{
		Class:   classOf(status, body.Error.Type, body.Error.Message),
		Code:    body.Error.Type,
		Message: body.Error.Message,
	}
	if status != 0 {
		e.Message += fmt.Sprintf(" (status %d)", status)
	}
	if id := cmp.Or(request, body.RequestID); id != "" {
		e.Message += " (request " + id + ")"
	}
	return e
}

// classOf returns the class of the API's error type, or else of the status. An
// error within a stream has only a type, because the status was 200.
func classOf(status int, kind, message string) content.ErrorClass {
	switch kind {
	case "invalid_request_error":
		return invalidClass(message)
	case "authentication_error", "permission_error":
		return content.ClassAuth
	case "billing_error":
		return content.ClassBilling
	case "not_found_error":
		return content.ClassInvalid
	case "request_too_large":
		return content.ClassTooLong
	case "rate_limit_error":
		return content.ClassRateLimit
	case "timeout_error":
		return content.ClassTimeout
	case "overloaded_error":
		return content.ClassOverloaded
	case "api_error":
		return content.ClassServer
	}
	if status < http.StatusBadRequest {
		return content.ClassServer // an unknown type within a stream
	}
	return provider.ClassOf(status)
}

// invalidClass looks at the message, because the API gives these errors no type of
// their own.
func invalidClass(message string) content.ErrorClass {
	text := strings.ToLower(message)
	for _, sign := range []string{"prompt is too long", "exceed context limit", "exceeds the maximum allowed number of tokens"} {
		if strings.Contains(text, sign) {
			return content.ClassTooLong
		}
	}
	for _, sign := range []string{"credit balance is too low", "usage limits"} {
		if strings.Contains(text, sign) {
			return content.ClassBilling
		}
	}
	return content.ClassInvalid
}
