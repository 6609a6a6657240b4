package guardrail_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/extension"
	"github.com/turnlog/turnlog/model"
	"github.com/turnlog/turnlog/policy/guardrail"
)

// says is a check that always returns the same problem and error, and records what it reads.
func says(name, problem string, err error, read *[]string) guardrail.Check {
	return guardrail.Check{Name: name, Judge: func(_ context.Context, text string, _ extension.HookEvent) (string, error) {
		*read = append(*read, name+" "+text)
		return problem, err
	}}
}

func deny(t *testing.T, name string, expressions ...string) guardrail.Check {
	t.Helper()
	c, err := guardrail.Deny(name, expressions...)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func warning(c guardrail.Check) guardrail.Check {
	c.Warn = true
	return c
}

func newGuard(t *testing.T, c guardrail.Config) *guardrail.Guard {
	t.Helper()
	g, err := guardrail.New(c)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func input(items ...content.Item) extension.HookEvent {
	return extension.HookEvent{Point: extension.PreLlmCall, Session: "s", Turn: "turn-1", Request: &model.Request{Transcript: items}}
}

func TestTheFirstFailureCounts(t *testing.T) {
	t.Parallel()
	broken := errors.New("no connection")
	var read []string
	check := func(name, problem string) guardrail.Check { return says(name, problem, nil, &read) }
	failing := says("a", "", broken, &read)
	both := []string{"a hi", "b hi"}
	for name, c := range map[string]struct {
		checks []guardrail.Check
		want   extension.Action
		err    error
		read   []string
	}{
		"all pass":                {[]guardrail.Check{check("a", ""), check("b", "")}, extension.Action{}, nil, both},
		"a failure is the last":   {[]guardrail.Check{check("a", "no"), check("b", "never")}, extension.Action{Kind: extension.Terminate, Reason: "a: no"}, nil, both[:1]},
		"a failure and a warning": {[]guardrail.Check{warning(check("a", "hm")), check("b", "no")}, extension.Action{Kind: extension.Terminate, Reason: "b: no"}, nil, both},
		"two warnings":            {[]guardrail.Check{warning(check("a", "hm")), warning(check("b", "no"))}, extension.Action{Reason: "a: hm; b: no"}, nil, both},
		"a failure and an error":  {[]guardrail.Check{failing, check("b", "no")}, extension.Action{Kind: extension.Terminate, Reason: "b: no"}, nil, both},
		"an error":                {[]guardrail.Check{failing, check("b", "")}, extension.Action{}, broken, both},
	} {
		read = nil
		got, err := newGuard(t, guardrail.Config{Input: c.checks}).OnEvent(t.Context(), input(content.UserText("hi")))
		if got != c.want || !errors.Is(err, c.err) || !slices.Equal(read, c.read) {
			t.Errorf("%s: %+v, %v after %q; want %+v", name, got, err, read, c.want)
		}
	}
}

func TestAPanicOfACheckDoesNotSkipLaterChecks(t *testing.T) {
	t.Parallel()
	broken := guardrail.Check{Name: "a", Judge: func(context.Context, string, extension.HookEvent) (string, error) { panic("oops") }}
	var read []string
	g := newGuard(t, guardrail.Config{Input: []guardrail.Check{broken, says("b", "no", nil, &read)}})
	got, err := g.OnEvent(t.Context(), input(content.UserText("hi")))
	if want := (extension.Action{Kind: extension.Terminate, Reason: "b: no"}); got != want || err != nil {
		t.Errorf("the guard returns %+v, %v; want %+v", got, err, want)
	}
	g = newGuard(t, guardrail.Config{Input: []guardrail.Check{broken}})
	if _, err := g.OnEvent(t.Context(), input(content.UserText("hi"))); err == nil || err.Error() != "check a: panic: oops" {
		t.Errorf("error = %v", err)
	}
}

func at(when content.Time, it content.Item) content.Item {
	it.CreatedAt = when
	return it
}

func TestNewInputIsCheckedOnce(t *testing.T) {
	t.Parallel()
	old, reply := at(1, content.UserText("old")), at(2, content.AssistantText("reply"))
	for name, c := range map[string]struct {
		items []content.Item
		want  string
	}{
		"nothing":                        {nil, ""},
		"the newest":                     {[]content.Item{old, reply, at(3, content.UserText("new"))}, "new"},
		"all input of the same time":     {[]content.Item{old, reply, at(3, content.UserText("a")), at(3, content.UserText("b"))}, "a\nb"},
		"earlier input that was stopped": {[]content.Item{at(1, content.UserText("bad")), at(2, content.UserText("good"))}, "good"},
		"nothing new":                    {[]content.Item{old, reply, content.NewItem(content.Tool)}, ""},
		"steering input":                 {[]content.Item{old, reply, content.NewItem(content.Tool), at(4, content.UserText("new"))}, "new"},
		"beside other kinds":             {[]content.Item{at(3, content.UserText("a")), at(3, content.NewItem(content.Context, content.TextPart("b")))}, "a"},
		"no text":                        {[]content.Item{content.NewItem(content.User, content.Part{Kind: content.MediaKind})}, ""},
		"only a notification":            {[]content.Item{old, reply, content.NewItem(content.Notification, content.TextPart("done"))}, ""},
		"parts of one item":              {[]content.Item{content.NewItem(content.User, content.TextPart("a"), content.TextPart("b"))}, "ab"},
	} {
		var read []string
		g := newGuard(t, guardrail.Config{Input: []guardrail.Check{says("c", "", nil, &read)}})
		if _, err := g.OnEvent(t.Context(), input(c.items...)); err != nil {
			t.Fatal(err)
		}
		var want []string
		if c.want != "" {
			want = []string{"c " + c.want}
		}
		if diff := cmp.Diff(want, read); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

func TestEachPointHasItsChecks(t *testing.T) {
	t.Parallel()
	var read []string
	note := func(name string) []guardrail.Check {
		return []guardrail.Check{{Name: name, Judge: func(_ context.Context, text string, e extension.HookEvent) (string, error) {
			if (e.Call != nil) != (name == "results") || (e.Result != nil) != (name == "results") {
				t.Errorf("%s: read %+v", name, e)
			}
			read = append(read, name+" "+text)
			return "", nil
		}}}
	}
	g := newGuard(t, guardrail.Config{Input: note("input"), Output: note("output"), Results: note("results")})
	want := []extension.Point{extension.PreLlmCall, extension.PostLlmCall, extension.PostToolExecution}
	if got := g.Points(); g.Name() != "guardrail" || !slices.Equal(got, want) {
		t.Errorf("%s runs at %v", g.Name(), got)
	}
	result := content.NewResult("c1", "echo", content.StatusOK, "found")
	for _, e := range []extension.HookEvent{
		input(content.UserText("said")),
		{Point: extension.PostLlmCall, Reply: &model.Reply{Items: []content.Item{content.AssistantText("a"), content.AssistantText("b")}}},
		{Point: extension.PostToolExecution, Call: &content.ToolCall{ID: "c1", Name: "echo"}, Result: &result},
		{Point: extension.PostToolExecution, Call: &content.ToolCall{ID: "c1", Name: "echo"}},
		{Point: extension.PostLlmCall},
		{Point: extension.PreLlmCall},
		{Point: extension.LoopIteration},
	} {
		if a, err := g.OnEvent(t.Context(), e); a != (extension.Action{}) || err != nil {
			t.Errorf("%s: %+v, %v", e.Point, a, err)
		}
	}
	if diff := cmp.Diff([]string{"input said", "output a\nb", "results found"}, read); diff != "" {
		t.Error(diff)
	}
	only := newGuard(t, guardrail.Config{Name: "g", Output: note("output")})
	if got := only.Points(); only.Name() != "g" || !slices.Equal(got, want[1:2]) {
		t.Errorf("%s runs at %v", only.Name(), got)
	}
}

func TestChecksOfThePackage(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		check guardrail.Check
		text  string
		want  string // of the reason; "": it passes
	}{
		"as long as allowed": {guardrail.MaxLength(3), "äöü", ""},
		"longer":             {guardrail.MaxLength(3), "äöüß", "max_length: 4 characters, more than 3"},
		"on no list":         {deny(t, "secrets", `\bsk-\w+`, `(?i)password`), "hello", ""},
		"on the list":        {deny(t, "secrets", `\bsk-\w+`, `(?i)password`), "my PassWord", "secrets: matches (?i)password"},
	} {
		a, err := newGuard(t, guardrail.Config{Input: []guardrail.Check{c.check}}).OnEvent(t.Context(), input(content.UserText(c.text)))
		if err != nil || a.Reason != c.want || (a.Kind == extension.Terminate) != (c.want != "") {
			t.Errorf("%s: %+v, %v", name, a, err)
		}
	}
}

func TestInvalidConfigsAreRefused(t *testing.T) {
	t.Parallel()
	pass := func(context.Context, string, extension.HookEvent) (string, error) { return "", nil }
	for want, c := range map[string]guardrail.Config{
		"no checks":                             {},
		"check 1 at pre_llm_call has no name":   {Input: []guardrail.Check{{Judge: pass}}},
		"check 2 at post_llm_call has no name":  {Output: []guardrail.Check{guardrail.MaxLength(1), {Name: "x"}}},
		"at post_tool_execution has no name or": {Results: []guardrail.Check{{Name: "x"}}},
	} {
		if _, err := guardrail.New(c); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("New = %v, want %q", err, want)
		}
	}
	if _, err := guardrail.Deny("d"); err == nil || err.Error() != "check d: no expressions" {
		t.Errorf("Deny = %v", err)
	}
	if _, err := guardrail.Deny("d", "a", "("); err == nil || !strings.Contains(err.Error(), "check d: error parsing regexp: missing closing )") {
		t.Errorf("Deny = %v", err)
	}
}
