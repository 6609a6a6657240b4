package tool_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/tool"
)

type source struct {
	name  string
	tools []tool.Tool
	err   error
}

func (s source) Name() string { return s.name }

func (s source) Tools(context.Context) ([]tool.Tool, error) { return s.tools, s.err }

func named(name, description string) plain {
	return plain{
		spec: tool.Spec{Name: name, Description: description},
		call: func(context.Context, tool.Call) (tool.Output, error) { return tool.Text(description), nil },
	}
}

func TestCollidingNamesGoToOneSource(t *testing.T) {
	t.Parallel()
	registry, err := tool.NewRegistry("own", named("b", "own b"), named("a", "own a"))
	if err != nil {
		t.Fatal(err)
	}
	sources := []tool.Source{registry, source{name: "remote", tools: []tool.Tool{named("c", "remote c"), named("b", "remote b")}}}
	for policy, want := range map[tool.Collision][]string{
		tool.FirstWins: {"own a", "own b", "remote c"},
		tool.LastWins:  {"own a", "remote b", "remote c"},
	} {
		c, err := tool.Sample(t.Context(), sources, policy)
		if err != nil {
			t.Fatal(err)
		}
		var shown, reached []string
		for _, spec := range c.Specs() {
			shown = append(shown, spec.Description)
			o, ok := c.Lookup(spec.Name)
			if !ok || o.Source != strings.Fields(spec.Description)[0] || o.Digest != tool.SpecDigest(spec) {
				t.Errorf("offer of %s = %+v", spec.Name, o)
			}
			reached = append(reached, tool.Invoke(t.Context(), o.Tool, tool.Call{}).Result.Text())
		}
		if diff := cmp.Diff(want, shown); diff != "" {
			t.Error(diff)
		}
		if diff := cmp.Diff(want, reached); diff != "" {
			t.Error(diff)
		}
		if _, ok := c.Lookup("d"); ok {
			t.Error("found a tool that is not offered")
		}
	}
}

func TestCatalogDigestFollowsTheOffers(t *testing.T) {
	t.Parallel()
	digest := func(sources ...tool.Source) string {
		c, err := tool.Sample(t.Context(), sources, tool.FirstWins)
		if err != nil {
			t.Fatal(err)
		}
		return c.Digest
	}
	base := digest(source{name: "s", tools: []tool.Tool{named("a", "x"), named("b", "y")}})
	if got := digest(source{name: "s", tools: []tool.Tool{named("b", "y"), named("a", "x")}}); got != base {
		t.Error("the order of a source's tools changes the digest")
	}
	if got := digest(source{name: "s", tools: []tool.Tool{mustCompile(t, named("a", "x")), named("b", "y")}}); got != base {
		t.Error("compiling a tool changes the digest")
	}
	for what, got := range map[string]string{
		"a description": digest(source{name: "s", tools: []tool.Tool{named("a", "x"), named("b", "z")}}),
		"a source":      digest(source{name: "r", tools: []tool.Tool{named("a", "x"), named("b", "y")}}),
		"a tool less":   digest(source{name: "s", tools: []tool.Tool{named("a", "x")}}),
		"nothing":       digest(),
	} {
		if got == base || len(got) != 64 {
			t.Errorf("%s: digest %q", what, got)
		}
	}
}

func TestSampleReturnsSourceErrors(t *testing.T) {
	t.Parallel()
	down := errors.New("connection refused")
	_, err := tool.Sample(t.Context(), []tool.Source{source{name: "mcp", err: down}}, tool.FirstWins)
	if !errors.Is(err, down) || !strings.HasPrefix(err.Error(), "tools of source mcp: ") {
		t.Errorf("error = %v", err)
	}
	_, err = tool.Sample(t.Context(), []tool.Source{source{name: "mcp", tools: []tool.Tool{named("a.b", "x")}}}, tool.FirstWins)
	if err == nil || !strings.Contains(err.Error(), `tools of source mcp: tool name "a.b"`) {
		t.Errorf("error = %v", err)
	}
}

func TestDigestHashesTheCanonicalForm(t *testing.T) {
	t.Parallel()
	same := []string{`{"a":1,"b":[true,"é"]}`, "{ \"b\": [true, \"\\u00e9\"],\n\"a\": 1.0 }"}
	if a, b := tool.Digest(json.RawMessage(same[0])), tool.Digest(json.RawMessage(same[1])); a != b {
		t.Errorf("digests of %q differ: %s, %s", same, a, b)
	}
	const emptyObject = "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a" // of {}
	for _, input := range []string{"", "null", " {} "} {
		if got := tool.Digest(json.RawMessage(input)); got != emptyObject {
			t.Errorf("digest of %q = %s", input, got)
		}
	}
	seen := map[string]string{}
	for _, input := range []string{`{}`, `{"a":1}`, `{"a":"1"}`, `{"a":1,"a":1}`, `{"a":1`, `nonsense`} {
		d := tool.Digest(json.RawMessage(input))
		if other, dup := seen[d]; dup {
			t.Errorf("%s and %s have the same digest", input, other)
		}
		seen[d] = input
	}
}

func TestSpecDigestCoversEveryField(t *testing.T) {
	t.Parallel()
	base := tool.Spec{Name: "a", InputSchema: json.RawMessage(`{"type": "object"}`)}
	spaced := base
	spaced.InputSchema = json.RawMessage(`{ "type":"object" }`)
	if tool.SpecDigest(base) != tool.SpecDigest(spaced) {
		t.Error("spacing changes the digest")
	}
	for name, edit := range map[string]func(*tool.Spec){
		"name":          func(s *tool.Spec) { s.Name = "b" },
		"description":   func(s *tool.Spec) { s.Description = "x" },
		"input":         func(s *tool.Spec) { s.InputSchema = nil },
		"output":        func(s *tool.Spec) { s.OutputSchema = json.RawMessage(`{}`) },
		"effects":       func(s *tool.Spec) { s.Effects = content.ReadOnly },
		"writes":        func(s *tool.Spec) { s.Writes = true },
		"exclusive":     func(s *tool.Spec) { s.Exclusive = true },
		"timeout":       func(s *tool.Spec) { s.Timeout = 1 },
		"route":         func(s *tool.Spec) { s.Route = content.Background },
		"detach":        func(s *tool.Spec) { s.DetachAfter = 1 },
		"broken schema": func(s *tool.Spec) { s.InputSchema = json.RawMessage(`{`) },
	} {
		s := base
		edit(&s)
		if tool.SpecDigest(s) == tool.SpecDigest(base) {
			t.Errorf("%s: the digest is the same", name)
		}
	}
	one, other := base, base
	one.InputSchema, other.InputSchema = json.RawMessage(`{1`), json.RawMessage(`{2`)
	if tool.SpecDigest(one) == tool.SpecDigest(other) {
		t.Error("broken schemas have the same digest")
	}
}

func BenchmarkSample(b *testing.B) {
	var tools []tool.Tool
	for i := range 20 {
		x, err := tool.Compile(plain{spec: tool.Spec{Name: fmt.Sprintf("tool_%d", i), InputSchema: json.RawMessage(`{"properties":{"id":{"type":"integer"}}}`)}})
		if err != nil {
			b.Fatal(err)
		}
		tools = append(tools, x)
	}
	r, err := tool.NewRegistry("own", tools...)
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if _, err := tool.Sample(b.Context(), []tool.Source{r}, tool.FirstWins); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkInvoke(b *testing.B) {
	x, err := tool.Compile(named("a", "done"))
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		tool.Invoke(b.Context(), x, tool.Call{ID: "c1", Input: json.RawMessage(`{"a":1}`)})
	}
}
