package tool_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/turnlog/turnlog/tool"
)

func names(t *testing.T, s tool.Source) []string {
	t.Helper()
	tools, err := s.Tools(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, x := range tools {
		out = append(out, x.Spec().Name+": "+x.Spec().Description)
	}
	return out
}

func TestRegistryIsSortedAndReplaces(t *testing.T) {
	t.Parallel()
	r, err := tool.NewRegistry("own", named("b", "1"), named("a", "1"))
	if err != nil {
		t.Fatal(err)
	}
	before, _ := r.Tools(t.Context())
	r.Add(named("c", "1"))
	r.Add(named("a", "2"))
	if !r.Remove("b") || r.Remove("b") {
		t.Error("Remove does not say whether the tool was there")
	}
	if diff := cmp.Diff([]string{"a: 2", "c: 1"}, names(t, r)); diff != "" {
		t.Error(diff)
	}
	if len(before) != 2 || before[0].Spec().Description != "1" {
		t.Error("a list that was handed out has changed")
	}
	if x, ok := r.Lookup("c"); !ok || x.Spec().Name != "c" {
		t.Error("Lookup does not find c")
	}
	if _, ok := r.Lookup("b"); ok {
		t.Error("Lookup finds b, which was removed")
	}
}

func TestRegistryRefusesInvalidTools(t *testing.T) {
	t.Parallel()
	broken := plain{spec: tool.Spec{Name: "x", InputSchema: json.RawMessage(`{"$ref":"#"}`)}}
	for want, tools := range map[string][]tool.Tool{
		`tool name ""`:                 {named("", "")},
		`tool name "a.b"`:              {named("a.b", "")},
		`tool name "aaaa`:              {named(strings.Repeat("a", 65), "")},
		`tool "a" is registered twice`: {named("a", "1"), named("a", "2")},
		"tool x: input schema: ":       {broken},
	} {
		if _, err := tool.NewRegistry("own", tools...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error = %v, want one with %q", err, want)
		}
	}
	r, err := tool.NewRegistry("own")
	if err != nil {
		t.Fatal(err)
	}
	r.Add(broken)
	x, _ := r.Lookup("x")
	if got := tool.Invoke(t.Context(), x, tool.Call{}).Result.Text(); !strings.HasPrefix(got, "Tool failed: tool x: input schema: ") {
		t.Errorf("result = %q", got)
	}
}
