package openai

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/model/modeltest"
)

func TestErrorResponsesHaveClasses(t *testing.T) {
	t.Parallel()
	wrapped := func(kind, code, message string) string {
		return `{"error":{"message":"` + message + `","type":"` + kind + `","param":null,"code":` + code + `}}`
	}
	for name, tt := range map[string]struct {
		status  int
		body    string
		class   content.ErrorClass
		message string
	}{
		"rate limit":         {429, wrapped("requests", `"rate_limit_exceeded"`, "Rate limit reached"), content.ClassRateLimit, "Rate limit reached"},
		"quota":              {429, wrapped("insufficient_quota", `"insufficient_quota"`, "You exceeded your current quota"), content.ClassBilling, "exceeded"},
		"quota by type":      {429, wrapped("insufficient_quota", "null", "quota"), content.ClassBilling, "quota"},
		"larger than minute": {429, wrapped("tokens", `"rate_limit_exceeded"`, "Request too large for gpt-5: Limit 30000, Requested 50000"), content.ClassTooLong, "Limit 30000"},
		"key":                {401, wrapped("invalid_request_error", `"invalid_api_key"`, "Incorrect API key"), content.ClassAuth, "Incorrect"},
		"forbidden":          {403, `{"error":"no"}`, content.ClassAuth, "no"},
		"too long":           {400, wrapped("invalid_request_error", `"context_length_exceeded"`, "long"), content.ClassTooLong, "long"},
		"too long, no code":  {400, wrapped("BadRequestError", "400", "This model's maximum context length is 4096 tokens"), content.ClassTooLong, "4096"},
		"too long, llama":    {400, wrapped("exceed_context_size_error", "400", "the request exceeds"), content.ClassTooLong, "exceeds"},
		"too large a body":   {413, ``, content.ClassTooLong, "413"},
		"invalid":            {400, wrapped("invalid_request_error", "null", "Unknown parameter"), content.ClassInvalid, "Unknown parameter"},
		"no model":           {404, wrapped("invalid_request_error", `"model_not_found"`, "no such model"), content.ClassInvalid, "no such model"},
		"filter":             {400, wrapped("", `"content_filter"`, "filtered"), content.ClassBlocked, "filtered"},
		"flagged":            {400, wrapped("invalid_request_error", `"invalid_prompt"`, "flagged"), content.ClassBlocked, "flagged"},
		"overloaded":         {503, wrapped("server_error", "null", "overloaded"), content.ClassServer, "overloaded"},
		"slow down":          {503, wrapped("", `"slow_down"`, "slow"), content.ClassOverloaded, "slow"},
		"529":                {529, ``, content.ClassOverloaded, "529"},
		"page":               {502, `<html>Bad gateway</html>`, content.ClassServer, "Bad gateway"},
		"text error":         {404, `{"error":"model 'x' not found, try pulling it first"}`, content.ClassInvalid, "try pulling"},
		"list":               {400, `[{"error":{"code":400,"message":"listed","status":"INVALID_ARGUMENT"}}]`, content.ClassInvalid, "listed"},
		"detail":             {422, `{"detail":[{"msg":"field required"}]}`, content.ClassInvalid, "field required"},
		"bare message":       {400, `{"object":"error","message":"bare","type":"invalid_request_error","code":1}`, content.ClassInvalid, "bare"},
		"payment":            {402, wrapped("", "402", "Insufficient credits"), content.ClassBilling, "credits"},
		"redirect":           {302, ``, content.ClassOther, "302"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := modeltest.ServeOne(t, modeltest.Answer{Status: tt.status, Body: tt.body, Header: map[string]string{"Content-Type": "application/json"}})
			for _, api := range []API{Responses, Chat} {
				e := askFailing(t, open(t, s, Config{API: api}), modeltest.Ask("x"))
				if e.Class != tt.class || !strings.Contains(e.Message, tt.message) {
					t.Errorf("%s: failure = %+v, want class %s and %q", api, e, tt.class, tt.message)
				}
			}
		})
	}
}

