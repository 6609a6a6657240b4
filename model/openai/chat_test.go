package openai

import (
	"net/http"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/model/modeltest"
)

func TestChatText(t *testing.T) {
	t.Parallel()
	r := answered(t, Chat, recorded(t, "chat_text.sse"))
	wantShown(t, r, content.Completed, "text Hello, wörld.")
	want := content.Usage{InputTokens: 19, OutputTokens: 10, ReasoningTokens: 4, CacheReadTokens: 16}
	if diff := cmp.Diff(want, r.Usage); diff != "" {
		t.Errorf("usage: -want +got\n%s", diff)
	}
	if r.Model != "llama3.3" || r.ResponseID != "chatcmpl-1" {
		t.Errorf("model %s, response %s", r.Model, r.ResponseID)
	}
}

func TestChatReasoningAndParallelCalls(t *testing.T) {
	t.Parallel()
	r := answered(t, Chat, recorded(t, "chat_tools.sse"))
	wantShown(t, r, content.ToolCalls,
		"reasoning I need both.", "text I look.", `call call_a read {"path": "a<b"}`, "call call_b list {}")
	p := r.Items[0].Parts[0]
	if p.Name != Provider || noteOf(p).Field != "reasoning_content" {
		t.Errorf("the reasoning is %+v", p)
	}
	if r.Usage != (content.Usage{}) {
		t.Errorf("usage = %+v of a server that sends none", r.Usage)
	}
}

func TestCostOfOpenRouterIsCounted(t *testing.T) {
	t.Parallel()
	body := events(choice(`{"content":"Hm"}`), stopped("stop"), `{"choices":[],"usage":{"prompt_tokens":1,"completion_tokens":2,"cost":0.0000123}}`, "[DONE]")
	s := modeltest.ServeOne(t, modeltest.Answer{Body: body})
	m := open(t, s, Config{BaseURL: "https://openrouter.ai/api/v1", HTTP: &http.Client{Transport: detour{s.URL}}})
	if want, got := (content.Usage{InputTokens: 1, OutputTokens: 2, CostMicros: 13, Currency: "USD"}), ask(t, m, modeltest.Ask("x")).Usage; got != want {
		t.Errorf("usage = %+v, want %+v", got, want)
	}
	if got := ask(t, open(t, s, Config{}), modeltest.Ask("x")).Usage; got.CostMicros != 0 {
		t.Errorf("usage = %+v: what another server's cost is in is not known", got)
	}
}

// choice is a chunk with the delta.
func choice(delta string) string { return `{"id":"c","choices":[{"index":0,"delta":` + delta + `}]}` }

func stopped(reason string) string {
	return `{"id":"c","choices":[{"index":0,"delta":{},"finish_reason":"` + reason + `"}]}`
}

func TestChatEndings(t *testing.T) {
	t.Parallel()
	hm := choice(`{"content":"Hm"}`)
	call := choice(`{"tool_calls":[{"index":0,"id":"a","function":{"name":"now","arguments":"{}"}}]}`)
	half := choice(`{"tool_calls":[{"index":0,"id":"a","function":{"name":"now","arguments":"{\"x"}}]}`)
	for name, tt := range map[string]struct {
		events []string
		finish content.FinishReason
		want   []string
	}{
		"no end mark":         {[]string{hm, stopped("stop")}, content.Completed, []string{"text Hm"}},
		"no reason":           {[]string{hm, "[DONE]"}, content.Completed, []string{"text Hm"}},
		"calls, no reason":    {[]string{call, "[DONE]"}, content.ToolCalls, []string{"call a now {}"}},
		"calls, but stop":     {[]string{call, stopped("stop"), "[DONE]"}, content.ToolCalls, []string{"call a now {}"}},
		"tool_calls, no call": {[]string{hm, stopped("tool_calls"), "[DONE]"}, content.Completed, []string{"text Hm"}},
		"length":              {[]string{hm, stopped("length"), "[DONE]"}, content.MaxTokens, []string{"text Hm"}},
		"length in a call":    {[]string{half, stopped("length"), "[DONE]"}, content.MaxTokens, []string{`call a now {"invalid_arguments":"{\"x"}`}},
		"filter":              {[]string{hm, stopped("content_filter"), "[DONE]"}, content.Blocked, []string{"text Hm"}},
		"refusal":             {[]string{choice(`{"refusal":"I can't."}`), stopped("stop"), "[DONE]"}, content.Blocked, []string{"text I can't."}},
		"word of its own":     {[]string{hm, stopped("EOS"), "[DONE]"}, content.Completed, []string{"text Hm"}},
		"unknown word":        {[]string{hm, stopped("tired"), "[DONE]"}, content.Other, []string{"text Hm"}},
		"empty":               {[]string{stopped("stop"), "[DONE]"}, content.Completed, nil},
		"odd types":           {[]string{`{"id":7,"created":"now","choices":[{"delta":{"content":"Hm"}}]}`, stopped("stop")}, content.Completed, []string{"text Hm"}},
		"no choices":          {[]string{`{"id":"c","prompt_filter_results":[]}`, hm, stopped("stop")}, content.Completed, []string{"text Hm"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			wantShown(t, answered(t, Chat, events(tt.events...)), tt.finish, tt.want...)
		})
	}
}

