//go:build unix

package exec_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/internal/testing/sample"
	"github.com/turnlog/turnlog/tool"
	"github.com/turnlog/turnlog/tool/exec"
	"github.com/turnlog/turnlog/tool/tooltest"
)

// write creates a file and its directory.
func write(t *testing.T, name, text string, mode os.FileMode) string {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	sample.WriteProgram(t, name, text, mode)
	return name
}

// load returns the tool of a manifest. Its root holds a file f with two words.
func load(t *testing.T, manifest string) (x tool.Tool, root string) {
	t.Helper()
	root = t.TempDir()
	write(t, filepath.Join(root, "f"), "two words\n", 0o600)
	tools, err := exec.Load(root, write(t, filepath.Join(t.TempDir(), "m.yaml"), manifest, 0o600), exec.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return tools[0], root
}

func call(t *testing.T, x tool.Tool, input string) content.ToolResult {
	t.Helper()
	return tool.Invoke(t.Context(), x, tool.Call{ID: "c1", Input: json.RawMessage(input)}).Result
}

const counts = `
name: word_count
description: Counts the words of a file.
input:
  properties:
    file: {type: string, description: The file.}
  required: [file]
command: [wc, -w, --, "{file}"]
effects: read_only
`

// shows prints its arguments in brackets, one per line.
const shows = `
name: show
description: Shows its arguments.
input:
  properties:
    one: {type: string, description: One.}
    many: {type: array, items: {type: string}, description: Many.}
    number: {type: number, description: A number.}
    on: {type: boolean, description: A switch.}
    deep: {type: object, description: An object.}
command: [printf, "[%s]\\n", "a{{}}", [--number, "{number}"], [--one, "{one}"], "{many}", ["{one}", "{on}"], "{deep}"]
`

func TestToolsHoldTheContract(t *testing.T) {
	t.Parallel()
	x, _ := load(t, counts)
	tooltest.Run(
		t, x,
		tooltest.Case{Name: "file", Input: `{"file":"f"}`, Text: "2 f"},
		tooltest.Case{Name: "missing", Input: `{"file":"-x"}`, Status: content.StatusError, Code: exec.CodeExit, Text: "-x"},
	)
	y, _ := load(t, "name: echo\ndescription: Returns its input.\ncommand: [cat]\noutput: json\n")
	tooltest.Run(t, y, tooltest.Case{Name: "nothing", Input: `{}`, Text: `{}`})
	z, _ := load(t, "name: wait\ndescription: Waits.\ncommand: [sleep, 60]\n")
	tooltest.Run(t, z, tooltest.Case{Name: "wait", Input: `{}`, Blocks: true})
}

func TestEachValueIsOneArgument(t *testing.T) {
	t.Parallel()
	x, root := load(t, shows)
	for input, want := range map[string]string{
		`{}`:                                   "[a{{}}]\n",
		`{"one":"x; touch pwned","on":true}`:   "[a{{}}]\n[--one]\n[x; touch pwned]\n[x; touch pwned]\n[true]\n",
		`{"one":"$(id) 'q' \"d\" *\n\\"}`:      "[a{{}}]\n[--one]\n[$(id) 'q' \"d\" *\n\\]\n",
		`{"many":["a b","","c"],"number":1e3}`: "[a{{}}]\n[--number]\n[1e3]\n[a b]\n[]\n[c]\n",
		`{"many":[],"deep":{"b":[1,"x"]}}`:     "[a{{}}]\n[{\"b\":[1,\"x\"]}]\n",
		`{"one":null}`:                         "",
	} {
		r := call(t, x, input)
		if want != "" && r.Text() != want || want == "" && r.Code != tool.CodeInvalidArguments {
			t.Errorf("%s: %s %q, want %q", input, r.Status, r.Text(), want)
		}
	}
	for _, input := range []string{`{"many":["-rf"]}`, `{"one":"--help","on":true}`, `{"number":-1,"many":["-"]}`, `{"one":"a\u0000b"}`} {
		if r := call(t, x, input); r.Code != tool.CodeInvalidArguments {
			t.Errorf("%s: %s %q", input, r.Status, r.Text())
		}
	}
	if _, err := os.Stat(filepath.Join(root, "pwned")); err == nil {
		t.Error("a shell was involved")
	}
}

func TestDashesOfAnOmittedGroupProtectNoValue(t *testing.T) {
	t.Parallel()
	x, _ := load(t, "name: x\ndescription: Shows.\ninput: {properties: {a: {type: string}, b: {type: string}}}\ncommand: [/bin/echo, [--, \"{a}\"], \"{b}\"]\n")
	for input, code := range map[string]string{`{"b":"-n"}`: tool.CodeInvalidArguments, `{"a":"x","b":"-n"}`: ""} {
		if r := call(t, x, input); r.Code != code {
			t.Errorf("%s: %s %q", input, r.Status, r.Text())
		}
	}
}

func TestInputOnStdin(t *testing.T) {
	t.Parallel()
	const head = "name: x\ndescription: X.\ninput: {properties: {text: {type: string}, list: {type: array}}}\n"
	for name, row := range map[string]struct{ manifest, input, want string }{
		"json":         {"command: [cat]\n", `{"text": "é",  "list":[1]}`, `{"text": "é",  "list":[1]}`},
		"none":         {"command: [cat]\nstdin: none\n", `{"text":"a"}`, ""},
		"placeholders": {"command: [cat, -, \"{list}\"]\n", `{"list":["f"]}`, "two words\n"},
		"text":         {"command: [cat]\nstdin: \"{text}\"\n", `{"text":"a\nb"}`, "a\nb"},
		"list":         {"command: [cat]\nstdin: \"{list}\"\n", `{"list":["a",2]}`, "a\n2"},
		"absent":       {"command: [cat]\nstdin: \"{text}\"\n", `{}`, ""},
		"not read":     {"command: [echo, done]\nstdin: json\n", `{"text":"` + strings.Repeat("x", 300_000) + `"}`, "done\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			x, _ := load(t, head+row.manifest)
			if r := call(t, x, row.input); r.Text() != row.want || r.Status != content.StatusOK {
				t.Errorf("%s %q, want %q", r.Status, r.Text(), row.want)
			}
		})
	}
}

