package compact_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/extension"
	"github.com/turnlog/turnlog/model"
	"github.com/turnlog/turnlog/policy/compact"
)

// pen is a model that returns fixed answers and records the requests.
type pen struct {
	reply    model.Reply
	err      error
	window   int
	requests *[]model.Request
}

func (pen) Name() string { return "fake:pen" }

func (p pen) Capabilities() model.Capabilities { return model.Capabilities{ContextTokens: p.window} }

func (p pen) Call(_ context.Context, r model.Request, emit func(content.Delta)) (model.Reply, error) {
	*p.requests = append(*p.requests, r)
	emit(content.Delta{})
	return p.reply, p.err
}

func writes(text string) pen {
	return pen{requests: new([]model.Request), reply: model.Reply{
		Items: []content.Item{content.AssistantText(text)}, FinishReason: content.Completed,
		Usage: content.Usage{InputTokens: 40, OutputTokens: 2},
	}}
}

func TestASummaryReplacesOlderItems(t *testing.T) {
	t.Parallel()
	p := writes("  They exchanged greetings.\n")
	items := talk("s u a?,>c t!c a d u a")
	items[1].Parts[0].Text = strings.Repeat("say hello ", 9)
	items = append(items, content.UserText("and now?"))
	m := mutate(t, compactor(t, compact.Summarise{Model: p, Keep: compact.KeepRecent{Turns: 2}, MaxTokens: 20}), items)
	if got := short(m.Items); got != "s x d u a u" {
		t.Fatalf("left %s", got)
	}
	if got := m.Items[1].Text(); got != "Summary of the earlier conversation:\nThey exchanged greetings." {
		t.Errorf("the summary is %q", got)
	}
	if raw, _ := m.Items[1].Metadata.Get(compact.MetaSummary); string(raw) != `{"items":4,"first":"ib","last":"ie"}` {
		t.Errorf("it stands for %s", raw)
	}
	if want := (content.Usage{InputTokens: 40, OutputTokens: 2}); m.Usage != want {
		t.Errorf("usage %+v, want %+v", m.Usage, want)
	}

	r := (*p.requests)[0]
	if len(*p.requests) != 1 || r.Session != "s" || r.Turn != "turn-1" || r.Attempt != 1 || r.Tools != nil || len(r.Transcript) != 2 {
		t.Errorf("%d requests, the first %+v", len(*p.requests), r)
	}
	seen := r.Transcript[1].Text()
	if !strings.Contains(seen, "[user] say hello say") || !strings.Contains(seen, "[result of tool error] result\n") ||
		strings.Contains(seen, "hm") || strings.Contains(seen, "and now?") {
		t.Errorf("the model sees\n%s", seen)
	}
}

func TestASummaryIsNotSummarizedAgain(t *testing.T) {
	t.Parallel()
	p := writes("more")
	c := compactor(t, compact.Summarise{Model: p, Keep: compact.KeepRecent{Turns: 1}, MaxTokens: 12})
	items := talk("s u a u a u")
	for n := range 10 {
		m := mutate(t, c, items)
		if got, want := short(m.Items), "s "+strings.Repeat("x ", min(n+1, 8))+"u"; got != want {
			t.Fatalf("compaction %d left %s, want %s", n+1, got, want)
		}
		if seen := (*p.requests)[n].Transcript[1].Text(); strings.Contains(seen, "Summary of") {
			t.Errorf("the model sees\n%s", seen)
		}
		if again := mutate(t, c, m.Items); len(*p.requests) != n+1 || again.Usage != (content.Usage{}) {
			t.Errorf("compaction %d is repeated", n+1)
		}
		p.reply.Items[0].Parts[0].Text = fmt.Sprintf("and %d", n)
		items = slices.Concat(m.Items, talk("a u a u"))
	}
}

func TestALongSummaryIsCut(t *testing.T) {
	t.Parallel()
	p := writes(strings.Repeat("é", 4000))
	items := talk("u a u a u a u")
	items[1].Parts[0].Text = strings.Repeat("long ", 100)
	m := mutate(t, compactor(t, compact.Summarise{Model: p, Keep: compact.KeepRecent{Turns: 1}, MaxTokens: 60}), items)
	text := m.Items[0].Text()
	if short(m.Items) != "x u" || m.NewTokens > 60+7 || !strings.HasSuffix(text, "é…") {
		t.Errorf("left %s, summary %q", short(m.Items), text)
	}
}

