package provider_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/url"
	"strings"
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

func TestRetryAfterReadsEveryForm(t *testing.T) {
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

func TestTransportFailuresHaveClasses(t *testing.T) {
	t.Parallel()
	wrapped := func(err error) error { return &url.Error{Op: "Post", URL: "http://localhost", Err: err} }
	for _, c := range []struct {
		err  error
		want content.ErrorClass
	}{
		{io.ErrUnexpectedEOF, content.ClassNetwork},
		{wrapped(errors.New("connection refused")), content.ClassNetwork},
		{wrapped(&provider.SilentError{After: time.Second}), content.ClassTimeout},
		{wrapped(context.DeadlineExceeded), content.ClassTimeout}, // of a client with its own timeout
		{wrapped(&provider.RedirectError{Host: "elsewhere"}), content.ClassInvalid},
	} {
		used := content.Usage{InputTokens: 3}
		e, ok := errors.AsType[*model.Error](provider.Failure(t.Context(), c.err, used, ""))
		if !ok || e.Class != c.want || e.Message == "" || e.Usage != used {
			t.Errorf("Failure(%v) = %v, want class %s", c.err, e, c.want)
		}
	}
}

func TestFailureKeepsTypedErrors(t *testing.T) {
	t.Parallel()
	long := &model.Error{Class: content.ClassAuth, Code: "bad sk-1", Message: "sk-1 and sk-1" + strings.Repeat("x", 2000), Usage: content.Usage{InputTokens: 1}}
	e, ok := errors.AsType[*model.Error](provider.Failure(t.Context(), long, content.Usage{InputTokens: 9}, "sk-1"))
	if !ok || e.Class != content.ClassAuth || e.Code != "bad [key]" || !strings.HasPrefix(e.Message, "[key] and [key]x") ||
		!strings.HasSuffix(e.Message, "x…") || len(e.Message) > 1010 || e.Usage.InputTokens != 1 {
		t.Errorf("Failure = %+v", e)
	}
}

func TestFailureOfACancelledCallIsTheCause(t *testing.T) {
	t.Parallel()
	gone := errors.New("gone")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(gone)
	if err := provider.Failure(ctx, io.ErrUnexpectedEOF, content.Usage{}, ""); !errors.Is(err, gone) {
		t.Errorf("Failure = %v, want the cause", err)
	}
}

func TestSettingsAreChecked(t *testing.T) {
	t.Parallel()
	check := func(name, base, key string) error {
		_, err := provider.NewEndpoint(provider.Settings{Provider: "p", Model: name, BaseURL: base, Key: key, Options: struct{}{}})
		return err
	}
	for base, want := range map[string]bool{
		"http://127.0.0.1:1/v1": true, "https://example.com": true,
		"": false, "example.com": false, "ftp://example.com": false, "http://": false, "http://a b": false,
	} {
		if err := check("m", base, ""); (err == nil) != want {
			t.Errorf("base URL %q: %v", base, err)
		}
	}
	for key, want := range map[string]bool{"": true, "sk-1": true, "sk 1": false, "sk\n": false, "ské": false} {
		if err := check("m", "http://localhost", key); (err == nil) != want {
			t.Errorf("key %q: %v", key, err)
		}
	}
	if err := check("", "http://localhost", ""); err == nil || err.Error() != "no model: write p:MODEL" {
		t.Errorf("without a model: %v", err)
	}
}

func TestOptionsAreParsedAndChecked(t *testing.T) {
	t.Parallel()
	type config struct {
		Model  string
		Word   string   `option:"word" want:"low, high"`
		Number int      `option:"number" want:"at least 5"`
		Heat   *float64 `option:"heat" want:"0 to 2"`
		Flag   *bool    `option:"flag"`
		Sure   bool     `option:"sure"`
		Budget *int64   `option:"budget" want:"-1 to 9"`
	}
	if got := strings.Join(provider.OptionNames(config{}), " "); got != "word number heat flag sure budget" {
		t.Errorf("OptionNames = %s", got)
	}
	for query, want := range map[string]string{
		"": "", "word=low&number=5&heat=0&flag=false&sure=1&budget=-1": "", "heat=.5&number=0": "", "elsewhere=x": "",
		"word=middling": "option word=middling: want low, high", "word=low,": "option word=low,: want low, high",
		"number=many": "option number=many: want a whole number", "number=4": "option number=4: want at least 5",
		"heat=hot": "option heat=hot: want a number", "heat=2.5": "option heat=2.5: want 0 to 2", "heat=NaN": "option heat=NaN: want 0 to 2",
		"flag=maybe": "option flag=maybe: want true or false", "budget=-2": "option budget=-2: want -1 to 9",
	} {
		given, err := url.ParseQuery(query)
		if err != nil {
			t.Fatal(err)
		}
		var cfg config
		if err = provider.SetOptions(&cfg, given); err == nil {
			err = provider.CheckOptions(cfg)
		}
		if (err == nil) != (want == "") || err != nil && err.Error() != want {
			t.Errorf("%s: %v, want %q", query, err, want)
		}
		if given.Get("budget") == "-1" && (cfg.Word != "low" || cfg.Number != 5 || *cfg.Heat != 0 || *cfg.Flag || !cfg.Sure || *cfg.Budget != -1) {
			t.Errorf("%s: %+v", query, cfg)
		}
	}
}

func TestPlaceholdersNameTheMedia(t *testing.T) {
	t.Parallel()
	for want, p := range map[string]content.Part{
		"[data, which cannot be shown here]":                           {Media: &content.Media{}},
		"[a.wav, audio/wav, 2 bytes, which cannot be shown here]":      {Name: "a.wav", Media: &content.Media{MIME: "audio/wav", Bytes: []byte("xx")}},
		"[image at https://example.com/a, which cannot be shown here]": {Media: &content.Media{Modality: "image", URI: "https://example.com/a"}},
		"[application/pdf, which cannot be shown here]":                {Media: &content.Media{MIME: "application/pdf", URI: "data:x"}},
	} {
		if got := provider.Placeholder(p); got != want {
			t.Errorf("Placeholder = %q, want %q", got, want)
		}
	}
}
