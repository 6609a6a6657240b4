package gemini

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/model"
	"github.com/turnlog/turnlog/model/modeltest"
)

func TestFailuresHaveAClass(t *testing.T) {
	t.Parallel()
	begun := `{"candidates":[{"content":{"parts":[{"text":"Hel"}]}}],"usageMetadata":{"promptTokenCount":9,"candidatesTokenCount":1}}`
	used := content.Usage{InputTokens: 9, OutputTokens: 1}
	for _, tt := range []struct {
		name   string
		answer modeltest.Answer
		want   model.Error // Message: what it contains
	}{
		{
			"rate limit",
			modeltest.Answer{Status: 429, Body: `{"error":{"code":429,"message":"You exceeded your current quota.","status":"RESOURCE_EXHAUSTED","details":[{"@type":"type.googleapis.com/google.rpc.QuotaFailure"},{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"34.5s"}]}}`},
			model.Error{Class: content.ClassRateLimit, Code: "RESOURCE_EXHAUSTED", Message: "quota", RetryAfter: 34500 * time.Millisecond},
		},
		{
			"rate limit by header",
			modeltest.Answer{Status: 429, Header: map[string]string{"Retry-After": "7"}, Body: `{"error":{"code":429,"message":"slow down","status":"RESOURCE_EXHAUSTED"}}`},
			model.Error{Class: content.ClassRateLimit, Code: "RESOURCE_EXHAUSTED", Message: "slow down", RetryAfter: 7 * time.Second},
		},
		{
			"overloaded",
			modeltest.Answer{Status: 503, Body: `{"error":{"code":503,"message":"The model is overloaded.","status":"UNAVAILABLE"}}`},
			model.Error{Class: content.ClassOverloaded, Code: "UNAVAILABLE", Message: "overloaded"},
		},
		{"529", modeltest.Answer{Status: 529, Body: `busy`}, model.Error{Class: content.ClassOverloaded, Code: "529", Message: "busy"}},
		{
			"a rate limit of a gateway, which names no code",
			modeltest.Answer{Status: 429, Header: map[string]string{"Retry-After": "2"}, Body: `{"error":{"type":"rate_limit","message":"slow down"}}`},
			model.Error{Class: content.ClassRateLimit, Code: "429", Message: "slow down", RetryAfter: 2 * time.Second},
		},
		{
			"a key that a gateway refuses",
			modeltest.Answer{Status: 401, Body: `{"error":{"message":"who are you?"}}`},
			model.Error{Class: content.ClassAuth, Code: "401", Message: "who are you?"},
		},
		{"no body", modeltest.Answer{Status: 500}, model.Error{Class: content.ClassServer, Code: "500", Message: "Internal Server Error"}},
		{
			"deadline",
			modeltest.Answer{Status: 504, Body: `{"error":{"code":504,"message":"too slow","status":"DEADLINE_EXCEEDED"}}`},
			model.Error{Class: content.ClassTimeout, Code: "DEADLINE_EXCEEDED", Message: "too slow"},
		},
		{
			"bad key",
			modeltest.Answer{Status: 400, Body: `{"error":{"code":400,"message":"API key not valid: ` + canary + `","status":"INVALID_ARGUMENT","details":[{"@type":"type.googleapis.com/google.rpc.ErrorInfo","reason":"API_KEY_INVALID","domain":"googleapis.com"}]}}`},
			model.Error{Class: content.ClassAuth, Code: "INVALID_ARGUMENT", Message: "API key not valid: [key]"},
		},
		{
			"no permission",
			modeltest.Answer{Status: 403, Body: `{"error":{"code":403,"message":"no","status":"PERMISSION_DENIED"}}`},
			model.Error{Class: content.ClassAuth, Code: "PERMISSION_DENIED", Message: "no"},
		},
		{
			"free tier",
			modeltest.Answer{Status: 400, Body: `{"error":{"code":400,"message":"enable billing","status":"FAILED_PRECONDITION"}}`},
			model.Error{Class: content.ClassBilling, Code: "FAILED_PRECONDITION", Message: "enable billing"},
		},
		{
			"too long",
			modeltest.Answer{Status: 400, Body: `{"error":{"code":400,"message":"The input token count (1048600) exceeds the maximum number of tokens allowed (1048576).","status":"INVALID_ARGUMENT"}}`},
			model.Error{Class: content.ClassTooLong, Code: "INVALID_ARGUMENT", Message: "token count"},
		},
		{
			"no such model",
			modeltest.Answer{Status: 404, Body: `{"error":{"code":404,"message":"models/x is not found","status":"NOT_FOUND"}}`},
			model.Error{Class: content.ClassInvalid, Code: "NOT_FOUND", Message: "not found"},
		},
		{
			"an error within the stream",
			modeltest.Answer{Body: events(begun, `{"error":{"code":500,"message":"internal","status":"INTERNAL"}}`)},
			model.Error{Class: content.ClassServer, Code: "INTERNAL", Message: "internal", Usage: used},
		},
		{
			"malformed JSON",
			modeltest.Answer{Body: events(begun, `{"candidates":[{"cont`)},
			model.Error{Class: content.ClassServer, Code: "malformed", Message: "malformed response", Usage: used},
		},
		{
			"of another shape",
			modeltest.Answer{Body: events(begun, `{"candidates":"none"}`)},
			model.Error{Class: content.ClassServer, Code: "malformed", Message: "malformed response", Usage: used},
		},
		{
			"a broken connection",
			modeltest.Answer{Body: events(begun), Cut: true},
			model.Error{Class: content.ClassNetwork, Message: "EOF", Usage: used},
		},
		{
			"cut within a piece",
			modeltest.Answer{Body: events(begun) + `data: {"candidates":[{"con`, Cut: true},
			model.Error{Class: content.ClassNetwork, Message: "EOF", Usage: used},
		},
		{
			"an end without a reason",
			modeltest.Answer{Body: events(begun)},
			model.Error{Class: content.ClassNetwork, Code: "incomplete", Message: "before the reply was complete", Usage: used},
		},
		{
			"silence",
			modeltest.Answer{Body: events(begun), Silent: true},
			model.Error{Class: content.ClassTimeout, Message: "sent nothing for 50ms", Usage: used},
		},
		{
			"a call that cannot be read",
			modeltest.Answer{Body: events(begun, `{"candidates":[{"finishReason":"MALFORMED_FUNCTION_CALL"}]}`)},
			model.Error{Class: content.ClassServer, Code: "MALFORMED_FUNCTION_CALL", Message: "malformed call", Usage: used},
		},
		{
			"a call of no tool",
			modeltest.Answer{Body: events(`{"candidates":[{"finishReason":"UNEXPECTED_TOOL_CALL"}]}`)},
			model.Error{Class: content.ClassServer, Code: "UNEXPECTED_TOOL_CALL", Message: "malformed call"},
		},
		{
			"a signature is missed",
			modeltest.Answer{Body: events(`{"candidates":[{"finishReason":"MISSING_THOUGHT_SIGNATURE"}]}`)},
			model.Error{Class: content.ClassInvalid, Code: "MISSING_THOUGHT_SIGNATURE", Message: "lacks a thought signature"},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := modeltest.ServeOne(t, tt.answer)
			m := open(t, s.URL, func(c *Config) {
				if tt.answer.Silent {
					c.Silence = 50 * time.Millisecond
				}
			})
			reply, err := m.Call(t.Context(), modeltest.Ask("hello"), func(content.Delta) {})
			got, ok := errors.AsType[*model.Error](err)
			if !ok {
				t.Fatalf("Call = %+v, %v; want a failure", reply, err)
			}
			if strings.Contains(err.Error(), canary) {
				t.Errorf("the key is in %q", err)
			}
			if !strings.Contains(got.Message, tt.want.Message) {
				t.Errorf("message %q, want %q", got.Message, tt.want.Message)
			}
			got.Message = tt.want.Message
			if *got != tt.want {
				t.Errorf("%+v, want %+v", *got, tt.want)
			}
			if asked := len(s.Asked()); asked != 1 {
				t.Errorf("%d requests for one attempt", asked)
			}
		})
	}
}

