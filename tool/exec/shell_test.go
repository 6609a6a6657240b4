//go:build unix

package exec_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/internal/testing/sample"
	"github.com/turnlog/turnlog/tool"
	"github.com/turnlog/turnlog/tool/exec"
	"github.com/turnlog/turnlog/tool/tooltest"
)

func newShell(t *testing.T, opts exec.Options) (x tool.Tool, root string) {
	t.Helper()
	root = t.TempDir()
	if opts.Grace == 0 {
		opts.Grace = 500 * time.Millisecond
	}
	x, err := exec.NewShell(root, opts)
	if err != nil {
		t.Fatal(err)
	}
	return x, root
}

type args map[string]any

func invoke(ctx context.Context, t *testing.T, x tool.Tool, in args) tool.Result {
	t.Helper()
	raw, err := json.Marshal(in)
	if err != nil {
		t.Fatal(err)
	}
	return tool.Invoke(ctx, x, tool.Call{ID: "c1", Input: raw})
}

type exit struct {
	Code     int    `json:"exit_code"`
	Signal   string `json:"signal"`
	Duration int64  `json:"duration_ms"`
	Cut      int64  `json:"cut_bytes"`
}

// run returns the output of a command that must run.
func run(t *testing.T, x tool.Tool, in args) (string, exit) {
	t.Helper()
	r := invoke(t.Context(), t, x, in).Result
	if r.Status != content.StatusOK || len(r.Output) != 2 {
		t.Fatalf("%v: %s: %s", in, r.Status, r.Text())
	}
	var e exit
	if err := json.Unmarshal(r.Output[1].Data, &e); err != nil {
		t.Fatal(err)
	}
	return r.Output[0].Text, e
}

func TestShellHoldsTheContract(t *testing.T) {
	t.Parallel()
	x, _ := newShell(t, exec.Options{})
	tooltest.Run(
		t, x,
		tooltest.Case{Name: "argv", Input: `{"argv":["echo","$HOME *"]}`, Text: "$HOME *\n"},
		tooltest.Case{Name: "script", Input: `{"script":"exit 3"}`, Text: `[exit status 3]`},
		tooltest.Case{Name: "neither", Input: `{}`, Status: content.StatusError, Code: tool.CodeInvalidArguments},
		tooltest.Case{Name: "sleeps", Input: `{"argv":["sleep","100"]}`, Blocks: true},
		tooltest.Case{Name: "child sleeps", Input: `{"script":"sleep 100; true"}`, Blocks: true},
	)
	if spec := x.Spec(); spec.Effects != content.Once || spec.Writes || spec.Exclusive {
		t.Errorf("spec = %+v", spec)
	}
}

func TestOutputAndExitStatus(t *testing.T) {
	t.Parallel()
	x, _ := newShell(t, exec.Options{})
	for script, want := range map[string]struct {
		text   string
		code   int
		signal string
	}{
		"echo one; echo two >&2; echo three": {"one\ntwo\nthree\n", 0, ""},
		"printf unended":                     {"unended\n", 0, ""},
		"true":                               {"[no output]\n", 0, ""},
		"echo no; exit 7":                    {"no\n[exit status 7]\n", 7, ""},
		"kill -9 $$":                         {"[no output]\n[signal: killed]\n", -1, "killed"},
		`printf 'caf\351 ok'`:                {"caf\uFFFD ok\n", 0, ""},
		"cat":                                {"[no output]\n", 0, ""}, // there is no input
	} {
		text, e := run(t, x, args{"script": script})
		if text != want.text || e.Code != want.code || e.Signal != want.signal || e.Duration < 0 || e.Duration > 60_000 {
			t.Errorf("%s: %q, %+v; want %q, %d, %q", script, text, e, want.text, want.code, want.signal)
		}
	}
}

