package anthropic_test

import (
	"bytes"
	"encoding/json"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/internal/testing/golden"
	"github.com/turnlog/turnlog/model"
	"github.com/turnlog/turnlog/model/anthropic"
	"github.com/turnlog/turnlog/model/modeltest"
	"github.com/turnlog/turnlog/tool"
)

var update = golden.Flag()

// sent makes a call and returns the request body.
func sent(t *testing.T, r model.Request, change ...func(*anthropic.Config)) modeltest.Asked {
	t.Helper()
	s := modeltest.ServeOne(t, modeltest.Answer{Body: recorded(t, "text")})
	if _, err := open(t, s, change...).Call(t.Context(), r, func(content.Delta) {}); err != nil {
		t.Fatal(err)
	}
	asked := s.Asked()
	if len(asked) != 1 {
		t.Fatalf("%d requests were made, want 1", len(asked))
	}
	return asked[0]
}

// matches compares a request with its file in testdata.
func matches(t *testing.T, name string, body []byte) {
	t.Helper()
	var got bytes.Buffer
	if err := json.Indent(&got, body, "", "  "); err != nil {
		t.Fatal(err)
	}
	got.WriteByte('\n')
	golden.Check(t, *update, filepath.Join("testdata", name+".json"), got.String())
}

func mediaPart(mime, uri string, data ...byte) content.Part {
	return content.Part{Kind: content.MediaKind, Media: &content.Media{MIME: mime, URI: uri, Bytes: data}}
}

func filePart(name, mime, data string) content.Part {
	return content.Part{Kind: content.FileKind, Name: name, Media: &content.Media{MIME: mime, Bytes: []byte(data)}}
}

func reasoning(name, text string, r content.Reasoning) content.Part {
	return content.Part{Kind: content.ReasoningKind, Name: name, Text: text, Reasoning: &r}
}

func custom(name, data string) content.Part {
	return content.Part{Kind: content.CustomKind, Name: name, Data: json.RawMessage(data)}
}

// conversation contains everything that a transcript can contain.
func conversation() []content.Item {
	call := func(id content.CallID, wire, input string) content.Part {
		return content.CallPart(content.ToolCall{ID: id, ProviderID: wire, Name: "read_file", Input: json.RawMessage(input)})
	}
	picture := content.ToolResult{CallID: "toolu_A", Name: "read_file", Status: content.StatusOK, Output: []content.Part{
		content.TextPart("a picture"), mediaPart("image/png", "", 1, 2, 3), content.StructuredPart(json.RawMessage(`{"size":3}`)),
	}}
	return []content.Item{
		content.SystemText("You are careful."),
		content.NewItem(content.Developer, content.TextPart("Use metric units.")),
		content.NewItem(content.Context, content.TextPart("AGENTS.md says: test first.\n")),
		content.NewItem(content.User,
			content.TextPart("Look at <these> & tell."), content.TextPart("  \n"),
			mediaPart("image/jpeg", "", 0xff, 0xd8), mediaPart("image/webp", "https://example.org/a.webp"),
			filePart("spec.pdf", "application/pdf", "%PDF"), filePart("notes.md", "text/markdown; charset=utf-8", "# Notes"),
			mediaPart("application/pdf", "https://example.org/b.pdf"),
			mediaPart("audio/mpeg", "", 1, 2), mediaPart("image/png", "file:///etc/x.png"),
			custom("openai.item", `{"type":"x"}`),
		),
		content.NewItem(content.Assistant,
			reasoning("anthropic", "Both <a> & b.", content.Reasoning{Signature: []byte("EqQBCgIYAhIM1g/+=")}),
			reasoning("anthropic", "", content.Reasoning{Encrypted: []byte("EmwKAhgBEgy3va3pzix/LafPsn4="), Redacted: true}),
			reasoning("anthropic", "cut off, so unsigned", content.Reasoning{}),
			reasoning("openai", "another provider's", content.Reasoning{Signature: []byte("x")}),
			content.TextPart("I read both."),
			call("toolu_A", "toolu_A", `{"path":"a.txt"}`),
			call("t1-r1-c2", "not a token!", `{ "path": "b.txt", "offset": 9007199254740993 }`),
			call("t1-r1-c3", "toolu_A", ``),
		),
		content.NewItem(content.Tool, content.ResultPart(picture)),
		content.NewItem(content.Notification, content.TextPart("Background tool call t0 completed: done")),
		content.NewItem(content.Tool, content.ResultPart(content.NewResult("t1-r1-c2", "read_file", content.StatusDenied, "Permission denied: no"))),
		content.NewItem(content.Tool, content.ResultPart(content.ToolResult{CallID: "t1-r1-c3", Status: content.StatusOK})),
		content.NewItem(content.Tool, content.ResultPart(content.NewResult("long-gone", "read_file", content.StatusOK, "of a call before"))),
		content.NewItem(content.Assistant, custom("anthropic.compaction", `{"type":"compaction","content":"<so> & \u00fc far","signature":"c2ln+/="}`)),
		content.NewItem(content.Assistant, content.TextPart("Going on.")),
		content.UserText("And now?"),
	}
}

