// Package tooltest checks any tool against the contract of package tool.
//
// [Run] checks what models, drivers and workers rely on: the spec suits a model, invalid
// input never reaches the tool, every call ends with its deadline, no input that the
// schema allows causes a panic, and output can be recorded. The cases show what the tool
// does.
//
//	tooltest.Run(t, weather, tooltest.Case{Name: "Paris", Input: `{"city":"Paris"}`, Text: "°C"})
//
// The suite calls the tool a few hundred times, partly with random input, so give it a tool
// that works in a temporary folder.
package tooltest

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/internal/schema"
	"github.com/turnlog/turnlog/tool"
)

// Case is one call and its expected result.
type Case struct {
	Name   string
	Input  string         // JSON
	Status content.Status // zero: ok
	Code   string         // of a failure; empty: any
	Text   string         // a substring of the result's text
	Paths  []string       // the changed paths; nil: any

	// Blocks says that the call runs until its context ends. The suite ends it and
	// ignores the fields about the result.
	Blocks bool
}

// Run checks x: its spec, the cases in order, and what must hold for every call. It stops
// at the first group of checks that fails.
func Run(t *testing.T, x tool.Tool, cases ...Case) {
	t.Helper()
	suite{tool: x, spec: x.Spec(), cases: cases, patience: patience}.run(t)
}

func (s suite) run(t *testing.T) {
	t.Helper()
	_ = t.Run("spec", s.checkSpec) &&
		t.Run("bad input is refused", s.badInput) &&
		t.Run("cases", s.runCases) &&
		t.Run("an ended context ends a call", s.endedContext) &&
		t.Run("calls run concurrently", s.concurrent) &&
		t.Run("any input that fits the schema", s.madeUp)
}

type suite struct {
	tool     tool.Tool
	spec     tool.Spec
	cases    []Case
	patience time.Duration
}

// patience is how long a tool may take to notice that its context has ended.
const patience = 5 * time.Second

func (s suite) checkSpec(t *testing.T) {
	spec := s.spec
	if _, err := tool.NewRegistry("tooltest", s.tool); err != nil {
		t.Errorf("the tool cannot be registered: %v", err)
	}
	if strings.TrimSpace(spec.Description) == "" {
		t.Error("no description: a model cannot know when to use the tool")
	}
	if tool.SpecDigest(s.tool.Spec()) != tool.SpecDigest(spec) {
		t.Error("Spec returns something else the second time")
	}
	if spec.Writes && spec.Effects == content.ReadOnly {
		t.Error("the tool writes but is declared read only")
	}
	if spec.Timeout < 0 || spec.DetachAfter < 0 {
		t.Errorf("timeout %s, detach after %s: use positive durations", spec.Timeout, spec.DetachAfter)
	}
	input := s.inputSchema(t)
	for name, property := range input.Properties {
		if property.Description == "" {
			t.Errorf("property %q has no description", name)
		}
	}
	for _, name := range input.Required {
		if input.Properties[name] == nil {
			t.Errorf("property %q is required but not described", name)
		}
	}
	if len(spec.OutputSchema) > 0 {
		s.outputSchema(t)
	}
}

func (s suite) inputSchema(t *testing.T) *jsonschema.Schema {
	t.Helper()
	schema := new(jsonschema.Schema)
	if len(s.spec.InputSchema) > 0 {
		if err := json.Unmarshal(s.spec.InputSchema, schema); err != nil {
			t.Fatalf("input schema: %v", err)
		}
	}
	return schema
}

func (s suite) outputSchema(t *testing.T) *schema.Schema {
	t.Helper()
	compiled, err := schema.Compile(s.spec.OutputSchema)
	if err != nil {
		t.Fatalf("output schema: %v", err)
	}
	return compiled
}

// guarded fails the test if invalid input reaches the tool.
type guarded struct {
	tool.Tool
	called func(input string)
}

func (g guarded) Call(_ context.Context, c tool.Call) (tool.Output, error) {
	g.called(string(c.Input))
	return tool.Output{}, nil
}

func (s suite) badInput(t *testing.T) {
	bad := []string{`[]`, `"text"`, `1`, `{`, `{} {}`, "\xff"}
	schema := s.inputSchema(t)
	if len(schema.Required) > 0 {
		bad = append(bad, ``, `null`, `{}`)
	}
	if schema.AdditionalProperties != nil && schema.AdditionalProperties.Not != nil {
		bad = append(bad, `{"no_such_property": 1}`)
	}
	for name, property := range schema.Properties {
		if property.Type != "" && property.Type != "array" {
			bad = append(bad, fmt.Sprintf(`{%q: [[[]]]}`, name))
		}
	}
	x := guarded{s.tool, func(input string) { t.Errorf("input %q reached the tool", input) }}
	for _, input := range bad {
		r := tool.Invoke(t.Context(), x, tool.Call{ID: "c1", Input: json.RawMessage(input)}).Result
		if r.Code != tool.CodeInvalidArguments || !strings.HasPrefix(r.Text(), "Invalid arguments: ") {
			t.Errorf("input %q: %s %q", input, r.Code, r.Text())
		}
	}
}

func (s suite) runCases(t *testing.T) {
	for _, c := range s.cases {
		t.Run(c.Name, func(t *testing.T) { s.runCase(t, c) })
	}
}