func TestExitAndOutputDecideTheResult(t *testing.T) {
	t.Parallel()
	const head = "name: x\ndescription: X.\n"
	for name, row := range map[string]struct{ manifest, code, want string }{
		"status":         {"command: [sh, -c, \"echo out; echo err >&2; exit 3\"]\n", exec.CodeExit, "Tool failed: exit status 3: err"},
		"only output":    {"command: [sh, -c, \"echo out; exit 3\"]\n", exec.CodeExit, "Tool failed: exit status 3: out"},
		"silent":         {"command: [\"false\"]\n", exec.CodeExit, "Tool failed: exit status 1"},
		"signal":         {"command: [sh, -c, \"kill -9 $$\"]\n", exec.CodeExit, "Tool failed: signal: killed"},
		"errors ignored": {"command: [sh, -c, \"echo out; echo err >&2\"]\n", "", "out\n"},
		"time":           {"command: [sleep, 600]\ntimeout: 20ms\n", tool.CodeTimeout, "Tool failed: it was stopped after 20ms"},
		"json":           {"command: [echo, '[1, 2]']\noutput: json\n", "", "[1, 2]"},
		"no json":        {"command: [echo, 'x{y']\noutput: json\n", exec.CodeOutput, "Tool failed: it did not write valid JSON: x{y"},
		"too much json":  {"command: [seq, 1000]\noutput: json\nmax_output: 100\n", exec.CodeOutput, "Tool failed: it wrote more than 100 bytes of JSON"},
		"cut":            {"command: [sh, -c, \"printf 'a%.0s' 1 2 3 4 5 6\"]\nmax_output: 4\n", "", "aa\n[… 2 bytes were cut here …]\naa"},
		"left running":   {"command: [sh, -c, \"sleep 60 & echo out\"]\n", "", "out\n"},
		"environment":    {"command: [sh, -c, \"echo $A-$TURNLOG_SECRET\"]\nenv: [A=1]\n", "", "1-\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			x, _ := load(t, head+row.manifest)
			if r := call(t, x, `{}`); r.Text() != row.want || r.Code != row.code {
				t.Errorf("%q %q, want %q %q", r.Code, r.Text(), row.code, row.want)
			}
		})
	}
}

func TestOnlyNamedVariablesArePassedOn(t *testing.T) {
	t.Setenv("TURNLOG_TEST_PASSED", "yes")
	t.Setenv("TURNLOG_TEST_SECRET", "no")
	x, _ := load(t, "name: x\ndescription: X.\ncommand: [env]\nenv: [TURNLOG_TEST_PASSED, TURNLOG_TEST_ABSENT]\n")
	got := call(t, x, `{}`).Text()
	if !strings.Contains(got, "TURNLOG_TEST_PASSED=yes\n") || strings.Contains(got, "SECRET") || strings.Contains(got, "ABSENT") {
		t.Errorf("environment: %s", got)
	}
}

