package main

import (
	"context"
	"strings"
	"testing"

	"github.com/turnlog/turnlog/internal/cli"
	"github.com/turnlog/turnlog/tool"
)

func TestRulesSayWhatCallsMayDo(t *testing.T) {
	t.Parallel()
	var tools []tool.Tool
	for _, name := range []string{"box_open", "box_burn", "lamp"} {
		x, err := tool.Func(name, "Does it.", func(context.Context, struct{}) (string, error) { return name, nil })
		if err != nil {
			t.Fatal(err)
		}
		tools = append(tools, x)
	}
	url := cellOf(t, node(), tools...)
	model := scripted(t, `
replies:
  - calls: [{name: box_open, input: {}}, {name: box_burn, input: {}}]
  - text: "{{range .Results}}{{.Text}};{{end}}"
  - calls: [{name: lamp, input: {}}]
  - text: "{{(index .Results 0).Text}}"
`)
	p := at(t, url, "run", "--session", "s", "--deny", "*_burn", "--allow", "box_*", "--model", model, "hi")
	if code := p.end(t); code != cli.CodeOK || !strings.HasPrefix(p.out.String(), "box_open;Permission denied: ") {
		t.Errorf("code %d, out %q, err %s", code, p.out, p.err)
	}
	p = at(t, url, "run", "--session", "s", "--deny", "*_burn", "--allow", "box_*", "and on")
	if code := p.end(t); code != cli.CodeApproval || !strings.Contains(p.err.String(), "lamp (call ") {
		t.Errorf("a tool without a rule: code %d, out %q, err %s", code, p.out, p.err)
	}
	p = at(t, url, "run", "--session", "s", "--allow", "*", "more")
	if code := p.end(t); code != cli.CodeUsage || !strings.Contains(p.err.String(), "--allow is for a new session") {
		t.Errorf("other rules: code %d, err %s", code, p.err)
	}
	p = at(t, url, "run", "--ask", "", "hi")
	if code := p.end(t); code != cli.CodeUsage || !strings.Contains(p.err.String(), "use a tool's name") {
		t.Errorf("no pattern: code %d, err %s", code, p.err)
	}
}
