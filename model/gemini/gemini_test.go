package gemini

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/model"
	"github.com/turnlog/turnlog/model/modeltest"
	"github.com/turnlog/turnlog/tool"
)

const canary = "AIza-canary-0123456789"

// events returns pieces of a response as the provider streams them.
func events(pieces ...string) string {
	var b strings.Builder
	for _, p := range pieces {
		fmt.Fprintf(&b, "data: %s\r\n\r\n", p)
	}
	return b.String()
}

const usageMetadata = `"usageMetadata":{"promptTokenCount":20,"candidatesTokenCount":7,"thoughtsTokenCount":5,"cachedContentTokenCount":12,"totalTokenCount":32}`

func hello() string {
	return events(
		`{"candidates":[{"content":{"parts":[{"text":"Hel"}],"role":"model"},"index":0}],"modelVersion":"gemini-3-flash-001","responseId":"r1","usageMetadata":{"promptTokenCount":20}}`,
		`{"candidates":[{"content":{"parts":[{"text":"lo."}],"role":"model"},"index":0}]}`,
		`{"candidates":[{"content":{"parts":[{"text":"","thoughtSignature":"c2lnbmF0dXJlLTA="}],"role":"model"},"finishReason":"STOP","index":0}],`+usageMetadata+`}`,
	)
}

// interleaved thinks, talks, thinks again and makes two calls.
func interleaved() string {
	return events(
		`{"candidates":[{"content":{"parts":[{"text":"First ","thought":true}],"role":"model"}}]}`,
		`{"candidates":[{"content":{"parts":[{"text":"thought.","thought":true},{"text":"Looking."}],"role":"model"}}]}`,
		`{"candidates":[{"content":{"parts":[{"text":"More.","thought":true}],"role":"model"}}]}`,
		`{"candidates":[{"content":{"parts":[{"functionCall":{"id":"f1","name":"read","args":{"path":"a","n":3}},"thoughtSignature":"AP8BAg=="},{"functionCall":{"id":"f2","name":"list"}}],"role":"model"}}]}`,
		`{"candidates":[{"content":{"parts":[{"text":""}],"role":"model"},"finishReason":"STOP"}],`+usageMetadata+`}`,
	)
}

func open(t testing.TB, url string, change func(*Config)) *Model {
	t.Helper()
	cfg := Config{Model: "gemini-3-flash", APIKey: canary, BaseURL: url}
	if change != nil {
		change(&cfg)
	}
	m, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func answering(t testing.TB, body string) *Model {
	t.Helper()
	return open(t, modeltest.ServeOne(t, modeltest.Answer{Body: body}).URL, nil)
}

func ask(t testing.TB, m *Model, r model.Request) model.Reply {
	t.Helper()
	reply, err := m.Call(t.Context(), r, func(content.Delta) {})
	if err != nil {
		t.Fatal(err)
	}
	return reply
}

func TestModelConforms(t *testing.T) {
	t.Parallel()
	for name, body := range map[string]string{"text": hello(), "thoughts and calls": interleaved()} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			modeltest.Run(t, modeltest.Factory{
				New: func(t testing.TB) model.Model { return answering(t, body) },
				Failing: func(t testing.TB) (model.Model, model.Request) {
					s := modeltest.ServeOne(t, modeltest.Answer{Status: 503, Body: `{"error":{"code":503,"message":"The model is overloaded.","status":"UNAVAILABLE"}}`})
					return open(t, s.URL, nil), modeltest.Ask("hello")
				},
				Cut: func(t testing.TB) (model.Model, model.Request) {
					s := modeltest.ServeOne(t, modeltest.Answer{Body: events(`{"candidates":[{"content":{"parts":[{"text":"Hel"}]}}]}`), Cut: true})
					return open(t, s.URL, nil), modeltest.Ask("hello")
				},
				Secret:   canary,
				Features: modeltest.Features{Deterministic: true},
			})
		})
	}
}