func TestAFewOldItemsAreNotSummarized(t *testing.T) {
	t.Parallel()
	p := writes("short")
	for _, before := range []string{"u a u", "s u", "u a u a u a u a u a u"} {
		m := mutate(t, compactor(t, compact.Summarise{Model: p}), talk(before))
		if short(m.Items) != before || len(*p.requests) > 0 {
			t.Errorf("%s: left %s after %d requests", before, short(m.Items), len(*p.requests))
		}
	}
}

func TestASmallModelGetsTheOldestPartFirst(t *testing.T) {
	t.Parallel()
	p := writes("short")
	p.window = 400
	items := talk("u a u a u a u a u")
	for i := range items {
		items[i].Parts[0].Text = strings.Repeat("word ", 80) // 100 tokens
	}
	c := compactor(t, compact.Summarise{Model: p, Keep: compact.KeepRecent{Items: 1}, MaxTokens: 50})
	m := mutate(t, c, items)
	if got := short(m.Items); got != "x u a u a u a u" {
		t.Fatalf("left %s", got)
	}
	if m = mutate(t, c, m.Items); short(m.Items) != "x x u a u a u" {
		t.Errorf("then left %s", short(m.Items))
	}
}

func TestAFailedSummaryChangesNothing(t *testing.T) {
	t.Parallel()
	down := &model.Error{Class: content.ClassOverloaded, Message: "try later", Usage: content.Usage{InputTokens: 3}}
	blocked, called, empty := writes("no"), writes("no"), writes(" \n")
	blocked.reply.FinishReason = content.Blocked
	called.reply.FinishReason = content.ToolCalls
	failing := pen{err: down, requests: new([]model.Request)}
	for _, tc := range []struct {
		pen  pen
		says string
		is   error
		used int64
	}{
		{failing, "strategy summarise: call fake:pen: overloaded: try later", down, 3},
		{blocked, "strategy summarise: call fake:pen: no summary: the reply ended with blocked", nil, 40},
		{called, "strategy summarise: call fake:pen: no summary: the reply ended with tool_call", nil, 40},
		{empty, "strategy summarise: call fake:pen: no summary: the reply is empty", nil, 40},
	} {
		s := compact.Pipeline{Steps: []compact.Strategy{
			compact.DropReasoning{}, compact.Summarise{Model: tc.pen, Keep: compact.KeepRecent{Turns: 1}, MaxTokens: 5},
		}}
		before := talk("u a?, u a u")
		m := extension.Mutation{Point: extension.BeforeModel, Items: before}
		err := compactor(t, s).Mutate(t.Context(), &m)
		if err == nil || err.Error() != tc.says || tc.is != nil && !errors.Is(err, tc.is) {
			t.Errorf("Mutate = %v, want %s", err, tc.says)
		}
		if short(m.Items) != "u a?, u a u" || m.Usage.InputTokens != tc.used || len(*tc.pen.requests) != 1 {
			t.Errorf("left %s, usage %+v, %d requests", short(m.Items), m.Usage, len(*tc.pen.requests))
		}
	}
}

func TestSummariesCoverMediaAndCalls(t *testing.T) {
	t.Parallel()
	p := writes("short")
	items := talk("u a u")
	items[0].Parts = []content.Part{
		content.TextPart("look \xff"),
		content.StructuredPart([]byte(`{"a":1}`)),
		{Kind: content.MediaKind, Media: &content.Media{Modality: "image", MIME: "image/png"}},
		{Kind: content.FileKind, Name: "a.txt"},
		content.TextPart(strings.Repeat("é", 3000)),
	}
	mutate(t, compactor(t, compact.Summarise{Model: p, Keep: compact.KeepRecent{Turns: 1}, MaxTokens: 50}), items)
	if len(*p.requests) != 1 {
		t.Fatalf("%d requests", len(*p.requests))
	}
	seen := (*p.requests)[0].Transcript[1].Text()
	want := "[user] look \uFFFD\n[user] {\"a\":1}\n[user] (image image/png)\n[user] (a.txt)\n[user] " +
		strings.Repeat("é", 1998) + "…\n[assistant] text of a\n"
	if !strings.Contains(seen, want) {
		t.Errorf("the model sees\n%s", seen)
	}
}
