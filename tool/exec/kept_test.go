//go:build unix

package exec_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/internal/sandbox"
	"github.com/turnlog/turnlog/tool"
	"github.com/turnlog/turnlog/tool/exec"
	"github.com/turnlog/turnlog/tool/tooltest"
)

// in runs a script in a kept shell of a session. It returns the result and the shell's
// name.
func in(t *testing.T, x tool.Tool, session content.SessionID, a args) (r content.ToolResult, name string) {
	t.Helper()
	raw, err := json.Marshal(a)
	if err != nil {
		t.Fatal(err)
	}
	r = tool.Invoke(t.Context(), x, tool.Call{Session: session, ID: "c1", Input: raw}).Result
	if m := regexp.MustCompile(`\[shell ([a-z0-9]{8}) `).FindStringSubmatch(r.Text()); m != nil {
		name = m[1]
	}
	return r, name
}

// written returns the output of the script.
func written(r content.ToolResult) string {
	text, _, _ := strings.Cut(r.Text(), "[shell ")
	return text
}

func TestKeptShellIsNamedInEachResultUntilItEnds(t *testing.T) {
	t.Parallel()
	x, root := newShell(t, exec.Options{Shells: 4})
	r, name := in(t, x, "s", args{"shell": "new", "script": `mkdir "sub dir"; cd "sub dir"; echo began`})
	real, err := filepath.EvalSymlinks(root)
	if err != nil {
		t.Fatal(err)
	}
	if want := fmt.Sprintf("began\n[shell %s in %s/sub dir: set shell to %q to continue in it]\n", name, real, name); r.Output[0].Text != want {
		t.Fatalf("begin: %q, want %q", r.Output[0].Text, want)
	}
	if r, _ := in(t, x, "s", args{"shell": name, "script": "true", "end_shell": true}); !strings.Contains(r.Text(), "[shell "+name+" has ended]") {
		t.Errorf("end: %q", r.Text())
	}
	if r, _ := in(t, x, "s", args{"shell": name, "script": "true"}); r.Code != exec.CodeShellGone {
		t.Errorf("after the end: %q %q", r.Code, r.Text())
	}
	left, err := filepath.Glob(filepath.Join(os.TempDir(), "turnlog-shell-*", "before"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range left {
		if raw, err := os.ReadFile(file); err == nil && strings.Contains(string(raw), root) {
			t.Errorf("%s is left", file)
		}
	}
}

func TestKeptShellKeepsItsStateBetweenScripts(t *testing.T) {
	t.Parallel()
	type step struct {
		in   args
		want string // matches the output of the script
		note string // a part of what the tool says about the shell
	}
	big := "i=0; v=xxxxxxxxxx; while [ $i -lt 13 ]; do v=$v$v; i=$((i+1)); done; export V=$v A=3"
	for name, row := range map[string]struct {
		begin args
		steps []step
	}{
		"variables and the directory": {
			args{"script": "mkdir \"sub dir\"; cd \"sub dir\"; export A=\"it's\ntwo lines\"; B=unexported", "env": map[string]string{"C": "$(no)'"}},
			[]step{
				{args{"script": `basename "$PWD"; echo "$A-$B-$C"`}, "^sub dir\nit's\ntwo lines--\\$\\(no\\)'\n$", ""},
				{args{"script": "cd ..; exit 3"}, `\[exit status 3\]\n$`, ""},
				{args{"script": `case "$PWD" in *"sub dir") ;; *) echo moved ;; esac`}, "^moved\n$", ""},
				{args{"script": "unset A; set -e; false; echo no"}, `\[exit status 1\]\n$`, ""},
				{args{"script": "echo [$A]", "env": map[string]string{"C": "new"}}, `^\[\]\n$`, ""},
				{args{"script": "echo $C; pwd | grep -c sub", "cwd": "sub dir"}, "^new\n1\n$", ""},
				{args{"script": "echo ${PWD##*/}"}, "^sub dir\n$", ""},
			},
		},
		"lines of the script in messages": {args{"script": "export A='one\ntwo'"}, []step{
			{
				args{"script": "no_such_function\necho \"$A\" $B", "env": map[string]string{"B": "three\nfour"}},
				`^\S+ (line )?1: no_such_function: (command )?not found\none\ntwo three four\n$`, "",
			},
			{args{"script": "# remark\necho \"$A\""}, "^one\ntwo\n$", ""},
		}},
		"a script with a syntax error changes nothing": {args{"script": "export A=1"}, []step{
			{args{"script": "export A=2; if then fi"}, "", "did not finish, so it is unchanged"},
			{args{"script": "echo $A"}, "^1\n$", ""},
		}},
		"a script that runs out of time changes nothing": {args{"script": "export A=1"}, []step{
			{args{"script": "export A=2; sleep 60", "timeout_seconds": 0.1}, "", "so it is unchanged"},
			{args{"script": "echo $A; exec true"}, "^1\n$", ""},
		}},
		"too many variables are not kept": {args{"script": "export A=1"}, []step{
			{args{"script": big}, "", "too many variables to keep"},
			{args{"script": "echo $A"}, "^1\n$", ""},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			x, _ := newShell(t, exec.Options{Shells: 1})
			row.begin["shell"] = "new"
			_, shell := in(t, x, "s", row.begin)
			for i, step := range row.steps {
				step.in["shell"] = shell
				r, again := in(t, x, "s", step.in)
				if again != shell || !regexp.MustCompile(step.want).MatchString(written(r)) || !strings.Contains(r.Text(), step.note) {
					t.Errorf("step %d: %q, want %s and %q", i, r.Text(), step.want, step.note)
				}
			}
		})
	}
}

func TestShellsBelongToTheirSessionAndWorker(t *testing.T) {
	t.Parallel()
	x, _ := newShell(t, exec.Options{Shells: 4})
	other, _ := newShell(t, exec.Options{Shells: 4})
	_, name := in(t, x, "s", args{"shell": "new", "script": "true"})
	for name, r := range map[string]content.ToolResult{
		"another session": first(in(t, x, "other", args{"shell": name, "script": "true"})),
		"another worker":  first(in(t, other, "s", args{"shell": name, "script": "true"})),
		"a made-up name":  first(in(t, x, "s", args{"shell": "main", "script": "true"})),
	} {
		if r.Code != exec.CodeShellGone || !strings.Contains(r.Text(), "another worker") {
			t.Errorf("%s: %q %q", name, r.Code, r.Text())
		}
	}
}

func first(r content.ToolResult, _ string) content.ToolResult { return r }

func TestNumberOfShellsIsLimited(t *testing.T) {
	t.Parallel()
	x, _ := newShell(t, exec.Options{Shells: 2})
	var names []string
	for range 3 {
		_, name := in(t, x, "s", args{"shell": "new", "script": "true"})
		names = append(names, name)
	}
	for i, name := range names {
		r, _ := in(t, x, "s", args{"shell": name, "script": "true"})
		if gone := r.Code == exec.CodeShellGone; gone != (i == 0) {
			t.Errorf("shell %d: %q %q", i, r.Code, r.Text())
		}
	}
}

func TestIdleShellsEnd(t *testing.T) {
	t.Parallel()
	x, _ := newShell(t, exec.Options{Shells: 2, ShellIdle: time.Nanosecond})
	_, name := in(t, x, "s", args{"shell": "new", "script": "true"})
	if r, _ := in(t, x, "s", args{"shell": name, "script": "true"}); r.Code != exec.CodeShellGone {
		t.Errorf("%q %q", r.Code, r.Text())
	}
}

func TestKeptShellRunsOneCallAtATime(t *testing.T) {
	t.Parallel()
	x, root := newShell(t, exec.Options{Shells: 2})
	_, name := in(t, x, "s", args{"shell": "new", "script": "mkfifo go"})
	done := make(chan content.ToolResult)
	go func() {
		r, _ := in(t, x, "s", args{"shell": name, "script": "echo > begun; read line < go"})
		done <- r
	}()
	fifo, err := os.OpenFile(filepath.Join(root, "go"), os.O_WRONLY, 0) // waits for its reader
	if err != nil {
		t.Fatal(err)
	}
	if r, _ := in(t, x, "s", args{"shell": name, "script": "true"}); r.Code != exec.CodeShellBusy {
		t.Errorf("%q %q", r.Code, r.Text())
	}
	if _, err := fifo.WriteString("x\n"); err != nil {
		t.Error(err)
	}
	_ = fifo.Close()
	if r := <-done; r.Status != content.StatusOK {
		t.Error(r.Text())
	}
}

func TestShellArguments(t *testing.T) {
	t.Parallel()
	x, _ := newShell(t, exec.Options{Shells: 2})
	for _, a := range []args{
		{"shell": "new", "argv": []string{"ls"}},
		{"end_shell": true, "script": "true"},
		{"shell": "new", "script": "true", "env": map[string]string{"A-B": "x"}},
		{"shell": "new"},
	} {
		if r, _ := in(t, x, "s", a); r.Code != tool.CodeInvalidArguments {
			t.Errorf("%v: %q %q", a, r.Code, r.Text())
		}
	}
	plain, _ := newShell(t, exec.Options{})
	if r, _ := in(t, plain, "s", args{"shell": "new", "script": "true"}); r.Code != tool.CodeInvalidArguments || strings.Contains(plain.Spec().Description, "new") {
		t.Errorf("not offered: %q %q", r.Code, r.Text())
	}
	tooltest.Run(t, x, tooltest.Case{Name: "new", Input: `{"shell":"new","script":"echo x"}`, Text: "x"})
}

// TestCommandsRunInAnAvailableSandbox checks the tool in the sandbox that auto finds. If
// there is none, the tool must say so.
func TestCommandsRunInAnAvailableSandbox(t *testing.T) {
	t.Parallel()
	x, _ := newShell(t, exec.Options{Shells: 2, Sandbox: sandbox.Auto})
	box, _, err := sandbox.Open(t.Context(), sandbox.Auto, false)
	if err != nil {
		t.Fatal(err)
	}
	confined := box.Name() != sandbox.None
	if noted := strings.Contains(x.Spec().Description, "They have no network."); noted != confined {
		t.Errorf("the sandbox is %s, the description says: %s", box.Name(), x.Spec().Description)
	}
	outside := filepath.Join(t.TempDir(), "x")
	_, name := in(t, x, "s", args{"shell": "new", "script": "echo a > inside; export A=1; echo b > " + outside})
	if r, _ := in(t, x, "s", args{"shell": name, "script": "cat inside; echo $A"}); written(r) != "a\n1\n" {
		t.Errorf("kept: %q", r.Text())
	}
	if _, err := os.Stat(outside); (err == nil) == confined {
		t.Errorf("sandbox %s: written outside: %v", box.Name(), err == nil)
	}
	r, _ := in(t, x, "s", args{"argv": []string{"sh", "-c", "sleep 60 & echo $$ && sleep 60"}, "timeout_seconds": 0.3})
	if r.Code != tool.CodeTimeout {
		t.Errorf("time: %q %q", r.Code, r.Text())
	}
}
