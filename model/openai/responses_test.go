package openai

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/model"
	"github.com/turnlog/turnlog/model/modeltest"
)

// answered returns the reply for a stream.
func answered(t *testing.T, api API, body string) model.Reply {
	t.Helper()
	return ask(t, open(t, modeltest.ServeOne(t, modeltest.Answer{Body: body}), Config{API: api}), modeltest.Ask("x"))
}

func failed(t *testing.T, api API, body string) *model.Error {
	t.Helper()
	return askFailing(t, open(t, modeltest.ServeOne(t, modeltest.Answer{Body: body}), Config{API: api}), modeltest.Ask("x"))
}

func TestResponsesText(t *testing.T) {
	t.Parallel()
	r := answered(t, Responses, recorded(t, "responses_text.sse"))
	wantShown(t, r, content.Completed, "text Hello, wörld.")
	want := content.Usage{InputTokens: 75, OutputTokens: 20, ReasoningTokens: 12, CacheReadTokens: 64, CacheWriteTokens: 8}
	if diff := cmp.Diff(want, r.Usage); diff != "" {
		t.Errorf("usage: -want +got\n%s", diff)
	}
	if r.Model != "gpt-5.2-2025-12-11" || r.ResponseID != "resp_1" {
		t.Errorf("model %s, response %s", r.Model, r.ResponseID)
	}
	if n := noteOf(r.Items[0].Parts[0]); n.Item != "msg_1" || n.Phase != "final_answer" {
		t.Errorf("the message is noted as %+v", n)
	}
}

func TestResponsesInterleavedReasoningAndParallelCalls(t *testing.T) {
	t.Parallel()
	r := answered(t, Responses, recorded(t, "responses_tools.sse"))
	wantShown(t, r, content.ToolCalls,
		"reasoning **Looking** at <both>.\n\nThen comparing.", "text I look.", "reasoning ",
		`call call_a read {"path": "a<b"}`, "call call_b list {}")
	p := r.Items[0].Parts[0]
	const item = `{"id":"rs_1","type":"reasoning","encrypted_content":"gAAAA+/==","summary":[{"type":"summary_text","text":"**Looking** at <both>."},{"type":"summary_text","text":"Then comparing."}]}`
	if p.Name != Provider || p.Reasoning == nil || string(p.Reasoning.Encrypted) != item {
		t.Errorf("the reasoning is %+v, want the item byte for byte", p)
	}
}

func TestFinalAnswerIsAnItemOfItsOwn(t *testing.T) {
	t.Parallel()
	r := answered(t, Responses, events(
		itemDone+`{"id":"m1","type":"message","phase":"commentary","content":[{"type":"output_text","text":"Thinking aloud."}]}}`,
		`{"type":"response.output_item.done","output_index":1,"item":{"id":"rs","type":"reasoning","encrypted_content":"e"}}`,
		`{"type":"response.output_item.done","output_index":2,"item":{"id":"m2","type":"message","phase":"final_answer","content":[{"type":"output_text","text":"{}"}]}}`,
		completed,
	))
	wantShown(t, r, content.Completed, "text Thinking aloud.", "reasoning ", "text {}")
	if len(r.Items) != 2 || r.Items[1].Text() != "{}" {
		t.Errorf("items = %+v, want the answer in the last", r.Items)
	}
}

const (
	itemAdded = `{"type":"response.output_item.added","output_index":0,"item":`
	itemDone  = `{"type":"response.output_item.done","output_index":0,"item":`
	completed = `{"type":"response.completed","response":{"id":"r","status":"completed","output":[]}}`
)

func TestResponsesEndings(t *testing.T) {
	t.Parallel()
	said := []string{
		itemAdded + `{"id":"m","type":"message","content":[]}}`,
		`{"type":"response.output_text.delta","output_index":0,"content_index":0,"delta":"Hm"}`,
	}
	refusal := []string{
		itemAdded + `{"id":"m","type":"message","content":[]}}`,
		`{"type":"response.refusal.delta","output_index":0,"content_index":0,"delta":"I can't "}`,
		`{"type":"response.refusal.delta","output_index":0,"content_index":0,"delta":"do that."}`,
		itemDone + `{"id":"m","type":"message","content":[{"type":"refusal","refusal":"I can't do that."}]}}`,
	}
	half := []string{
		itemAdded + `{"id":"f","type":"function_call","call_id":"c","name":"read","arguments":""}}`,
		`{"type":"response.function_call_arguments.delta","output_index":0,"delta":"{\"path\":\"a"}`,
	}
	compaction := []string{
		itemAdded + `{"id":"cmp","type":"compaction"}}`,
		itemDone + `{"id":"cmp","type":"compaction","encrypted_content":"gC=="}}`,
	}
	incomplete := func(reason string) string {
		return `{"type":"response.incomplete","response":{"id":"r","status":"incomplete","incomplete_details":{"reason":"` + reason + `"}}}`
	}
	for name, tt := range map[string]struct {
		events []string
		end    string
		finish content.FinishReason
		want   []string
	}{
		"length":             {said, incomplete("max_output_tokens"), content.MaxTokens, []string{"text Hm"}},
		"filter":             {said, incomplete("content_filter"), content.Blocked, []string{"text Hm"}},
		"other":              {said, incomplete("boredom"), content.Other, []string{"text Hm"}},
		"no reason":          {said, `{"type":"response.incomplete","response":{"status":"incomplete"}}`, content.Other, []string{"text Hm"}},
		"refusal":            {refusal, completed, content.Blocked, []string{"text I can't do that."}},
		"cut call":           {half, incomplete("max_output_tokens"), content.MaxTokens, []string{`call c read {"invalid_arguments":"{\"path\":\"a"}`}},
		"compaction":         {compaction, completed, content.Compaction, []string{`openai.compaction {"id":"cmp","type":"compaction","encrypted_content":"gC=="}`}},
		"nothing":            {nil, completed, content.Completed, nil},
		"unknown event":      {[]string{`{"type":"response.steam.delta","delta":{"x":1}}`}, completed, content.Completed, nil},
		"only at the end":    {nil, `{"type":"response.completed","response":{"status":"completed","output":[{"id":"m","type":"message","content":[{"type":"output_text","text":"Hi"}]}]}}`, content.Completed, []string{"text Hi"}},
		"delta, not added":   {[]string{`{"type":"response.output_text.delta","output_index":0,"delta":"Hi"}`}, completed, content.Completed, []string{"text Hi"}},
		"shorter at the end": {said, `{"type":"response.completed","response":{"status":"completed","output":[{"id":"f","type":"function_call","name":"now"}]}}`, content.Completed, []string{"text Hm"}},
		"done, not added":    {[]string{itemDone + `{"id":"f","type":"function_call","call_id":"c","name":"now","arguments":""}}`}, completed, content.ToolCalls, []string{"call c now {}"}},
		"foreign item":       {[]string{itemDone + `{"id":"w","type":"web_search_call","status":"completed"}}`}, completed, content.Completed, []string{`openai.web_search_call {"id":"w","type":"web_search_call","status":"completed"}`}},
		"reasoning in full":  {[]string{itemDone + `{"id":"rs","type":"reasoning","summary":[],"content":[{"type":"reasoning_text","text":"so"}]}}`}, completed, content.Completed, []string{"reasoning so"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			wantShown(t, answered(t, Responses, events(append(tt.events, tt.end)...)), tt.finish, tt.want...)
		})
	}
}

