package tooltest_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/tool"
	"github.com/turnlog/turnlog/tool/tooltest"
)

type input struct {
	Word string   `json:"word" jsonschema:"a word"`
	Wait bool     `json:"wait,omitempty" jsonschema:"never return"`
	More []string `json:"more,omitempty" jsonschema:"more words"`
}

type output struct {
	Length int `json:"length"`
}

func measure(ctx context.Context, in input) (output, error) {
	if in.Wait {
		<-ctx.Done()
		return output{}, context.Cause(ctx)
	}
	if in.Word == "" {
		return output{}, tool.Failure("no_word", "say a word")
	}
	return output{Length: len(in.Word)}, nil
}

func TestGoodToolPasses(t *testing.T) {
	t.Parallel()
	x, err := tool.Func("measure", "Measures a word.", measure, tool.ReadOnly())
	if err != nil {
		t.Fatal(err)
	}
	tooltest.Run(
		t, x,
		tooltest.Case{Name: "a word", Input: `{"word":"four"}`, Text: `{"length":4}`},
		tooltest.Case{Name: "no word", Input: `{"word":""}`, Status: content.StatusError, Code: "no_word", Text: "say a word"},
		tooltest.Case{Name: "waiting", Input: `{"word":"x","wait":true}`, Blocks: true},
	)
}

func TestWrappedToolUnderTermsPasses(t *testing.T) {
	t.Parallel()
	x, err := tool.Func("measure", "Measures a word.", measure, tool.ReadOnly())
	if err != nil {
		t.Fatal(err)
	}
	r, err := tool.NewRegistry("own", x)
	if err != nil {
		t.Fatal(err)
	}
	around := func(ctx context.Context, c tool.Call, next tool.Handler) (tool.Output, error) { return next(ctx, c) }
	tools, err := tool.WrapSource(tool.Under(r, tool.Terms{Tool: "*", Timeout: time.Minute}), around).Tools(t.Context())
	if err != nil || len(tools) != 1 || tools[0].Spec().Timeout != time.Minute {
		t.Fatalf("tools = %v, %v", tools, err)
	}
	tooltest.Run(
		t, tools[0],
		tooltest.Case{Name: "a word", Input: `{"word":"four"}`, Text: `{"length":4}`},
		tooltest.Case{Name: "waiting", Input: `{"word":"x","wait":true}`, Blocks: true},
	)
}

// broken is a tool with one thing wrong, and the cases that show it.
type broken struct {
	spec  tool.Spec
	call  func(ctx context.Context, in input) (tool.Output, error)
	cases []tooltest.Case

	patience time.Duration
}

func (b *broken) Spec() tool.Spec { return b.spec }

func (b *broken) Call(ctx context.Context, c tool.Call) (tool.Output, error) {
	var in input
	if err := json.Unmarshal(c.Input, &in); err != nil {
		return tool.Output{}, fmt.Errorf("input: %w", err)
	}
	return b.call(ctx, in)
}

const schema = `{"type":"object","properties":{"word":{"type":"string","description":"a word"}}}`

func fine(context.Context, input) (tool.Output, error) { return tool.Text("fine"), nil }

// brokenTools maps the text that the suite has to print to the change of a good
// tool that makes it do so.
func brokenTools() map[string]func(b *broken) {
	return map[string]func(b *broken){
		"cannot be registered":   func(b *broken) { b.spec.Name = "a b" },
		"no description":         func(b *broken) { b.spec.Description = "" },
		"is declared read only":  func(b *broken) { b.spec.Writes, b.spec.Effects = true, content.ReadOnly },
		"use positive durations": func(b *broken) { b.spec.Timeout = -1 },
		`"word" has no description`: func(b *broken) {
			b.spec.InputSchema = json.RawMessage(`{"properties":{"word":{"type":"string"}}}`)
		},
		"is required but not described": func(b *broken) {
			b.spec.InputSchema = json.RawMessage(`{"type":"object","required":["a"]}`)
		},
		"reached the tool": func(b *broken) { b.spec.InputSchema = json.RawMessage(`{}`) },
		"output schema: ":  func(b *broken) { b.spec.OutputSchema = json.RawMessage(`[]`) },
		"does not fit its schema": func(b *broken) {
			b.spec.OutputSchema = json.RawMessage(`{"type":"object"}`)
			b.call = func(context.Context, input) (tool.Output, error) {
				return tool.Output{Parts: []content.Part{content.StructuredPart(json.RawMessage("[]"))}}, nil
			}
		},
		"want error":         func(b *broken) { b.cases[0].Status = content.StatusError },
		`code "own"; want`:   func(b *broken) { b.cases[0].Code = "other"; b.call = failing },
		"does not contain":   func(b *broken) { b.cases[0].Text = "great" },
		"changed paths = []": func(b *broken) { b.cases[0].Paths = []string{"a"} },
		"panic: boom":        func(b *broken) { b.call = func(context.Context, input) (tool.Output, error) { panic("boom") } },
		"not valid UTF-8": func(b *broken) {
			b.call = func(context.Context, input) (tool.Output, error) { return tool.Text("\xff"), nil }
		},
		"until its deadline":     func(b *broken) { b.cases[0].Blocks = true },
		"until it was cancelled": func(b *broken) { b.cases[0].Blocks = true; b.call = untilDeadline },
		"the tool ignored its deadline": func(b *broken) {
			b.spec.Timeout, b.patience = time.Millisecond, 50*time.Millisecond
			b.call = func(context.Context, input) (tool.Output, error) { select {} }
		},
		"case ok: panic: late": func(b *broken) {
			b.call = onceEnded(func() { panic("late") })
		},
		"case ok: still running": func(b *broken) {
			b.patience = 50 * time.Millisecond
			b.call = onceEnded(func() { select {} })
		},
		"none of 200 random inputs fits": func(b *broken) {
			b.spec.InputSchema = json.RawMessage(strings.Replace(schema, `"type":"object"`, `"type":"object","minProperties":9`, 1))
			b.cases = nil
		},
	}
}

