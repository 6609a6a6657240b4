package openai

import (
	"bytes"
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/internal/testing/golden"
	"github.com/turnlog/turnlog/model"
	"github.com/turnlog/turnlog/model/modeltest"
	"github.com/turnlog/turnlog/tool"
)

var update = golden.Flag()

func specs() []tool.Spec {
	return []tool.Spec{
		{
			Name: "read", Description: "Reads a file.",
			InputSchema: json.RawMessage(`{"type":"object","properties":{"path":{"type":"string","description":"which"},"from":{"type":["integer","null"]}},"required":["path","from"],"additionalProperties":false}`),
		},
		{
			Name:        "list",
			InputSchema: json.RawMessage(`{"type":"object","properties":{"zoo":{"type":"string"},"ape":{"type":"string","default":"x"}},"required":["zoo"]}`),
		},
		{Name: "now"},
	}
}

// own returns a part that the model at origin sent.
func own(origin string, p content.Part, n note) content.Part {
	n.Origin = origin
	p.Metadata = p.Metadata.With(Provider, n)
	return p
}

func called(id content.CallID, wire, name, input string) content.Part {
	return content.CallPart(content.ToolCall{ID: id, Name: name, Input: json.RawMessage(input), ProviderID: wire})
}

func media(modality, mime, bytes, uri string) content.Part {
	return content.Part{Kind: content.MediaKind, Media: &content.Media{Modality: modality, MIME: mime, Bytes: []byte(bytes), URI: uri}}
}

// conversation contains everything that a transcript can contain. The provider's parts
// are from origin.
func conversation(origin string) []content.Item {
	thought := own(origin, content.Part{
		Kind: content.ReasoningKind, Name: Provider, Text: "**Looking**",
		Reasoning: &content.Reasoning{Encrypted: []byte(`{"id":"rs_1","type":"reasoning","status":null,"encrypted_content":"gAAAA+/==","summary":[{"type":"summary_text","text":"**Looking** é"}],"content":null}`)},
	}, note{Item: "rs_1"})
	plainThought := own(origin, content.Part{Kind: content.ReasoningKind, Name: Provider, Text: "I need both."}, note{Field: "reasoning_content"})
	details := own(origin, content.Part{
		Kind: content.ReasoningKind, Name: Provider, Text: "Signed.",
		Reasoning: &content.Reasoning{Encrypted: []byte(`[{"type":"reasoning.text","text":"Signed.","signature":"s=="}]`)},
	}, note{Field: "reasoning"})
	elsewhere := own("elsewhere.example", thought, note{Item: "rs_9"})
	alien := content.Part{Kind: content.ReasoningKind, Name: "anthropic", Text: "Hm.", Reasoning: &content.Reasoning{Signature: []byte("x")}}
	file := media("document", "application/pdf", "%PDF", "")
	file.Kind, file.Name = content.FileKind, "a.pdf"
	picture := content.NewResult("c1", "read", content.StatusOK, "the text")
	picture.Output = append(picture.Output, media("image", "image/png", "PNG", ""))
	table := content.ToolResult{CallID: "c2", Name: "list", Status: content.StatusOK, Output: []content.Part{content.StructuredPart(json.RawMessage(`{"n":2}`))}}
	late := content.NewResult("c9", "build", content.StatusOK, "built")
	return []content.Item{
		content.SystemText("Be brief."),
		content.NewItem(content.Developer, content.TextPart("Answer in English."), media("image", "", "", "https://example.com/a.png")),
		content.NewItem(content.Context, content.TextPart("It is Monday.")),
		content.NewItem(
			content.User, content.TextPart("Look at these."), media("", "image/jpeg", "JPG", ""), media("image", "", "", "https://example.com/b.png"),
			file, media("document", "text/plain; charset=utf-8", "plain words", ""),
			media("document", "application/pdf", "", "https://example.com/c.pdf"),
			media("audio", "audio/wav", "RIFF", ""), media("video", "video/mp4", "MP4", ""),
		),
		content.NewItem(
			content.Assistant, thought, alien, elsewhere, plainThought,
			own(origin, content.TextPart("I look."), note{Item: "msg_1", Phase: "commentary"}),
			own(origin, called("c1", "call_a", "read", `{"path": "a<b"}`), note{Item: "fc_1"}), called("c2", "call_b", "list", `{}`),
		),
		content.NewItem(content.Tool, content.ResultPart(picture)),
		content.NewItem(content.Tool, content.ResultPart(table)),
		content.NewItem(content.Assistant, plainThought, own("elsewhere.example", content.TextPart("Both are there."), note{Item: "msg_9"}), thought),
		content.NewItem(content.Notification, content.TextPart("Background tool call c9 completed: built"), content.ResultPart(late)),
		content.NewItem(content.Assistant, details, called("c3", "call_a", "read", `{"path":"c"}`), called("t9-r1-c2", "", "now", ``)),
		content.NewItem(content.Tool, content.ResultPart(content.NewResult("c3", "read", content.StatusError, "no such file"))),
		content.NewItem(content.Tool, content.ResultPart(content.NewResult("t9-r1-c2", "now", content.StatusDenied, "Error: denied"))),
		content.NewItem(content.Assistant, own(origin, content.TextPart("I can't."), note{Item: "msg_3", Refusal: true})),
		content.UserText("And now?"),
	}
}

