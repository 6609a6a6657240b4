package gemini

import (
	"bytes"
	"encoding/json"
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/internal/testing/golden"
	"github.com/turnlog/turnlog/model"
	"github.com/turnlog/turnlog/model/modeltest"
)

var update = golden.Flag()

// conversation contains everything that a request can contain.
func conversation() []content.Item {
	thought := content.Part{Kind: content.ReasoningKind, Name: "gemini", Text: "I must look."}
	alien := content.Part{Kind: content.ReasoningKind, Name: "anthropic", Text: "Hm.", Reasoning: &content.Reasoning{Signature: []byte("x")}}
	seal := content.Part{Kind: content.ReasoningKind, Name: "gemini", Reasoning: &content.Reasoning{Signature: []byte{0, 255, 1, 2}}}
	read := content.CallPart(content.ToolCall{ID: "f1", Name: "read", Input: json.RawMessage(`{"path":"a"}`), ProviderID: "f1"})
	read.Reasoning = &content.Reasoning{Signature: []byte{9, 8, 7}}
	list := content.CallPart(content.ToolCall{ID: "t1-r1-c2", Name: "list", Input: json.RawMessage(`{}`)})
	png := content.Part{Kind: content.MediaKind, Media: &content.Media{Modality: "image", MIME: "image/png", Bytes: []byte("\x89PNG")}}
	result := content.NewResult("f1", "read", content.StatusOK, "the text")
	result.Output = append(result.Output, png)
	table := content.ToolResult{CallID: "t1-r1-c2", Name: "list", Status: content.StatusOK, Output: []content.Part{content.StructuredPart(json.RawMessage(`{"n":2}`))}}
	return []content.Item{
		content.SystemText("Be brief."),
		content.NewItem(content.Developer, content.TextPart("Answer in English.")),
		content.NewItem(content.Context, content.TextPart("It is Monday.")),
		content.NewItem(
			content.User, content.TextPart("Look at this."), png,
			content.Part{Kind: content.FileKind, Name: "a.pdf", Media: &content.Media{Modality: "document", MIME: "application/pdf", URI: "https://example.com/a.pdf"}},
		),
		content.NewItem(content.Assistant, thought, alien, content.TextPart("Looking."), read, list),
		content.NewItem(content.Tool, content.ResultPart(result)),
		content.NewItem(content.Tool, content.ResultPart(table)),
		content.NewItem(content.Assistant, content.TextPart("There."), seal),
		content.NewItem(content.Notification, content.TextPart("Background tool call b failed: no")),
		content.NewItem(
			content.Assistant, content.CallPart(content.ToolCall{ID: "o1", Name: "read", Input: json.RawMessage(`{"path":"b"}`), ProviderID: "o1"}),
			content.CallPart(content.ToolCall{ID: "o2", Name: "list", Input: json.RawMessage(`{}`), ProviderID: "o2"}),
		),
		content.NewItem(content.Tool, content.ResultPart(content.NewResult("o1", "read", content.StatusError, "no such file"))),
		content.NewItem(content.Tool, content.ResultPart(content.NewResult("o2", "list", content.StatusOK, "a"))),
		content.NewItem(content.Assistant, content.Part{Kind: content.CustomKind, Name: "gemini.part", Data: json.RawMessage(`{"executableCode":{"code":"1+1","language":"PYTHON"}}`)}),
		content.UserText("And now?"),
	}
}

func TestRequestsMatchTheRecordedOnes(t *testing.T) {
	t.Parallel()
	whole := modeltest.Ask("")
	whole.Transcript, whole.Tools = conversation(), specs()
	structured := modeltest.Ask("Say yes.")
	structured.Schema = json.RawMessage(`{"type":"object","properties":{"yes":{"type":"boolean"}}}`)
	both := structured
	both.Tools = specs()
	budget, warmth := 2048, 0.5
	for name, tt := range map[string]struct {
		request model.Request
		change  func(*Config)
	}{
		"whole":        {whole, nil},
		"whole_old":    {whole, func(c *Config) { c.Model = "gemini-2.5-pro" }},
		"schema":       {structured, nil},
		"schema_tools": {both, nil},
		"schema_old":   {both, func(c *Config) { c.Model = "gemini-2.5-pro" }},
		"options": {modeltest.Ask("Hi."), func(c *Config) {
			c.MaxTokens, c.Temperature, c.ThinkingBudget, c.Thoughts = 100, &warmth, &budget, true
		}},
		"thinkinglevel": {modeltest.Ask("Hi."), func(c *Config) { c.ThinkingLevel = "low" }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := modeltest.ServeOne(t, modeltest.Answer{Body: hello()})
			m := open(t, s.URL, tt.change)
			ask(t, m, tt.request)
			got := s.Asked()[0]
			if want := "/v1beta/models/" + m.cfg.Model + ":streamGenerateContent"; got.Path != want || got.Query != "alt=sse" {
				t.Errorf("asked %s?%s, want %s", got.Path, got.Query, want)
			}
			if key := got.Header.Get("X-Goog-Api-Key"); key != canary {
				t.Errorf("key %q", key)
			}
			matches(t, name, got.Body)
		})
	}
}

