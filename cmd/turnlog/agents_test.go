package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/turnlog/turnlog/internal/cli"
	"github.com/turnlog/turnlog/internal/testing/natstest"
	"github.com/turnlog/turnlog/internal/testing/sample"
)

// folderOf writes files into a folder, each with a model that follows a script.
func folderOf(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
			t.Fatal(err)
		}
		sample.WriteProgram(t, path, text, 0o600)
	}
	return dir
}

func TestEveryCommandReportsAllProblemsOfAnAgentFile(t *testing.T) {
	t.Parallel()
	file := filepath.Join(folderOf(t, map[string]string{"a.yaml": "model: antropic:x\nagents: [none]\ntools: [{name: fs_raed_file}]\n"}), "a.yaml")
	for _, args := range [][]string{{"run", "--agent", file, "hi"}, {"task", "--agent", file, "hi"}, {"tools", "ls", "--agent", file}} {
		p := expect(t, cli.CodeUsage, args...)
		for _, want := range []string{
			file + `:1:8: model: model "antropic:x": unknown provider "antropic": did you mean anthropic?`, file + ":2:10: agents[0]: no file in",
			file + `:3:16: tools[0].name: "fs_raed_file": there is no such tool: did you mean fs_read_file?`,
		} {
			if !strings.Contains(p.err.String(), "turnlog: "+want) {
				t.Errorf("%s: err = %s, want %q", args[0], p.err, want)
			}
		}
	}
	wants := filepath.Join(folderOf(t, map[string]string{"b.yaml": "model: demo\ntools: [{name: 'fs_*'}, {name: deploy}]\n"}), "b.yaml")
	for _, args := range [][]string{{"run", "--agent", wants, "hi"}, {"tools", "ls", "--agent", wants}} {
		if p := expect(t, cli.CodeOK, args...); strings.Count(p.err.String(), "agent b: tools[1]: no tool on offer is called deploy") != 1 {
			t.Errorf("%s: err = %s", args[0], p.err)
		}
	}
	url := natstest.Serve(t).ClientURL()
	empty := filepath.Join(folderOf(t, map[string]string{"a.yaml": ""}), "a.yaml")
	for bad, want := range map[string]string{file: "did you mean anthropic?", empty: "is empty: give at least a model"} {
		p := at(t, url, "agents", "publish", bad)
		if code := p.end(t); code != cli.CodeUsage || !strings.Contains(p.err.String(), want) {
			t.Errorf("publish: code %d, err %s, want %q", code, p.err, want)
		}
	}
}

func TestAnAgentsServersAreConnected(t *testing.T) {
	t.Parallel()
	model := scripted(t, "replies:\n  - calls: [{name: mcp_x_shout, input: {text: hello}}]\n  - text: \"It said {{(index .Results 0).Text}}.\"\n")
	dir := folderOf(t, map[string]string{"loud.yaml": "model: '" + model + "'\nmcp: {x: {url: '" + serveMCP(t) + "'}}\ntools: [{name: mcp_x_shout, permission: allow}]\n"})
	p := expect(t, cli.CodeOK, "run", "--root", t.TempDir(), "--agent", filepath.Join(dir, "loud.yaml"), "hi")
	if p.out.String() != "It said echo of hello.\n" {
		t.Errorf("printed %s\n%s", p.out, p.err)
	}
	p = expect(t, cli.CodeUsage, "run", "--root", t.TempDir(), "--agent", filepath.Join(dir, "loud.yaml"), "--mcp", "x=prog", "hi")
	if !strings.Contains(p.err.String(), "two servers have the name x") {
		t.Errorf("err = %s", p.err)
	}
}

