package anthropic_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/model"
	"github.com/turnlog/turnlog/model/anthropic"
	"github.com/turnlog/turnlog/model/modeltest"
)

func TestErrorsOfTheAPIHaveClasses(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		status        int
		kind, message string
		want          content.ErrorClass
	}{
		{400, "invalid_request_error", "messages.1: text content blocks must be non-empty", content.ClassInvalid},
		{400, "invalid_request_error", "prompt is too long: 208310 tokens > 200000 maximum", content.ClassTooLong},
		{400, "invalid_request_error", "input length and `max_tokens` exceed context limit: 190000 + 32000 > 200000", content.ClassTooLong},
		{400, "invalid_request_error", "Your credit balance is too low to access the Anthropic API.", content.ClassBilling},
		{401, "authentication_error", "invalid x-api-key", content.ClassAuth},
		{402, "billing_error", "payment required", content.ClassBilling},
		{403, "permission_error", "no access to this model", content.ClassAuth},
		{404, "not_found_error", "model: claude-nine", content.ClassInvalid},
		{413, "request_too_large", "Request exceeds the maximum size", content.ClassTooLong},
		{413, "", "too large", content.ClassTooLong},
		{429, "rate_limit_error", "slow down", content.ClassRateLimit},
		{500, "api_error", "Internal server error", content.ClassServer},
		{502, "", "bad gateway", content.ClassServer},
		{504, "timeout_error", "took too long", content.ClassTimeout},
		{529, "overloaded_error", "Overloaded", content.ClassOverloaded},
	} {
		s := modeltest.ServeOne(t, modeltest.Answer{
			Status: c.status,
			Header: map[string]string{"Content-Type": "application/json", "Request-Id": "req_17", "Retry-After": "17"},
			Body:   fmt.Sprintf(`{"type":"error","error":{"type":%q,"message":%q}}`, c.kind, c.message),
		})
		_, err := open(t, s).Call(t.Context(), modeltest.Ask("hi"), func(content.Delta) {})
		e := modelError(t, err)
		want := model.Error{Class: c.want, Code: c.kind, Message: fmt.Sprintf("%s (status %d) (request req_17)", c.message, c.status)}
		if want.Class.Retryable() {
			want.RetryAfter = 17 * time.Second
		}
		if *e != want {
			t.Errorf("%d %s becomes %+v, want %+v", c.status, c.kind, *e, want)
		}
		if n := len(s.Asked()); n != 1 {
			t.Errorf("%d %s: %d requests were made, want 1", c.status, c.kind, n)
		}
	}
}

func TestErrorsInTheStreamHaveClasses(t *testing.T) {
	t.Parallel()
	half, _, _ := strings.Cut(recorded(t, "text"), "event: message_delta")
	for kind, want := range map[string]content.ErrorClass{
		"overloaded_error": content.ClassOverloaded, "rate_limit_error": content.ClassRateLimit,
		"api_error": content.ClassServer, "timeout_error": content.ClassTimeout, "of_next_year": content.ClassServer,
		"invalid_request_error": content.ClassInvalid,
	} {
		_, err := replay(t, half+"event: error\n"+
			`data: {"type":"error","error":{"type":"`+kind+`","message":"Too much"},"request_id":"req_18"}`+"\n\n")
		e := modelError(t, err)
		if e.Class != want || e.Code != kind || e.Message != "Too much (request req_18)" || e.Usage.CacheReadTokens != 1000 {
			t.Errorf("%s in the stream becomes %+v", kind, e)
		}
	}
}

func TestTheNamesOfErrorsAndPingsSuffice(t *testing.T) {
	t.Parallel()
	begin, end, _ := strings.Cut(recorded(t, "text"), "event: message_delta")
	end = "event: message_delta" + end
	if _, err := replay(t, begin+"event: ping\n\nevent: ping\ndata: alive\n\n"+end); err != nil {
		t.Errorf("a ping fails the call: %v", err)
	}
	_, err := replay(t, begin+`event: error`+"\n"+`data: {"error":{"type":"overloaded_error","message":"Too much"}}`+"\n\n"+end)
	if err == nil {
		t.Fatal("the call succeeds in spite of an error")
	}
	if e := modelError(t, err); e.Class != content.ClassOverloaded || e.Code != "overloaded_error" {
		t.Errorf("the error becomes %+v", e)
	}
}

func TestUnusualCountsAndEndingsAreIgnored(t *testing.T) {
	t.Parallel()
	whole := recorded(t, "text")
	begin, _, _ := strings.Cut(whole, "event: message_delta")
	for _, last := range []string{
		`{"type":"message_delta","usage":{"output_tokens":7}}`,
		`{"type":"message_delta","delta":{"stop_reason":"end_turn","stop_details":"none"},"usage":{"output_tokens":7}}`,
		`{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"input_tokens":"many","iterations":{},"output_tokens":7}}`,
	} {
		r, err := replay(t, begin+"event: message_delta\ndata: "+last+"\n\nevent: message_stop\ndata: {\"type\":\"message_stop\"}\n\n")
		if err != nil || r.Usage.OutputTokens != 7 || r.Usage.CacheReadTokens != 1000 || len(r.Items) != 1 {
			t.Errorf("%s: %+v, %v", last, r, err)
		}
	}
}