func TestResponsesFailuresInMidStream(t *testing.T) {
	t.Parallel()
	started := itemAdded + `{"id":"m","type":"message","content":[]}}`
	for name, tt := range map[string]struct {
		event, code string
		class       content.ErrorClass
	}{
		"response.failed": {
			`{"type":"response.failed","response":{"status":"failed","error":{"code":"server_error","message":"try again"},"usage":{"input_tokens":9}}}`,
			"server_error", content.ClassServer,
		},
		"rate limit": {
			`{"type":"response.failed","response":{"status":"failed","error":{"code":"rate_limit_exceeded","message":"slow"}}}`,
			"rate_limit_exceeded", content.ClassRateLimit,
		},
		"no reason": {`{"type":"response.failed","response":{"status":"failed"}}`, "", content.ClassServer},
		"cancelled": {`{"type":"response.cancelled","response":{"status":"cancelled"}}`, "", content.ClassServer},
		"error": {
			`{"type":"error","code":"context_length_exceeded","message":"too long","param":null}`,
			"context_length_exceeded", content.ClassTooLong,
		},
		"error, wrapped": {
			`{"type":"error","error":{"type":"invalid_request_error","code":"insufficient_quota","message":"pay"}}`,
			"insufficient_quota", content.ClassBilling,
		},
		"error without a type": {`{"error":{"message":"upstream","code":502}}`, "502", content.ClassServer},
		"malformed JSON":       {`{"type":"response.output_text.delta","del`, "malformed_stream", content.ClassServer},
		"no response":          {`{"type":"response.completed"}`, "malformed_stream", content.ClassServer},
		"a delta of nothing":   {`{"type":"response.function_call_arguments.delta","output_index":7,"delta":"x"}`, "malformed_stream", content.ClassServer},
		"a text of no place":   {`{"type":"response.output_text.delta","output_index":-1,"delta":"x"}`, "malformed_stream", content.ClassServer},
		"a thought of nothing": {`{"type":"response.reasoning_text.delta","output_index":0,"delta":"x"}`, "malformed_stream", content.ClassServer},
		"a far index":          {`{"type":"response.output_item.added","output_index":99999999,"item":{"type":"message"}}`, "malformed_stream", content.ClassServer},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := failed(t, Responses, events(started, tt.event, completed))
			if e.Class != tt.class || e.Code != tt.code || e.Message == "" {
				t.Errorf("failure = %+v, want class %s and code %q", e, tt.class, tt.code)
			}
			if name == "response.failed" && e.Usage.InputTokens != 9 {
				t.Errorf("usage = %+v, want the billed tokens", e.Usage)
			}
		})
	}
}

func TestCallWithMalformedArgumentsDoesNotRun(t *testing.T) {
	t.Parallel()
	call := itemDone + `{"id":"f","type":"function_call","call_id":"c","name":"read","arguments":"{\"path\":"}}`
	e := failed(t, Responses, events(call, strings.Replace(completed, `"output"`, `"usage":{"output_tokens":5},"output"`, 1)))
	if e.Class != content.ClassServer || e.Usage.OutputTokens != 5 {
		t.Errorf("failure = %+v, want one that may be tried again, with its usage", e)
	}
}

func TestResponsesWithoutStreaming(t *testing.T) {
	t.Parallel()
	s := modeltest.ServeOne(t, modeltest.Answer{
		Header: map[string]string{"Content-Type": "application/json; charset=utf-8"},
		Body:   `{"id":"r","object":"response","status":"completed","output":[{"id":"m","type":"message","content":[{"type":"output_text","text":"Hi"}]}]}`,
	})
	wantShown(t, ask(t, open(t, s, Config{API: Responses}), modeltest.Ask("x")), content.Completed, "text Hi")
}
