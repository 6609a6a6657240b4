package provider_test

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/internal/provider"
	"github.com/turnlog/turnlog/model"
	"github.com/turnlog/turnlog/model/modeltest"
)

// recorder records events. The one named "last" ends the response, "odd" and "broken"
// are errors, and "enough" completes the reply.
type recorder struct {
	reply  *provider.Reply
	heard  []string
	reason content.FinishReason
}

func (r *recorder) Event(name string, data []byte) (bool, error) {
	r.heard = append(r.heard, name+":"+string(data))
	r.reply.Usage.InputTokens++
	switch string(data) {
	case "odd":
		return false, provider.Malformed("odd", data)
	case "broken":
		return false, errors.New("it is broken")
	case "enough", "last":
		r.reason = content.Completed
	}
	return string(data) == "last", nil
}

func (r *recorder) Reason() (content.FinishReason, error) { return r.reason, nil }

// exchange posts {"q":"<a>"} to the path /x below a base URL.
func exchange(t *testing.T, base string, silence time.Duration) (*recorder, error) {
	t.Helper()
	e, err := provider.NewEndpoint(provider.Settings{
		Provider: "p", Model: "m", BaseURL: base, Key: "sk-1", KeyHeader: "X-Key", KeyPrefix: "Key ", Silence: silence, Options: struct{}{},
		Failure: func(s *provider.StatusError) *model.Error {
			return &model.Error{Class: provider.ClassOf(s.Status), Message: fmt.Sprintf("%v: %d bytes", s, len(s.Body))}
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	r := &recorder{reply: provider.NewReply(t.Context(), func(content.Delta) {})}
	_, err = provider.Exchange(t.Context(), &e, provider.Request{
		Path: "/x", Header: http.Header{"X-Version": {"7"}}, Body: map[string]string{"q": "<a>"},
	}, r.reply, r)
	return r, err
}

func TestExchangePassesEventsUntilTheResponseIsComplete(t *testing.T) {
	t.Parallel()
	asJSON := map[string]string{"Content-Type": "application/json"}
	for name, tt := range map[string]struct {
		answer modeltest.Answer
		heard  string
		want   string // part of the error; empty: none
		class  content.ErrorClass
	}{
		"completed":      {modeltest.Answer{Body: "data: a\n\nevent: e\ndata: last\n\ndata: c\n\n"}, ":a e:last", "", ""},
		"without data":   {modeltest.Answer{Body: "event: ping\n\ndata:\n\ndata: last\n\n"}, ":last", "", ""},
		"enough":         {modeltest.Answer{Body: "data: enough\n\n"}, ":enough", "", ""},
		"enough, cut":    {modeltest.Answer{Body: "data: enough\n\n", Cut: true}, ":enough", "", ""},
		"ended early":    {modeltest.Answer{Body: "data: a\n\n"}, ":a", "before the reply was complete", content.ClassNetwork},
		"cut":            {modeltest.Answer{Body: "data: a\n\n", Cut: true}, ":a", "EOF", content.ClassNetwork},
		"malformed":      {modeltest.Answer{Body: "data: odd\n\n"}, ":odd", "odd: odd", content.ClassServer},
		"broken":         {modeltest.Answer{Body: "data: broken\n\n"}, ":broken", "malformed response: it is broken", content.ClassServer},
		"not streamed":   {modeltest.Answer{Body: "enough", Header: asJSON}, ":enough", "", ""},
		"not whole":      {modeltest.Answer{Body: "a", Header: asJSON}, ":a", "the response is incomplete: a", content.ClassServer},
		"whole, cut":     {modeltest.Answer{Body: "a", Header: asJSON, Cut: true}, "", "EOF", content.ClassNetwork},
		"whole, odd":     {modeltest.Answer{Body: "odd", Header: asJSON}, ":odd", "odd: odd", content.ClassServer},
		"not an API":     {modeltest.Answer{Body: "<html>", Header: map[string]string{"Content-Type": "text/html; charset=utf-8"}}, "", "/v1/x is a web page", content.ClassInvalid},
		"a refused key":  {modeltest.Answer{Status: 401, Body: "no"}, "", "status 401 Unauthorized: 2 bytes", content.ClassAuth},
		"a full server":  {modeltest.Answer{Status: 503, Header: map[string]string{"Retry-After": "7"}}, "", "status 503", content.ClassOverloaded},
		"a long refusal": {modeltest.Answer{Status: 400, Body: strings.Repeat("x", 1<<17)}, "", "status 400 Bad Request: 65536 bytes", content.ClassInvalid},
		"whole, endless": {modeltest.Answer{Body: strings.Repeat("x", 64<<20+1), Header: asJSON}, "", "larger than 64 MiB", content.ClassServer},
		"silence":        {modeltest.Answer{Body: "data: a\n\n", Silent: true}, ":a", "sent nothing for 50ms", content.ClassTimeout},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := modeltest.ServeOne(t, tt.answer)
			silence := time.Minute
			if tt.answer.Silent {
				silence = 50 * time.Millisecond
			}
			r, err := exchange(t, s.URL+"/v1/", silence)
			if got := strings.Join(r.heard, " "); got != tt.heard {
				t.Errorf("events = %q, want %q", got, tt.heard)
			}
			if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
				t.Fatalf("Exchange = %v, want %q", err, tt.want)
			}
			if err != nil {
				e, ok := errors.AsType[*model.Error](err)
				if !ok || e.Class != tt.class || e.Usage.InputTokens != int64(len(r.heard)) || (e.RetryAfter == 7*time.Second) != (tt.answer.Status == 503) {
					t.Errorf("Exchange = %+v, want class %s and the usage of %d events", e, tt.class, len(r.heard))
				}
			}
			asked := s.Asked()[0]
			if h := asked.Header; asked.Method != http.MethodPost || asked.Path != "/v1/x" || string(asked.Body) != `{"q":"<a>"}` ||
				h.Get("X-Key") != "Key sk-1" || h.Get("X-Version") != "7" || h.Get("Content-Type") != "application/json" {
				t.Errorf("request = %+v", asked)
			}
		})
	}
}