func TestArgvIsPassedUnchanged(t *testing.T) {
	t.Parallel()
	x, root := newShell(t, exec.Options{})
	text, _ := run(t, x, args{"argv": []string{"printf", "<%s>", "a b", "$HOME", "*", "'", "é\n", ""}})
	if want := "<a b><$HOME><*><'><é\n><>\n"; text != want {
		t.Errorf("output = %q, want %q", text, want)
	}
	sample.WriteProgram(t, filepath.Join(root, "own.sh"), "#!/bin/sh\necho \"$0\" ran in \"$PWD\"\n", 0o755)
	if text, _ := run(t, x, args{"argv": []string{"./own.sh"}}); text != "./own.sh ran in "+root+"\n" {
		t.Errorf("output = %q", text)
	}
}

func TestCommandBeginsWithinTheRoot(t *testing.T) {
	t.Parallel()
	x, root := newShell(t, exec.Options{})
	if err := os.MkdirAll(filepath.Join(root, "a", "b"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(root, "file"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(t.TempDir(), filepath.Join(root, "out")); err != nil {
		t.Fatal(err)
	}
	for cwd, want := range map[string]string{"": "", ".": "", "a/b": "/a/b", "a/../a/b/": "/a/b", root + "/a": "/a"} {
		if text, _ := run(t, x, args{"argv": []string{"pwd"}, "cwd": cwd}); text != root+want+"\n" {
			t.Errorf("cwd %q: %s, want %s", cwd, text, root+want)
		}
	}
	for cwd, want := range map[string]struct{ code, text string }{
		"..":      {tool.CodeDenied, `Tool failed: path ".." is outside the root: use a path relative to it`},
		"/":       {tool.CodeDenied, `Tool failed: path "/" is outside the root: use a path relative to it`},
		"a/../..": {tool.CodeDenied, `Tool failed: path "a/../.." is outside the root: use a path relative to it`},
		"out":     {tool.CodeDenied, "Tool failed: cwd: out leads out of the root through a symbolic link, which is not followed"},
		"none":    {tool.CodeNoFile, "Tool failed: cwd: none does not exist"},
		"file":    {tool.CodeFileSystem, "Tool failed: cwd: file is not a directory"},
	} {
		r := invoke(t.Context(), t, x, args{"argv": []string{"pwd"}, "cwd": cwd}).Result
		if r.Text() != want.text || r.Code != want.code {
			t.Errorf("cwd %q: %q, %s; want %q, %s", cwd, r.Text(), r.Code, want.text, want.code)
		}
	}
}

func TestEnvironmentIsSmall(t *testing.T) {
	t.Setenv("TURNLOG_SECRET", "hunter2")
	t.Setenv("HOME", "/home/somebody")
	x, root := newShell(t, exec.Options{Env: []string{"TZ=UTC", "MODE=host"}})
	text, _ := run(t, x, args{"argv": []string{"env"}, "env": map[string]string{"MODE": "call", "X": "a=b c"}})
	var got []string
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		if key, _, _ := strings.Cut(line, "="); key == "PATH" || key == "LANG" || key == "TMPDIR" {
			continue
		}
		got = append(got, line)
	}
	slices.Sort(got)
	want := []string{"HOME=/home/somebody", "MODE=call", "PWD=" + root, "TZ=UTC", "X=a=b c"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("environment (-want +got):\n%s", diff)
	}
}

func TestCommandsThatCannotRun(t *testing.T) {
	t.Parallel()
	x, root := newShell(t, exec.Options{})
	for name, content := range map[string]string{"text": "hello", "lost": "#!/no/such/interpreter\n", "odd": "\x7fELF nonsense"} {
		mode := os.FileMode(0o755)
		if name == "text" {
			mode = 0o644
		}
		sample.WriteProgram(t, filepath.Join(root, name), content, mode)
	}
	for _, row := range []struct {
		in         args
		code, text string
	}{
		{args{"argv": []string{"no-such-program"}, "env": map[string]string{"PATH": "/bin:relative"}}, exec.CodeNoProgram, `Tool failed: program "no-such-program" is not in PATH (/bin:relative): check the name, or give the path of its file`},
		{args{"argv": []string{"text"}, "env": map[string]string{"PATH": root}}, exec.CodeNoProgram, `Tool failed: program "text" is not in PATH (` + root + `): check the name, or give the path of its file`},
		{args{"argv": []string{"./none"}}, exec.CodeNoProgram, `Tool failed: program "./none" does not exist, or its interpreter does not`},
		{args{"argv": []string{"./lost"}}, exec.CodeNoProgram, `Tool failed: program "./lost" does not exist, or its interpreter does not`},
		{args{"argv": []string{"./text"}}, exec.CodeNotRun, `Tool failed: program "./text" cannot be run: it is not executable`},
		{args{"argv": []string{"./odd"}}, exec.CodeNotRun, `Tool failed: program "./odd" cannot be run: exec format error`},
		{args{"argv": []string{}}, tool.CodeInvalidArguments, `Invalid arguments: argv: minItems: got 0, want 1`},
		{args{}, tool.CodeInvalidArguments, `Invalid arguments: argv, script: give one of them`},
		{args{"argv": []string{"a"}, "script": "b"}, tool.CodeInvalidArguments, `Invalid arguments: argv, script: give one of them, not both`},
		{args{"argv": []string{""}}, tool.CodeInvalidArguments, `Invalid arguments: argv[0]: is empty, want a program`},
		{args{"argv": []string{"a", "b\x00"}}, tool.CodeInvalidArguments, `Invalid arguments: argv, script: an argument cannot contain a NUL character`},
		{args{"script": "true", "env": map[string]string{"A=B": "x"}}, tool.CodeInvalidArguments, `Invalid arguments: env: "A=B" is not a variable name, or its value contains a NUL character`},
		{args{"script": "true", "timeout_seconds": 0}, tool.CodeInvalidArguments, `Invalid arguments: timeout_seconds: exclusiveMinimum: got 0, want 0`},
		{args{"script": "true", "timeout_seconds": 601}, tool.CodeInvalidArguments, `Invalid arguments: timeout_seconds: maximum: got 601, want 600`},
	} {
		r := invoke(t.Context(), t, x, row.in).Result
		if r.Text() != row.text || r.Code != row.code {
			t.Errorf("%v:\n got %q, %s\nwant %q, %s", row.in, r.Text(), r.Code, row.text, row.code)
		}
	}
}

// TestHugeOutputFitsInMemory is not parallel because it measures allocations.
func TestHugeOutputFitsInMemory(t *testing.T) {
	x, _ := newShell(t, exec.Options{})
	const size = 100 << 20
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	text, e := run(t, x, args{"script": fmt.Sprintf("echo first; head -c %d /dev/zero | tr '\\0' x; echo; echo last", size)})
	runtime.ReadMemStats(&after)
	if len(text) > 1<<20 || !strings.HasPrefix(text, "first\nxxx") || !strings.HasSuffix(text, "xxx\nlast\n") {
		t.Errorf("%d bytes: %q … %q", len(text), text[:min(len(text), 20)], text[max(0, len(text)-20):])
	}
	if e.Cut < size-1<<20 || !strings.Contains(text, fmt.Sprintf("\n[… %d bytes were cut here …]\n", e.Cut)) {
		t.Errorf("%d bytes were cut, which the text does not say", e.Cut)
	}
	if used := after.TotalAlloc - before.TotalAlloc; used > 32<<20 {
		t.Errorf("%d MiB were allocated for 1 MiB of output", used>>20)
	}
}

// gone waits until a process has ended. A zombie counts.
func gone(t *testing.T, pid int) {
	t.Helper()
	poll(t, fmt.Sprintf("process %d to end", pid), func() bool {
		if errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) {
			return true
		}
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		_, state, _ := strings.Cut(string(stat), ") ")
		return err == nil && strings.HasPrefix(state, "Z")
	})
}

// readPID waits for a file with a process ID.
func readPID(t *testing.T, name string) (pid int) {
	t.Helper()
	poll(t, name, func() bool {
		raw, err := os.ReadFile(name)
		return err == nil && strings.HasSuffix(string(raw), "\n") && scanPID(raw, &pid)
	})
	return pid
}

func scanPID(raw []byte, pid *int) bool {
	_, err := fmt.Sscan(string(raw), pid)
	return err == nil
}

func poll(t *testing.T, what string, done func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	patience := time.After(time.Minute)
	for !done() {
		select {
		case <-tick.C:
		case <-patience:
			t.Errorf("timed out waiting for %s", what)
			return
		}
	}
}

// family is a script that starts a child and a grandchild. Each writes its process ID
// to a file and waits.
const family = `
sh -c 'sleep 1000 & echo $! > grandchild; echo $$ > child; wait' &
wait
`

func TestCancelEndsTheWholeFamily(t *testing.T) {
	t.Parallel()
	x, root := newShell(t, exec.Options{})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan tool.Result)
	go func() { done <- invoke(ctx, t, x, args{"script": family}) }()
	pids := []int{readPID(t, filepath.Join(root, "child")), readPID(t, filepath.Join(root, "grandchild"))}
	cancelled := time.Now()
	cancel()
	r := <-done
	if took := time.Since(cancelled); r.Result.Status != content.StatusCancelled || took > 40*time.Second {
		t.Errorf("status %s after %s", r.Result.Status, took)
	}
	for _, pid := range pids {
		gone(t, pid)
	}
}

