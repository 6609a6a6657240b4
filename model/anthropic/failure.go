package anthropic

import (
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

// failure says what it means that a call ended with err: the cause of ctx if the
// caller left, else a *model.Error without the key.
func (m *Model) failure(ctx context.Context, err error, used content.Usage) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	var e *model.Error
	if api, ok := errors.AsType[*sdk.Error](err); ok {
		e = refused(api)
	} else if own, ok := errors.AsType[*model.Error](err); ok {
		e = own
	} else if onTheWay(err) {
		broken := provider.Broken(ctx, err)
		if e, ok = errors.AsType[*model.Error](broken); !ok {
			return broken
		}
	} else {
		e = &model.Error{Class: content.ClassServer, Code: "malformed", Message: "the answer cannot be read: " + err.Error()}
	}
	e.Message = m.scrub(e.Message)
	if e.Usage == (content.Usage{}) {
		e.Usage = used
	}
	return e
}

// onTheWay reports whether err is of the transport and not of what came over it.
func onTheWay(err error) bool {
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return true
	}
	if _, ok := errors.AsType[*url.Error](err); ok {
		return true
	}
	_, ok := errors.AsType[net.Error](err)
	return ok
}

// refused reads an error of the API, in place of a reply or in the middle of one.
func refused(api *sdk.Error) *model.Error {
	var body struct {
		Error struct {
			Type    string `json:"type"`
			Message string `json:"message"`
		} `json:"error"`
		RequestID string `json:"request_id"`
	}
	if json.Unmarshal([]byte(api.RawJSON()), &body) != nil || body.Error.Message == "" {
		body.Error.Message = firstWords(api.RawJSON())
	}
	e := &model.Error{
		Class:   classOf(api.StatusCode, body.Error.Type, body.Error.Message),
		Code:    body.Error.Type,
		Message: body.Error.Message,
	}
	if api.StatusCode >= http.StatusBadRequest {
		e.Message = fmt.Sprintf("%s (status %d)", e.Message, api.StatusCode)
	}
	if id := api.RequestID; id != "" || body.RequestID != "" {
		if id == "" {
			id = body.RequestID
		}
		e.Message += " (request " + id + ")"
	}
	if api.Response != nil && e.Class.Retryable() {
		e.RetryAfter = provider.RetryAfter(api.Response.Header, time.Now())
	}
	e.Message = strings.TrimSpace(e.Message)
	return e
}

// classOf sorts by the API's type of error, which a stream that has begun with
// status 200 has alone, and then by status.
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
		return content.ClassServer // a kind that is not known, in the middle of a stream
	}
	return provider.ClassOf(status)
}

// invalidClass reads the message, because the API tells these three in no other
// way.
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

// firstWords is the beginning of what is no error of the API's own, such as the
// page of a proxy.
func firstWords(body string) string {
	const most = 200
	words := strings.Join(strings.Fields(body), " ")
	if words == "" {
		return "no message"
	}
	if runes := []rune(words); len(runes) > most {
		return string(runes[:most]) + "…"
	}
	return words
}
