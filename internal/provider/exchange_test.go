package provider_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/internal/provider"
	"github.com/turnlog/turnlog/model"
	"github.com/turnlog/turnlog/model/modeltest"
)

// recorder records events. The one named "last" completes the response, one with "odd"
// is an error, and one with "enough" suffices.
type recorder struct {
	heard  []string
	enough bool
}

func (r *recorder) Event(name string, data []byte) (bool, error) {
	r.heard = append(r.heard, name+":"+string(data))
	r.enough = r.enough || string(data) == "enough"
	if string(data) == "odd" {
		return false, provider.Malformed("odd", data)
	}
	return name == "last", nil
}

func (r *recorder) Complete() bool { return r.enough }

func TestStreamPassesEventsUntilTheResponseIsComplete(t *testing.T) {
	t.Parallel()
	asJSON := map[string]string{"Content-Type": "application/json"}
	for name, tt := range map[string]struct {
		answer modeltest.Answer
		heard  string
		want   string // part of the error; empty: none
		class  content.ErrorClass
	}{
		"completed":      {modeltest.Answer{Body: "data: a\n\nevent: last\ndata: b\n\ndata: c\n\n"}, ":a last:b", "", ""},
		"enough":         {modeltest.Answer{Body: "data: enough\n\n"}, ":enough", "", ""},
		"enough, cut":    {modeltest.Answer{Body: "data: enough\n\n", Cut: true}, ":enough", "", ""},
		"ended early":    {modeltest.Answer{Body: "data: a\n\n"}, ":a", "before the reply was complete", content.ClassNetwork},
		"cut":            {modeltest.Answer{Body: "data: a\n\n", Cut: true}, ":a", "EOF", content.ClassNetwork},
		"malformed":      {modeltest.Answer{Body: "data: odd\n\n"}, ":odd", "odd: odd", content.ClassServer},
		"not streamed":   {modeltest.Answer{Body: "enough", Header: asJSON}, ":enough", "", ""},
		"not whole":      {modeltest.Answer{Body: "a", Header: asJSON}, ":a", "the response is incomplete: a", content.ClassServer},
		"whole, cut":     {modeltest.Answer{Body: "a", Header: asJSON, Cut: true}, "", "EOF", content.ClassNetwork},
		"whole, odd":     {modeltest.Answer{Body: "odd", Header: asJSON}, ":odd", "odd: odd", content.ClassServer},
		"not an API":     {modeltest.Answer{Body: "<html>", Header: map[string]string{"Content-Type": "text/html; charset=utf-8"}}, "", "/v1/x is a web page", content.ClassInvalid},
		"a refused key":  {modeltest.Answer{Status: 401, Body: "no"}, "", "status 401 Unauthorized", content.ClassNetwork},
		"a long refusal": {modeltest.Answer{Status: 400, Body: strings.Repeat("x", 1<<17)}, "", "status 400", content.ClassNetwork},
		"silence":        {modeltest.Answer{Body: "data: a\n\n", Silent: true}, ":a", "sent nothing for 50ms", content.ClassTimeout},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := modeltest.ServeOne(t, tt.answer)
			var r recorder
			silence := time.Minute
			if tt.answer.Silent {
				silence = 50 * time.Millisecond
			}
			err := provider.Stream(t.Context(), provider.Client(nil, silence), s.URL+"/v1/x", http.Header{"X-Key": {"k"}}, map[string]string{"q": "<a>"}, &r)
			if got := strings.Join(r.heard, " "); got != tt.heard {
				t.Errorf("events = %q, want %q", got, tt.heard)
			}
			if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
				t.Fatalf("Stream = %v, want %q", err, tt.want)
			}
			if status, ok := errors.AsType[*provider.StatusError](err); ok && (status.Status != tt.answer.Status || len(status.Body) != min(len(tt.answer.Body), 64<<10)) {
				t.Errorf("Stream = %d with %d bytes", status.Status, len(status.Body))
			}
			if err != nil {
				e, ok := errors.AsType[*model.Error](provider.Failure(t.Context(), err, content.Usage{}, ""))
				if !ok || e.Class != tt.class {
					t.Errorf("class = %v, want %s", e, tt.class)
				}
			}
			asked := s.Asked()[0]
			if asked.Method != http.MethodPost || string(asked.Body) != `{"q":"<a>"}` || asked.Header.Get("X-Key") != "k" || asked.Header.Get("Content-Type") != "application/json" {
				t.Errorf("request = %+v", asked)
			}
		})
	}
}

func TestInvalidRequestsAreNotPosted(t *testing.T) {
	t.Parallel()
	for url, request := range map[string]any{"http://127.0.0.1:1": func() {}, "http://[": 1} {
		err := provider.Stream(t.Context(), http.DefaultClient, url, nil, request, &recorder{})
		if e, ok := errors.AsType[*model.Error](err); !ok || e.Class != content.ClassInvalid || e.Code != "request" {
			t.Errorf("Stream to %s = %v, want an invalid request", url, err)
		}
	}
}
