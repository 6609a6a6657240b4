package demo

import (
	"encoding/json"
	"strings"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/model"
)

// turn is what a request tells about the question being worked on.
type turn struct {
	prompt string
	rounds []round // since the question
	tools  []string
}

// round is one set of calls and what came of them, call by call.
type round []answered

// answered is a call with its result.
type answered struct {
	name    string
	input   json.RawMessage
	text    string
	data    json.RawMessage // structured output; empty: none
	isError bool
	code    string // of the error
}

// turnOf reads a request. Calls are paired with results by their order, which is
// that of the transcript.
func turnOf(r model.Request) turn {
	var t turn
	for _, spec := range r.Tools {
		t.tools = append(t.tools, spec.Name)
	}
	open := 0 // the first call of the last round that has no result
	for _, it := range r.Transcript {
		switch it.Kind { //nolint:exhaustive // the other kinds say nothing about the question
		case content.User:
			t.prompt, t.rounds, open = it.Text(), nil, 0
		case content.Assistant:
			if calls := it.Calls(); len(calls) > 0 {
				t.rounds, open = append(t.rounds, roundOf(calls)), 0
			}
		case content.Tool:
			if len(t.rounds) > 0 {
				open = t.rounds[len(t.rounds)-1].take(it.Results(), open)
			}
		}
	}
	return t
}

func roundOf(calls []content.ToolCall) round {
	var r round
	for _, c := range calls {
		r = append(r, answered{name: c.Name, input: c.Input})
	}
	return r
}

func (r round) take(results []content.ToolResult, open int) int {
	for _, res := range results {
		if open == len(r) {
			break
		}
		a := &r[open]
		a.text, a.isError, a.code = res.Text(), res.IsError, res.Code
		for _, p := range res.Output {
			if p.Kind == content.StructuredKind {
				a.data = p.Data
			}
		}
		if len(a.data) == 0 && json.Valid([]byte(a.text)) {
			a.data = json.RawMessage(a.text)
		}
		open++
	}
	return open
}

// decode reads the structured output into v and reports whether it fits.
func (a answered) decode(v any) bool {
	return !a.isError && len(a.data) > 0 && json.Unmarshal(a.data, v) == nil
}

// complaint is a failed call in one line.
func (a answered) complaint() string {
	line, _, _ := strings.Cut(strings.TrimSpace(a.text), "\n")
	line = strings.TrimPrefix(line, "Tool failed: ")
	if line == "" {
		line = "it failed without a word"
	}
	return a.name + ": " + line
}

// complaints lists the failed calls of the round.
func (r round) complaints() []string {
	var out []string
	for _, a := range r {
		if a.isError {
			out = append(out, a.complaint())
		}
	}
	return out
}

// at returns the i-th call of the round; one that failed if there is none.
func (r round) at(i int) answered {
	if i < len(r) {
		return r[i]
	}
	return answered{isError: true, text: "it was not called"}
}

// last returns the newest round.
func (t turn) last() round {
	if len(t.rounds) == 0 {
		return nil
	}
	return t.rounds[len(t.rounds)-1]
}

// tools returns the names of the tools that the round called.
func (r round) tools() []string {
	var names []string
	for _, a := range r {
		names = append(names, a.name)
	}
	return names
}