func TestInvalidRequestsAreNotPosted(t *testing.T) {
	t.Parallel()
	e, err := provider.NewEndpoint(provider.Settings{Provider: "p", Model: "m", BaseURL: "http://127.0.0.1:1", Options: struct{}{}})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range []provider.Request{{Body: func() {}}, {Path: "%zz"}} {
		_, err := provider.Exchange(t.Context(), &e, r, provider.NewReply(t.Context(), nil), nil)
		if e, ok := errors.AsType[*model.Error](err); !ok || e.Class != content.ClassInvalid || e.Code != "request" {
			t.Errorf("Exchange of %+v = %v, want an invalid request", r, err)
		}
	}
}

func TestPrintedEndpointsHideTheKey(t *testing.T) {
	t.Parallel()
	e, err := provider.NewEndpoint(provider.Settings{Provider: "p", Model: "m", BaseURL: "http://127.0.0.1:1", Key: "sk-1", Options: struct{}{}})
	if shown := fmt.Sprintf("%v %+v %#v %s", e, &e, e, e); err != nil || shown != "p:m p:m p:m p:m" {
		t.Errorf("%v: shown as %s", err, shown)
	}
}

func TestOnlySetFieldsAreSent(t *testing.T) {
	t.Parallel()
	o := provider.Object{}
	o.Opt("zero", 0)
	o.Opt("empty", "")
	o.Opt("nothing", nil)
	o.Opt("text", "x")
	o.Opt("share", new(float64)) // a pointer is set, whatever it points to
	if len(o) != 2 || o["text"] != "x" || o["share"] == nil {
		t.Errorf("object %v", o)
	}
}

func TestInvalidEndpointsAreRejectedWithoutTheirSecrets(t *testing.T) {
	t.Parallel()
	const base, secret = "https://api.example.com", "hunter2"
	type options struct {
		Effort string `option:"effort" want:"low, high"`
	}
	for want, s := range map[string]provider.Settings{
		"no model: write p:MODEL":       {Provider: "p", BaseURL: base},
		"blanks or control characters":  {Model: "m", BaseURL: base, Key: secret + "\n"},
		"base_url: want http":           {Model: "m", BaseURL: "ftp://me:" + secret + "@host"},
		"effort=medium: want low, high": {Model: "m", BaseURL: base, Options: options{Effort: "medium"}},
	} {
		if s.Options == nil {
			s.Options = options{}
		}
		_, err := provider.NewEndpoint(s)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), secret) {
			t.Errorf("NewEndpoint = %v, want %q", err, want)
		}
	}
}