func TestProposesTheCommand(t *testing.T) {
	t.Parallel()
	x, root := load(t, counts)
	requests, err := x.(tool.Proposer).Propose(t.Context(), tool.Call{Input: []byte(`{"file":"a b"}`)})
	if err != nil || len(requests) != 1 {
		t.Fatalf("%v, %v", requests, err)
	}
	r := requests[0]
	real, err := filepath.EvalSymlinks(root)
	if err != nil {
		t.Fatal(err)
	}
	if r.Kind != "exec.run" || !strings.HasSuffix(r.Summary, "wc -w -- a b") || !strings.Contains(string(r.Target), `["/`) || !strings.Contains(string(r.Target), `"cwd":"`+real) {
		t.Errorf("request = %+v, target %s", r, r.Target)
	}
}

func TestProgramIsRelativeToItsManifest(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "bin/hello"), "#!/bin/sh\npwd\n", 0o755)
	write(t, filepath.Join(dir, "b.yaml"), "name: b\ndescription: B.\ncommand: [bin/hello]\ncwd: sub\n", 0o600)
	write(t, filepath.Join(dir, "a.json"), `{"name": "a", "description": "A.", "command": ["./bin/hello"]}`, 0o600)
	write(t, filepath.Join(dir, "README.md"), "no manifest", 0o600)
	root := t.TempDir()
	write(t, filepath.Join(root, "sub/x"), "", 0o600)
	tools, err := exec.Load(root, dir, exec.Options{})
	if err != nil || len(tools) != 2 || tools[0].Spec().Name != "a" {
		t.Fatalf("%v, %v", tools, err)
	}
	if r := call(t, tools[1], `{}`); !strings.HasSuffix(r.Text(), "/sub\n") {
		t.Errorf("began in %q", r.Text())
	}
	if err := os.RemoveAll(filepath.Join(root, "sub")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/", filepath.Join(root, "sub")); err != nil {
		t.Fatal(err)
	}
	if r := call(t, tools[1], `{}`); r.Code != tool.CodeDenied {
		t.Errorf("a folder that became a link out: %q %s", r.Code, r.Text())
	}
}