func failing(context.Context, input) (tool.Output, error) {
	return tool.Output{}, tool.Failure("own", "no")
}

func untilDeadline(ctx context.Context, _ input) (tool.Output, error) {
	if _, ok := ctx.Deadline(); !ok {
		return tool.Text("fine"), nil
	}
	<-ctx.Done()
	if errors.Is(ctx.Err(), context.Canceled) {
		return tool.Text("fine"), nil
	}
	return tool.Output{}, context.Cause(ctx)
}

func onceEnded(do func()) func(context.Context, input) (tool.Output, error) {
	return func(ctx context.Context, in input) (tool.Output, error) {
		if ctx.Err() != nil {
			do()
		}
		return fine(ctx, in)
	}
}

// TestBrokenTool fails in a process that TestSuiteFindsBrokenTools starts. On its
// own it does nothing.
func TestBrokenTool(t *testing.T) {
	change := brokenTools()[os.Getenv("TOOLTEST_BROKEN")]
	if change == nil {
		return
	}
	b := &broken{
		spec:  tool.Spec{Name: "x", Description: "d", InputSchema: json.RawMessage(schema)},
		call:  fine,
		cases: []tooltest.Case{{Name: "ok", Input: `{"word":"a"}`}},

		patience: 5 * time.Second,
	}
	change(b)
	tooltest.RunWithin(t, b.patience, b, b.cases...)
}

func TestSuiteFindsBrokenTools(t *testing.T) {
	t.Parallel()
	for _, want := range slices.Sorted(maps.Keys(brokenTools())) {
		t.Run(want, func(t *testing.T) {
			t.Parallel()
			cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestBrokenTool$")
			cmd.Env = append(os.Environ(), "TOOLTEST_BROKEN="+want)
			out, err := cmd.CombinedOutput()
			if err == nil || !strings.Contains(string(out), want) {
				t.Errorf("%v, want a failure that says %q:\n%s", err, want, out)
			}
		})
	}
}

func TestRandomInputFitsEveryKindOfSchema(t *testing.T) {
	t.Parallel()
	spec := tool.Spec{Name: "any", Description: "Takes anything.", InputSchema: json.RawMessage(`{
		"type": "object", "required": ["tree", "mode"], "additionalProperties": {"type": ["null", "boolean"]},
		"$defs": {"tree": {"type": "array", "items": {"$ref": "#/$defs/tree"}}},
		"properties": {
			"tree":  {"description": "d", "$ref": "#/$defs/tree"},
			"mode":  {"description": "d", "enum": ["fast", "slow"]},
			"kind":  {"description": "d", "const": "order"},
			"any":   {"description": "d", "anyOf": [{"type": "string"}, {"type": "integer", "minimum": 2, "maximum": 9}]},
			"one":   {"description": "d", "oneOf": [{"type": "string"}, {"type": "number", "maximum": 1}]},
			"pair":  {"description": "d", "type": "array", "minItems": 2, "items": {"type": ["string", "null"]}},
			"words": {"description": "d", "type": "array"}
		}}`)}
	seen := make(chan string, 10_000)
	tooltest.Run(t, &broken{spec: spec, call: func(_ context.Context, in input) (tool.Output, error) {
		seen <- in.Word
		return tool.Text("fine"), nil
	}})
	if len(seen) < 20 {
		t.Errorf("%d random inputs fit the schema", len(seen))
	}
}
