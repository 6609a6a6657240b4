package scripted_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/internal/testing/allocated"
	"github.com/turnlog/turnlog/model"
	"github.com/turnlog/turnlog/model/modeltest"
	"github.com/turnlog/turnlog/model/scripted"
)

func parse(t testing.TB, source string) *scripted.Model {
	t.Helper()
	m, err := scripted.Parse("test.yaml", []byte(source))
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func ask(t *testing.T, m model.Model, r model.Request) model.Reply {
	t.Helper()
	reply, err := m.Call(t.Context(), r, func(content.Delta) {})
	if err != nil {
		t.Fatal(err)
	}
	return reply
}

// after returns a request with a question and the items.
func after(items ...content.Item) model.Request {
	r := modeltest.Ask("What is in a.txt?")
	r.Transcript = append(r.Transcript, items...)
	return r
}

func resultOf(name string, s content.Status, parts ...content.Part) content.Item {
	return content.NewItem(content.Tool, content.ResultPart(content.ToolResult{
		CallID: "c", Name: name, Status: s, IsError: s.IsError(), Output: parts,
	}))
}

func TestConformance(t *testing.T) {
	t.Parallel()
	const source = `
replies:
  - reasoning: I should look.
    text: I look at {{.Prompt}}.
    calls:
      - {name: fs_read_file, input: {path: a.txt, lines: [1, 2]}}
      - {name: fs_list_directory}
    usage: {input: 10, output: 5}
    chunk: 3
  - {text: "Found: {{(index .Results 0).Text}}", chunk: 1}
  - {text: "{{index .Results 7}}"}
`
	found := resultOf("fs_read_file", content.StatusOK, content.TextPart("äöü"))
	modeltest.Run(t, modeltest.Factory{
		New:      func(t testing.TB) model.Model { return parse(t, source) },
		Requests: []model.Request{after(), after(content.AssistantText("I look."), found)},
		Failing: func(t testing.TB) (model.Model, model.Request) {
			return parse(t, source), after(content.AssistantText("a"), content.AssistantText("b"))
		},
		Features: modeltest.Features{Deterministic: true},
	})
}

func TestReplyContainsEveryFieldOfTheScript(t *testing.T) {
	t.Parallel()
	m := parse(t, `
replies:
  - reasoning: hm {{not a template}}
    text: ok
    calls:
      - name: one
        input: {z: 1, a: [true, null, 2.5, "<{{.Prompt}}>"], m: {k: 0x10}}
      - {name: two, id: mine}
    usage: {input: 7, output: 3}
`)
	want := model.Reply{
		Items: []content.Item{content.NewItem(content.Assistant,
			content.Part{Kind: content.ReasoningKind, Text: "hm {{not a template}}"},
			content.TextPart("ok"),
			content.CallPart(content.ToolCall{
				Name: "one", ProviderID: "call_1_1",
				Input: json.RawMessage(`{"z":1,"a":[true,null,2.5,"<What is in a.txt?>"],"m":{"k":16}}`),
			}),
			content.CallPart(content.ToolCall{Name: "two", ProviderID: "mine", Input: json.RawMessage(`{}`)}),
		)},
		Usage:        content.Usage{InputTokens: 7, OutputTokens: 3},
		FinishReason: content.ToolCalls,
		Model:        "scripted:test.yaml",
		ResponseID:   "scripted_1",
	}
	if diff := cmp.Diff(want, ask(t, m, after())); diff != "" {
		t.Errorf("reply (-want +got):\n%s", diff)
	}
}

func TestAssistantItemsChooseTheReply(t *testing.T) {
	t.Parallel()
	m := parse(t, "replies:\n  - text: one\n  - {text: two, finish_reason: max_tokens}\n")
	one, two := after(), after(content.AssistantText("one"), content.UserText("and?"))
	for range 2 { // in any order, as often as asked
		if got := ask(t, m, two); got.Items[0].Text() != "two" || got.FinishReason != content.MaxTokens {
			t.Errorf("second reply = %+v", got)
		}
		if got := ask(t, m, one); got.Items[0].Text() != "one" || got.FinishReason != content.Completed {
			t.Errorf("first reply = %+v", got)
		}
	}
}

func TestExhaustedScriptFailsTheCall(t *testing.T) {
	t.Parallel()
	m := parse(t, "replies:\n  - text: one\n")
	e := fails(t, m, after(content.AssistantText("one")))
	want := "scripted:test.yaml: the script is exhausted: it has no reply 2; add one, or end the script with repeat: true"
	if e.Class != content.ClassExhausted || e.Message != want {
		t.Errorf("Call = %v, want exhausted: %s", e, want)
	}
}

func fails(t *testing.T, m model.Model, r model.Request) *model.Error {
	t.Helper()
	reply, err := m.Call(t.Context(), r, func(d content.Delta) { t.Errorf("a failing call sent %+v", d) })
	e, ok := errors.AsType[*model.Error](err)
	if !ok {
		t.Fatalf("Call = %+v, %v; want a *model.Error", reply, err)
	}
	return e
}

func TestTheLastReplyRepeats(t *testing.T) {
	t.Parallel()
	for _, source := range []string{
		"replies:\n  - text: one\n  - calls: [{name: x}]\nrepeat: true\n",
		"replies:\n  - text: one\n  - calls: [{name: x}]\n    repeat: true\n",
	} {
		got := ask(t, parse(t, source), after(content.AssistantText("1"), content.AssistantText("2"), content.AssistantText("3")))
		if calls := got.Items[0].Calls(); len(calls) != 1 || calls[0].ProviderID != "call_4_1" {
			t.Errorf("calls = %+v, want one with the id call_4_1", calls)
		}
	}
}

// A turn continues while the model makes calls, even of a missing tool. Without a limit of rounds it would
// not end.
func TestCallsAreNotRepeatedForever(t *testing.T) {
	t.Parallel()
	m := parse(t, "replies:\n  - text: one\n  - calls: [{name: missing}]\nrepeat: true\n")
	r := after(content.AssistantText("one"), content.AssistantText("first"))
	for range 200 {
		ask(t, m, r)
		r.Transcript = append(r.Transcript, resultOf("missing", content.StatusError), content.AssistantText("again"))
	}
	_, err := m.Call(t.Context(), r, func(content.Delta) {})
	failed, ok := errors.AsType[*model.Error](err)
	if !ok || failed.Class != content.ClassExhausted || !strings.Contains(failed.Message, "repeated 200 times without new input") {
		t.Fatalf("Call = %v, want that the calls end", err)
	}
	r.Transcript = append(r.Transcript, content.UserText("more"))
	if got := ask(t, m, r); len(got.Items[0].Parts) != 1 {
		t.Errorf("after new input: %+v", got.Items)
	}
	text := parse(t, "replies:\n  - text: one\nrepeat: true\n")
	ask(t, text, r)
}

func TestTemplatesSeeTheResultsOfThisTurn(t *testing.T) {
	t.Parallel()
	m := parse(t, `
replies:
  - text: unused
  - text: |
      {{range .Results}}{{.Name}} {{.IsError}} {{.Text}}
      {{end}}{{with index .Results 0}}{{if gt .JSON.total 2}}{{.JSON.total}} of {{index .JSON.names 1}} {{.JSON.share}}{{end}}{{end}}
    calls: [{name: next, input: {path: "{{(index .Results 1).JSON.path}}"}}]
`)
	got := ask(t, m, model.Request{Transcript: []content.Item{
		resultOf("older", content.StatusOK, content.TextPart("of another turn")),
		content.UserText("new question"),
		content.AssistantText("one"),
		resultOf("count", content.StatusOK, content.TextPart("summary "),
			content.StructuredPart(json.RawMessage(`{"total":12345678,"share":0.5,"names":["a","b"]}`))),
		resultOf("read", content.StatusError, content.TextPart(`{"path":"a \"b\""}`)),
	}})
	want := "count false summary {\"total\":12345678,\"share\":0.5,\"names\":[\"a\",\"b\"]}\nread true {\"path\":\"a \\\"b\\\"\"}\n12345678 of b 0.5\n"
	if diff := cmp.Diff(want, got.Items[0].Text()); diff != "" {
		t.Errorf("text (-want +got):\n%s", diff)
	}
	if input := string(got.Items[0].Calls()[0].Input); input != `{"path":"a \"b\""}` {
		t.Errorf("input = %s", input)
	}
}

func TestFailingTemplatesFailTheCall(t *testing.T) { //nolint:paralleltest // it measures allocations
	large := model.Request{Transcript: []content.Item{
		content.UserText(strings.Repeat("x", 30_000)),
		resultOf("count", content.StatusOK, content.TextPart(`"`+strings.Repeat("x", 30_000)+`"`)),
	}}
	for source, want := range map[string]string{
		`{text: "a {{(index .Results 3).Text}}"}`:                                               `template: replies[0].text:1:5: executing "replies[0].text" at <index .Results 3>: error calling index: `,
		`{text: "{{.Nope}}"}`:                                                                   "at <.Nope>: can't evaluate field Nope",
		`{text: a, calls: [{name: x, input: {p: "{{.X}}"}}]}`:                                   `executing "replies[0].calls[0].input.p" at <.X>`,
		`{text: "{{(index .Results 0).JSON.none}}"}`:                                            `template: replies[0].text:1:18: executing "replies[0].text" at <0>: can't evaluate field none`,
		`{text: '` + strings.Repeat("{{.Prompt}}", 1200) + `'}`:                                 "replies[0].text wrote more than 1 MiB",
		`{text: '` + strings.Repeat("{{if .Prompt}}{{end}}", 700) + `'}`:                        "read and write at most 16 MiB",
		`{text: '{{range .Results}}` + strings.Repeat("{{if .JSON}}{{end}}", 800) + `{{end}}'}`: "read and write at most 16 MiB",
	} {
		var e *model.Error
		took := allocated.By(func() { e = fails(t, parse(t, "replies:\n  - "+source), large) })
		if took > 64<<20 {
			t.Errorf("%.60s: allocated %d bytes", source, took)
		}
		if e.Class != content.ClassInvalid || e.Code != "template" || !strings.Contains(e.Message, want) {
			t.Errorf("%s: Call = %v, want %q in it", source, e, want)
		}
	}
}

func TestScriptedErrorsFailTheirAttempts(t *testing.T) {
	t.Parallel()
	m := parse(t, `
replies:
  - text: at last
    error: {class: rate_limit, code: "429", message: slow down, retry_after: 2s, attempts: 2}
  - error: {class: billing}
`)
	want := &model.Error{Class: content.ClassRateLimit, Code: "429", Message: "slow down", RetryAfter: 2 * time.Second}
	for attempt := range 3 { // 0 counts as the first attempt
		r := after()
		r.Attempt = attempt
		if diff := cmp.Diff(want, fails(t, m, r)); diff != "" {
			t.Errorf("attempt %d (-want +got):\n%s", attempt, diff)
		}
	}
	r := after()
	r.Attempt = 3
	if got := ask(t, m, r).Items[0].Text(); got != "at last" {
		t.Errorf("attempt 3 = %q, want %q", got, "at last")
	}
	r = after(content.AssistantText("at last"))
	r.Attempt = 99
	if e := fails(t, m, r); e.Class != content.ClassBilling || e.Message == "" {
		t.Errorf("Call = %v, want a billing error with a message", e)
	}
}

func TestDelayComesBeforeTheFirstDelta(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := parse(t, "replies:\n  - {text: hello, delay: 1h}\n")
		start, first := time.Now(), time.Duration(-1)
		_, err := m.Call(t.Context(), after(), func(content.Delta) {
			if first < 0 {
				first = time.Since(start)
			}
		})
		if err != nil || first != time.Hour {
			t.Errorf("first delta after %s, %v; want 1h", first, err)
		}
	})
}

