package tool_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/turnlog/turnlog/tool"
)

func TestValidateNamesInvalidFields(t *testing.T) {
	t.Parallel()
	order := plain{spec: tool.Spec{Name: "order", InputSchema: json.RawMessage(`{"type": "object", "properties": {"id": {"type": "integer"}}, "required": ["id"]}`)}}
	for input, want := range map[string]string{
		`{"id": 1}`:     "",
		`{"id": 3.0}`:   "",
		``:              "missing property 'id'",
		`{"id": "1"}`:   "id: got string, want integer",
		`[]`:            "got array, want object",
		`{"id": `:       "not valid JSON: unexpected end of JSON input",
		`{"id": 1} {}`:  "not valid JSON: invalid character '{' after top-level value",
		`{"id": 1e999}`: "not valid JSON: cannot unmarshal number 1e999 into Go value of type float64",
	} {
		err := tool.Validate(order, json.RawMessage(input))
		if want == "" {
			if err != nil {
				t.Errorf("%s: %v", input, err)
			}
			continue
		}
		if e, ok := errors.AsType[*tool.Error](err); !ok || e.Code != tool.CodeInvalidArguments || e.Message != "Invalid arguments: "+want {
			t.Errorf("%s:\n got %v\nwant %s", input, err, want)
		}
	}
}

func TestValidateClipsItsError(t *testing.T) {
	t.Parallel()
	x := plain{spec: tool.Spec{Name: "x", InputSchema: json.RawMessage(`{"properties": {"a": {"pattern": "^b"}}}`)}}
	err := tool.Validate(x, json.RawMessage(`{"a": "`+strings.Repeat("é", 5000)+`"}`))
	if err == nil || len(err.Error()) > 2100 || !strings.HasSuffix(err.Error(), "é…") {
		t.Errorf("error = %v", err)
	}
}

// spied counts how often its spec is read.
type spied struct {
	plain
	specs *int
}

func (s spied) Spec() tool.Spec {
	*s.specs++
	return s.plain.Spec()
}

func (s spied) Propose(context.Context, tool.Call) ([]tool.Request, error) {
	return []tool.Request{{Kind: "spied.on"}}, nil
}

func TestCompiledToolReadsItsSpecOnce(t *testing.T) {
	t.Parallel()
	var specs int
	s := spied{plain{spec: tool.Spec{Name: "s", InputSchema: json.RawMessage(`{"required": ["a"]}`)}}, &specs}
	c, err := tool.Compile(s)
	if err != nil {
		t.Fatal(err)
	}
	again, err := tool.Compile(c)
	if err != nil || again != c {
		t.Errorf("compiling twice gives %v, %v", again, err)
	}
	for range 3 {
		if err := tool.Validate(c, nil); err == nil {
			t.Error("input without a is valid")
		}
	}
	if specs != 1 || c.Spec().Name != "s" {
		t.Errorf("the spec was read %d times", specs)
	}
	for want, x := range map[string]tool.Tool{"spied.on": c, "": mustCompile(t, s.plain)} {
		rs, err := x.(tool.Proposer).Propose(t.Context(), tool.Call{ID: "c1", Session: "s-1"})
		if err != nil || len(rs) != 1 || rs[0].Kind != want {
			t.Errorf("Propose = %+v, %v; want one request of kind %q", rs, err, want)
		}
	}
}

func mustCompile(t *testing.T, x tool.Tool) tool.Tool {
	t.Helper()
	c, err := tool.Compile(x)
	if err != nil {
		t.Fatal(err)
	}
	return c
}