// timeOut runs a script that writes the file begun, with timeouts that grow until the
// script gets that far.
func timeOut(t *testing.T, x tool.Tool, script, begun string) (r content.ToolResult, timeout time.Duration) {
	t.Helper()
	for timeout = 200 * time.Millisecond; ; timeout *= 4 {
		r = invoke(t.Context(), t, x, args{"script": script, "timeout_seconds": timeout.Seconds()}).Result
		if raw, _ := os.ReadFile(begun); strings.HasSuffix(string(raw), "\n") || timeout > time.Minute {
			return r, timeout
		}
	}
}

func TestTimeoutEndsTheWholeFamilyAndShowsTheOutput(t *testing.T) {
	t.Parallel()
	x, root := newShell(t, exec.Options{})
	r, timeout := timeOut(t, x, "echo begun; "+family, filepath.Join(root, "child"))
	if want := fmt.Sprintf("Tool failed: the command was stopped after %s; until then it wrote:\nbegun\n", timeout); r.Text() != want || r.Code != tool.CodeTimeout {
		t.Errorf("result = %q, %s", r.Text(), r.Code)
	}
	gone(t, readPID(t, filepath.Join(root, "child")))
	gone(t, readPID(t, filepath.Join(root, "grandchild")))

	r = invoke(t.Context(), t, x, args{"argv": []string{"sleep", "100"}, "timeout_seconds": 0.1}).Result
	if r.Text() != "Tool failed: the command was stopped after 100ms; it had written nothing" {
		t.Errorf("result = %q", r.Text())
	}
}

