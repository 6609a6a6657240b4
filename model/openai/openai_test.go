package openai

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/model"
	"github.com/turnlog/turnlog/model/modeltest"
)

// canary is the key of all tests. It may be only in its header.
const canary = "sk-canary-1234567890"

// open returns a model that calls the server.
func open(t testing.TB, s *modeltest.Server, cfg Config) *Model {
	t.Helper()
	if cfg.Model == "" {
		cfg.Model = "gpt-5.2"
	}
	if cfg.BaseURL == "" {
		cfg.BaseURL = s.URL + "/v1"
	}
	m, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// openOwn returns a model at OpenAI's own address, replaced by the server.
func openOwn(t testing.TB, s *modeltest.Server, cfg Config) *Model {
	t.Helper()
	cfg.BaseURL, cfg.APIKey = OpenAI, canary
	cfg.HTTP = &http.Client{Transport: detour{s.URL}}
	return open(t, s, cfg)
}

// detour sends every request to another address.
type detour struct{ to string }

func (d detour) RoundTrip(r *http.Request) (*http.Response, error) {
	to, err := url.Parse(d.to)
	if err != nil {
		return nil, err
	}
	r = r.Clone(r.Context())
	r.URL.Scheme, r.URL.Host = to.Scheme, to.Host
	return http.DefaultTransport.RoundTrip(r)
}

// recorded returns a stream of testdata.
func recorded(t testing.TB, name string) string {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// events returns a stream of events with the data.
func events(data ...string) string {
	var b strings.Builder
	for _, d := range data {
		fmt.Fprintf(&b, "data: %s\n\n", d)
	}
	return b.String()
}

// ask makes a call, which must succeed.
func ask(t testing.TB, m model.Model, r model.Request) model.Reply {
	t.Helper()
	reply, err := m.Call(t.Context(), r, func(content.Delta) {})
	if err != nil {
		t.Fatalf("Call = %v, want a reply", err)
	}
	return reply
}

// askFailing makes a call, which must fail.
func askFailing(t testing.TB, m model.Model, r model.Request) *model.Error {
	t.Helper()
	reply, err := m.Call(t.Context(), r, func(content.Delta) {})
	e, ok := errors.AsType[*model.Error](err)
	if !ok {
		t.Fatalf("Call = %+v, %v, want a *model.Error", reply, err)
	}
	return e
}

// shown returns the parts of a reply as lines of kind and content.
func shown(r model.Reply) []string {
	var lines []string
	for _, it := range r.Items {
		for _, p := range it.Parts {
			line := string(p.Kind) + " " + p.Text
			if p.Call != nil {
				line = fmt.Sprintf("call %s %s %s", p.Call.ProviderID, p.Call.Name, p.Call.Input)
			}
			if p.Kind == content.CustomKind {
				line = p.Name + " " + string(p.Data)
			}
			lines = append(lines, line)
		}
	}
	return lines
}

func wantShown(t testing.TB, r model.Reply, finish content.FinishReason, want ...string) {
	t.Helper()
	if diff := cmp.Diff(want, shown(r)); diff != "" {
		t.Errorf("parts: -want +got\n%s", diff)
	}
	if r.FinishReason != finish {
		t.Errorf("finish reason = %q, want %q", r.FinishReason, finish)
	}
}

func TestModelConforms(t *testing.T) {
	t.Parallel()
	for _, api := range []API{Responses, Chat} {
		t.Run(string(api), func(t *testing.T) {
			t.Parallel()
			tools, text := recorded(t, string(api)+"_tools.sse"), recorded(t, string(api)+"_text.sse")
			s := modeltest.Serve(t, func(a modeltest.Asked) modeltest.Answer {
				switch {
				case strings.Contains(string(a.Body), "Fail"):
					return modeltest.Answer{Status: 500, Body: `{"error":{"message":"sorry"}}`}
				case strings.Contains(string(a.Body), "look"):
					return modeltest.Answer{Body: tools}
				}
				return modeltest.Answer{Body: text}
			})
			look := modeltest.Ask("Please look.")
			look.Tools = specs()
			modeltest.Run(t, modeltest.Factory{
				New:      func(t testing.TB) model.Model { return open(t, s, Config{API: api}) },
				Requests: []model.Request{modeltest.Ask("Say hello."), look},
				Failing: func(t testing.TB) (model.Model, model.Request) {
					return open(t, s, Config{API: api}), modeltest.Ask("Fail.")
				},
				Features: modeltest.Features{Deterministic: true},
			})
		})
	}
}

func TestStreamsMayArriveInAnyPieces(t *testing.T) {
	t.Parallel()
	for _, api := range []API{Responses, Chat} {
		body := recorded(t, string(api)+"_tools.sse")
		whole := ask(t, open(t, modeltest.ServeOne(t, modeltest.Answer{Body: body}), Config{API: api}), modeltest.Ask("x"))
		for _, pieces := range []int{1, 7, 400} {
			s := modeltest.ServeOne(t, modeltest.Answer{Body: body, Pieces: pieces})
			if diff := cmp.Diff(shown(whole), shown(ask(t, open(t, s, Config{API: api}), modeltest.Ask("x")))); diff != "" {
				t.Errorf("%s in %d pieces: -want +got\n%s", api, pieces, diff)
			}
		}
	}
}

func TestSilenceEndsACall(t *testing.T) {
	t.Parallel()
	for _, api := range []API{Responses, Chat} {
		head, _, _ := strings.Cut(recorded(t, string(api)+"_text.sse"), "wörld")
		for _, body := range []string{"", head} {
			s := modeltest.ServeOne(t, modeltest.Answer{Body: body, Silent: true})
			e := askFailing(t, open(t, s, Config{API: api, Silence: 50 * time.Millisecond}), modeltest.Ask("x"))
			if e.Class != content.ClassTimeout {
				t.Errorf("%s, silent after %d bytes: %v, want a timeout", api, len(body), e)
			}
		}
	}
}

func TestCutIsANetworkFailure(t *testing.T) {
	t.Parallel()
	for _, api := range []API{Responses, Chat} {
		head, _, _ := strings.Cut(recorded(t, string(api)+"_text.sse"), "wörld")
		for _, a := range []modeltest.Answer{
			{Cut: true},
			{Body: head, Cut: true},
			{Body: head}, // ended in order, but too early
			{Body: ""},
		} {
			e := askFailing(t, open(t, modeltest.ServeOne(t, a), Config{API: api}), modeltest.Ask("x"))
			if e.Class != content.ClassNetwork {
				t.Errorf("%s, cut %t after %d bytes: %v, want network", api, a.Cut, len(a.Body), e)
			}
		}
	}
}

func TestOneCallIsOneExchange(t *testing.T) {
	t.Parallel()
	for _, api := range []API{Responses, Chat} {
		s := modeltest.ServeOne(t, modeltest.Answer{Status: 503, Header: map[string]string{"X-Should-Retry": "true"}, Body: `{}`})
		_ = askFailing(t, open(t, s, Config{API: api}), modeltest.Ask("x"))
		if n := len(s.Asked()); n != 1 {
			t.Errorf("%s: %d requests, want 1", api, n)
		}
	}
}

func TestTheEnvironmentIsNotRead(t *testing.T) {
	t.Setenv("OPENAI_API_KEY", canary)
	t.Setenv("OPENAI_BASE_URL", "http://127.0.0.1:1/elsewhere")
	t.Setenv("OPENAI_ORG_ID", "org-env")
	t.Setenv("OPENAI_CUSTOM_HEADERS", "X-From-Env: yes")
	s := modeltest.ServeOne(t, modeltest.Answer{Body: recorded(t, "chat_text.sse")})
	ask(t, open(t, s, Config{}), modeltest.Ask("x"))
	a := s.Asked()[0]
	for _, h := range []string{"Authorization", "Openai-Organization", "X-From-Env"} {
		if v, ok := a.Header[h]; ok {
			t.Errorf("a server without a key got %s: %q", h, v)
		}
	}
	if a.Path != "/v1/chat/completions" {
		t.Errorf("path = %s", a.Path)
	}
}

func TestKeyIsOnlyInItsHeader(t *testing.T) {
	t.Parallel()
	leak := `{"error":{"message":"Incorrect API key provided: ` + canary + `.","type":"invalid_request_error","code":"invalid_api_key"}}`
	s := modeltest.ServeOne(t, modeltest.Answer{Status: 401, Body: leak})
	m := openOwn(t, s, Config{})
	e := askFailing(t, m, modeltest.Ask("x"))
	if e.Class != content.ClassAuth {
		t.Errorf("class = %s, want auth", e.Class)
	}
	asked := s.Asked()[0]
	if got := asked.Header.Get("Authorization"); got != "Bearer "+canary {
		t.Errorf("Authorization = %q", got)
	}
	broken := open(t, s, Config{BaseURL: "http://127.0.0.1:1/" + canary, APIKey: canary})
	inStream := modeltest.ServeOne(t, modeltest.Answer{Body: events(`{"choices": ` + canary)})
	cfg := Config{Model: "m", BaseURL: s.URL, APIKey: canary}
	said := []any{
		string(asked.Body), e, m, *e, cfg, &cfg,
		askFailing(t, broken, modeltest.Ask("x")),
		askFailing(t, open(t, inStream, Config{APIKey: canary}), modeltest.Ask("x")),
	}
	for _, v := range said {
		for _, format := range []string{"%v", "%+v", "%#v", "%s"} {
			if text := fmt.Sprintf(format, v); strings.Contains(text, canary) {
				t.Errorf("%s of %T shows the key: %s", format, v, text)
			}
		}
		if raw, err := json.Marshal(v); err == nil && strings.Contains(string(raw), canary) {
			t.Errorf("%T as JSON shows the key: %s", v, raw)
		}
	}
	if _, err := New(Config{Model: "m", APIKey: canary + "\n"}); err == nil || strings.Contains(err.Error(), canary) {
		t.Errorf("New with a broken key = %v", err)
	}
}