func tools() []tool.Spec {
	return []tool.Spec{
		{Name: "list_files"},
		{Name: "read_file", Description: "Reads a file.", InputSchema: json.RawMessage(
			`{"type":"object","required":["path"],"properties":{"path":{"type":"string","minLength":1},"offset":{"type":"integer"}}}`)},
	}
}

func TestRequestOfAWholeConversation(t *testing.T) {
	t.Parallel()
	a := sent(t, model.Request{Transcript: conversation(), Tools: tools()})
	matches(t, "conversation", a.Body)
	if a.Method != http.MethodPost || a.Path != "/v1/messages" || a.Query != "beta=true" || a.Header.Get("X-Api-Key") != canary {
		t.Errorf("asked with %s %s, key %q", a.Method, a.Path, a.Header.Get("X-Api-Key"))
	}
	if v, b := a.Header.Get("Anthropic-Version"), a.Header.Get("Anthropic-Beta"); v != "2023-06-01" || b != "compact-2026-01-12" {
		t.Errorf("version %q, betas %q", v, b)
	}
}

func TestRequestWithEveryOption(t *testing.T) {
	t.Parallel()
	warm := 0.5
	r := modeltest.Ask("hi")
	r.Tools = tools()
	r.Schema = json.RawMessage(`{"type":"object","properties":{"n":{"type":"integer","minimum":1}},"required":["n"]}`)
	r.Cache = &content.CacheRequest{Mode: "required", Retention: "extended"}
	a := sent(t, r, func(c *anthropic.Config) {
		c.MaxTokens, c.Temperature = 9000, &warm
		c.Thinking, c.ThinkingDisplay, c.Effort = "4000", "summarized", "high"
		c.Strict, c.EagerInput, c.CompactAt = true, true, 100_000
		c.Betas = []string{"interleaved-thinking-2025-05-14"}
	})
	matches(t, "options", a.Body)
	if got := a.Header.Get("Anthropic-Beta"); got != "interleaved-thinking-2025-05-14,compact-2026-01-12" {
		t.Errorf("betas = %q", got)
	}
}

func TestThinkingOptions(t *testing.T) {
	t.Parallel()
	for thinking, want := range map[string]string{
		"":              ``,
		"off":           `{"type":"disabled"}`,
		"adaptive":      `{"type":"adaptive"}`,
		"between_tools": `{"type":"between_tools"}`,
		"2048":          `{"budget_tokens":2048,"type":"enabled"}`,
	} {
		a := sent(t, modeltest.Ask("hi"), func(c *anthropic.Config) { c.Thinking = thinking })
		var body struct {
			Thinking  json.RawMessage `json:"thinking"`
			MaxTokens int64           `json:"max_tokens"`
		}
		if err := json.Unmarshal(a.Body, &body); err != nil {
			t.Fatal(err)
		}
		if got := string(body.Thinking); got != want {
			t.Errorf("thinking %q is sent as %s, want %s", thinking, got, want)
		}
		if tokens := int64(32_000); body.MaxTokens < tokens {
			t.Errorf("thinking %q: max_tokens = %d", thinking, body.MaxTokens)
		}
	}
}

