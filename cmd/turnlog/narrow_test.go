package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/internal/cli"
)

const allTwice = `
replies:
  - text: hello
  - calls: [{name: box_open, input: {}}, {name: box_burn, input: {}}, {name: lamp, input: {}}]
  - text: "{{range .Results}}{{.Text}};{{end}}"
  - calls: [{name: box_open, input: {}}, {name: box_burn, input: {}}, {name: lamp, input: {}}]
  - text: "{{range .Results}}{{.Text}};{{end}}"
  - calls: [{name: lamp, input: {}}]
  - text: lit
    repeat: true
`

// boxes starts a deployment with three tools, and a session with one turn.
func boxes(t *testing.T, flags ...string) (url string) {
	t.Helper()
	url = cellOf(t, node(), named(t, "box_open"), named(t, "box_burn"), named(t, "lamp"))
	succeed(t, url, append([]string{"run", "--session", "s", "--model", scripted(t, allTwice)}, append(flags, "hi")...)...)
	return url
}

func TestATurnIsNarrowed(t *testing.T) {
	t.Parallel()
	for name, command := range map[string][]string{
		"run": {"run", "--session", "s"}, "send": {"send", "s", "--wait"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url := boxes(t, "--allow", "*")
			p := at(t, url, append(command, "-o", "json", "--deny", "box_burn", "--ask", "box_*", "--route", "lamp=detach:1h", "go")...)
			if code := p.end(t); code != cli.CodeApproval || !strings.Contains(p.err.String(), "box_open (call ") || strings.Contains(p.err.String(), "more)") {
				t.Fatalf("code %d, out %s, err %s", code, p.out, p.err)
			}
			succeed(t, url, "approve", "s", "call_2_1")
			var r turnReport
			if err := json.Unmarshal([]byte(succeed(t, url, "wait", "s", "-o", "json")), &r); err != nil {
				t.Fatal(err)
			}
			if !strings.HasPrefix(r.Text, "box_open;Permission denied: ") || len(r.ToolCalls) != 3 || r.ToolCalls[2].Route != "detach" {
				t.Errorf("report %+v", r)
			}
		})
	}
}

func TestTheNextTurnFollowsTheSessionAgain(t *testing.T) {
	t.Parallel()
	url := boxes(t, "--allow", "*")
	if out := succeed(t, url, "send", "s", "--wait", "--deny", "box_*", "go"); !strings.Contains(out, "denied") {
		t.Errorf("narrowed: %q", out)
	}
	if out := succeed(t, url, "send", "s", "--wait", "again"); out != "box_open;box_burn;lamp;\n" {
		t.Errorf("not narrowed: %q", out)
	}
}

func TestAllowIsADecisionForTheSession(t *testing.T) {
	t.Parallel()
	url := boxes(t, "--deny", "box_burn", "--ask", "*")
	p := at(t, url, "send", "s", "--wait", "--allow", "box_*", "go")
	if code := p.end(t); code != cli.CodeApproval || !strings.Contains(p.err.String(), "lamp (call call_2_3) needs approval") {
		t.Fatalf("code %d, out %s, err %s", code, p.out, p.err)
	}
	succeed(t, url, "approve", "s", "call_2_3")
	if out := succeed(t, url, "wait", "s"); !strings.HasPrefix(out, "box_open;Permission denied: ") {
		t.Errorf("wait prints %q", out)
	}
	// An allowance also answers open questions, and applies to later turns.
	p = at(t, url, "run", "--session", "s", "more")
	if code := p.end(t); code != cli.CodeApproval || !strings.Contains(p.err.String(), "lamp (call call_4_3)") {
		t.Fatalf("code %d, err %s", code, p.err)
	}
	succeed(t, url, "send", "s", "--on-busy", "queue", "--allow", "lamp", "and then")
	if out := succeed(t, url, "wait", "s"); out != "lit\n" && !strings.HasPrefix(out, "box_open;") {
		t.Errorf("wait prints %q", out)
	}
	var granted []events.ToolsAllowed
	for rec, err := range cellAt(t, url).Journal().Read(t.Context(), "s", 0) {
		if err != nil {
			t.Fatal(err)
		}
		for _, ev := range rec.Entry.Events {
			if g, ok := any(ev).(events.ToolsAllowed); ok {
				granted = append(granted, g)
			}
		}
	}
	if len(granted) != 2 || granted[0].Grant != "grant-1" || granted[0].By == "" || granted[1].Tools[0] != "lamp" {
		t.Errorf("granted: %+v", granted)
	}
}
