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

func TestRenamedTools(t *testing.T) {
	t.Parallel()
	own := registry(t, "own", called("b"), called("a"), called("c"))
	for name, row := range map[string]struct {
		source tool.Source
		want   []string
		calls  map[string]string
	}{
		"prefix": {
			tool.Prefix(own, "x_"),
			[]string{"x_a: own", "x_b: own", "x_c: own"},
			map[string]string{"x_a": "called as a", "a": "not found"},
		},
		"rename": {
			tool.Rename(own, map[string]string{"a": "z", "nope": "y"}),
			[]string{"b: own", "c: own", "z: own"},
			map[string]string{"z": "called as a", "a": "not found", "b": "called as b"},
		},
		"swap": {
			tool.Rename(own, map[string]string{"a": "b", "b": "a"}),
			[]string{"a: own", "b: own", "c: own"},
			map[string]string{"a": "called as b", "b": "called as a"},
		},
		"filter": {
			tool.Filter(own, tool.Matching("a", "x*")),
			[]string{"a: own"},
			map[string]string{"a": "called as a", "b": "not found"},
		},
		"one after the other": {
			tool.Filter(tool.Prefix(tool.Rename(own, map[string]string{"a": "z"}), "x_"), tool.Matching("*_z")),
			[]string{"x_z: own"},
			map[string]string{"x_z": "called as a", "x_b": "not found"},
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
		`tools of source own: rename tool a: tool name "x.a"`: tool.Prefix(own, "x."),
		`rename tool b: tool name "bbbbb`:                     tool.Rename(own, map[string]string{"b": strings.Repeat("b", 65)}),
		`tools of source own: two tools are called "a"`:       tool.Rename(own, map[string]string{"b": "a"}),
	} {
		if _, err := tool.Sample(t.Context(), []tool.Source{s}, tool.FirstWins); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error = %v, want %q in it", err, want)
		}
	}
}

func TestMatchingPatterns(t *testing.T) {
	t.Parallel()
	for pattern, row := range map[string]struct{ yes, no []string }{
		"fs_read": {[]string{"fs_read"}, []string{"fs_read_file", "fs"}},
		"fs_*":    {[]string{"fs_read", "fs_"}, []string{"afs_read", "fs"}},
		"*_file":  {[]string{"read_file", "_file"}, []string{"file", "file_x"}},
		"a*b*c":   {[]string{"abc", "axxbxxc", "abbcc"}, []string{"acb", "ab", "abcd"}},
		"*":       {[]string{"", "a"}, nil},
		"a*a":     {[]string{"aa", "aba"}, []string{"a"}},
	} {
		fits := tool.Matching(pattern)
		for _, name := range row.yes {
			if !fits(tool.Spec{Name: name}) {
				t.Errorf("%s does not match %q", pattern, name)
			}
		}
		for _, name := range row.no {
			if fits(tool.Spec{Name: name}) {
				t.Errorf("%s matches %q", pattern, name)
			}
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
		offered(t, tool.ErrorOnCollision, first, tool.Prefix(second, "x_"))); diff != "" {
		t.Errorf("with a prefix (-want +got):\n%s", diff)
	}
}

func TestFederationIsOneSource(t *testing.T) {
	t.Parallel()
	first, second := registry(t, "first", called("a"), called("b")), registry(t, "second", called("b"), called("c"))
	all := tool.Federate("all", tool.LastWins, tool.Prefix(first, "x_"), second)
	if diff := cmp.Diff([]string{"b: all", "c: all", "x_a: all", "x_b: all"}, offered(t, tool.FirstWins, all)); diff != "" {
		t.Errorf("offers (-want +got):\n%s", diff)
	}
	if got := reach(t, all, "x_b"); got != "called as b" {
		t.Errorf("a call of x_b: %q", got)
	}
	second.Remove("b")
	if got := reach(t, all, "b"); got != "not found" {
		t.Errorf("a call of a tool that is gone: %q", got)
	}
	_, err := tool.Federate("all", tool.ErrorOnCollision, first, first).Tools(t.Context())
	if _, ok := errors.AsType[*tool.CollisionError](err); !ok {
		t.Errorf("error = %v, want the collision", err)
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
	s := tool.Prefix(new(changing), "x_")
	for _, want := range []string{"version 1", "version 1", "version 2"} {
		if diff := cmp.Diff([]string{"x_a: " + want}, names(t, s)); diff != "" {
			t.Error(diff)
		}
	}
}

func TestPoliciesSeeTheNameThatModelsSee(t *testing.T) {
	t.Parallel()
	r := registry(t, "own", proposing{named("do", "Does.")})
	tools, err := tool.Prefix(r, "x_").Tools(t.Context())
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
