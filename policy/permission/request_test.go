package permission_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/tool"
)

// requestOf returns a request with a target like a tool's.
func requestOf(t testing.TB, name, kind string, target any) tool.Request {
	t.Helper()
	r := tool.Request{Session: "s", Kind: kind, Spec: tool.Spec{Name: name}}
	r.Call = content.ToolCall{ID: "c", Name: name, Input: json.RawMessage(`{"a":1}`)}
	if target != nil {
		raw, err := json.Marshal(target)
		if err != nil {
			t.Fatal(err)
		}
		r.Target = raw
	}
	return r
}

func path(t testing.TB, kind, name string) tool.Request {
	t.Helper()
	return requestOf(t, "fs", "filesystem."+kind, map[string]string{"path": name})
}

type command struct {
	Argv []string `json:"argv"`
	Cwd  string   `json:"cwd"`
	Env  []string `json:"env,omitempty"`

	Values string `json:"values,omitempty"`
}

func run(t testing.TB, c command) tool.Request {
	t.Helper()
	r := requestOf(t, "shell_exec", "shell.command", c)
	r.Summary = "run it"
	return r
}

// evaluate returns a policy's verdict, or fails the test.
func evaluate(t testing.TB, p tool.Permissions, r tool.Request) tool.Verdict {
	t.Helper()
	v, err := p.Evaluate(t.Context(), r)
	if err != nil {
		t.Fatalf("Evaluate = %v", err)
	}
	return v
}

// ruling returns the short form of a verdict: allow, none, deny CODE, or ask KIND KIND ….
func ruling(v tool.Verdict) string {
	switch v.Ruling {
	case tool.NoOpinion:
		return "none"
	case tool.Allow:
		return "allow"
	case tool.Deny:
		return "deny " + v.Code
	case tool.Ask:
		out := []string{"ask"}
		for _, q := range v.Questions() {
			out = append(out, q.RequestKind)
		}
		return strings.Join(out, " ")
	}
	return "?"
}