// matches compares the body of a request with a file.
func matches(t *testing.T, name string, body []byte) {
	t.Helper()
	var value any
	if err := json.Unmarshal(body, &value); err != nil {
		t.Fatal(err)
	}
	var pretty bytes.Buffer // with sorted keys
	enc := json.NewEncoder(&pretty)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(value); err != nil {
		t.Fatal(err)
	}
	golden.Check(t, *update, filepath.Join("testdata", name+".json"), pretty.String())
}

func TestRepliesAreSentBackUnchanged(t *testing.T) {
	t.Parallel()
	s := modeltest.ServeOne(t, modeltest.Answer{Body: interleaved()})
	m := open(t, s.URL, nil)
	first := ask(t, m, modeltest.Ask("Look."))
	calls := first.Items[0].Calls()
	r := modeltest.Ask("Look.")
	for i := range first.Items[0].Parts { // what the core gives to calls
		if c := first.Items[0].Parts[i].Call; c != nil {
			c.ID = content.CallID("core-" + c.ProviderID)
		}
	}
	r.Transcript = append(r.Transcript, first.Items...)
	for _, c := range calls {
		r.Transcript = append(r.Transcript, content.NewItem(content.Tool, content.ResultPart(content.NewResult(content.CallID("core-"+c.ProviderID), c.Name, content.StatusOK, "x"))))
	}
	ask(t, m, r)
	body := string(s.Asked()[1].Body)
	for _, want := range []string{
		`{"functionCall":{"args":{"path":"a","n":3},"id":"f1","name":"read"},"thoughtSignature":"AP8BAg=="}`,
		`{"functionCall":{"id":"f2","name":"list"}}`,
		`{"text":"First thought.","thought":true}`,
		`{"functionResponse":{"id":"f1","name":"read","response":{"output":"x"}}},{"functionResponse":{"id":"f2","name":"list","response":{"output":"x"}}}`,
	} {
		if !strings.Contains(body, want) {
			t.Errorf("the request lacks %s:\n%s", want, body)
		}
	}
}

func TestCallsWithoutArgumentsHaveNone(t *testing.T) {
	t.Parallel()
	m, err := New(Config{Model: "m", APIKey: "k"})
	if err != nil {
		t.Fatal(err)
	}
	for _, args := range []json.RawMessage{nil, {}, json.RawMessage(" "), json.RawMessage("null"), json.RawMessage(" {} ")} {
		c := content.CallPart(content.ToolCall{ID: "c", Name: "list", Input: args})
		o, err := m.request(model.Request{Transcript: []content.Item{content.UserText("hi"), content.NewItem(content.Assistant, c)}})
		if err != nil {
			t.Fatal(err)
		}
		raw, err := json.Marshal(o["contents"])
		if err != nil || !bytes.Contains(raw, []byte(`"functionCall":{"name":"list"}`)) {
			t.Errorf("arguments %q become %s, %v", args, raw, err)
		}
	}
}

func TestInvalidRequestsAreNotSent(t *testing.T) {
	t.Parallel()
	m := open(t, "http://127.0.0.1:1", nil)
	required := modeltest.Ask("hello")
	required.Cache = &content.CacheRequest{Mode: "required"}
	broken := modeltest.Ask("hello")
	broken.Schema = json.RawMessage(`{`)
	for want, r := range map[string]model.Request{
		"there is nothing to answer": {},
		"requires a prompt cache":    required,
		"unexpected end of JSON":     broken,
		"invalid character 'x'":      {Transcript: []content.Item{content.NewItem(content.Assistant, content.CallPart(content.ToolCall{ID: "c1", Input: json.RawMessage(`x`)}))}},
	} {
		_, err := m.Call(t.Context(), r, func(content.Delta) {})
		e, ok := errors.AsType[*model.Error](err)
		if !ok || e.Class != content.ClassInvalid || !strings.Contains(e.Message, want) {
			t.Errorf("Call = %v, want %q", err, want)
		}
	}
}

func TestPlaceholdersReplaceUnsupportedMedia(t *testing.T) {
	t.Parallel()
	file := func(name, mime, uri, data string) content.Part {
		return content.Part{Kind: content.FileKind, Name: name, Media: &content.Media{MIME: mime, URI: uri, Bytes: []byte(data)}}
	}
	for want, p := range map[string]content.Part{
		`{"text":"a.json:\n{}"}`: file("a.json", "application/json", "", "{}"),
		`{"text":"a.md:\n# A"}`:  file("a.md", "text/markdown; charset=utf-8", "", "# A"),
		`{"text":"[a.zip, application/zip, 2 bytes, which cannot be shown here]"}`:    file("a.zip", "application/zip", "", "PK"),
		`{"text":"[x, data at https://example.com/x, which cannot be shown here]"}`:   file("x", "", "https://example.com/x", ""),
		`{"fileData":{"fileUri":"https://example.com/a.mp4","mimeType":"video/mp4"}}`: file("a.mp4", "video/mp4", "https://example.com/a.mp4", ""),
		`{"inlineData":{"data":"SUQz","mimeType":"audio/mpeg"}}`:                      file("a.mp3", "audio/mpeg", "", "ID3"),
		`{"text":"[b.html, text/html, 1 bytes, which cannot be shown here]"}`:         file("b.html", "text/html", "", "\xff"),
	} {
		raw, err := json.Marshal(media(p))
		if err != nil || string(raw) != want {
			t.Errorf("%s, %v; want %s", raw, err, want)
		}
	}
}