func TestOutputOfATermHandlerIsShown(t *testing.T) {
	t.Parallel()
	x, root := newShell(t, exec.Options{Grace: 30 * time.Second})
	script := "trap 'echo bye; exit 1' TERM; echo >begun; while :; do sleep 0.05; done"
	if r, _ := timeOut(t, x, script, filepath.Join(root, "begun")); !strings.HasSuffix(r.Text(), "bye\n") {
		t.Errorf("%s: %q", r.Code, r.Text())
	}
}

func TestFamilyThatIgnoresTermIsKilled(t *testing.T) {
	t.Parallel()
	x, root := newShell(t, exec.Options{Grace: 100 * time.Millisecond})
	deaf := "trap '' TERM; sh -c 'echo $$ > child; while :; do sleep 100; done' & wait"
	if r, _ := timeOut(t, x, deaf, filepath.Join(root, "child")); r.Code != tool.CodeTimeout {
		t.Errorf("%s: %s", r.Code, r.Text())
	}
	gone(t, readPID(t, filepath.Join(root, "child")))
}

func TestProcessesLeftRunningAreEnded(t *testing.T) {
	t.Parallel()
	for name, script := range map[string]string{
		"holds the output":    "sleep 1000 & echo $! > left; echo done",
		"with its own output": "sleep 1000 >/dev/null 2>&1 & echo $! > left; echo done",
		"keeps writing":       "sh -c 'while :; do echo more; done' >noise & echo $! > left; echo done",
		"ignores TERM":        "sh -c 'trap \"\" TERM; while :; do sleep 100; done' & echo $! > left; echo done",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			x, root := newShell(t, exec.Options{})
			if text, e := run(t, x, args{"script": script}); text != "done\n" || e.Code != 0 {
				t.Errorf("%q, %d", text, e.Code)
			}
			gone(t, readPID(t, filepath.Join(root, "left")))
		})
	}
}