func TestCompleteResponseSurvivesACut(t *testing.T) {
	t.Parallel()
	s := modeltest.ServeOne(t, modeltest.Answer{Body: events(choice(`{"content":"Hm"}`), stopped("stop")), Cut: true})
	wantShown(t, ask(t, open(t, s, Config{}), modeltest.Ask("x")), content.Completed, "text Hm")
}

func TestChatCallsAsServersSendThem(t *testing.T) {
	t.Parallel()
	calls := func(list ...string) []string {
		var all []string
		for _, c := range list {
			all = append(all, choice(`{"tool_calls":[`+c+`]}`))
		}
		return append(all, stopped("tool_calls"), "[DONE]")
	}
	for name, tt := range map[string]struct {
		events []string
		want   []string
	}{
		"no ids": {
			calls(`{"index":0,"function":{"name":"a","arguments":"{\"n\":"}}`, `{"index":0,"function":{"arguments":"1}"}}`, `{"index":1,"function":{"name":"b","arguments":"{}"}}`),
			[]string{`call  a {"n":1}`, "call  b {}"},
		},
		"all numbered 0": {
			calls(`{"index":0,"id":"1","function":{"name":"a","arguments":"{}"}}`, `{"index":0,"id":"2","function":{"name":"a","arguments":"{\"n\":2}"}}`),
			[]string{"call 1 a {}", `call 2 a {"n":2}`},
		},
		"no index": {
			calls(`{"id":"1","function":{"name":"a","arguments":"{\"n\""}}`, `{"function":{"arguments":":1}"}}`, `{"id":"2","function":{"name":"b"}}`),
			[]string{`call 1 a {"n":1}`, "call 2 b {}"},
		},
		"no index, no id": {
			calls(`{"function":{"name":"a","arguments":"{}"}}`, `{"function":{"name":"a","arguments":"{}"}}`),
			[]string{"call  a {}", "call  a {}"},
		},
		"the id and the name again": {
			calls(`{"index":0,"id":"1","function":{"name":"a","arguments":"{\"n\":"}}`, `{"index":0,"id":"1","function":{"name":"a","arguments":"1}"}}`),
			[]string{`call 1 a {"n":1}`},
		},
		"another id for each piece": {
			calls(`{"index":0,"id":"1","function":{"name":"a","arguments":"{\"n\":"}}`, `{"index":0,"id":"x","function":{"arguments":"1}"}}`),
			[]string{`call 1 a {"n":1}`},
		},
		"the arguments as an object": {
			calls(`{"index":0,"id":"1","function":{"name":"a","arguments":{"n":1}}}`),
			[]string{`call 1 a {"n":1}`},
		},
		"no arguments": {calls(`{"index":0,"id":"1","function":{"name":"a","arguments":null}}`), []string{"call 1 a {}"}},
		"interleaved": {
			calls(`{"index":1,"id":"2","function":{"name":"b","arguments":"{\"x"}}`, `{"index":0,"id":"1","function":{"name":"a","arguments":"{"}}`, `{"index":1,"function":{"arguments":"\":2}"}}`, `{"index":0,"function":{"arguments":"}"}}`),
			[]string{`call 2 b {"x":2}`, "call 1 a {}"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			wantShown(t, answered(t, Chat, events(tt.events...)), content.ToolCalls, tt.want...)
		})
	}
}

