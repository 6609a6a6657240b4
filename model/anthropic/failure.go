package anthropic

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	sdk "github.com/anthropics/anthropic-sdk-go"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/internal/provider"
	"github.com/turnlog/turnlog/model"
)

// failure returns the error of a call that ended with err.
func (m *Model) failure(ctx context.Context, err error, used content.Usage) error {
	if api, ok := errors.AsType[*sdk.Error](err); ok {
		err = apiError(api)
	} else if _, ok := errors.AsType[*model.Error](err); !ok && !isTransport(err) {
		err = &model.Error{Class: content.ClassServer, Code: "malformed", Message: "malformed response: " + err.Error()}
	}
	return provider.Failure(ctx, err, used, m.key())
}

// isTransport reports whether err is about the connection, not about the data.
func isTransport(err error) bool {
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return true
	}
	if _, ok := errors.AsType[*url.Error](err); ok {
		return true
	}
	_, ok := errors.AsType[net.Error](err)
	return ok
}

// apiError translates an error of the API, which may come instead of a reply or in
// the middle of one.
func apiError(api *sdk.Error) *model.Error {
	var body struct {
		Error struct {
			Type    string `json:"type"`
			Message string `json:"message"`
		} `json:"error"`
		RequestID string `json:"request_id"`
	}
	if json.Unmarshal([]byte(api.RawJSON()), &body) != nil || body.Error.Message == "" {
		body.Error.Message = cmp.Or(provider.Brief(api.RawJSON()), "no message") // such as a proxy's page
	}
	e := &model.Error{
		Class:   classOf(api.StatusCode, body.Error.Type, body.Error.Message),
		Code:    body.Error.Type,
		Message: body.Error.Message,
	}
	if api.StatusCode >= http.StatusBadRequest {
		e.Message = fmt.Sprintf("%s (status %d)", e.Message, api.StatusCode)
	}
	if id := cmp.Or(api.RequestID, body.RequestID); id != "" {
		e.Message += " (request " + id + ")"
	}
	if api.Response != nil && e.Class.Retryable() {
		e.RetryAfter = provider.RetryAfter(api.Response.Header, time.Now())
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
