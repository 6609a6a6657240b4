package main

import (
	"context"
	"path/filepath"
	"strings"
	"testing"

	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/internal/cli"
	"github.com/turnlog/turnlog/policy/permission"
	"github.com/turnlog/turnlog/tool"
)

func TestRulesDecideWhatCallsMayDo(t *testing.T) {
	t.Parallel()
	var tools []tool.Tool
	for _, name := range []string{"box_open", "box_burn", "lamp"} {
		tools = append(tools, named(t, name))
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
	p = at(t, url, "run", "--ask", "", "hi")
	if code := p.end(t); code != cli.CodeUsage || !strings.Contains(p.err.String(), "use the name of a tool") {
		t.Errorf("no pattern: code %d, err %s", code, p.err)
	}
}

// With a server, --allow is a wish: the deployment decides, and the command says so.
func TestTheDeploymentsPolicyIsStricterThanAllow(t *testing.T) {
	t.Parallel()
	cfg := node()
	d := permission.Default()
	d.Rules = append([]permission.ScopedRule{
		{Tool: "box_burn", Action: events.RuleDeny}, {Tool: "box_ask", Action: events.RuleAsk}, {Tool: "box_free", Action: events.RuleAllow},
	}, d.Rules...)
	cfg.Policy = &d
	url := cellOf(t, cfg, named(t, "box_open"), named(t, "box_burn"), named(t, "box_ask"), named(t, "box_free"))
	model := scripted(t, "replies:\n  - calls: [{name: box_open, input: {}}]\n  - text: done\n")
	p := at(t, url, "run", "--session", "s", "--allow", "box_*", "--model", model, "hi")
	const note = "the deployment's policy is stricter than --allow: it denies calls of box_burn, and requires approval for calls of box_ask, " +
		"and requires approval for calls of box_open unless they only read\n"
	if code := p.end(t); code != cli.CodeApproval || !strings.Contains(p.err.String(), note) {
		t.Errorf("code %d, err %s, want %s", code, p.err, note)
	}
	p = at(t, url, "run", "--session", "s", "--allow", "box_*", "--timeout", "1s", "again") // an approver's decision
	if code := p.end(t); strings.Contains(p.err.String(), "stricter") {
		t.Errorf("code %d, err %s", code, p.err)
	}
	p = at(t, url, "run", "--session", "s", "--allow", "box_burn", "more")
	if code := p.end(t); code != cli.CodeFailed || !strings.Contains(p.err.String(), "--allow: rule_denied: the policy's rule box_burn denies calls of box_burn") {
		t.Errorf("a denied tool: code %d, err %s", code, p.err)
	}
}

func TestAMisspelledRuleIsAnError(t *testing.T) {
	t.Parallel()
	for _, flag := range []string{"--allow", "--ask", "--deny"} {
		p := expect(t, cli.CodeUsage, "run", flag, "shel_exec", "hi")
		if !strings.Contains(p.err.String(), "shell_exec") {
			t.Errorf("%s: %s", flag, p.err)
		}
	}
}

func TestWithoutRulesOnlyToolsThatReadRun(t *testing.T) {
	t.Parallel()
	script := "replies:\n  - calls: [{name: fs_list_directory, input: {path: .}}, {name: shell_exec, input: {argv: [echo, hello]}}]\n  - text: \"{{(index .Results 1).Text}}\"\n"
	args := []string{"run", "--tools", "fs,shell", "--root", t.TempDir(), "--model", scripted(t, script)}
	p := expect(t, cli.CodeApproval, append(args, "hi")...)
	if err := p.err.String(); !strings.Contains(err, "shell_exec (call call_1_2) needs approval") || !strings.Contains(err, "give --yes") {
		t.Errorf("err %s", err)
	}
	for _, flags := range [][]string{{"--yes"}, {"--allow", "shell_*"}} {
		if p := expect(t, cli.CodeOK, append(append(args, flags...), "hi")...); !strings.HasPrefix(p.out.String(), "hello\n") {
			t.Errorf("%s: out %q, err %s", flags, p.out, p.err)
		}
	}
	url := cellOf(t, node(), named(t, "lamp"))
	p = at(t, url, "run", "--session", "s", "--model", scripted(t, "replies:\n  - calls: [{name: lamp, input: {}}]\n  - text: lit\n    repeat: true\n"), "hi")
	if code := p.end(t); code != cli.CodeApproval || !strings.Contains(p.err.String(), `decide with "turnlog approve s call_1_1 --server `) {
		t.Errorf("code %d, err %s", code, p.err)
	}
	p = at(t, url, "run", "--session", "s", "--yes", "me too")
	if code := p.end(t); code != cli.CodeApproval || !strings.Contains(p.err.String(), "lamp (call call_1_1) needs approval") {
		t.Errorf("the next turn: code %d, out %q, err %s", code, p.out, p.err)
	}
	succeed(t, url, "approve", "s", "call_1_1")
	if out := succeed(t, url, "wait", "s"); out != "lit\n" {
		t.Errorf("wait prints %q", out)
	}
	p = at(t, url, "run", "--session", "more", "--model", scripted(t, "replies:\n  - text: hello\n  - calls: [{name: lamp, input: {}}]\n  - text: lit\n"), "hi")
	p.end(t)
	if out := succeed(t, url, "send", "more", "--wait", "--yes", "again"); out != "lit\n" {
		t.Errorf("send --yes prints %q", out)
	}
	p = at(t, url, "send", "more", "--yes", "again")
	if code := p.end(t); code != cli.CodeUsage || !strings.Contains(p.err.String(), "--yes is for --wait") {
		t.Errorf("code %d, err %s", code, p.err)
	}
}

func TestAWorkersQuestionIsDecidedByTheCommandThatWaits(t *testing.T) {
	t.Parallel()
	root, script := folderOf(t, map[string]string{"a.txt": "some words\n"}), `
replies:
  - calls: [{name: fs_read_file, input: {path: a.txt}}]
  - text: "{{(index .Results 0).Text}}"
`
	file := filepath.Join(folderOf(t, map[string]string{
		"reader.yaml": "permissions: {paths: {allow: [sub], outside: ask}}\ntools: [{name: \"fs_*\", permission: allow}]\n",
	}), "reader.yaml")
	for _, rule := range [][]string{{"--agent", file}, {"--read-only", "b.txt", "--allow-root", t.TempDir()}} {
		args := append([]string{"run", "--root", root, "--model", scripted(t, script), "--timeout", "20s"}, rule...)
		p := expect(t, cli.CodeApproval, append(args, "hi")...)
		if err := p.err.String(); !strings.Contains(err, "fs_read_file (call call_1_1) needs approval") {
			t.Errorf("%s: err %s", rule, err)
		}
		if p := expect(t, cli.CodeOK, append(args, "--yes", "hi")...); !strings.Contains(p.out.String(), "some words") {
			t.Errorf("%s: out %q, err %s", rule, p.out, p.err)
		}
	}
}

// named is a tool that says its name.
func named(t *testing.T, name string) tool.Tool {
	t.Helper()
	x, err := tool.Func(name, "Does it.", func(context.Context, struct{}) (string, error) { return name, nil })
	if err != nil {
		t.Fatal(err)
	}
	return x
}