func TestKeyIsNotSentToRedirects(t *testing.T) {
	t.Parallel()
	other := modeltest.ServeOne(t, modeltest.Answer{Body: hello()})
	s := modeltest.ServeOne(t, modeltest.Answer{Status: 307, Header: map[string]string{"Location": other.URL}})
	_, err := open(t, s.URL, nil).Call(t.Context(), modeltest.Ask("hello"), func(content.Delta) {})
	if e, ok := errors.AsType[*model.Error](err); !ok || e.Class != content.ClassInvalid {
		t.Errorf("Call = %v, want an invalid request", err)
	}
	if asked := other.Asked(); len(asked) != 0 {
		t.Errorf("the other host was asked %d times", len(asked))
	}
}

func TestRefusedConnectionIsANetworkFailure(t *testing.T) {
	t.Parallel()
	m := open(t, "http://127.0.0.1:1", nil)
	_, err := m.Call(t.Context(), modeltest.Ask("hello"), func(content.Delta) {})
	if e, ok := errors.AsType[*model.Error](err); !ok || e.Class != content.ClassNetwork {
		t.Errorf("Call = %v, want a failure of the network", err)
	}
}

func TestCancelEndsASilentCall(t *testing.T) {
	t.Parallel()
	gone := errors.New("gone")
	m := open(t, modeltest.ServeOne(t, modeltest.Answer{Body: events(`{"candidates":[{"content":{"parts":[{"text":"Hel"}]}}]}`), Silent: true}).URL, nil)
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	heard := make(chan struct{})
	go func() {
		<-heard
		cancel(gone)
	}()
	_, err := m.Call(ctx, modeltest.Ask("hello"), func(d content.Delta) {
		if d.Op == content.AppendPart {
			close(heard)
		}
	})
	if !errors.Is(err, gone) {
		t.Errorf("Call = %v, want the cause", err)
	}
}
