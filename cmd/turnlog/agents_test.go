package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/turnlog/turnlog/internal/cli"
	"github.com/turnlog/turnlog/internal/testing/clitest"
	"github.com/turnlog/turnlog/policy/agentfile"
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
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestAgentsCheckSaysWhatIsWrong(t *testing.T) {
	t.Parallel()
	dir := folderOf(t, map[string]string{"good.yaml": "model: demo\n", "bad.yaml": "on_busy: x\nlimits: {rounds: -1}\n"})
	good, bad := filepath.Join(dir, "good.yaml"), filepath.Join(dir, "bad.yaml")
	if p := expect(t, cli.CodeOK, "agents", "check", good); p.out.String() != "" {
		t.Errorf("a good file prints %q", p.out)
	}
	p := expect(t, cli.CodeFailed, "agents", "check", good, bad)
	want := bad + `:1:10: on_busy: "x": use queue, steer, interrupt or reject` + "\n" + bad + ":2:18: limits.rounds: -1: use a number from 1 up\n"
	if p.out.String() != want || p.err.String() != "" {
		t.Errorf("out = %q, err = %q, want %q", p.out, p.err, want)
	}
	odd := filepath.Join(dir, "odd.yaml")
	body := "model: nope:x\nfallback: [demo, demo?x=1, \"openai:x?temperature=hot\"]\nsystem: " + strings.Repeat("long ", 20000) + "\n"
	if err := os.WriteFile(odd, []byte(body), 0o600); err != nil {
		t.Fatal(err)
	}
	told := expect(t, cli.CodeFailed, "agents", "check", odd).out.String()
	for _, want := range []string{
		"odd.yaml:1:8: model: model \"nope:x\": unknown provider", "odd.yaml:2:18: fallback[1]: model \"demo?x=1\"",
		"odd.yaml:2:28: fallback[2]: model openai:x?temperature=hot: option temperature=hot: want a number", "odd.yaml: a definition of 100",
	} {
		if !strings.Contains(told, want) {
			t.Errorf("check prints %q, want %q", told, want)
		}
	}
	if p := expect(t, cli.CodeUsage, "agents", "check", bad, filepath.Join(dir, "none.yaml")); !strings.Contains(p.err.String(), "none.yaml does not exist") {
		t.Errorf("err = %q", p.err)
	}
}

func TestAFolderWithBrokenFilesIsTold(t *testing.T) {
	t.Parallel()
	dir := folderOf(t, map[string]string{
		"a.yaml": "model: demo\n", "b.yaml": "model: nope:x\n", "c.yml": "agents: [none]\nlimits: {rounds: 0}\n", "d.yaml": "", "e.txt": "no agent",
		"f.yaml": "name: a\n",
	})
	files := func(out string) (all []string) {
		for line := range strings.Lines(out) {
			name, _, _ := strings.Cut(filepath.Base(strings.SplitN(line, ": ", 2)[0]), ":")
			all = append(all, name)
		}
		return all
	}
	p := expect(t, cli.CodeFailed, "agents", "check", dir)
	want := []string{"b.yaml", "c.yml", "c.yml", "d.yaml", "f.yaml"}
	if got := files(p.out.String()); !slices.Equal(got, want) {
		t.Errorf("check tells of %q, want %q:\n%s", got, want, p.out)
	}
	var problems []agentfile.Problem
	out := expect(t, cli.CodeFailed, "agents", "check", dir, "-o", "json").out.String()
	if err := json.Unmarshal([]byte(out), &problems); err != nil || len(problems) != len(want) {
		t.Fatalf("check -o json prints %s: %v", out, err)
	}
	if p := problems[1]; p.File != filepath.Join(dir, "c.yml") || p.Line != 1 || p.Column != 10 || p.Path != "$.agents[0]" || !strings.HasPrefix(p.Message, "no file in") {
		t.Errorf("the second problem is %+v", p)
	}
	p = expect(t, cli.CodeOK, "agents", "ls", "--agents", dir)
	if out := p.out.String(); !strings.HasPrefix(out, "NAME") || strings.Count(out, "\n") != 2 || !slices.Equal(files(p.err.String()), want) {
		t.Errorf("ls: out = %s, err = %s", p.out, p.err)
	}
	var rows []agentRow
	if err := json.Unmarshal([]byte(expect(t, cli.CodeOK, "agents", "ls", "--agents", dir, "-o", "json").out.String()), &rows); err != nil {
		t.Fatal(err)
	}
	if len(rows) != 5 || rows[0].Name != "a" || rows[0].Version == "" || rows[2].Name != "c" || rows[2].Version != "" || len(rows[2].Problems) != 2 {
		t.Errorf("ls -o json = %+v", rows)
	}
	if out := expect(t, cli.CodeFailed, "agents", "check", t.TempDir()).out.String(); !strings.Contains(out, "holds no agent file") {
		t.Errorf("an empty folder: %s", out)
	}
	if out := expect(t, cli.CodeOK, "agents", "check", filepath.Join(dir, "a.yaml"), "-o", "json").out.String(); strings.TrimSpace(out) != "[]" {
		t.Errorf("a good file: %s", out)
	}
}