func TestChatReasoningAsServersSendIt(t *testing.T) {
	t.Parallel()
	end := []string{choice(`{"content":"Yes."}`), stopped("stop"), "[DONE]"}
	for name, tt := range map[string]struct {
		deltas  []string
		want    string
		field   string
		details string
	}{
		"reasoning":         {[]string{`{"reasoning":"so "}`, `{"reasoning":"far"}`}, "so far", "reasoning", ""},
		"under both names":  {[]string{`{"reasoning":"so","reasoning_content":"so"}`}, "so", "reasoning_content", ""},
		"within a list":     {[]string{`{"content":[{"type":"thinking","thinking":[{"type":"text","text":"so"}]}]}`}, "so", "", ""},
		"an object instead": {[]string{`{"reasoning":{"text":"?"},"reasoning_content":"so"}`}, "so", "reasoning_content", ""},
		"with details": {
			[]string{
				`{"reasoning":"so ","reasoning_details":[{"type":"reasoning.text","index":0,"text":"so ","signature":null}]}`,
				`{"reasoning":"far","reasoning_details":[{"type":"reasoning.text","index":0,"text":"far"}]}`,
				`{"reasoning_details":[{"type":"reasoning.text","index":0,"signature":"s=="},{"type":"reasoning.encrypted","index":1,"data":"e"}]}`,
				`{"reasoning_details":[{"type":"reasoning.encrypted","index":1,"data":"f"}]}`,
			},
			"so far", "reasoning",
			`[{"index":0,"signature":"s==","text":"so far","type":"reasoning.text"},{"data":"e","index":1,"type":"reasoning.encrypted"},{"data":"f","index":1,"type":"reasoning.encrypted"}]`,
		},
		"numbers in details": {
			[]string{`{"reasoning_details":[{"type":"x","at":{"id":9007199254740993,"p":0.10000000000000000555},"n":12345678901234567890}]}`},
			"", "",
			`[{"at":{"id":9007199254740993,"p":0.10000000000000000555},"n":12345678901234567890,"type":"x"}]`,
		},
		"details alone": {
			[]string{`{"reasoning_details":["odd",7,null,{"type":"reasoning.encrypted","data":"e"}]}`},
			"", "",
			`[{"data":"e","type":"reasoning.encrypted"}]`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var all []string
			for _, d := range tt.deltas {
				all = append(all, choice(d))
			}
			r := answered(t, Chat, events(append(all, end...)...))
			wantShown(t, r, content.Completed, "reasoning "+tt.want, "text Yes.")
			p := r.Items[0].Parts[0]
			var details string
			if p.Reasoning != nil {
				details = string(p.Reasoning.Encrypted)
			}
			if noteOf(p).Field != tt.field || details != tt.details {
				t.Errorf("field %q, details %s", noteOf(p).Field, details)
			}
		})
	}
}

func TestChatFailuresInMidStream(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		body, code string
		class      content.ErrorClass
	}{
		"error":                {events(`{"error":{"message":"overloaded","type":"server_error","code":"server_is_overloaded"}}`), "server_is_overloaded", content.ClassOverloaded},
		"error with a status":  {events(`{"id":"c","error":{"code":429,"message":"upstream is busy"},"choices":[{"delta":{"content":""},"finish_reason":"error"}]}`), "429", content.ClassRateLimit},
		"error without money":  {events(`{"error":{"code":402,"message":"no credits"}}`), "402", content.ClassBilling},
		"error as text":        {events(`{"error":"the runner is gone"}`), "", content.ClassServer},
		"error by name":        {"event: error\ndata: {\"message\":\"gone\"}\n\n", "", content.ClassServer},
		"error as an object":   {events(`{"object":"error","message":"gone","type":"InternalServerError","code":500}`), "500", content.ClassServer},
		"error in the reason":  {events(stopped("error"), "[DONE]"), "error", content.ClassServer},
		"context too long":     {events(`{"error":{"message":"This model's maximum context length is 8192 tokens.","code":400}}`), "400", content.ClassTooLong},
		"malformed JSON":       {events(`{"choices":[{`), "malformed_stream", content.ClassServer},
		"no JSON":              {events(`oops`), "malformed_stream", content.ClassServer},
		"arguments of no call": {events(choice(`{"tool_calls":[{"index":3,"function":{"arguments":"{}"}}]}`)), "malformed_stream", content.ClassServer},
		"arguments no object":  {events(choice(`{"tool_calls":[{"index":0,"id":"a","function":{"name":"now","arguments":"[1]"}}]}`), stopped("tool_calls"), "[DONE]"), "invalid_arguments", content.ClassServer},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := failed(t, Chat, events(choice(`{"content":"Hm"}`))+tt.body)
			if e.Class != tt.class || e.Code != tt.code || e.Message == "" {
				t.Errorf("failure = %+v, want class %s and code %q", e, tt.class, tt.code)
			}
		})
	}
}

func TestChatWithoutStreaming(t *testing.T) {
	t.Parallel()
	s := modeltest.ServeOne(t, modeltest.Answer{
		Header: map[string]string{"Content-Type": "application/json"},
		Body: `{"id":"c","object":"chat.completion","model":"m","choices":[{"index":0,"finish_reason":"tool_calls","message":
			{"role":"assistant","content":"Hi","tool_calls":[{"id":"1","type":"function","function":{"name":"now","arguments":"{}"}}]}}],
			"usage":{"prompt_tokens":3,"completion_tokens":4,"prompt_cache_hit_tokens":2}}`,
	})
	r := ask(t, open(t, s, Config{}), modeltest.Ask("x"))
	wantShown(t, r, content.ToolCalls, "text Hi", "call 1 now {}")
	if want := (content.Usage{InputTokens: 3, OutputTokens: 4, CacheReadTokens: 2}); r.Usage != want {
		t.Errorf("usage = %+v", r.Usage)
	}
	empty := modeltest.ServeOne(t, modeltest.Answer{Header: map[string]string{"Content-Type": "application/json"}, Body: `{"ok":true}`})
	if e := askFailing(t, open(t, empty, Config{}), modeltest.Ask("x")); e.Code != "malformed_stream" {
		t.Errorf("failure = %+v", e)
	}
}
