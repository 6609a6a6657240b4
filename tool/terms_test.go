package tool_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/tool"
)

func only(t *testing.T, s tool.Source) tool.Tool {
	t.Helper()
	all, err := s.Tools(t.Context())
	if err != nil || len(all) != 1 {
		t.Fatalf("tools = %v, %v", all, err)
	}
	return all[0]
}

func TestTermsOverrideWhatAToolDeclares(t *testing.T) {
	t.Parallel()
	yes, once := true, content.Once
	own := called("a_b")
	own.spec.Timeout, own.spec.MaxOutput = time.Minute, 100
	for name, tc := range map[string]struct {
		terms []tool.Terms
		want  func(*tool.Spec)
	}{
		"none fits":        {[]tool.Terms{{Tool: "b*", Timeout: 1}}, func(*tool.Spec) {}},
		"the first counts": {[]tool.Terms{{Tool: "a_*"}, {Tool: "*", Timeout: 1}}, func(*tool.Spec) {}},
		"effects":          {[]tool.Terms{{Tool: "*", Effects: &once}}, func(s *tool.Spec) { s.Effects = content.Once }},
		"exclusive":        {[]tool.Terms{{Tool: "a_b", Exclusive: &yes}}, func(s *tool.Spec) { s.Exclusive = true }},
		"less":             {[]tool.Terms{{Tool: "*", Timeout: time.Second, MaxOutput: 90}}, func(s *tool.Spec) { s.Timeout, s.MaxOutput = time.Second, 90 }},
		"not more":         {[]tool.Terms{{Tool: "*", Timeout: time.Hour, MaxOutput: 900}}, func(*tool.Spec) {}},
	} {
		want := own.spec
		tc.want(&want)
		source := tool.Under(registry(t, "r", own), tc.terms...)
		x := only(t, source)
		if tool.SpecDigest(x.Spec()) != tool.SpecDigest(want) || tool.SpecDigest(tool.Declared(x)) != tool.SpecDigest(own.spec) {
			t.Errorf("%s: %+v, declared %+v", name, x.Spec(), tool.Declared(x))
		}
		if got := reach(t, source, "a_b"); got != "called as a_b" || source.Name() != "r" {
			t.Errorf("%s: %s says %q", name, source.Name(), got)
		}
		if again := only(t, source); tool.SpecDigest(again.Spec()) != tool.SpecDigest(want) {
			t.Errorf("%s: asked again it is %+v", name, again.Spec())
		}
	}
}

func TestTermsLimitACall(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		slow := called("slow")
		slow.call = func(ctx context.Context, c tool.Call) (tool.Output, error) {
			if string(c.Input) == `{"long":true}` {
				return tool.Text(strings.Repeat("x", 1000)), nil
			}
			<-ctx.Done()
			return tool.Output{}, ctx.Err()
		}
		x := only(t, tool.Under(registry(t, "r", slow), tool.Terms{Tool: "slow", Timeout: 3 * time.Second, MaxOutput: 50}))
		begun := time.Now()
		if r := tool.Invoke(t.Context(), x, tool.Call{}); r.Result.Text() != "Tool timed out after 3s" || time.Since(begun) != 3*time.Second {
			t.Errorf("after %v: %q", time.Since(begun), r.Result.Text())
		}
		r := tool.Invoke(t.Context(), x, tool.Call{Input: []byte(`{"long":true}`)})
		if text := r.Result.Text(); len(text) > 100 || !strings.Contains(text, "950 bytes were cut") {
			t.Errorf("%d bytes: %q", len(text), text)
		}
		wide := tool.Invoker{MaxOutput: 10}.Invoke(t.Context(), x, tool.Call{Input: []byte(`{"long":true}`)})
		if text := wide.Result.Text(); !strings.Contains(text, "990 bytes were cut") {
			t.Errorf("the host's lower limit: %q", text)
		}
	})
}

func TestExclusiveToolStaysExclusiveUnderTerms(t *testing.T) {
	t.Parallel()
	no := false
	one := called("one")
	one.spec.Exclusive = true
	inside := make(chan struct{}, 2)
	one.call = func(context.Context, tool.Call) (tool.Output, error) {
		inside <- struct{}{}
		defer func() { <-inside }()
		if len(inside) > 1 {
			return tool.Text("two at once"), nil
		}
		return tool.Text("alone"), nil
	}
	x := only(t, tool.Under(registry(t, "r", one), tool.Terms{Tool: "*", Exclusive: &no}))
	if x.Spec().Exclusive {
		t.Error("its spec is still exclusive")
	}
	results := make(chan string)
	for range 20 {
		go func() { results <- tool.Invoke(t.Context(), x, tool.Call{}).Result.Text() }()
	}
	for range 20 {
		if got := <-results; got != "alone" {
			t.Error(got)
		}
	}
}

// fresh lists a new tool each time.
type fresh struct{ tool plain }

func (fresh) Name() string { return "fresh" }

func (f fresh) Tools(context.Context) ([]tool.Tool, error) { return []tool.Tool{&f.tool}, nil }

func TestToolMadeExclusiveIsExclusiveAcrossListings(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		yes, inside := true, 0
		slow := called("slow")
		slow.call = func(context.Context, tool.Call) (tool.Output, error) {
			inside++
			defer func() { inside-- }()
			if <-time.After(time.Second); inside > 1 {
				return tool.Text("two at once"), nil
			}
			return tool.Text("alone"), nil
		}
		s := tool.Under(fresh{slow}, tool.Terms{Tool: "*", Exclusive: &yes})
		results := make(chan string, 2)
		for range 2 {
			x := only(t, s)
			go func() { results <- tool.Invoke(t.Context(), x, tool.Call{}).Result.Text() }()
		}
		for range 2 {
			if got := <-results; got != "alone" {
				t.Error(got)
			}
		}
	})
}