func TestWhoeverUsesAnAgentFileTellsAllThatIsWrong(t *testing.T) {
	t.Parallel()
	file := filepath.Join(folderOf(t, map[string]string{"a.yaml": "model: antropic:x\nagents: [none]\ntools: [{name: fs_raed_file}]\n"}), "a.yaml")
	for _, args := range [][]string{{"run", "--agent", file, "hi"}, {"task", "--agent", file, "hi"}, {"tools", "ls", "--agent", file}} {
		p := expect(t, cli.CodeUsage, args...)
		for _, want := range []string{
			file + `:1:8: model: model "antropic:x": unknown provider "antropic": did you mean anthropic?`, file + ":2:10: agents[0]: no file in",
			file + `:3:16: tools[0].name: "fs_raed_file": no tool is called so: did you mean fs_read_file?`,
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
	url := clitest.Serve(t).ClientURL()
	empty := filepath.Join(folderOf(t, map[string]string{"a.yaml": ""}), "a.yaml")
	for bad, want := range map[string]string{file: "did you mean anthropic?", empty: "is empty: give at least a model"} {
		p := at(t, url, "agents", "publish", bad)
		if code := p.end(t); code != cli.CodeUsage || !strings.Contains(p.err.String(), want) {
			t.Errorf("publish: code %d, err %s, want %q", code, p.err, want)
		}
	}
}

func TestAgentsShowPrintsWhatIsKept(t *testing.T) {
	t.Parallel()
	dir := folderOf(t, map[string]string{"a.yaml": "model: demo\nsystem_file: p.md\n", "p.md": "Be\nbrief.\n", "bad.yaml": "engine: x\n"})
	text := expect(t, cli.CodeOK, "agents", "show", "a", "--agents", dir).out.String()
	d, err := agentfile.Parse("again.yaml", []byte(text), nil)
	if err != nil || d.System != "Be\nbrief.\n" || d.Name != "a" {
		t.Fatalf("show prints %s: %v", text, err)
	}
	var row agentRow
	if err := json.Unmarshal([]byte(expect(t, cli.CodeOK, "agents", "show", filepath.Join(dir, "a.yaml"), "-o", "json").out.String()), &row); err != nil {
		t.Fatal(err)
	}
	if v, err := d.Version(); err != nil || row.Version != v || !strings.Contains(text, "# version "+v) {
		t.Errorf("version = %s, %v; show prints %s", v, err, text)
	}
	p := expect(t, cli.CodeOK, "agents", "ls", "--agents", dir)
	if !strings.Contains(p.out.String(), "a     "+row.Version) || !strings.Contains(p.err.String(), `bad.yaml:1:1: unknown field "engine"`) {
		t.Errorf("ls: out = %q, err = %q", p.out, p.err)
	}
	if p := expect(t, cli.CodeFailed, "agents", "show", "none", "--agents", dir); !strings.Contains(p.err.String(), `agent "none" in `+dir+`: no such agent`) {
		t.Errorf("err = %q", p.err)
	}
	if p := expect(t, cli.CodeOK, "agents", "schema"); !json.Valid([]byte(p.out.String())) {
		t.Errorf("schema prints %s", p.out)
	}
}

func TestAFileIsAnAgentInThisProcess(t *testing.T) {
	t.Parallel()
	root := folderOf(t, map[string]string{
		"AGENTS.md": "Use tabs.\n", "a.txt": "x\n",
		"skills/notes/SKILL.md": "---\nname: notes\ndescription: How to write notes\n---\nWrite short ones.\n",
	})
	lead := scripted(t, `
replies:
  - calls:
      - {name: fs_read_file, input: {path: a.txt}}
      - {name: fs_count, input: {}}
      - {name: skill_activate, input: {name: notes}}
      - {name: agent_tester, input: {prompt: Test it.}}
  - text: "{{range .Results}}[{{.Text}}]{{end}}"
`)
	tester := scripted(t, "replies:\n  - text: It works.\n")
	dir := folderOf(t, map[string]string{
		"lead.yaml": "model: '" + lead + "'\nsystem: Be a lead.\ncontext: {agents_md: nearest, skills: [skills]}\n" +
			"tools: [{name: fs_count, permission: deny}, {name: 'fs_*', permission: allow}]\nagents: [tester]\n",
		"tester.yaml": "description: Tests\nmodel: '" + tester + "'\n",
	})
	p := expect(t, cli.CodeOK, "run", "--root", root, "--agent", filepath.Join(dir, "lead.yaml"), "-o", "jsonl", "go")
	for _, want := range []string{`"agent":{"name":"lead","version":"`, "Be a lead.", "Use tabs.", "(2 bytes)\\nx\\n]", "Tool not found: fs_count", "Write short ones.", "[It works.]"} {
		if !strings.Contains(p.out.String(), want) {
			t.Errorf("there is no %q in\n%s", want, p.out)
		}
	}
}

func TestAnAgentBringsItsServers(t *testing.T) {
	t.Parallel()
	model := scripted(t, "replies:\n  - calls: [{name: mcp_x_shout, input: {text: hello}}]\n  - text: \"It said {{(index .Results 0).Text}}.\"\n")
	dir := folderOf(t, map[string]string{"loud.yaml": "model: '" + model + "'\nmcp: {x: {url: '" + serveMCP(t) + "'}}\ntools: [{name: mcp_x_shout, permission: allow}]\n"})
	p := expect(t, cli.CodeOK, "run", "--root", t.TempDir(), "--agent", filepath.Join(dir, "loud.yaml"), "hi")
	if p.out.String() != "It said echo of hello.\n" {
		t.Errorf("printed %s\n%s", p.out, p.err)
	}
	p = expect(t, cli.CodeUsage, "run", "--root", t.TempDir(), "--agent", filepath.Join(dir, "loud.yaml"), "--mcp", "x=prog", "hi")
	if !strings.Contains(p.err.String(), "two servers are called x") {
		t.Errorf("err = %s", p.err)
	}
}

func TestATaskHasTheGateAndTheSurroundingsOfItsAgent(t *testing.T) {
	t.Parallel()
	root := folderOf(t, map[string]string{"AGENTS.md": "Use tabs.\n", "specs/parser.md": "# The parser\n\nIt never fails.\n"})
	model := scripted(t, "replies:\n  - calls: [{name: fs_write_file, input: {path: done, content: x}}]\n  - text: Done.\n")
	dir := folderOf(t, map[string]string{"mender.yaml": "model: '" + model + "'\ncontext: {agents_md: all, specs: [specs]}\n" +
		"tools: [{name: 'fs_*', permission: allow}]\ngate: {command: test -f done}\n"})
	p := expect(t, cli.CodeOK, "task", "--root", root, "--allow-write", "--agent", filepath.Join(dir, "mender.yaml"), "-o", "jsonl", "Mend the parser")
	for _, want := range []string{`"verify_status":"passed"`, "Use tabs.", "It never fails."} {
		if !strings.Contains(p.out.String(), want) {
			t.Errorf("there is no %q in\n%s", want, p.out)
		}
	}
}

func TestAGateIsNotJudgedByTheAgentsPermissions(t *testing.T) {
	t.Parallel()
	for _, rule := range []string{"commands: {allow: [ls], outside: deny}", "kinds: {deny: [shell.command]}", "commands: {code: ask}"} {
		root := folderOf(t, map[string]string{"done": ""})
		dir := folderOf(t, map[string]string{"a.yaml": "permissions: {" + rule + "}\ngate: {command: test -f done, max_retries: -1}\n"})
		p := expect(t, cli.CodeOK, "task", "--root", root, "--model", scripted(t, oneReply), "--agent", filepath.Join(dir, "a.yaml"), "Go")
		if !strings.Contains(p.err.String(), "gate passed") {
			t.Errorf("%s: err %s", rule, p.err)
		}
	}
}

func TestAgentsMDIsReadOnlyIfThatIsAskedFor(t *testing.T) {
	t.Parallel()
	root := folderOf(t, map[string]string{"AGENTS.md": "Use tabs.\n"})
	for flag, want := range map[string]bool{"none": false, "nearest": true} {
		for _, command := range []string{"run", "task"} {
			p := expect(t, cli.CodeOK, command, "--root", root, "--agents-md", flag, "--model", scripted(t, oneReply), "-o", "jsonl", "hi")
			if got := strings.Contains(p.out.String(), "Use tabs."); got != want {
				t.Errorf("%s --agents-md %s: told of AGENTS.md: %t, want %t", command, flag, got, want)
			}
		}
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

func TestAnAgentThatCannotBeUsedIsSaid(t *testing.T) {
	t.Parallel()
	for want, args := range map[string][]string{
		"in this process name a file": {"--agent", "reviewer"},
		"no such file":                {"--agent", "none.yaml"},
		`no file in `:                 {"--agent", filepath.Join(folderOf(t, map[string]string{"reviewer.yaml": "model: demo\nagents: [nobody]\n"}), "reviewer.yaml")},
	} {
		if p := expect(t, cli.CodeUsage, append([]string{"run"}, append(args, "hi")...)...); !strings.Contains(p.err.String(), want) {
			t.Errorf("%v: err = %q, want %q", args, p.err, want)
		}
	}
	url := clitest.Serve(t).ClientURL()
	p := at(t, url, "run", "--agents-md", "all", "hi")
	if code := p.end(t); code != cli.CodeUsage || !strings.Contains(p.err.String(), "--agents-md is for the worker of this process") {
		t.Errorf("code %d, err %s", code, p.err)
	}
}

func TestAnAgentFileFindsWhatItNamesBesideItself(t *testing.T) {
	t.Parallel()
	dir := folderOf(t, map[string]string{
		"lead.yaml":        "model: scripted:scripts/lead\nsystem_file: lead.md\nagents: [tester]\nhooks: [{points: [session_start], command: ./hook.sh}]\n",
		"tester.yaml":      "model: scripted:scripts/tester\nhooks: [{points: [session_start], command: 'echo of the tester'}]\n",
		"lead.md":          "Lead.",
		"scripts/lead":     "replies:\n  - calls: [{name: agent_tester, input: {prompt: Test it.}}]\n  - text: \"{{(index .Results 0).Text}}\"\n",
		"scripts/tester":   "replies:\n  - text: It works.\n",
		"hook.sh":          "#!/bin/sh\necho \"$TURNLOG_AGENT in $(basename \"$PWD\")\"\n",
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
