package provider_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/internal/provider"
	"github.com/turnlog/turnlog/model"
)

// render returns deltas, one per line.
func render(all []content.Delta) string {
	var b strings.Builder
	for _, d := range all {
		b.WriteString(strings.TrimRight(strings.Join([]string{string(d.Op), string(rune('0' + d.Part)), string(d.Kind), d.Text}, " "), " "))
		if d.Call != nil {
			b.WriteString(" " + d.Call.Name + string(d.Call.Input))
		}
		b.WriteByte('\n')
	}
	return b.String()
}

func TestReplyEmitsEachPart(t *testing.T) {
	t.Parallel()
	var all []content.Delta
	r := provider.NewReply(t.Context(), func(d content.Delta) { all = append(all, d) })
	think := content.Part{Kind: content.ReasoningKind, Name: "p", Text: "so", Reasoning: &content.Reasoning{}}
	do(t, begun(r.Begin(think)))
	do(t, begun(r.Begin(content.CallPart(content.ToolCall{Name: "look", ProviderID: "c1"}))))
	do(t, r.Append(1, `{"a":`))
	do(t, r.Append(0, " it is"))
	r.Edit(0).Reasoning.Signature = []byte("sig")
	do(t, r.Append(1, `1}`))
	do(t, r.Commit(0))
	if !r.HasCalls() {
		t.Error("HasCalls = false")
	}
	if got := r.Text(1); got != `{"a":1}` {
		t.Errorf("Text(1) = %q", got)
	}
	do(t, r.CommitAll())
	do(t, r.Commit(1)) // again has no effect
	want := `begin 0 reasoning
append 0 reasoning so
begin 1 tool_call look
append 1 tool_call {"a":
append 0 reasoning  it is
append 1 tool_call 1}
commit 0 reasoning
commit 1 tool_call look{"a":1}
`
	if diff := cmp.Diff(want, render(all)); diff != "" {
		t.Errorf("deltas (-want +got):\n%s", diff)
	}
	items := []content.Item{content.NewItem(content.Assistant,
		content.Part{Kind: content.ReasoningKind, Name: "p", Text: "so it is", Reasoning: &content.Reasoning{Signature: []byte("sig")}},
		content.CallPart(content.ToolCall{Name: "look", ProviderID: "c1", Input: []byte(`{"a":1}`)}),
	)}
	if diff := cmp.Diff(items, r.Items()); diff != "" {
		t.Errorf("items (-want +got):\n%s", diff)
	}
}

func TestEmptyReplyHasNoItem(t *testing.T) {
	t.Parallel()
	r := provider.NewReply(t.Context(), func(content.Delta) {})
	if items := r.Items(); r.Len() != 0 || items != nil {
		t.Errorf("Items = %v", items)
	}
}

func TestArgumentsBecomeOneObject(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		args, want string
		malformed  bool
	}{
		{"", `{}`, false},
		{" ", `{}`, false},
		{"null", `{}`, false},
		{` {"a": [1] }`, ` {"a": [1] }`, false},
		{`{"path": "READ`, `{"invalid_arguments":"{\"path\": \"READ"}`, true},
		{`[1]`, `{"invalid_arguments":"[1]"}`, true},
		{`{} {}`, `{"invalid_arguments":"{} {}"}`, true},
	} {
		r := provider.NewReply(t.Context(), func(content.Delta) {})
		do(t, begun(r.Begin(content.CallPart(content.ToolCall{Name: "look"}))))
		do(t, r.Append(0, c.args))
		do(t, r.CommitAll())
		if got := string(r.Items()[0].Parts[0].Call.Input); got != c.want {
			t.Errorf("arguments %q become %s, want %s", c.args, got, c.want)
		}
		used := content.Usage{OutputTokens: 3}
		err := r.Check(content.ToolCalls, used)
		e, ok := errors.AsType[*model.Error](err)
		if ok != c.malformed || ok && (e.Class != content.ClassServer || e.Usage != used) {
			t.Errorf("arguments %q: Check = %v", c.args, err)
		}
		if err := r.Check(content.MaxTokens, used); err != nil {
			t.Errorf("arguments %q of a call that does not run: Check = %v", c.args, err)
		}
	}
}

func TestNothingIsEmittedAfterCancel(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancelCause(t.Context())
	gone := errors.New("gone")
	seen := 0
	r := provider.NewReply(ctx, func(content.Delta) {
		seen++
		cancel(gone)
	})
	i, err := r.Begin(content.TextPart("hello"))
	for name, err := range map[string]error{
		"Begin": err, "Append": r.Append(i, "x"), "empty Append": r.Append(i, ""), "Commit": r.Commit(i), "CommitAll": r.CommitAll(),
	} {
		if !errors.Is(err, gone) {
			t.Errorf("%s = %v, want the cause", name, err)
		}
	}
	if seen != 1 {
		t.Errorf("%d deltas were emitted, want 1", seen)
	}
}

func begun(_ int, err error) error { return err }

func do(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
