package provider

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/model"
)

// statusOverloaded is a nonstandard status of overloaded providers.
const statusOverloaded = 529

// ClassOf returns the error class of an HTTP status. A provider's own error code
// may be more specific.
func ClassOf(status int) content.ErrorClass {
	switch status {
	case http.StatusUnauthorized, http.StatusForbidden:
		return content.ClassAuth
	case http.StatusPaymentRequired:
		return content.ClassBilling
	case http.StatusRequestTimeout, http.StatusGatewayTimeout:
		return content.ClassTimeout
	case http.StatusRequestEntityTooLarge:
		return content.ClassTooLong
	case http.StatusTooManyRequests:
		return content.ClassRateLimit
	case http.StatusServiceUnavailable, statusOverloaded:
		return content.ClassOverloaded
	case http.StatusConflict: // concurrent requests conflict
		return content.ClassServer
	}
	switch {
	case status >= http.StatusInternalServerError:
		return content.ClassServer
	case status >= http.StatusBadRequest:
		return content.ClassInvalid
	}
	return content.ClassOther
}

// maxRetryAfter bounds how long a provider can delay the next attempt.
const maxRetryAfter = 24 * time.Hour

// retryAfter returns the delay before the next attempt, from Retry-After-Ms or
// from Retry-After in seconds or as a date. It returns at most a day, and 0 if
// neither header says anything.
func retryAfter(h http.Header, now time.Time) time.Duration {
	after := h.Get("Retry-After")
	if d := multiple(h.Get("Retry-After-Ms"), time.Millisecond); d > 0 {
		return d
	}
	if d := multiple(after, time.Second); d > 0 {
		return d
	}
	if at, err := http.ParseTime(after); err == nil && at.After(now) {
		return min(at.Sub(now), maxRetryAfter)
	}
	return 0
}

func multiple(number string, unit time.Duration) time.Duration {
	n, err := strconv.ParseFloat(number, 64)
	if err != nil || !(n > 0) { // also rejects NaN
		return 0
	}
	return time.Duration(min(n*float64(unit), float64(maxRetryAfter)))
}

// Invalid returns the failure of a request that is not sent.
func Invalid(code, format string, args ...any) *model.Error {
	return &model.Error{Class: content.ClassInvalid, Code: code, Message: fmt.Sprintf(format, args...)}
}

// failure returns the error with which a call ends: the cause of ctx if that has ended,
// otherwise a *model.Error. If err is not a *model.Error yet, it is a failure of the
// transport. The message is shortened and does not contain the key. An error without
// usage gets the usage that the provider has reported so far.
func failure(ctx context.Context, err error, used content.Usage, key string) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	e, ok := errors.AsType[*model.Error](err)
	if !ok {
		e = &model.Error{Class: transportClass(err), Message: err.Error()}
	}
	if key != "" {
		e.Code, e.Message = strings.ReplaceAll(e.Code, key, "[key]"), strings.ReplaceAll(e.Message, key, "[key]")
	}
	e.Message = Brief(e.Message)
	if e.Usage == (content.Usage{}) {
		e.Usage = used
	}
	return e
}

// transportClass returns the class of an exchange that ended without a response
// of the provider. Most of these failures may be gone at the next attempt.
func transportClass(err error) content.ErrorClass {
	if _, ok := errors.AsType[*redirectError](err); ok {
		return content.ClassInvalid
	}
	if timeout, ok := errors.AsType[net.Error](err); ok && timeout.Timeout() {
		return content.ClassTimeout
	}
	return content.ClassNetwork
}

// Brief returns at most the first 1000 bytes of a provider's message as UTF-8.
func Brief(s string) string {
	const most = 1000
	return content.Clip(strings.ToValidUTF8(strings.TrimSpace(s), "\uFFFD"), most)
}

// Lenient decodes raw, which may be missing, and ignores fields of an unexpected type, because
// servers differ and few fields matter.
func Lenient(raw []byte, into any) error {
	if raw == nil {
		return nil
	}
	err := json.Unmarshal(raw, into)
	if _, odd := errors.AsType[*json.UnmarshalTypeError](err); odd {
		return nil
	}
	return err //nolint:wrapcheck // the caller adds the context
}
