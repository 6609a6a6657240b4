package registry_test

import (
	"strings"
	"testing"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/model/fallback"
	"github.com/turnlog/turnlog/model/modeltest"
	"github.com/turnlog/turnlog/model/registry"
)

func TestKeysAddressesAndOptionsReachTheWire(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, key, address string // the variables that hold them
		path, header       string
		body               []string
	}{
		{
			"anthropic:claude-x?max_tokens=9000&temperature=1&thinking=2048", "ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL",
			"/v1/messages", "X-Api-Key",
			[]string{`"claude-x"`, `"max_tokens":9000`, `"budget_tokens":2048`},
		},
		{
			"openai:gpt-x?api=responses&max_tokens=77&effort=low", "OPENAI_API_KEY", "OPENAI_BASE_URL",
			"/responses", "Authorization",
			[]string{`"gpt-x"`, `"max_output_tokens":77`, `"effort":"low"`},
		},
		{
			"openai:llama?temperature=0.5&usage=false", "OPENAI_API_KEY", "OPENAI_BASE_URL",
			"/chat/completions", "Authorization",
			[]string{`"llama"`, `"temperature":0.5`},
		},
		{
			"gemini:gemini-x?max_tokens=77&thinking_level=low&thoughts=true", "GOOGLE_API_KEY", "GOOGLE_GEMINI_BASE_URL",
			"/v1beta/models/gemini-x:streamGenerateContent", "X-Goog-Api-Key",
			[]string{`"maxOutputTokens":77`, `"thinkingLevel":"LOW"`, `"includeThoughts":true`},
		},
	} {
		s := modeltest.ServeOne(t, modeltest.Answer{Status: 400, Header: map[string]string{"Content-Type": "application/json"}, Body: `{}`})
		m := open(t, registry.New(env{tt.key: canary, tt.address: s.URL}.get).OpenShared, tt.name, nil)
		_, err := m.Call(t.Context(), modeltest.Ask("hi"), func(content.Delta) {})
		asked := s.Asked()
		if err == nil || len(asked) != 1 {
			t.Errorf("%s: %d requests, %v", tt.name, len(asked), err)
			continue
		}
		got := asked[0]
		if got.Path != tt.path || !strings.Contains(got.Header.Get(tt.header), canary) {
			t.Errorf("%s: asked %s with %s %q", tt.name, got.Path, tt.header, got.Header.Get(tt.header))
		}
		for _, want := range tt.body {
			if !strings.Contains(string(got.Body), want) {
				t.Errorf("%s: no %s in %s", tt.name, want, got.Body)
			}
		}
	}
}

func TestAnotherProviderAnswersWhenTheFirstIsOverloaded(t *testing.T) {
	t.Parallel()
	busy := modeltest.ServeOne(t, modeltest.Answer{
		Status: 529, Header: map[string]string{"Content-Type": "application/json"},
		Body: `{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`,
	})
	other := modeltest.ServeOne(t, modeltest.Answer{
		Body: `data: {"candidates":[{"content":{"parts":[{"text":"hello"}]},"finishReason":"STOP"}],"modelVersion":"gemini-x-001"}` + "\n\n",
	})
	r := registry.New(env{
		"ANTHROPIC_API_KEY": canary, "ANTHROPIC_BASE_URL": busy.URL, "GEMINI_API_KEY": canary, "GOOGLE_GEMINI_BASE_URL": other.URL,
	}.get)
	m := open(t, r.OpenShared, fallback.Name("anthropic:claude-x", "gemini:gemini-x"), nil)
	reply, err := m.Call(t.Context(), modeltest.Ask("hi"), func(content.Delta) {})
	if err != nil || reply.Items[0].Text() != "hello" || reply.Model != "gemini-x-001" {
		t.Fatalf("Call = %+v, %v", reply, err)
	}
	note, _ := reply.Items[0].Metadata.Get("fallback")
	if want := `{"model":"gemini:gemini-x","failed":[{"model":"anthropic:claude-x","class":"overloaded"`; !strings.HasPrefix(string(note), want) {
		t.Errorf("the reply says %s, want %s", note, want)
	}
	if len(busy.Asked()) != 1 {
		t.Errorf("the first one was asked %d times", len(busy.Asked()))
	}
}
