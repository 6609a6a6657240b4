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

// says is a check with a fixed verdict that records what it read.
func says(name string, v guardrail.Verdict, err error, read *[]string) guardrail.Check {
	return guardrail.Check{Name: name, Judge: func(_ context.Context, s guardrail.Subject) (guardrail.Verdict, error) {
		*read = append(*read, name+" "+s.Text)
		return v, err
	}}
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

func TestTheFirstTripCounts(t *testing.T) {
	t.Parallel()
	broken := errors.New("no connection")
	for name, c := range map[string]struct {
		checks func(*[]string) []guardrail.Check
		want   extension.Action
		err    bool
		read   []string
		warned []string
	}{
		"all pass": {
			func(r *[]string) []guardrail.Check {
				return []guardrail.Check{says("a", guardrail.Pass(), nil, r), says("b", guardrail.Pass(), nil, r)}
			},
			extension.Action{},
			false,
			[]string{"a hi", "b hi"},
			nil,
		},
		"a trip ends the row": {
			func(r *[]string) []guardrail.Check {
				return []guardrail.Check{says("a", guardrail.Trip("no"), nil, r), says("b", guardrail.Trip("never"), nil, r)}
			},
			extension.Action{Kind: extension.Terminate, Reason: "a: no"},
			false,
			[]string{"a hi"},
			nil,
		},
		"a warning hides no trip": {
			func(r *[]string) []guardrail.Check {
				return []guardrail.Check{says("a", guardrail.Warn("hm"), nil, r), says("b", guardrail.Trip("no"), nil, r)}
			},
			extension.Action{Kind: extension.Terminate, Reason: "b: no"},
			false,
			[]string{"a hi", "b hi"},
			[]string{"a hm"},
		},
		"warnings go on": {
			func(r *[]string) []guardrail.Check {
				soft := guardrail.Warning(says("b", guardrail.Trip("no"), nil, r))
				return []guardrail.Check{says("a", guardrail.Warn("hm"), nil, r), soft}
			},
			extension.Action{Reason: "a: hm; b: no"},
			false,
			[]string{"a hi", "b hi"},
			[]string{"a hm", "b no"},
		},
		"a failure hides no trip": {
			func(r *[]string) []guardrail.Check {
				return []guardrail.Check{says("a", guardrail.Pass(), broken, r), says("b", guardrail.Trip("no"), nil, r)}
			},
			extension.Action{Kind: extension.Terminate, Reason: "b: no"},
			false,
			[]string{"a hi", "b hi"},
			nil,
		},
		"a failure is one": {
			func(r *[]string) []guardrail.Check {
				return []guardrail.Check{says("a", guardrail.Pass(), broken, r), says("b", guardrail.Pass(), nil, r)}
			},
			extension.Action{},
			true,
			[]string{"a hi", "b hi"},
			nil,
		},
	} {
		var read, warned []string
		g := newGuard(t, guardrail.Config{Input: c.checks(&read), OnWarn: func(s guardrail.Subject, check, reason string) {
			if s.Point != extension.PreLlmCall || s.Session != "s" || s.Turn != "turn-1" || s.Text != "hi" {
				t.Errorf("%s: warned about %+v", name, s)
			}
			warned = append(warned, check+" "+reason)
		}})
		got, err := g.OnEvent(t.Context(), input(content.UserText("hi")))
		if got != c.want || (err != nil) != c.err || c.err && !errors.Is(err, broken) {
			t.Errorf("%s: %+v, %v; want %+v", name, got, err, c.want)
		}
		if !slices.Equal(read, c.read) || !slices.Equal(warned, c.warned) {
			t.Errorf("%s: read %q, warned %q", name, read, warned)
		}
	}
}

func TestAPanicOfACheckIsAnError(t *testing.T) {
	t.Parallel()
	g := newGuard(t, guardrail.Config{Input: []guardrail.Check{
		{Name: "a", Judge: func(context.Context, guardrail.Subject) (guardrail.Verdict, error) { panic("oops") }},
	}})
	_, err := g.OnEvent(t.Context(), input(content.UserText("hi")))
	if err == nil || err.Error() != "check a: panic: oops" {
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
		"nothing":               {nil, ""},
		"the newest":            {[]content.Item{old, reply, at(3, content.UserText("new"))}, "new"},
		"all that came at once": {[]content.Item{old, reply, at(3, content.UserText("a")), at(3, content.UserText("b"))}, "a\nb"},
		"not what was stopped":  {[]content.Item{at(1, content.UserText("bad")), at(2, content.UserText("good"))}, "good"},
		"nothing new":           {[]content.Item{old, reply, content.NewItem(content.Tool)}, ""},
		"what steers":           {[]content.Item{old, reply, content.NewItem(content.Tool), at(4, content.UserText("new"))}, "new"},
		"beside other kinds":    {[]content.Item{at(3, content.UserText("a")), at(3, content.NewItem(content.Context, content.TextPart("b")))}, "a"},
		"no text":               {[]content.Item{content.NewItem(content.User, content.Part{Kind: content.MediaKind})}, ""},
		"only a notification":   {[]content.Item{old, reply, content.NewItem(content.Notification, content.TextPart("done"))}, ""},
		"parts of one item":     {[]content.Item{content.NewItem(content.User, content.TextPart("a"), content.TextPart("b"))}, "ab"},
	} {
		var read []string
		g := newGuard(t, guardrail.Config{Input: []guardrail.Check{says("c", guardrail.Pass(), nil, &read)}})
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
		return []guardrail.Check{{Name: name, Judge: func(_ context.Context, s guardrail.Subject) (guardrail.Verdict, error) {
			if (s.Call != nil) != (name == "results") || (s.Result != nil) != (name == "results") {
				t.Errorf("%s: read %+v", name, s)
			}
			read = append(read, name+" "+s.Text)
			return guardrail.Pass(), nil
		}}}
	}
	g := newGuard(t, guardrail.Config{Input: note("input"), Output: note("output"), Results: note("results")})
	want := []extension.Point{extension.PreLlmCall, extension.PostLlmCall, extension.PostToolExecution}
	if got := g.Points(); g.Name() != "guardrail" || !slices.Equal(got, want) {
		t.Errorf("%s stands at %v", g.Name(), got)
	}
	result := content.NewResult("c1", "echo", content.StatusOK, "brought")
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
	if diff := cmp.Diff([]string{"input said", "output a\nb", "results brought"}, read); diff != "" {
		t.Error(diff)
	}
	only := newGuard(t, guardrail.Config{Name: "g", Output: note("output")})
	if got := only.Points(); only.Name() != "g" || !slices.Equal(got, want[1:2]) {
		t.Errorf("%s stands at %v", only.Name(), got)
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
		"on no list":         {guardrail.Deny("secrets", `\bsk-\w+`, `(?i)password`), "hello", ""},
		"on the list":        {guardrail.Deny("secrets", `\bsk-\w+`, `(?i)password`), "my PassWord", "secrets: matches (?i)password"},
	} {
		a, err := newGuard(t, guardrail.Config{Input: []guardrail.Check{c.check}}).OnEvent(t.Context(), input(content.UserText(c.text)))
		if err != nil || a.Reason != c.want || (a.Kind == extension.Terminate) != (c.want != "") {
			t.Errorf("%s: %+v, %v", name, a, err)
		}
	}
}

func TestInvalidConfigsAreRefused(t *testing.T) {
	t.Parallel()
	pass := func(context.Context, guardrail.Subject) (guardrail.Verdict, error) { return guardrail.Pass(), nil }
	for want, c := range map[string]guardrail.Config{
		"no checks":          {},
		"has no name":        {Input: []guardrail.Check{{Judge: pass}}},
		"x has no function":  {Output: []guardrail.Check{{Name: "x"}}},
		"y has no function":  {Results: []guardrail.Check{guardrail.Warning(guardrail.Check{Name: "y"})}},
		"0 characters":       {Input: []guardrail.Check{guardrail.MaxLength(0)}},
		"denies nothing":     {Input: []guardrail.Check{guardrail.Deny("d")}},
		"missing closing )":  {Input: []guardrail.Check{guardrail.Deny("d", "a", "(")}},
		"check 2 has no nam": {Input: []guardrail.Check{guardrail.MaxLength(1)}, Output: []guardrail.Check{{Judge: pass}}},
	} {
		if _, err := guardrail.New(c); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("New = %v, want %q", err, want)
		}
	}
}
