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
	reply := finished(t, r, content.ToolCalls)
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
	if diff := cmp.Diff(items, reply.Items); diff != "" {
		t.Errorf("items (-want +got):\n%s", diff)
	}
}

func TestEmptyReplyHasNoItem(t *testing.T) {
	t.Parallel()
	r := provider.NewReply(t.Context(), func(content.Delta) {})
	if items := finished(t, r, content.Completed).Items; r.Len() != 0 || items != nil {
		t.Errorf("Items = %v", items)
	}
}

func TestGrowJoinsNeighborsOfOneKind(t *testing.T) {
	t.Parallel()
	var all []content.Delta
	r := provider.NewReply(t.Context(), func(d content.Delta) { all = append(all, d) })
	thought := content.Part{Kind: content.ReasoningKind, Text: "Hm."}
	for _, p := range []content.Part{thought, content.TextPart("a"), content.TextPart("b")} {
		do(t, begun(r.Grow(p)))
	}
	do(t, begun(r.Begin(content.CallPart(content.ToolCall{Name: "look"}))))
	do(t, begun(r.Grow(content.TextPart("c"))))
	if i, err := r.Grow(content.TextPart("d")); i != 3 || err != nil {
		t.Errorf("Grow = %d, %v, want the part with the text before it", i, err)
	}
	want := []content.Item{content.NewItem(content.Assistant,
		thought, content.TextPart("ab"), content.CallPart(content.ToolCall{Name: "look", Input: []byte("{}")}), content.TextPart("cd"),
	)}
	if diff := cmp.Diff(want, finished(t, r, content.ToolCalls).Items); diff != "" {
		t.Errorf("items (-want +got):\n%s", diff)
	}
	if want := "begin 0 reasoning\nappend 0 reasoning Hm.\ncommit 0 reasoning\nbegin 1 text\n"; !strings.HasPrefix(render(all), want) {
		t.Errorf("deltas = %s", render(all))
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
		reply := finished(t, r, content.MaxTokens) // the call does not run
		if got := string(reply.Items[0].Parts[0].Call.Input); got != c.want {
			t.Errorf("arguments %q become %s, want %s", c.args, got, c.want)
		}
		_, err := r.Finish(content.ToolCalls)
		e, ok := errors.AsType[*model.Error](err)
		if ok != c.malformed || ok && e.Class != content.ClassServer {
			t.Errorf("arguments %q: Finish = %v", c.args, err)
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
	i, err := r.Grow(content.TextPart("hello"))
	_, unbegun := r.Begin(content.TextPart("x"))
	_, unfinished := r.Finish(content.Completed)
	_, ungrown := r.Grow(content.TextPart("x"))
	for name, err := range map[string]error{
		"first Grow": err, "Begin": unbegun, "Append": r.Append(i, "x"), "empty Append": r.Append(i, ""), "Commit": r.Commit(i), "Finish": unfinished, "Grow": ungrown,
	} {
		if !errors.Is(err, gone) {
			t.Errorf("%s = %v, want the cause", name, err)
		}
	}
	if seen != 1 {
		t.Errorf("%d deltas were emitted, want 1", seen)
	}
}

func finished(t *testing.T, r *provider.Reply, reason content.FinishReason) model.Reply {
	t.Helper()
	reply, err := r.Finish(reason)
	do(t, err)
	return reply
}

func begun(_ int, err error) error { return err }

func do(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestEndlessRepliesFail(t *testing.T) {
	t.Parallel()
	const mib = 1 << 20
	for name, grow := range map[string]func(r *provider.Reply) error{
		"text": func(r *provider.Reply) error {
			_, err := r.Grow(content.TextPart(strings.Repeat("x", mib)))
			return err
		},
		"parts": func(r *provider.Reply) error {
			for range mib / 512 {
				if _, err := r.Begin(content.TextPart("")); err != nil {
					return err
				}
			}
			return nil
		},
	} {
		r := provider.NewReply(t.Context(), func(content.Delta) {})
		var err error
		for n := 0; err == nil; n++ {
			if n > 64 {
				t.Fatalf("%s: a reply of %d MiB is accepted", name, n)
			}
			err = grow(r)
		}
		if e, ok := errors.AsType[*model.Error](err); !ok || e.Code != "too_large" || !strings.Contains(e.Message, "64 MiB") {
			t.Errorf("%s: %v, want an error that names the limit", name, err)
		}
	}
}