func TestReplyKeepsPartsOfTheProvider(t *testing.T) {
	t.Parallel()
	thought := func(text string, signature []byte) content.Part {
		p := content.Part{Kind: content.ReasoningKind, Name: "gemini", Text: text}
		if signature != nil {
			p.Reasoning = &content.Reasoning{Signature: signature}
		}
		return p
	}
	used := content.Usage{InputTokens: 20, OutputTokens: 12, ReasoningTokens: 5, CacheReadTokens: 12}
	read := content.CallPart(content.ToolCall{Name: "read", Input: json.RawMessage(`{"path":"a","n":3}`), ProviderID: "f1"})
	read.Reasoning = &content.Reasoning{Signature: []byte{0, 255, 1, 2}}
	for _, tt := range []struct {
		name, body string
		want       model.Reply
	}{
		{"text", hello(), model.Reply{
			Items: []content.Item{content.NewItem(content.Assistant, content.TextPart("Hello."), thought("", []byte("signature-0")))},
			Usage: used, FinishReason: content.Completed, Model: "gemini-3-flash-001", ResponseID: "r1",
		}},
		{"interleaved", interleaved(), model.Reply{
			Items: []content.Item{content.NewItem(
				content.Assistant, thought("First thought.", nil), content.TextPart("Looking."), thought("More.", nil), read,
				content.CallPart(content.ToolCall{Name: "list", Input: json.RawMessage(`{}`), ProviderID: "f2"}),
			)},
			Usage: used, FinishReason: content.ToolCalls, Model: "gemini-3-flash",
		}},
		{"signed text is not joined", events(
			`{"candidates":[{"content":{"parts":[{"text":"a"},{"text":"b","thoughtSignature":"Yg=="},{"text":"c"}]},"finishReason":"STOP"}]}`,
		), model.Reply{
			Items: []content.Item{content.NewItem(
				content.Assistant, content.TextPart("a"),
				content.Part{Kind: content.TextKind, Text: "b", Reasoning: &content.Reasoning{Signature: []byte("b")}}, content.TextPart("c"),
			)},
			FinishReason: content.Completed, Model: "gemini-3-flash",
		}},
		{"media and a part without a name here", events(
			`{"candidates":[{"content":{"parts":[{"inlineData":{"mimeType":"image/png","data":"iVBORw=="}},{"executableCode":{"code":"1+1","language":"PYTHON"}}]},"finishReason":"STOP"}]}`,
		), model.Reply{
			Items: []content.Item{content.NewItem(
				content.Assistant,
				content.Part{Kind: content.MediaKind, Media: &content.Media{Modality: "image", MIME: "image/png", Bytes: []byte("\x89PNG")}},
				content.Part{Kind: content.CustomKind, Name: "gemini.part", Data: json.RawMessage(`{"executableCode":{"code":"1+1","language":"PYTHON"}}`)},
			)},
			FinishReason: content.Completed, Model: "gemini-3-flash",
		}},
		{"prompt blocked", events(`{"promptFeedback":{"blockReason":"SAFETY"},"usageMetadata":{"promptTokenCount":3}}`), model.Reply{
			Usage: content.Usage{InputTokens: 3}, FinishReason: content.Blocked, Model: "gemini-3-flash",
		}},
		{"reply blocked", events(
			`{"candidates":[{"content":{"parts":[{"text":"I would"}]}}]}`, `{"candidates":[{"finishReason":"SAFETY"}]}`,
		), model.Reply{
			Items: []content.Item{content.AssistantText("I would")}, FinishReason: content.Blocked, Model: "gemini-3-flash",
		}},
		{"cut short", events(`{"candidates":[{"content":{"parts":[{"text":"long"}]},"finishReason":"MAX_TOKENS"}]}`), model.Reply{
			Items: []content.Item{content.AssistantText("long")}, FinishReason: content.MaxTokens, Model: "gemini-3-flash",
		}},
		{"a reason of tomorrow", events(`{"candidates":[{"content":{"parts":[{"text":"x"}]},"finishReason":"TIRED"}]}`), model.Reply{
			Items: []content.Item{content.AssistantText("x")}, FinishReason: content.Other, Model: "gemini-3-flash",
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(tt.want, ask(t, answering(t, tt.body), modeltest.Ask("hello"))); diff != "" {
				t.Errorf("-want +got\n%s", diff)
			}
		})
	}
}

func TestInvalidConfigsAreRejected(t *testing.T) {
	t.Parallel()
	ptr := func(n int) *int { return &n }
	hot := 3.0
	for want, change := range map[string]func(*Config){
		"no model: write gemini:MODEL":       func(c *Config) { c.Model = "" },
		`"a?b" is not the name of a model`:   func(c *Config) { c.Model = "a?b" },
		"no API key":                         func(c *Config) { c.APIKey = "" },
		"base_url: want http://":             func(c *Config) { c.BaseURL = "ftp://x" },
		"max_tokens=-1":                      func(c *Config) { c.MaxTokens = -1 },
		"temperature=3: want 0 to 2":         func(c *Config) { c.Temperature = &hot },
		"thinking_level=huge: want minimal,": func(c *Config) { c.ThinkingLevel = "huge" },
		"thinking_budget=-2":                 func(c *Config) { c.ThinkingBudget = ptr(-2) },
		"exclude each other":                 func(c *Config) { c.ThinkingLevel, c.ThinkingBudget = "low", ptr(1) },
		"context=-1":                         func(c *Config) { c.Context = -1 },
	} {
		cfg := Config{Model: "m", APIKey: canary}
		change(&cfg)
		m, err := New(cfg)
		if m != nil || err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), canary) {
			t.Errorf("New = %v, %v; want %q", m, err, want)
		}
	}
}

func TestNothingPrintsTheKey(t *testing.T) {
	t.Parallel()
	m := open(t, "http://127.0.0.1:1", nil)
	asJSON, err := json.Marshal(map[string]any{"model": m})
	if err != nil {
		t.Fatal(err)
	}
	for _, shown := range []string{m.Name(), m.String(), fmt.Sprintf("%v %+v %#v %s", m, m, m, m), string(asJSON)} {
		if strings.Contains(shown, canary) {
			t.Errorf("the key is in %q", shown)
		}
	}
}

func TestTheContextWindowIsKnown(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]int{"gemini-3-flash": 1 << 20, "gemini-2.5-flash-image": 0, "gemma-3": 0} {
		m := open(t, "http://127.0.0.1:1", func(c *Config) { c.Model = name })
		if got := m.Capabilities().ContextTokens; got != want {
			t.Errorf("%s: %d, want %d", name, got, want)
		}
	}
	m := open(t, "http://127.0.0.1:1", func(c *Config) { c.Context = 8000 })
	if got := m.Capabilities().ContextTokens; got != 8000 {
		t.Errorf("%d, want what the configuration says", got)
	}
}

// specs are tools for requests.
func specs() []tool.Spec {
	return []tool.Spec{
		{Name: "list", Description: "List files."},
		{Name: "read", Description: "Read a file.", InputSchema: json.RawMessage(`{"type":"object","properties":{"path":{"type":"string"}},"required":["path"],"additionalProperties":false}`)},
	}
}
