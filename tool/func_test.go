package tool_test

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/jsonschema-go/jsonschema"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/tool"
)

type fileInput struct {
	Path  string   `json:"path" jsonschema:"the file"`
	Depth int      `json:"depth,omitempty"`
	Tags  []string `json:"tags,omitempty"`
	Limit *int     `json:"limit,omitempty"`
}

func (in fileInput) Describe() (kind, summary string, target any) {
	return "filesystem.read", "read " + in.Path, map[string]string{"path": in.Path}
}

type fileOutput struct {
	Lines int `json:"lines"`
}

func newFileTool(t *testing.T, opts ...tool.Option) tool.Tool {
	t.Helper()
	x, err := tool.Func("file", "Looks at a file.", func(_ context.Context, in fileInput) (fileOutput, error) {
		if in.Path == "" {
			return fileOutput{}, errors.New("no path")
		}
		return fileOutput{Lines: len(in.Path) + in.Depth}, nil
	}, opts...)
	if err != nil {
		t.Fatal(err)
	}
	return x
}

func TestFuncInfersItsSchemas(t *testing.T) {
	t.Parallel()
	spec := newFileTool(t, tool.Idempotent(), tool.WithSpec(func(s *tool.Spec) { s.Timeout = time.Minute }),
		tool.WithSchema(func(s *jsonschema.Schema) { s.Properties["depth"].Minimum = new(0.0) })).Spec()
	want := tool.Spec{
		Name: "file", Description: "Looks at a file.", Effects: content.Idempotent, Timeout: time.Minute,
		InputSchema: json.RawMessage(`{"type":"object","properties":{` +
			`"path":{"type":"string","description":"the file"},"depth":{"type":"integer","minimum":0},` +
			`"tags":{"type":"array","items":{"type":"string"}},"limit":{"type":"integer"}},` +
			`"required":["path"],"additionalProperties":false}`),
		OutputSchema: json.RawMessage(`{"type":"object","properties":{"lines":{"type":"integer"}},"required":["lines"],"additionalProperties":false}`),
	}
	if diff := cmp.Diff(want, spec, cmp.Transformer("text", func(r json.RawMessage) string { return string(r) })); diff != "" {
		t.Error(diff)
	}
}

func TestFuncReadsAndWritesJSON(t *testing.T) {
	t.Parallel()
	for input, want := range map[string]string{
		`{"path": "ab", "depth": 3}`:            `{"lines":5}`,
		`{"path": "ab", "depth": 3.0}`:          `{"lines":5}`,
		`{"path": "ab", "depth": 3e0}`:          `{"lines":5}`,
		`{"path": ""}`:                          `Tool failed: no path`,
		`{"path": 1}`:                           `Invalid arguments: path: got number, want string`,
		`{"path": "ab", "depth": 1e300}`:        `Invalid arguments: depth: is a JSON number 1e300, want a Go int`,
		`{"PATH": "ab", "path": "c"}`:           `Invalid arguments: additional properties 'PATH' not allowed`,
		`{"path": "ab", "tags": null}`:          `Invalid arguments: tags: got null, want array`,
		`{"path": "ab", "tags":[],"limit":100}`: `{"lines":2}`,
	} {
		r := tool.Invoke(t.Context(), newFileTool(t), tool.Call{Input: json.RawMessage(input)}).Result
		if r.Text() != want {
			t.Errorf("%s: %q, want %q", input, r.Text(), want)
		}
		if r.Status == content.StatusOK && r.Output[0].Kind != content.StructuredKind {
			t.Errorf("%s: output is %s", input, r.Output[0].Kind)
		}
	}
}

func TestFuncEncodesTheResult(t *testing.T) {
	t.Parallel()
	type none struct{}
	text, err := tool.Func("t", "d", func(context.Context, none) (string, error) { return "plain", nil })
	check(t, text, err, content.TextPart("plain"))
	output, err := tool.Func("t", "d", func(context.Context, map[string]int) (tool.Output, error) {
		return tool.Output{Parts: []content.Part{{Kind: content.CustomKind, Data: json.RawMessage("1")}}}, nil
	})
	check(t, output, err, content.Part{Kind: content.CustomKind, Data: json.RawMessage("1")})
	list, err := tool.Func("t", "d", func(context.Context, none) ([]any, error) { return []any{1, nil}, nil })
	check(t, list, err, content.StructuredPart(json.RawMessage("[1,null]")))
	anything, err := tool.Func("t", "d", func(context.Context, none) (any, error) { return "text", nil })
	check(t, anything, err, content.TextPart("text"))
	unwritable, err := tool.Func("t", "d", func(context.Context, none) (float64, error) { return math.NaN(), nil })
	if err != nil {
		t.Fatal(err)
	}
	if got := tool.Invoke(t.Context(), unwritable, tool.Call{}).Result.Text(); !strings.HasPrefix(got, "Tool failed: write the result: ") {
		t.Errorf("result = %q", got)
	}
}

