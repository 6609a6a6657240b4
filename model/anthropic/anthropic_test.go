package anthropic_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/model"
	"github.com/turnlog/turnlog/model/anthropic"
	"github.com/turnlog/turnlog/model/modeltest"
)

// canary is the key of all models here. It must not be printed.
const canary = "sk-ant-canary-4711"

// open returns a model that calls s.
func open(t testing.TB, s *modeltest.Server, change ...func(*anthropic.Config)) *anthropic.Model {
	t.Helper()
	cfg := anthropic.Config{Model: "claude-test", APIKey: canary, BaseURL: s.URL}
	for _, c := range change {
		c(&cfg)
	}
	m, err := anthropic.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// recorded returns a stream in testdata.
func recorded(t testing.TB, name string) string {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join("testdata", name+".sse"))
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// replay makes one call whose response is the recorded stream.
func replay(t *testing.T, body string) (model.Reply, error) {
	t.Helper()
	s := modeltest.ServeOne(t, modeltest.Answer{Body: body})
	return open(t, s).Call(t.Context(), modeltest.Ask("go on"), func(content.Delta) {})
}

func modelError(t *testing.T, err error) *model.Error {
	t.Helper()
	e, ok := errors.AsType[*model.Error](err)
	if !ok {
		t.Fatalf("the failure is a %T, want a *model.Error: %v", err, err)
	}
	return e
}

func TestModelConforms(t *testing.T) {
	t.Parallel()
	// byPrompt responds with the stream that the prompt names.
	byPrompt := func(a modeltest.Asked) modeltest.Answer {
		var r struct {
			Messages []struct{ Content []struct{ Text string } }
		}
		if err := json.Unmarshal(a.Body, &r); err != nil {
			t.Error(err)
		}
		return modeltest.Answer{Body: recorded(t, r.Messages[0].Content[0].Text)}
	}
	var asks []model.Request
	for _, name := range []string{"text", "thinking_calls", "compaction", "refusal", "cut_call"} {
		asks = append(asks, modeltest.Ask(name))
	}
	modeltest.Run(t, modeltest.Factory{
		New:      func(t testing.TB) model.Model { return open(t, modeltest.Serve(t, byPrompt)) },
		Requests: asks,
		Failing: func(t testing.TB) (model.Model, model.Request) {
			return open(t, modeltest.ServeOne(t, modeltest.Answer{
				Status: http.StatusUnauthorized,
				Body:   `{"type":"error","error":{"type":"authentication_error","message":"invalid x-api-key: ` + canary + `"}}`,
			})), modeltest.Ask("fail")
		},
		Cut: func(t testing.TB) (model.Model, model.Request) {
			half, _, _ := strings.Cut(recorded(t, "thinking_calls"), `" \"a.txt`)
			return open(t, modeltest.ServeOne(t, modeltest.Answer{Body: half, Cut: true})), modeltest.Ask("cut")
		},
		Secret:   canary,
		Features: modeltest.Features{Deterministic: true},
	})
}

func TestTextComesInPiecesOfAnySize(t *testing.T) {
	t.Parallel()
	body := recorded(t, "text")
	for _, pieces := range []int{0, 1, 7, len(body)} {
		s := modeltest.ServeOne(t, modeltest.Answer{Body: body, Pieces: pieces})
		got, err := open(t, s).Call(t.Context(), modeltest.Ask("hi"), func(content.Delta) {})
		if err != nil {
			t.Fatal(err)
		}
		want := model.Reply{
			Items:        []content.Item{content.AssistantText(`Grüße & "hello"!`)},
			Usage:        content.Usage{InputTokens: 1125, OutputTokens: 15, CacheReadTokens: 1000, CacheWriteTokens: 100},
			FinishReason: content.Completed, Model: "claude-test-20260101", ResponseID: "msg_text",
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%d pieces (-want +got):\n%s", pieces, diff)
		}
	}
}

func TestThinkingAndParallelCalls(t *testing.T) {
	t.Parallel()
	got, err := replay(t, recorded(t, "thinking_calls"))
	if err != nil {
		t.Fatal(err)
	}
	thought := func(text string, r content.Reasoning) content.Part {
		return content.Part{Kind: content.ReasoningKind, Name: "anthropic", Text: text, Reasoning: &r}
	}
	call := func(id, name, input string) content.Part {
		return content.CallPart(content.ToolCall{Name: name, ProviderID: id, Input: json.RawMessage(input)})
	}
	want := model.Reply{
		Items: []content.Item{content.NewItem(content.Assistant,
			thought("Two files, <both> needed.", content.Reasoning{Signature: []byte("EqQBCgIYAhIM1g/+=")}),
			thought("", content.Reasoning{Encrypted: []byte("EmwKAhgBEgy3va3pzix/LafPsn4="), Redacted: true}),
			content.TextPart("I read both."),
			call("toolu_A", "read_file", `{"path": "a.txt"}`),
			call("toolu_B", "read_file", `{"path": "b.txt", "offset": 9007199254740993}`),
			thought("", content.Reasoning{Signature: []byte("c2lnbmVkIA==")}),
			call("toolu_C", "list_files", `{}`),
		)},
		Usage:        content.Usage{InputTokens: 500, OutputTokens: 120, ReasoningTokens: 70, CacheReadTokens: 90},
		FinishReason: content.ToolCalls, Model: "claude-test-20260101", ResponseID: "msg_calls",
	}
	if diff := cmp.Diff(want, got, cmp.Transformer("bytes", func(b []byte) string { return string(b) })); diff != "" {
		t.Errorf("reply (-want +got):\n%s", diff)
	}
}

func TestStopReasonsBecomeFinishReasons(t *testing.T) {
	t.Parallel()
	for reason, want := range map[string]content.FinishReason{
		`"end_turn"`: content.Completed, `"stop_sequence"`: content.Completed, `"tool_use"`: content.Completed,
		`"max_tokens"`: content.MaxTokens, `"model_context_window_exceeded"`: content.MaxTokens,
		`"refusal"`: content.Blocked, `"pause_turn"`: content.Other,
		`"of_next_year"`: content.Other, `null`: content.Other,
	} {
		got, err := replay(t, strings.Replace(recorded(t, "text"), `"end_turn"`, reason, 1))
		if err != nil || got.FinishReason != want {
			t.Errorf("stop reason %s becomes %q, %v, want %q", reason, got.FinishReason, err, want)
		}
	}
	got, err := replay(t, strings.Replace(recorded(t, "thinking_calls"), `"tool_use","stop_sequence"`, `"end_turn","stop_sequence"`, 1))
	if err != nil || got.FinishReason != content.ToolCalls {
		t.Errorf("an end of turn with calls becomes %q, %v", got.FinishReason, err)
	}
}

func TestRefusalsHaveAReason(t *testing.T) {
	t.Parallel()
	got, err := replay(t, recorded(t, "refusal"))
	if err != nil {
		t.Fatal(err)
	}
	why, _ := got.Items[0].Metadata.Get("refusal")
	if got.FinishReason != content.Blocked || string(why) != `{"category":"cyber","explanation":"The request could enable harm."}` {
		t.Errorf("a refusal becomes %q, %s", got.FinishReason, why)
	}
}

func TestCompactionIsKeptAndBilled(t *testing.T) {
	t.Parallel()
	got, err := replay(t, recorded(t, "compaction"))
	if err != nil {
		t.Fatal(err)
	}
	if used := (content.Usage{InputTokens: 200_005, OutputTokens: 3500, CacheReadTokens: 20_000, CacheWriteTokens: 5}); got.Usage != used {
		t.Errorf("usage = %+v, want %+v", got.Usage, used)
	}
	p := got.Items[0].Parts[0]
	want := `{"type":"compaction","content":"They fixed <main.go> & \u00fc \u2028 more.","signature":"c2ln+/=","tool_changes":[],"encrypted_content":"b3BhcXVl"}`
	if got.FinishReason != content.Compaction || p.Name != "anthropic.compaction" || string(p.Data) != want {
		t.Errorf("a compaction becomes %q, %s %s", got.FinishReason, p.Name, p.Data)
	}
}

func TestACompactionWithoutASummaryIsAFailure(t *testing.T) {
	t.Parallel()
	_, err := replay(t, strings.Replace(recorded(t, "compaction"), `"content":"They fixed <main.go> & \u00fc \u2028 more."`, `"content":null`, 1))
	if e := modelError(t, err); e.Class != content.ClassServer || e.Usage.OutputTokens != 3500 {
		t.Errorf("the failure is %+v", e)
	}
}

func TestCustomBlocksAreUnchanged(t *testing.T) {
	t.Parallel()
	block := `{"type":"server_tool_use",  "name":"web_search","id":"srvtoolu_1","input":{}}`
	result := `{"type":"web_search_tool_result","tool_use_id":"srvtoolu_1","content":[{"b":1,  "a":"<x>"}]}`
	body := strings.Replace(recorded(t, "compaction"), `{"type":"compaction","content":null,"signature":"c2ln+/=","tool_changes":[]}`, block, 1)
	body = strings.Replace(body, `{"type":"compaction_delta","content":"They fixed <main.go> & \u00fc \u2028 more.","encrypted_content":"b3BhcXVl"}`,
		`{"type":"input_json_delta","partial_json":"{\"query\": \"go\"}"}`, 1)
	body = strings.Replace(body, `event: message_delta`, `event: content_block_start
data: {"type":"content_block_start","index":1,"content_block":`+result+`}

event: content_block_stop
data: {"type":"content_block_stop","index":1}

event: message_delta`, 1)
	body = strings.Replace(body, `"stop_reason":"compaction"`, `"stop_reason":"pause_turn"`, 1)
	got, err := replay(t, body)
	if err != nil {
		t.Fatal(err)
	}
	parts := got.Items[0].Parts
	if len(parts) != 2 || parts[0].Name != "anthropic.server_tool_use" || parts[1].Name != "anthropic.web_search_tool_result" {
		t.Fatalf("parts = %+v", parts)
	}
	if want := `{"type":"server_tool_use",  "name":"web_search","id":"srvtoolu_1","input":{"query": "go"}}`; string(parts[0].Data) != want {
		t.Errorf("the call became %s", parts[0].Data)
	}
	if string(parts[1].Data) != result {
		t.Errorf("the result became %s", parts[1].Data)
	}
}

func TestMalformedArgumentsFailTheAttempt(t *testing.T) {
	t.Parallel()
	got, err := replay(t, recorded(t, "cut_call"))
	if err != nil {
		t.Fatal(err)
	}
	want := `{"invalid_arguments":"{\"path\": \"a.txt\", \"text\": \"once upon"}`
	if in := string(got.Items[0].Calls()[0].Input); got.FinishReason != content.MaxTokens || in != want {
		t.Errorf("a call cut off by the limit becomes %q, %s", got.FinishReason, in)
	}
	_, err = replay(t, strings.Replace(recorded(t, "cut_call"), `"max_tokens"`, `"tool_use"`, 1))
	e := modelError(t, err)
	if e.Class != content.ClassServer || e.Usage.OutputTokens != 64 || !strings.Contains(e.Message, "write_file") {
		t.Errorf("malformed arguments become %+v", e)
	}
}

func TestSilenceEndsACall(t *testing.T) {
	t.Parallel()
	half, _, _ := strings.Cut(recorded(t, "text"), "event: message_delta")
	for name, body := range map[string]string{"from the start": "", "in the stream": half} {
		s := modeltest.ServeOne(t, modeltest.Answer{Body: body, Silent: true})
		m := open(t, s, func(c *anthropic.Config) { c.Silence = 200 * time.Millisecond })
		_, err := m.Call(t.Context(), modeltest.Ask("hi"), func(content.Delta) {})
		if e := modelError(t, err); e.Class != content.ClassTimeout || !strings.Contains(e.Message, "200ms") {
			t.Errorf("silence %s becomes %v", name, e)
		}
	}
}

func TestCanceledCallReturnsTheCause(t *testing.T) {
	t.Parallel()
	gone := errors.New("gone")
	s := modeltest.ServeOne(t, modeltest.Answer{Body: recorded(t, "text")[:700], Silent: true})
	ctx, cancel := context.WithCancelCause(t.Context())
	stop := time.AfterFunc(100*time.Millisecond, func() { cancel(gone) })
	defer stop.Stop()
	if _, err := open(t, s).Call(ctx, modeltest.Ask("hi"), func(content.Delta) {}); !errors.Is(err, gone) {
		t.Errorf("Call = %v, want the cause", err)
	}
}