func TestManifestErrorsNameTheLine(t *testing.T) {
	t.Parallel()
	const head = "name: x\ndescription: X.\ninput: {properties: {a: {type: string}, l: {type: array}}}\n"
	got := map[string]string{}
	want := map[string]string{}
	for manifest, problem := range map[string]string{
		"name: a b\ndescription: X.\ncommand: [ls]\n":                       ":1: name: \"a b\": use 1 to 64 letters, digits, '-' or '_'",
		"name: x\ncommand: [ls]\n":                                          ": description: is missing: tell the model what the tool does and when to use it",
		head:                                                                ": command: is missing: name a program and its arguments",
		head + "commnd: [ls]\n":                                             `:4: unknown field "commnd"`,
		head + "command: [ls\n":                                             ":4: sequence end token ']' not found",
		head + "command: ls\n":                                              ":4: string was used where sequence is expected",
		head + "command: [no-such-program-x]\n":                             ":4: command[0]: no-such-program-x is not in PATH",
		head + "command: [./none]\n":                                        ":4: command[0]: DIR/none does not exist or is not executable",
		head + "command: [\"{a}\"]\n":                                       ":4: command[0]: name the program: a model cannot choose it",
		head + "command:\n  - ls\n  - \"{b}\"\n":                            ":6: command[1]: {b} is not a property of the input",
		head + "command: [/bin/sh, -ec, \"echo {a}\"]\n":                    `:4: command[2]: {a} is only part of the argument: a placeholder is a whole argument, such as [--option, "{a}"]`,
		head + "command: [ls, {a: b}]\n":                                    ":4: command[1]: map[a:b]: use text, or a list of text",
		head + "command: [ls]\nstdin: all\n":                                `:5: stdin: "all": use json, none, or a placeholder such as {text}`,
		head + "command: [ls]\neffects: some\n":                             `:5: effects: "some": use read_only, idempotent or none`,
		head + "command: [ls]\ntimeout: 5\n":                                `:5: timeout: "5": use a duration such as 30s`,
		head + "command: [ls]\noutput: xml\n":                               `:5: output: "xml": use text or json`,
		head + "command: [ls]\noutput_schema: {}\n":                         ":5: output_schema: needs output: json",
		head + "command: [ls]\nmax_output: -1\n":                            ":5: max_output: -1: use a positive number",
		head + "command: [ls]\ncwd: ../x\n":                                 `:5: cwd: path "../x" is outside the root: use a path relative to it`,
		head + "command: [ls]\nenv: [\"A B\"]\n":                            `:5: env: variable "A B": write NAME or NAME=value`,
		"name: x\ndescription: X.\ninput: {type: array}\ncommand: [ls]\n":   ":3: input.type: array: the input of a tool is an object",
		"name: x\ndescription: X.\ninput: {$ref: \"#/x\"}\ncommand: [ls]\n": ":3: input: tool x: input schema: json-pointer in \"schema:root#/x\" not found",
		head + "command: [ls]\n---\nname: y\n":                              ":5: a file is one document, but a second one begins here",
		"":                                                                  ": is empty: add a name, a description and a command",
		"# only a remark\n":                                                 ": is empty: add a name, a description and a command",
		"name: x\ndescription: X.\ncommand: [ls]\ninput:\n  properties:\n    type: {type: string}\n    b: {type: [strin, \"null\"]}\n": ":5: input: tool x: input schema: properties.b.type.0: value must be one of 'array', 'boolean', 'integer', 'null', 'number', 'object', 'string'",
		"name: x\ndescription: X.\ncommand: [ls]\noutput: json\noutput_schema: {type: map}\n":                                          ":5: output_schema: type: got string, want array; type: value must be one of",
		strings.Repeat("#", 1<<20+1): "manifest: read DIR/m.yaml: too many bytes, more than 1048576",
	} {
		dir := t.TempDir()
		file := write(t, filepath.Join(dir, "m.yaml"), manifest, 0o600)
		_, err := exec.Load(t.TempDir(), file, exec.Options{})
		if err == nil {
			t.Errorf("no error for %.80q", manifest)
			continue
		}
		name := manifest[:min(len(manifest), 200)]
		text, _ := strings.CutPrefix(strings.ReplaceAll(err.Error(), dir, "DIR"), "DIR/m.yaml")
		got[name], want[name] = text[:min(len(text), len(problem))], problem
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	twice := t.TempDir()
	for _, name := range []string{"a.yaml", "b.yaml"} {
		write(t, filepath.Join(twice, name), "name: x\ndescription: X.\ncommand: [ls]\n", 0o600)
	}
	if _, err := exec.Load(t.TempDir(), twice, exec.Options{}); err == nil || !strings.HasSuffix(err.Error(), "b.yaml:1: name: \"x\" is also the name of the tool in a.yaml") {
		t.Errorf("two of a name: %v", err)
	}
	for name, problem := range map[string]string{"/no/such/dir": "manifest: stat /no/such/dir: no such file or directory", t.TempDir(): "has no .yaml, .yml or .json"} {
		if _, err := exec.Load(t.TempDir(), name, exec.Options{}); err == nil || !strings.Contains(err.Error(), problem) {
			t.Errorf("%s: %v, want %q", name, err, problem)
		}
	}
}

func TestNewRefusesUnusableManifests(t *testing.T) {
	t.Parallel()
	const manifest = "name: x\ndescription: X.\ncommand: [ls]\n"
	for want, err := range map[string]error{
		"":                          problem(exec.New(t.TempDir(), "m.yaml", []byte(manifest), exec.Options{})),
		"m.yaml: is empty":          problem(exec.New(t.TempDir(), "m.yaml", nil, exec.Options{})),
		"root /no/such: no such":    problem(exec.New("/no/such", "m.yaml", []byte(manifest), exec.Options{})),
		`sandbox "chroot"`:          problem(exec.New(t.TempDir(), "m.yaml", []byte(manifest), exec.Options{Sandbox: "chroot"})),
		"m.yaml:4: input: tool x: ": problem(exec.New(t.TempDir(), "m.yaml", []byte(manifest+"input: {$ref: x}\n"), exec.Options{})),
	} {
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

func problem(_ tool.Tool, err error) error { return err }

func TestCallThatCannotRunProposesNothing(t *testing.T) {
	t.Parallel()
	x, _ := load(t, shows)
	requests, err := x.(tool.Proposer).Propose(t.Context(), tool.Call{Input: json.RawMessage(`{"one":"-rf"}`)})
	if err != nil || len(requests) != 1 || requests[0].Kind != "" {
		t.Errorf("requests = %+v, %v", requests, err)
	}
	if _, err := x.(tool.Proposer).Propose(t.Context(), tool.Call{Input: json.RawMessage(`[]`)}); err == nil {
		t.Error("a list is an input")
	}
}

func FuzzParseManifest(f *testing.F) {
	f.Add([]byte(counts))
	f.Add([]byte(shows))
	f.Add([]byte("command: !tag text\n"))
	f.Fuzz(func(_ *testing.T, data []byte) { _ = exec.ParseManifest(data) })
}

func TestOnlyTheBeginningOfALongManifestIsRead(t *testing.T) { //nolint:paralleltest // it measures allocations
	file := write(t, filepath.Join(t.TempDir(), "m.yaml"), "", 0o600)
	if err := os.Truncate(file, 256<<20); err != nil {
		t.Fatal(err)
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err := exec.Load(t.TempDir(), file, exec.Options{})
	runtime.ReadMemStats(&after)
	if n := after.TotalAlloc - before.TotalAlloc; err == nil || n > 32<<20 {
		t.Errorf("Load = %v, and %d bytes were allocated", err, n)
	}
}