func TestRequestsMatchTheRecordedOnes(t *testing.T) {
	t.Parallel()
	const host = "api.openai.com"
	warm := 0.5
	whole := modeltest.Ask("")
	whole.Transcript, whole.Tools = conversation(host), specs()
	foreign := whole
	foreign.Transcript = conversation("other.example")
	structured := modeltest.Ask("Say yes.")
	structured.Schema = json.RawMessage(`{"type":"object","properties":{"yes":{"type":"boolean"}},"required":["yes"],"additionalProperties":false}`)
	structured.Cache = &content.CacheRequest{Mode: "best_effort", Retention: "extended"}
	loose := modeltest.Ask("Say yes.")
	loose.Schema = json.RawMessage(`{"type":"object","properties":{"yes":{"type":"boolean"}}}`)
	loose.Cache = &content.CacheRequest{Mode: "disabled"}
	compacted := modeltest.Ask("")
	item := own(host, content.Part{Kind: content.CustomKind, Name: "openai.compaction", Data: json.RawMessage(`{"id":"cmp_1","type":"compaction","encrypted_content":"gCCC=="}`)}, note{Item: "cmp_1"})
	compacted.Transcript = append(conversation(host), content.NewItem(content.Assistant, item, content.TextPart("Where were we?")), content.UserText("Here."))
	all := Config{MaxTokens: 100, Temperature: &warm, Effort: "high", Summary: "auto", Compact: 9000}
	chatAll := all
	chatAll.API, chatAll.Summary, chatAll.Compact = Chat, "", 0

	for name, tt := range map[string]struct {
		request model.Request
		cfg     Config
		other   bool // a compatible server is asked
	}{
		"responses_whole":      {request: whole},
		"responses_foreign":    {request: foreign},
		"responses_structured": {request: structured, cfg: all},
		"responses_loose":      {request: loose, cfg: Config{Model: "gpt-5.6"}},
		"responses_compacted":  {request: compacted},
		"responses_plain":      {request: modeltest.Ask("Hi."), cfg: Config{Model: "gpt-4o"}},
		"chat_whole":           {request: whole, cfg: Config{API: Chat}},
		"chat_structured":      {request: structured, cfg: chatAll},
		"chat_compatible":      {request: foreign, cfg: chatAll, other: true},
		"chat_bare":            {request: structured, cfg: Config{Usage: new(false)}, other: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			stream := "chat_text.sse"
			if strings.HasPrefix(name, "responses") {
				stream = "responses_text.sse"
			}
			s := modeltest.ServeOne(t, modeltest.Answer{Body: recorded(t, stream)})
			m := openOwn(t, s, tt.cfg)
			if tt.other {
				m = open(t, s, tt.cfg)
				m.origin = "other.example"
			}
			ask(t, m, tt.request)
			matches(t, name+".json", s.Asked()[0].Body)
		})
	}
}

// matches compares the indented body of a request with a file.
func matches(t *testing.T, name string, body []byte) {
	t.Helper()
	var got bytes.Buffer
	if err := json.Indent(&got, body, "", "  "); err != nil {
		t.Fatalf("the request is no JSON: %v: %s", err, body)
	}
	got.WriteByte('\n')
	golden.Check(t, *update, filepath.Join("testdata", name), got.String())
}

func TestRepliesAreSentBackUnchanged(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		api  API
		want []string // in the next request, in this order
	}{
		{Responses, []string{
			`{"id":"rs_1","type":"reasoning","summary":[{"type":"summary_text","text":"**Looking** at \u003cboth\u003e."},{"type":"summary_text","text":"Then comparing."}],"encrypted_content":"gAAAA+/=="}`,
			`"id":"msg_2"`, `"phase":"commentary"`, `{"id":"rs_2","type":"reasoning","summary":[],"encrypted_content":"gBBBB"}`,
			`"arguments":"{\"path\": \"a\u003cb\"}"`, `"call_id":"call_a"`, `"id":"fc_1"`, `"call_id":"call_b"`,
		}},
		{Chat, []string{
			`"content":"I look."`, `"reasoning_content":"I need both."`, `"arguments":"{\"path\": \"a\u003cb\"}"`, `"id":"call_a"`, `"id":"call_b"`,
		}},
	} {
		s := modeltest.ServeOne(t, modeltest.Answer{Body: recorded(t, string(tt.api)+"_tools.sse")})
		m := open(t, s, Config{API: tt.api})
		r := modeltest.Ask("Look.")
		reply := ask(t, m, r)
		for i, c := range reply.Items[0].Calls() {
			reply.Items[0].Parts[len(reply.Items[0].Parts)-2+i].Call.ID = content.CallID(c.ProviderID)
			r.Transcript = append(r.Transcript, content.NewItem(content.Tool, content.ResultPart(content.NewResult(content.CallID(c.ProviderID), c.Name, content.StatusOK, "ok"))))
		}
		r.Transcript = append([]content.Item{r.Transcript[0], reply.Items[0]}, r.Transcript[1:]...)
		ask(t, m, r)
		body := strings.ReplaceAll(string(s.Asked()[1].Body), "<", `\u003c`)
		body = strings.ReplaceAll(body, ">", `\u003e`)
		rest := body
		for _, want := range tt.want {
			_, after, ok := strings.Cut(rest, want)
			if !ok {
				t.Errorf("%s: %s is not in its place in\n%s", tt.api, want, body)
				break
			}
			rest = after
		}
	}
}
