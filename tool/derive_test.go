package tool_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/tool"
)

// called is a tool that returns the name it was called by.
func called(name string) plain {
	return plain{
		spec: tool.Spec{Name: name, Description: "Answers.", Effects: content.ReadOnly},
		call: func(_ context.Context, c tool.Call) (tool.Output, error) {
			return tool.Text("called as " + c.Name), nil
		},
	}
}

func registry(t *testing.T, name string, tools ...tool.Tool) *tool.Registry {
	t.Helper()
	r, err := tool.NewRegistry(name, tools...)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// offered lists "name: source" for the merged sources.
func offered(t *testing.T, policy tool.Collision, sources ...tool.Source) []string {
	t.Helper()
	c, err := tool.Sample(t.Context(), sources, policy)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, o := range c.Offers {
		if o.Digest != tool.SpecDigest(o.Tool.Spec()) || o.Spec.Name != o.Tool.Spec().Name {
			t.Errorf("the offer of %s is not its tool's", o.Spec.Name)
		}
		out = append(out, o.Spec.Name+": "+o.Source)
	}
	return out
}

// reach calls a tool by the name that a model uses.
func reach(t *testing.T, s tool.Source, name string) string {
	t.Helper()
	c, err := tool.Sample(t.Context(), []tool.Source{s}, tool.FirstWins)
	if err != nil {
		t.Fatal(err)
	}
	o, ok := c.Lookup(name)
	if !ok {
		return "not found"
	}
	r := tool.Invoke(t.Context(), o.Tool, tool.Call{ID: "c1", Name: name}).Result
	if r.Name != name {
		t.Errorf("the result is of %q, want %q", r.Name, name)
	}
	return r.Text()
}

func prefixed(s tool.Source, prefix string) tool.Source {
	return tool.Rename(s, func(own string) string { return prefix + own })
}

func TestRenamedTools(t *testing.T) {
	t.Parallel()
	own := registry(t, "own", called("b"), called("a"), called("c"))
	for name, row := range map[string]struct {
		source tool.Source
		want   []string
		calls  map[string]string
	}{
		"another name": {
			tool.Rename(own, func(own string) string { return strings.ReplaceAll(own, "a", "z") }),
			[]string{"b: own", "c: own", "z: own"},
			map[string]string{"z": "called as a", "a": "not found", "b": "called as b"},
		},
		"swapped": {
			tool.Rename(own, func(own string) string { return map[string]string{"a": "b", "b": "a", "c": "c"}[own] }),
			[]string{"a: own", "b: own", "c: own"},
			map[string]string{"a": "called as b", "b": "called as a"},
		},
		"left out": {
			tool.Rename(own, func(own string) string { return strings.TrimLeft(own, "bc") }),
			[]string{"a: own"},
			map[string]string{"a": "called as a", "b": "not found"},
		},
		"twice": {
			prefixed(tool.Rename(own, func(own string) string { return strings.Trim(own, "b") + strings.Trim(own, "ab") }), "x_"),
			[]string{"x_a: own", "x_cc: own"},
			map[string]string{"x_a": "called as a", "x_b": "not found", "a": "not found"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(row.want, offered(t, tool.FirstWins, row.source)); diff != "" {
				t.Errorf("offers (-want +got):\n%s", diff)
			}
			for name, want := range row.calls {
				if got := reach(t, row.source, name); got != want {
					t.Errorf("a call of %s: %q, want %q", name, got, want)
				}
			}
		})
	}
}

func TestInvalidNamesAreErrors(t *testing.T) {
	t.Parallel()
	own := registry(t, "own", called("a"), called("b"))
	for want, s := range map[string]tool.Source{
		`tools of source own: rename tool a: tool name "x.a"`: prefixed(own, "x."),
		`rename tool a: tool name "aaaaa`:                     tool.Rename(own, func(own string) string { return strings.Repeat(own, 65) }),
		`tools of source own: two tools are called "a"`:       tool.Rename(own, func(string) string { return "a" }),
	} {
		if _, err := tool.Sample(t.Context(), []tool.Source{s}, tool.FirstWins); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error = %v, want %q in it", err, want)
		}
	}
}

func TestCollisionPolicies(t *testing.T) {
	t.Parallel()
	first, second := registry(t, "first", called("a"), called("b")), registry(t, "second", called("b"), called("c"))
	if diff := cmp.Diff([]string{"a: first", "b: first", "c: second"}, offered(t, tool.FirstWins, first, second)); diff != "" {
		t.Errorf("the first wins (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"a: first", "b: second", "c: second"}, offered(t, tool.LastWins, first, second)); diff != "" {
		t.Errorf("the last wins (-want +got):\n%s", diff)
	}
	_, err := tool.Sample(t.Context(), []tool.Source{first, second}, tool.ErrorOnCollision)
	e, ok := errors.AsType[*tool.CollisionError](err)
	if want := (tool.CollisionError{Tool: "b", First: "first", Second: "second"}); !ok || *e != want {
		t.Errorf("error = %v, want %v", err, &want)
	}
	if diff := cmp.Diff([]string{"a: first", "b: first", "x_b: second", "x_c: second"},
		offered(t, tool.ErrorOnCollision, first, prefixed(second, "x_"))); diff != "" {
		t.Errorf("with a prefix (-want +got):\n%s", diff)
	}
}

// changing offers one tool whose description changes.
type changing struct{ n int }

func (*changing) Name() string { return "changing" }

func (c *changing) Tools(context.Context) ([]tool.Tool, error) {
	c.n++
	return []tool.Tool{named("a", fmt.Sprint("version ", (c.n+1)/2))}, nil
}

func TestRenamedToolsFollowTheirSource(t *testing.T) {
	t.Parallel()
	s := prefixed(new(changing), "x_")
	for _, want := range []string{"version 1", "version 1", "version 2"} {
		if diff := cmp.Diff([]string{"x_a: " + want}, names(t, s)); diff != "" {
			t.Error(diff)
		}
	}
}

func TestPoliciesSeeTheNameThatModelsSee(t *testing.T) {
	t.Parallel()
	r := registry(t, "own", proposing{named("do", "Does.")})
	tools, err := prefixed(r, "x_").Tools(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	got, err := tools[0].(tool.Proposer).Propose(t.Context(), tool.Call{Name: "x_do"})
	if err != nil || len(got) != 1 {
		t.Fatalf("requests = %+v, %v", got, err)
	}
	if q := got[0]; q.Call.Name != "x_do" || q.Spec.Name != "x_do" || q.Kind != "thing.do" || q.Summary != "as do" {
		t.Errorf("request = %+v", q)
	}
}