func TestAPublishedAgentIsKnownByName(t *testing.T) {
	t.Parallel()
	url := cellOf(t, node())
	file := filepath.Join(folderOf(t, map[string]string{"greeter.yaml": "system: Greet.\non_busy: reject\n"}), "greeter.yaml")
	first := strings.TrimPrefix(strings.TrimSpace(succeed(t, url, "agents", "publish", file)), "greeter ")
	succeed(t, url, "run", "--agent", "greeter", "--session", "s", "--model", scripted(t, echo), "one")
	if err := os.WriteFile(file, []byte("system: Greet again.\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	second := strings.TrimPrefix(strings.TrimSpace(succeed(t, url, "agents", "publish", file)), "greeter ")
	if ls := succeed(t, url, "agents", "ls"); first == second || !strings.Contains(ls, second) || strings.Contains(ls, first) {
		t.Errorf("versions %s, %s; ls prints %s", first, second, ls)
	}
	if old := succeed(t, url, "agents", "show", "greeter", "--version", first); !strings.Contains(old, "system: Greet.\n") {
		t.Errorf("the version before is %s", old)
	}
	succeed(t, url, "run", "--agent", "greeter", "--session", "s", "two")
	if show := succeed(t, url, "sessions", "show", "s"); !strings.Contains(show, "greeter, version "+first) {
		t.Errorf("show prints %s", show)
	}
	succeed(t, url, "agents", "withdraw", "greeter")
	p := at(t, url, "run", "--agent", "greeter", "hi")
	if code := p.end(t); code != cli.CodeFailed || !strings.Contains(p.err.String(), `agent "greeter": no such agent`) {
		t.Errorf("withdrawn: code %d, err %s", code, p.err)
	}
	p = at(t, url, "run", "--agent", file, "--session", "s", "three")
	if code := p.end(t); code != cli.CodeUsage || !strings.Contains(p.err.String(), "--agent is for a new session") {
		t.Errorf("another version: code %d, err %s", code, p.err)
	}
	busy := at(t, url, "run", "--session", "busy", "--agent", writeGreeter(t), "--model", scripted(t, endless), "-o", "jsonl", "wait")
	busy.out.Await(t, "model_call_started")
	p = at(t, url, "send", "busy", "--wait", "me too")
	if code := p.end(t); code != cli.CodeFailed || !strings.Contains(p.err.String(), "is busy") {
		t.Errorf("the agent's on_busy: code %d, err %s", code, p.err)
	}
	succeed(t, url, "cancel", "busy")
	busy.end(t)
}

func writeGreeter(t *testing.T) string {
	t.Helper()
	return filepath.Join(folderOf(t, map[string]string{"greeter.yaml": "on_busy: reject\n"}), "greeter.yaml")
}

func TestAnUnusableAgentIsReported(t *testing.T) {
	t.Parallel()
	for want, args := range map[string][]string{
		"in this process name a file": {"--agent", "reviewer"},
		"no such file":                {"--agent", "none.yaml"},
		`no file in `:                 {"--agent", filepath.Join(folderOf(t, map[string]string{"reviewer.yaml": "model: demo\nagents: [none]\n"}), "reviewer.yaml")},
	} {
		if p := expect(t, cli.CodeUsage, append([]string{"run"}, append(args, "hi")...)...); !strings.Contains(p.err.String(), want) {
			t.Errorf("%v: err = %q, want %q", args, p.err, want)
		}
	}
	url := natstest.Serve(t).ClientURL()
	p := at(t, url, "run", "--agents-md", "all", "hi")
	if code := p.end(t); code != cli.CodeUsage || !strings.Contains(p.err.String(), "--agents-md is for the worker of this process") {
		t.Errorf("code %d, err %s", code, p.err)
	}
}

func TestAnAgentFileRefersToFilesInItsFolder(t *testing.T) {
	t.Parallel()
	dir := folderOf(t, map[string]string{
		"lead.yaml":        "model: scripted:scripts/lead\nsystem_file: lead.md\nagents: [tester]\nhooks: [{points: [session_start], command: ./hook.sh}]\n",
		"tester.yaml":      "model: scripted:scripts/tester\nhooks: [{points: [session_start], command: 'echo of the tester'}]\n",
		"lead.md":          "Lead.",
		"scripts/lead":     "replies:\n  - calls: [{name: agent_tester, input: {prompt: Test it.}}]\n  - text: \"{{(index .Results 0).Text}}\"\n",
		"scripts/tester":   "replies:\n  - text: It works.\n",
		"hook.sh":          "#!/bin/sh\necho \"$TURNLOG_HOOK_AGENT in $(basename \"$PWD\")\"\n",
		"elsewhere/a.yaml": "model: scripted:none\n",
	})
	if err := os.Chmod(filepath.Join(dir, "hook.sh"), 0o700); err != nil {
		t.Fatal(err)
	}
	p := expect(t, cli.CodeOK, "run", "--root", t.TempDir(), "--agent", filepath.Join(dir, "lead.yaml"), "-o", "jsonl", "go")
	for _, want := range []string{"It works.", "lead in " + filepath.Base(dir)} {
		if !strings.Contains(p.out.String(), want) {
			t.Errorf("there is no %q in\n%s\n%s", want, p.out, p.err)
		}
	}
	p = expect(t, cli.CodeUsage, "run", "--root", t.TempDir(), "--agent", filepath.Join(dir, "elsewhere", "a.yaml"), "go")
	if want := filepath.Join(dir, "elsewhere", "none"); !strings.Contains(p.err.String(), want) {
		t.Errorf("err = %q, want where it looked, %s", p.err, want)
	}
}
