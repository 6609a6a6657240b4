package provider

import (
	"context"
	"errors"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/model"
)

// overloaded is the status, in no standard, with which providers say that they
// have too much to do.
const overloaded = 529

// ClassOf says what a status means. A provider's own code may mean more.
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
	case http.StatusServiceUnavailable, overloaded:
		return content.ClassOverloaded
	case http.StatusConflict: // two requests in each other's way
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

// longestWait bounds what a provider can make a caller wait for.
const longestWait = 24 * time.Hour

// RetryAfter reads how long to wait before another attempt: Retry-After-Ms, or
// Retry-After in seconds or as a date; a day at most. Zero if the provider does
// not say.
func RetryAfter(h http.Header, now time.Time) time.Duration {
	after := h.Get("Retry-After")
	if d := wait(h.Get("Retry-After-Ms"), time.Millisecond); d > 0 {
		return d
	}
	if d := wait(after, time.Second); d > 0 {
		return d
	}
	if at, err := http.ParseTime(after); err == nil && at.After(now) {
		return min(at.Sub(now), longestWait)
	}
	return 0
}

// wait reads a number of units; zero if there is none.
func wait(number string, unit time.Duration) time.Duration {
	n, err := strconv.ParseFloat(number, 64)
	if err != nil || !(n > 0) { // NaN is not
		return 0
	}
	return time.Duration(min(n*float64(unit), float64(longestWait)))
}

// Broken says what it means that an exchange ended without an answer of the
// provider: the cause of ctx if the caller left, a timeout if nothing came any
// more, an invalid request if it was redirected, otherwise trouble on the way,
// which may be over at the next attempt. A stream that ends before its reply does
// is Broken with io.ErrUnexpectedEOF.
func Broken(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	class := content.ClassNetwork
	if _, ok := errors.AsType[*RedirectError](err); ok {
		class = content.ClassInvalid
	}
	if timeout, ok := errors.AsType[net.Error](err); ok && timeout.Timeout() {
		class = content.ClassTimeout
	}
	return &model.Error{Class: class, Message: err.Error()}
}

// hidden stands where a secret stood.
const hidden = "[key]"

// Scrub returns text without the secrets that are in it: what a provider or a
// transport says of a failure may repeat the request's key.
func Scrub(text string, secrets ...string) string {
	for _, s := range secrets {
		if s != "" {
			text = strings.ReplaceAll(text, s, hidden)
		}
	}
	return text
}