func TestBrokenStreamsFailTheAttempt(t *testing.T) {
	t.Parallel()
	whole := recorded(t, "text")
	half, _, _ := strings.Cut(whole, "event: message_delta")
	for name, c := range map[string]struct {
		answer modeltest.Answer
		want   content.ErrorClass
	}{
		"nothing":          {modeltest.Answer{}, content.ClassNetwork},
		"ends early":       {modeltest.Answer{Body: half}, content.ClassNetwork},
		"cut":              {modeltest.Answer{Body: half, Cut: true}, content.ClassNetwork},
		"cut at once":      {modeltest.Answer{Cut: true}, content.ClassNetwork},
		"malformed JSON":   {modeltest.Answer{Body: half + "event: message_delta\ndata: {\"type\":\n\n"}, content.ClassServer},
		"malformed error":  {modeltest.Answer{Body: half + "event: error\ndata: oh no\n\n"}, content.ClassServer},
		"proxy's page":     {modeltest.Answer{Status: 502, Body: "<html>" + strings.Repeat("bad ", 400)}, content.ClassServer},
		"wrong block":      {modeltest.Answer{Body: strings.Replace(whole, `_delta","index":0`, `_delta","index":5`, 1)}, content.ClassServer},
		"block left out":   {modeltest.Answer{Body: strings.Replace(whole, `_start","index":0`, `_start","index":1`, 1)}, content.ClassServer},
		"delta of a call":  {modeltest.Answer{Body: strings.Replace(whole, `"text_delta"`, `"input_json_delta"`, 1)}, content.ClassServer},
		"block is text":    {modeltest.Answer{Body: strings.Replace(whole, `"content_block":{`, `"content_block":1,"x":{`, 1)}, content.ClassServer},
		"delta is text":    {modeltest.Answer{Body: strings.Replace(whole, `"delta":{`, `"delta":"x","x":{`, 1)}, content.ClassServer},
		"ends another":     {modeltest.Answer{Body: strings.Replace(whole, `_stop","index":0`, `_stop","index":4`, 1)}, content.ClassServer},
		"signature astray": {modeltest.Answer{Body: strings.Replace(whole, `"text_delta"`, `"signature_delta"`, 1)}, content.ClassServer},
	} {
		s := modeltest.ServeOne(t, c.answer)
		_, err := open(t, s).Call(t.Context(), modeltest.Ask("hi"), func(content.Delta) {})
		e := modelError(t, err)
		if e.Class != c.want || e.Message == "" || len(e.Message) > 1100 {
			t.Errorf("%s becomes %+v, want class %s", name, e, c.want)
		}
		if n := len(s.Asked()); n != 1 {
			t.Errorf("%s: %d requests were made, want 1", name, n)
		}
	}
}

func TestRefusedConnectionIsANetworkFailure(t *testing.T) {
	t.Parallel()
	h := httptest.NewServer(http.NotFoundHandler())
	h.Close()
	_, err := open(t, &modeltest.Server{URL: h.URL}).Call(t.Context(), modeltest.Ask("hi"), func(content.Delta) {})
	if e := modelError(t, err); e.Class != content.ClassNetwork {
		t.Errorf("a refused connection becomes %v", e)
	}
}

func TestKeyIsNotSentToRedirects(t *testing.T) {
	t.Parallel()
	other := modeltest.ServeOne(t, modeltest.Answer{Body: recorded(t, "text")})
	s := modeltest.ServeOne(t, modeltest.Answer{Status: http.StatusTemporaryRedirect, Header: map[string]string{"Location": other.URL}})
	_, err := open(t, s).Call(t.Context(), modeltest.Ask("hi"), func(content.Delta) {})
	if e := modelError(t, err); e.Class != content.ClassInvalid || len(other.Asked()) != 0 {
		t.Errorf("a redirect becomes %v after %d requests elsewhere", e, len(other.Asked()))
	}
}

func TestDeadlineIsTheCause(t *testing.T) {
	t.Parallel()
	s := modeltest.ServeOne(t, modeltest.Answer{Silent: true})
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := open(t, s).Call(ctx, modeltest.Ask("hi"), func(content.Delta) {}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Call = %v, want the deadline", err)
	}
}

func TestEnvironmentIsNotRead(t *testing.T) {
	elsewhere := modeltest.ServeOne(t, modeltest.Answer{Body: recorded(t, "text")})
	t.Setenv("ANTHROPIC_API_KEY", "sk-of-the-environment")
	t.Setenv("ANTHROPIC_AUTH_TOKEN", "token-of-the-environment")
	t.Setenv("ANTHROPIC_BASE_URL", elsewhere.URL)
	t.Setenv("ANTHROPIC_CUSTOM_HEADERS", "X-Custom: environment")
	t.Setenv("ANTHROPIC_PROFILE", "none")
	a := sent(t, modeltest.Ask("hi"), func(c *anthropic.Config) { c.APIKey = "" })
	for name, values := range a.Header {
		if strings.Contains(strings.Join(values, " "), "environment") {
			t.Errorf("header %s is %q", name, values)
		}
	}
	if len(elsewhere.Asked()) != 0 {
		t.Error("the request went to the address of the environment")
	}
	if _, ok := a.Header["X-Api-Key"]; ok {
		t.Error("a key was sent where none is configured")
	}
}