func TestCancelEndsTheDelay(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := parse(t, "replies:\n  - {text: hello, delay: 1h}\n")
		gone := errors.New("gone")
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Minute, func() { cancel(gone) })
		start := time.Now()
		_, err := m.Call(ctx, after(), func(d content.Delta) { t.Errorf("sent %+v", d) })
		if took := time.Since(start); !errors.Is(err, gone) || took != time.Minute {
			t.Errorf("Call = %v after %s, want %v after 1m", err, took, gone)
		}
	})
}

// ending is a context that ends when it was asked a number of times.
type ending struct {
	context.Context //nolint:containedctx // it is a context

	left int
}

func (e *ending) Err() error {
	if e.left--; e.left < 0 {
		return context.Canceled
	}
	return nil
}

func TestCancelEndsASlowTemplate(t *testing.T) {
	t.Parallel()
	m := parse(t, `replies: [{text: '`+strings.Repeat("{{if .Prompt}}{{end}}", 700)+`'}]`)
	ctx := &ending{t.Context(), 100}
	if _, err := m.Call(ctx, after(), func(content.Delta) {}); !errors.Is(err, context.Canceled) || ctx.left < -10 {
		t.Errorf("Call = %v, and the template ran on for %d steps", err, -ctx.left)
	}
}