func check(t *testing.T, x tool.Tool, err error, want content.Part) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]content.Part{want}, tool.Invoke(t.Context(), x, tool.Call{}).Result.Output); diff != "" {
		t.Error(diff)
	}
}

func TestCallFuncSeesItsCall(t *testing.T) {
	t.Parallel()
	x, err := tool.CallFunc("t", "d", func(_ context.Context, c tool.Call, _ struct{}) (string, error) {
		c.Progress("half", 0.5)
		return c.IdempotencyKey, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	out, err := x.Call(t.Context(), tool.Call{IdempotencyKey: "s-1/t1-r1-c1"}) // without Invoke, too
	if err != nil || out.Parts[0].Text != "s-1/t1-r1-c1" {
		t.Errorf("output = %+v, %v", out, err)
	}
}

func TestDescriberDescribesTheRequest(t *testing.T) {
	t.Parallel()
	x := newFileTool(t)
	call := tool.Call{Session: "s-1", ID: "c1", Place: "t1-r1-c1", Name: "file", Input: json.RawMessage(`{"path":"a"}`)}
	got, err := x.(tool.Proposer).Propose(t.Context(), call)
	if err != nil {
		t.Fatal(err)
	}
	want := []tool.Request{{
		Session: "s-1", Call: content.ToolCall{ID: "c1", Place: "t1-r1-c1", Name: "file", Input: call.Input}, Spec: x.Spec(),
		Kind: "filesystem.read", Summary: "read a", Target: json.RawMessage(`{"path":"a"}`),
	}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if _, err := x.(tool.Proposer).Propose(t.Context(), tool.Call{Input: json.RawMessage(`{"path":1}`)}); err == nil {
		t.Error("a call with unreadable input was proposed")
	}
}

func TestFuncRefusesInvalidDefinitions(t *testing.T) {
	t.Parallel()
	ok := func(context.Context, struct{}) (string, error) { return "", nil }
	type cyclic struct{ Next []cyclic }
	for want, make := range map[string]func() (tool.Tool, error){
		`tool name ""`:    func() (tool.Tool, error) { return tool.Func("", "d", ok) },
		`tool name "a b"`: func() (tool.Tool, error) { return tool.Func("a b", "d", ok) },
		"no description":  func() (tool.Tool, error) { return tool.Func("t", " ", ok) },
		"input type string": func() (tool.Tool, error) {
			return tool.Func("t", "d", func(context.Context, string) (string, error) { return "", nil })
		},
		"input type: ": func() (tool.Tool, error) {
			return tool.Func("t", "d", func(context.Context, cyclic) (string, error) { return "", nil })
		},
		"input schema: ": func() (tool.Tool, error) {
			return tool.Func("t", "d", ok, tool.WithSchema(func(s *jsonschema.Schema) { s.Type = "array" }))
		},
	} {
		if _, err := make(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error = %v, want one with %q", err, want)
		}
	}
	outCyclic := func(context.Context, struct{}) (cyclic, error) { return cyclic{}, nil }
	if x, err := tool.Func("t", "d", outCyclic); err != nil || x.Spec().OutputSchema != nil {
		t.Errorf("an output that contains itself: %v", err)
	}
}

func TestWithoutLeavesFieldsOutOfTheSchema(t *testing.T) {
	t.Parallel()
	type pair struct {
		A string `json:"a"`
		B string `json:"b,omitempty"`
	}
	x, err := tool.Func("t", "d", func(context.Context, pair) (string, error) { return "", nil }, tool.Without("b"))
	if err != nil {
		t.Fatal(err)
	}
	if s := string(x.Spec().InputSchema); strings.Contains(s, `"b"`) || !strings.Contains(s, `"a"`) {
		t.Errorf("schema = %s", s)
	}
	if err := tool.Validate(x, json.RawMessage(`{"a":"x","b":"y"}`)); err == nil {
		t.Error("the field is accepted")
	}
}

func TestArgumentsHaveALimit(t *testing.T) {
	t.Parallel()
	x, err := tool.Func("say", "Says.", func(_ context.Context, in struct {
		Text string `json:"text"`
	},
	) (string, error) {
		return in.Text, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	input := func(n int) []byte { return []byte(`{"text":"` + strings.Repeat("x", n-len(`{"text":""}`)) + `"}`) }
	if err := tool.Validate(x, input(tool.MaxInput)); err != nil {
		t.Errorf("the largest arguments: %v", err)
	}
	if err := tool.Validate(x, input(tool.MaxInput+1)); err == nil || !strings.Contains(err.Error(), "16777217 bytes, at most 16 MiB") {
		t.Errorf("larger arguments: %v", err)
	}
}
