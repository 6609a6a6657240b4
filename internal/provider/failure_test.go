package provider_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/url"
	"testing"
	"time"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/internal/provider"
	"github.com/turnlog/turnlog/model"
)

func TestStatusesHaveClasses(t *testing.T) {
	t.Parallel()
	for status, want := range map[int]content.ErrorClass{
		400: content.ClassInvalid, 401: content.ClassAuth, 402: content.ClassBilling, 403: content.ClassAuth,
		404: content.ClassInvalid, 408: content.ClassTimeout, 409: content.ClassServer, 413: content.ClassTooLong,
		422: content.ClassInvalid, 429: content.ClassRateLimit, 500: content.ClassServer, 502: content.ClassServer,
		503: content.ClassOverloaded, 504: content.ClassTimeout, 529: content.ClassOverloaded, 302: content.ClassOther,
	} {
		if got := provider.ClassOf(status); got != want {
			t.Errorf("ClassOf(%d) = %s, want %s", status, got, want)
		}
	}
}

func TestRetryAfter(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	const day = 24 * time.Hour
	for _, c := range []struct {
		ms, after string
		want      time.Duration
	}{
		{"", "", 0},
		{"", "7", 7 * time.Second},
		{"", "0.5", 500 * time.Millisecond},
		{"250", "7", 250 * time.Millisecond},
		{"soon", "7", 7 * time.Second},
		{"", now.Add(time.Minute).Format(http.TimeFormat), time.Minute},
		{"", now.Add(-time.Minute).Format(http.TimeFormat), 0},
		{"", now.Add(90 * day).Format(http.TimeFormat), day},
		{"", "-3", 0},
		{"", "NaN", 0},
		{"", "1e300", day},
		{fmt.Sprint(math.Inf(1)), "", day},
	} {
		h := http.Header{}
		h.Set("Retry-After-Ms", c.ms)
		h.Set("Retry-After", c.after)
		if got := provider.RetryAfter(h, now); got != c.want {
			t.Errorf("RetryAfter(%q, %q) = %s, want %s", c.ms, c.after, got, c.want)
		}
	}
}

func TestBrokenExchanges(t *testing.T) {
	t.Parallel()
	wrapped := func(err error) error { return &url.Error{Op: "Post", URL: "http://localhost", Err: err} }
	for _, c := range []struct {
		err  error
		want content.ErrorClass
	}{
		{io.ErrUnexpectedEOF, content.ClassNetwork},
		{wrapped(errors.New("connection refused")), content.ClassNetwork},
		{wrapped(&provider.SilentError{After: time.Second}), content.ClassTimeout},
		{wrapped(context.DeadlineExceeded), content.ClassTimeout}, // of a client with a timeout of its own
		{wrapped(&provider.RedirectError{Host: "elsewhere"}), content.ClassInvalid},
	} {
		e, ok := errors.AsType[*model.Error](provider.Broken(t.Context(), c.err))
		if !ok || e.Class != c.want || e.Message == "" {
			t.Errorf("Broken(%v) = %v, want class %s", c.err, e, c.want)
		}
	}
	gone := errors.New("gone")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(gone)
	if err := provider.Broken(ctx, io.ErrUnexpectedEOF); !errors.Is(err, gone) {
		t.Errorf("Broken of a caller that left = %v, want the cause", err)
	}
}

func TestScrubTakesSecretsOut(t *testing.T) {
	t.Parallel()
	if got := provider.Scrub("key sk-1 and sk-1, not sk-2", "sk-1", ""); got != "key [key] and [key], not sk-2" {
		t.Errorf("Scrub = %q", got)
	}
}
