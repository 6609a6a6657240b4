package tool_test

import (
	"context"
	"errors"
	"fmt"
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
}

// changing offers one tool whose description changes.
type changing struct{ n int }

func (*changing) Name() string { return "changing" }

func (c *changing) Tools(context.Context) ([]tool.Tool, error) {
	c.n++
	return []tool.Tool{named("a", fmt.Sprint("version ", (c.n+1)/2))}, nil
}

func TestToolsUnderTermsFollowTheirSource(t *testing.T) {
	t.Parallel()
	s := tool.Under(new(changing), tool.Terms{Tool: "*", MaxOutput: 100})
	for _, want := range []string{"version 1", "version 1", "version 2"} {
		if diff := cmp.Diff([]string{"a: " + want}, names(t, s)); diff != "" {
			t.Error(diff)
		}
	}
}