func TestRetryAfterIsReported(t *testing.T) {
	t.Parallel()
	for header, want := range map[[2]string]time.Duration{
		{"Retry-After", "7"}:         7 * time.Second,
		{"Retry-After-Ms", "1500.5"}: 1500500 * time.Microsecond,
		{"X-Other", "7"}:             0,
	} {
		s := modeltest.ServeOne(t, modeltest.Answer{Status: 429, Header: map[string]string{header[0]: header[1]}})
		if e := askFailing(t, open(t, s, Config{}), modeltest.Ask("x")); e.RetryAfter != want || e.Class != content.ClassRateLimit {
			t.Errorf("%v: %+v, want to wait %s", header, e, want)
		}
	}
}

func TestWebPageIsNotAnAPI(t *testing.T) {
	t.Parallel()
	s := modeltest.ServeOne(t, modeltest.Answer{Header: map[string]string{"Content-Type": "text/html"}, Body: "<html>"})
	e := askFailing(t, open(t, s, Config{}), modeltest.Ask("x"))
	if e.Class != content.ClassInvalid || !strings.Contains(e.Message, s.URL) {
		t.Errorf("failure = %+v", e)
	}
}

func TestUnencodableRequestIsInvalid(t *testing.T) {
	t.Parallel()
	s := modeltest.ServeOne(t, modeltest.Answer{})
	r := modeltest.Ask("x")
	broken := content.Part{Kind: content.CustomKind, Name: "openai.compaction", Data: []byte(`{`)}
	m := open(t, s, Config{API: Responses})
	r.Transcript = append(r.Transcript, content.NewItem(content.Assistant, own(m.origin, broken, note{})))
	if e := askFailing(t, m, r); e.Class != content.ClassInvalid {
		t.Errorf("failure = %+v, want an invalid request", e)
	}
}

func TestRequiredCacheFailsOnCompatibleServers(t *testing.T) {
	t.Parallel()
	s := modeltest.ServeOne(t, modeltest.Answer{Body: recorded(t, "responses_text.sse")})
	r := modeltest.Ask("x")
	r.Cache = &content.CacheRequest{Mode: "required"}
	if e := askFailing(t, open(t, s, Config{}), r); e.Class != content.ClassInvalid || len(s.Asked()) != 0 {
		t.Errorf("failure = %+v after %d requests", e, len(s.Asked()))
	}
	ask(t, openOwn(t, s, Config{}), r)
	if body := string(s.Asked()[0].Body); !strings.Contains(body, `"prompt_cache_key":"modeltest"`) {
		t.Errorf("the request has no key: %s", body)
	}
}

func TestCancelEndsASilentCall(t *testing.T) {
	t.Parallel()
	gone := errors.New("the caller is gone")
	for _, api := range []API{Responses, Chat} {
		arrived := make(chan struct{})
		s := modeltest.Serve(t, func(modeltest.Asked) modeltest.Answer {
			close(arrived)
			return modeltest.Answer{Silent: true}
		})
		ctx, cancel := context.WithCancelCause(t.Context())
		go func() {
			<-arrived
			cancel(gone)
		}()
		if _, err := open(t, s, Config{API: api}).Call(ctx, modeltest.Ask("x"), func(content.Delta) {}); !errors.Is(err, gone) {
			t.Errorf("%s: Call = %v, want the cause", api, err)
		}
	}
}

func TestHTTPClientIsNotModified(t *testing.T) {
	t.Parallel()
	s := modeltest.ServeOne(t, modeltest.Answer{Body: events(choice(`{"content":"Hm"}`), "[DONE]")})
	c := &http.Client{}
	ask(t, open(t, s, Config{HTTP: c}), modeltest.Ask("x"))
	if c.Transport != nil {
		t.Error("the caller's client got another transport")
	}
}
