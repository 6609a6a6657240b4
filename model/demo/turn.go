package demo

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/model"
)

// turn is the latest question and what the tools have returned for it.
type turn struct {
	prompt string
	tools  []string               // offered by the request
	rounds [][]content.ToolResult // in the order of the calls
}

// step is either tool calls or, if there are none, an answer.
type step struct {
	calls  []content.ToolCall
	answer string
}

// args are the arguments of a tool call. JSON sorts the keys, so equal arguments
// have equal bytes.
type args map[string]any

func readTurn(r model.Request) turn {
	var t turn
	for _, spec := range r.Tools {
		t.tools = append(t.tools, spec.Name)
	}
	for _, it := range r.Transcript {
		switch {
		case it.Kind == content.User:
			t.prompt, t.rounds = it.Text(), nil
		case it.Kind == content.Assistant && len(it.Calls()) > 0:
			t.rounds = append(t.rounds, nil)
		case it.Kind == content.Tool && len(t.rounds) > 0:
			last := len(t.rounds) - 1
			t.rounds[last] = append(t.rounds[last], it.Results()...)
		}
	}
	return t
}

// next returns the next step. It answers at once if the step needs a tool that is
// not offered, or if every call of the last round failed.
func (t turn) next() step {
	if n := len(t.rounds); n > 0 && !slices.ContainsFunc(t.rounds[n-1], succeeded) {
		return step{answer: "I could not answer that:\n\n" + indent(failures(t.rounds[n-1]))}
	}
	q := understand(t.prompt)
	s := q.plan(q, t.rounds)
	for _, c := range s.calls {
		if !slices.Contains(t.tools, c.Name) {
			return step{answer: "To answer that I would call the tool " + c.Name + ", which is not offered here.\n" +
				"Run me with the file tools (--tools fs), or choose another model.\n"}
		}
	}
	return s
}

func succeeded(r content.ToolResult) bool { return !r.IsError }

func failures(round []content.ToolResult) string {
	var b strings.Builder
	for _, r := range round {
		line, _, _ := strings.Cut(strings.TrimSpace(r.Text()), "\n")
		b.WriteString(r.Name + ": " + strings.TrimPrefix(line, "Tool failed: ") + "\n")
	}
	if b.Len() == 0 {
		return "the calls have no results\n"
	}
	return b.String()
}

// call returns a tool call, leaving out arguments that are "" or 0.
func call(tool string, a args) content.ToolCall {
	for key, v := range a {
		if v == "" || v == 0 {
			delete(a, key)
		}
	}
	input, err := json.Marshal(a)
	if err != nil { // impossible for strings and numbers
		input = json.RawMessage(`{}`)
	}
	return content.ToolCall{Name: tool, Input: input}
}

func calling(tool string, a args) step {
	return step{calls: []content.ToolCall{call(tool, a)}}
}