// An error result may contain only text, and the first message must be a user's.
func TestInvalidContentIsNotSent(t *testing.T) {
	t.Parallel()
	failed := content.NewResult("c1", "shot", content.StatusError, "Tool failed: half a picture")
	failed.Output = append(failed.Output, mediaPart("image/png", "", 1))
	a := sent(t, model.Request{Transcript: []content.Item{
		content.NewItem(content.Assistant, content.TextPart(" "), content.CallPart(content.ToolCall{ID: "c1", Name: "shot"})),
		content.NewItem(content.Tool, content.ResultPart(failed)),
	}})
	matches(t, "refused", a.Body)

	a = sent(t, model.Request{Transcript: []content.Item{
		content.NewItem(content.Assistant, custom("anthropic.compaction", `{"type":"compaction","content":"so far"}`)),
	}})
	matches(t, "compacted", a.Body)
}

// A prompt is found in the provider's cache only if its bytes are the same.
func TestTheSameRequestHasTheSameBytes(t *testing.T) {
	t.Parallel()
	r := model.Request{
		Transcript: conversation(), Tools: tools(),
		Schema: json.RawMessage(`{"type":"object","required":["b"],"properties":{"b":{"type":"string"},"a":{"type":"string"}}}`),
		Cache:  &content.CacheRequest{Mode: "best_effort"},
	}
	strict := func(c *anthropic.Config) { c.Strict = true }
	first := sent(t, r, strict).Body
	for range 10 {
		if again := sent(t, r, strict).Body; !bytes.Equal(again, first) {
			t.Fatalf("the same request is now\n%s\nbefore\n%s", again, first)
		}
	}
}

// TestRepliesAreSentBackUnchanged sends each recorded reply back and compares its
// blocks with those of the stream.
func TestRepliesAreSentBackUnchanged(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"thinking_calls": `[
			{"type":"thinking","thinking":"Two files, <both> needed.","signature":"EqQBCgIYAhIM1g/+="},
			{"type":"redacted_thinking","data":"EmwKAhgBEgy3va3pzix/LafPsn4="},
			{"type":"text","text":"I read both."},
			{"type":"tool_use","id":"toolu_A","name":"read_file","input":{"path":"a.txt"}},
			{"type":"tool_use","id":"toolu_B","name":"read_file","input":{"path":"b.txt","offset":9007199254740993}},
			{"type":"thinking","thinking":"","signature":"c2lnbmVkIA=="},
			{"type":"tool_use","id":"toolu_C","name":"list_files","input":{}}]`,
		"compaction": `[{"type":"compaction","content":"They fixed <main.go> & \u00fc \u2028 more.",
			"encrypted_content":"b3BhcXVl","signature":"c2ln+/=","tool_changes":[]}]`,
	} {
		reply, err := replay(t, recorded(t, name))
		if err != nil {
			t.Fatal(err)
		}
		for i, p := range reply.Items[0].Parts { // the session names the calls
			if p.Call != nil {
				reply.Items[0].Parts[i].Call.ID = content.CallID(p.Call.ProviderID)
			}
		}
		a := sent(t, model.Request{Transcript: append([]content.Item{content.UserText("hi")}, reply.Items...)})
		var body struct {
			Messages []struct{ Content json.RawMessage }
		}
		if err := json.Unmarshal(a.Body, &body); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(values(t, want), values(t, string(body.Messages[1].Content))); diff != "" {
			t.Errorf("%s goes back changed (-want +got):\n%s", name, diff)
		}
	}
}

// values decodes JSON without rounding its numbers.
func values(t *testing.T, raw string) any {
	t.Helper()
	d := json.NewDecoder(strings.NewReader(raw))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		t.Fatal(err)
	}
	return v
}

func TestSchemasMustBeObjects(t *testing.T) {
	t.Parallel()
	s := modeltest.ServeOne(t, modeltest.Answer{Body: recorded(t, "text")})
	for code, r := range map[string]model.Request{
		"schema":      {Schema: json.RawMessage(`[]`)},
		"tool_schema": {Tools: []tool.Spec{{Name: "x", InputSchema: json.RawMessage(`true`)}}},
	} {
		r.Transcript = modeltest.Ask("hi").Transcript
		_, err := open(t, s).Call(t.Context(), r, func(content.Delta) {})
		if e := modelError(t, err); e.Class != content.ClassInvalid || e.Code != code {
			t.Errorf("%s is refused with %v", code, e)
		}
	}
	if n := len(s.Asked()); n != 0 {
		t.Errorf("%d requests were made", n)
	}
}