func (s suite) runCase(t *testing.T, c Case) {
	if c.Blocks {
		s.runOut(t, c)
		return
	}
	r := s.invoke(t.Context(), t, c.Input)
	want := c.Status
	if want == "" {
		want = content.StatusOK
	}
	text := r.Result.Text()
	if r.Result.Status != want || c.Code != "" && r.Result.Code != c.Code {
		t.Errorf("status %s, code %q; want %s, %q: %s", r.Result.Status, r.Result.Code, want, c.Code, text)
	}
	if !strings.Contains(text, c.Text) {
		t.Errorf("text does not contain %q:\n%s", c.Text, text)
	}
	if c.Paths != nil && fmt.Sprint(r.ChangedPaths) != fmt.Sprint(c.Paths) {
		t.Errorf("changed paths = %v, want %v", r.ChangedPaths, c.Paths)
	}
}

// runOut lets one call time out and cancels another.
func (s suite) runOut(t *testing.T, c Case) {
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if r := s.invoke(ctx, t, c.Input).Result; r.Code != tool.CodeTimeout {
		t.Errorf("the call did not run until its deadline: %s %q", r.Status, r.Text())
	}
	ctx, cancel = context.WithCancel(t.Context())
	time.AfterFunc(100*time.Millisecond, cancel)
	if r := s.invoke(ctx, t, c.Input).Result; r.Status != content.StatusCancelled {
		t.Errorf("the call did not run until it was cancelled: %s %q", r.Status, r.Text())
	}
}

// endedContext calls the tool directly, because Invoke would not.
func (s suite) endedContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, c := range s.cases {
		if c.Code == tool.CodeInvalidArguments {
			continue
		}
		done := make(chan struct{})
		go func() {
			defer close(done)
			defer func() {
				if value := recover(); value != nil {
					t.Errorf("case %s: panic: %v", c.Name, value)
				}
			}()
			_, _ = s.tool.Call(ctx, call(c.Input))
		}()
		select {
		case <-done:
		case <-time.After(s.patience):
			t.Fatalf("case %s: still running %s after its context ended", c.Name, s.patience)
		}
	}
}

// concurrent runs calls at the same time, for the race detector.
func (s suite) concurrent(t *testing.T) {
	if s.spec.Exclusive {
		return
	}
	var wg sync.WaitGroup
	for _, c := range s.cases {
		if c.Blocks {
			continue
		}
		for range 4 {
			wg.Go(func() { s.invoke(t.Context(), t, c.Input) })
		}
	}
	wg.Wait()
}

// madeUp calls the tool with random input that its schema allows. Calls that block until their deadline
// are slow and similar, so a few of them are enough.
func (s suite) madeUp(t *testing.T) {
	schema := s.inputSchema(t)
	g := generator{rng: rand.New(rand.NewPCG(1, 2)), root: schema}
	fit, blocked := 0, 0
	seen := make(map[string]bool)
	start := time.Now()
	for n := 0; n < 200 && blocked < 3 && !t.Failed() && time.Since(start) < s.patience; n++ {
		raw, err := json.Marshal(g.value(schema, 0))
		if err != nil {
			t.Fatal(err)
		}
		input := string(raw)
		if seen[input] || tool.Validate(s.tool, raw) != nil {
			continue
		}
		seen[input] = true
		fit++
		ctx, cancel := context.WithTimeout(t.Context(), patience/20)
		if s.invoke(ctx, t, input).Result.Code == tool.CodeTimeout {
			blocked++
		}
		cancel()
	}
	if fit == 0 && !t.Failed() {
		t.Error("none of 200 random inputs fits the schema")
	}
}

func call(input string) tool.Call {
	return tool.Call{
		Session: "tooltest", Turn: "turn-1", ID: "c1", Place: "t1-r1-c1", Attempt: 1,
		IdempotencyKey: "tooltest/t1-r1-c1", Input: json.RawMessage(input),
		Progress: func(string, float64) {},
	}
}

// invoke runs a call and checks what must hold for every result.
func (s suite) invoke(ctx context.Context, t *testing.T, input string) tool.Result {
	t.Helper()
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	invoker := tool.Invoker{Grace: s.patience, OnPanic: func(_ tool.Call, value any, stack []byte) {
		t.Errorf("input %s: panic: %v\n%s", shown(input), value, stack)
	}}
	r := invoker.Invoke(ctx, s.tool, call(input))
	for key, what := range map[string]string{
		tool.MetaAbandoned:   "the tool ignored its deadline",
		tool.MetaInvalidUTF8: "the output is not valid UTF-8",
	} {
		if _, bad := r.Result.Metadata.Get(key); bad {
			t.Errorf("input %s: %s", shown(input), what)
		}
	}
	if _, err := json.Marshal(r.Result); err != nil {
		t.Errorf("input %s: the result cannot be written as JSON: %v", shown(input), err)
	}
	if len(s.spec.OutputSchema) > 0 && r.Result.Status == content.StatusOK {
		s.checkOutput(t, input, r.Result)
	}
	return r
}

func (s suite) checkOutput(t *testing.T, input string, r content.ToolResult) {
	t.Helper()
	output := s.outputSchema(t)
	for _, p := range r.Output {
		if p.Kind != content.StructuredKind {
			continue
		}
		var v any
		if err := json.Unmarshal(p.Data, &v); err != nil {
			t.Errorf("input %s: structured output: %v", shown(input), err)
			continue
		}
		if err := output.Check(v); err != nil {
			t.Errorf("input %s: structured output does not fit its schema: %v", shown(input), err)
		}
	}
}

// shown cuts input that is too long for a message.
func shown(input string) string {
	const most = 300
	if len(input) <= most {
		return input
	}
	return fmt.Sprintf("%s… (%d bytes)", content.Cut(input, most), len(input))
}