func TestLateOutputOfChildrenIsIncluded(t *testing.T) {
	t.Parallel()
	x, _ := newShell(t, exec.Options{})
	text, _ := run(t, x, args{"script": "(sleep 0.2; echo late) & echo early"})
	if text != "early\nlate\n" {
		t.Errorf("output = %q", text)
	}
}

func TestProcessOfAnotherSessionIsNotWaitedFor(t *testing.T) {
	t.Parallel()
	x, root := newShell(t, exec.Options{})
	start := time.Now()
	text, _ := run(t, x, args{"script": "setsid sh -c 'echo $$ > away; exec sleep 1000' & echo done"})
	if took := time.Since(start); text != "done\n" || took > 40*time.Second {
		t.Errorf("%q after %s", text, took)
	}
	pid := readPID(t, filepath.Join(root, "away"))
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Errorf("process %d: %v, want it alive", pid, err)
	}
	gone(t, pid)
}

func TestProgressReportsTheLastLine(t *testing.T) {
	t.Parallel()
	x, root := newShell(t, exec.Options{})
	raw, err := json.Marshal(args{"script": `
for step in one two three; do
	printf 'working\n\n%s\r\n\n' $step
	until [ -e $step ]; do sleep 0.01; done
done
printf 'never reported'`})
	if err != nil {
		t.Fatal(err)
	}
	var reports []string
	r := tool.Invoke(t.Context(), x, tool.Call{ID: "c1", Input: raw, Progress: func(text string, share float64) {
		if share != 0 {
			t.Errorf("share = %v of something unknown", share)
		}
		if reports = append(reports, text); text == "working" { // the step is still to come
			return
		}
		if err := os.WriteFile(filepath.Join(root, text), nil, 0o644); err != nil {
			t.Error(err)
		}
	}})
	if r.Result.Status != content.StatusOK {
		t.Error(r.Result.Text())
	}
	reports = slices.DeleteFunc(reports, func(s string) bool { return s == "working" || s == "never reported" })
	if diff := cmp.Diff([]string{"one", "two", "three"}, reports); diff != "" {
		t.Error(diff)
	}
}

func TestPermissionRequest(t *testing.T) {
	t.Parallel()
	x, _ := newShell(t, exec.Options{})
	for in, want := range map[string]string{
		`{"argv":["rm","-r","a b"],"cwd":"x/../y"}`:  `shell.command run rm -r a b {"argv":["rm","-r","a b"],"cwd":"y"}`,
		`{"script":"a | b","env":{"B":"2","A":"1"}}`: `shell.command run a | b {"argv":["/bin/sh","-c","a | b"],"cwd":".","env":["A","B"],"values":"3eda2f06741f1d082a60e34bf134dace8b60136ae69b552a2137bd898f27ea85"}`,
	} {
		rs, err := x.(tool.Proposer).Propose(t.Context(), tool.Call{Input: json.RawMessage(in)})
		if err != nil || len(rs) != 1 {
			t.Fatalf("%s: %v, %v", in, rs, err)
		}
		if got := rs[0].Kind + " " + rs[0].Summary + " " + string(rs[0].Target); got != want {
			t.Errorf("%s: %s, want %s", in, got, want)
		}
	}
}

func TestRootAndSandboxMustBeUsable(t *testing.T) {
	t.Parallel()
	missing := filepath.Join(t.TempDir(), "missing")
	want := "root " + missing + ": no such directory: create it or name another one"
	if _, err := exec.NewShell(missing, exec.Options{}); err == nil || err.Error() != want {
		t.Errorf("error = %v, want %s", err, want)
	}
	if _, err := exec.NewShell(t.TempDir(), exec.Options{Sandbox: "chroot"}); err == nil || !strings.Contains(err.Error(), `sandbox "chroot"`) {
		t.Errorf("an unknown sandbox: %v", err)
	}
}
