//go:build unix

package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/turnlog/turnlog/actor"
	"github.com/turnlog/turnlog/internal/cli"
	"github.com/turnlog/turnlog/policy/permission"
	"github.com/turnlog/turnlog/tool"
)

// marking writes a file with the name of the session that calls it.
type marking struct{ dir string }

func (marking) Spec() tool.Spec { return tool.Spec{Name: "mark", Description: "Marks."} }

func (m marking) Call(_ context.Context, c tool.Call) (tool.Output, error) {
	return tool.Output{}, os.WriteFile(filepath.Join(m.dir, string(c.Session)), nil, 0o600)
}

// marked starts a deployment with a session that marked itself in its first turn, and has had a second one.
func marked(t *testing.T, cfg actor.Config, args ...string) (url, dir string) {
	t.Helper()
	dir = t.TempDir()
	url = cellOf(t, cfg, marking{dir})
	slow := scripted(t, `{replies: [{calls: [{name: mark}], delay: 300ms}, {text: Done.}, {text: More.}], repeat: true}`)
	succeed(t, url, append([]string{"run", "--session", "s", "--model", slow, "hello"}, args...)...)
	succeed(t, url, "send", "s", "--wait", "again")
	return url, dir
}

// A fork in the middle of a turn completes it before the check runs. A later search does not check forks that got input,
// or other sessions with such a name.
func TestABisectionChecksForksWhoseTurnHasEnded(t *testing.T) {
	t.Parallel()
	url, dir := marked(t, node(), "--allow", "mark")
	log := filepath.Join(dir, "log")
	seen := func() []string {
		t.Helper()
		out := succeed(t, url, "bisect", "s", "--check", `cd `+dir+`; echo $TURNLOG_FORK >> log
			test $TURNLOG_ENTRY = 2 || exit 1; ls "$TURNLOG_FORK" || exit 125`)
		if !strings.HasPrefix(out, "s: the check passes after entry 2 and fails after entry ") {
			t.Errorf("bisect prints %q", out)
		}
		text, err := os.ReadFile(log)
		if err != nil || os.Remove(log) != nil {
			t.Fatal(err)
		}
		return strings.Fields(string(text))
	}
	first := seen()
	if again := seen(); !slices.Equal(again, first) {
		t.Errorf("the forks were %v, then %v", first, again)
	}
	last, good := first[0], first[1] // the search begins with the last entry, and continues with the first one
	succeed(t, url, "send", good, "--wait", "and now?")
	succeed(t, url, "sessions", "rm", last)
	succeed(t, url, "run", "--session", last+"-2", "--model", "demo", "something else")
	want := slices.Clone(first)
	for i, name := range want {
		switch name {
		case good:
			want[i] = good + "-2"
		case last:
			want[i] = last + "-3"
		}
	}
	if again := seen(); !slices.Equal(again, want) {
		t.Errorf("the forks were %v, want %v", again, want)
	}
}

// Searches with different commands have different forks, also at the same time. The same search does not run twice at once.
func TestBisectionsShareNoForks(t *testing.T) {
	t.Parallel()
	url, dir := marked(t, node(), "--allow", "mark")
	pipe := filepath.Join(dir, "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	check := func(name, before string) string {
		return before + ` echo $TURNLOG_FORK >> ` + filepath.Join(dir, name) + `; test $TURNLOG_ENTRY = 2`
	}
	slow := check("slow", `test -e `+dir+`/begun || { touch `+dir+`/begun; echo begun >&2; cat `+pipe+`; };`)
	state := env{"XDG_STATE_HOME": dir}
	p := prepare(t, nil, state).start(t, "bisect", "s", "--server", url, "--check", slow)
	p.err.Await(t, "begun")
	succeed(t, url, "bisect", "s", "--check", check("quick", ""))
	same := prepare(t, nil, state).start(t, "bisect", "s", "--server", url, "--check", slow)
	if code := same.end(t); code != cli.CodeFailed || !strings.Contains(same.err.String(), "this search of session s runs already") {
		t.Errorf("the same search exits with %d: %s", code, same.err)
	}
	if err := os.WriteFile(pipe, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if code := p.end(t); code != cli.CodeOK {
		t.Errorf("bisect exits with %d: %s", code, p.err)
	}
	forks := map[string]bool{}
	for _, name := range []string{"slow", "quick"} {
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		for fork := range strings.FieldsSeq(string(text)) {
			if forks[fork] {
				t.Errorf("fork %s was checked twice", fork)
			}
			forks[fork] = true
		}
	}
}

func TestABisectionThatCannotTellEnds(t *testing.T) {
	t.Parallel()
	asking := permission.Default()
	cfg := node()
	cfg.Policy = &asking
	url, dir := marked(t, cfg, "--yes")
	fails := func(check, timeout, want string) {
		t.Helper()
		p := at(t, url, "bisect", "s", "--check", check, "--timeout", timeout)
		if code := p.end(t); code == cli.CodeOK || !strings.Contains(p.err.String(), want) {
			t.Errorf("bisect --check %q --timeout %s exits with %d: %s", check, timeout, code, p.err)
		}
	}
	fails("false", "1m", " waits: approval pending: mark {} (call call_1_1): decide with ")
	fails("true", "0s", "--timeout")
	pid := filepath.Join(dir, "pid")
	for timeout := 50 * time.Millisecond; ; timeout *= 2 { // until it is enough for the shell to start
		fails(`sleep 300 & echo $! > `+pid+`; wait`, timeout.String(), " did not end within "+timeout.String()+": give it more time with --timeout")
		if _, err := os.Stat(pid); err == nil || t.Failed() {
			break
		}
	}
	gone(t, pid)
	ran, err := filepath.Glob(filepath.Join(dir, "s-at-*"))
	if err != nil || len(ran) > 0 {
		t.Errorf("calls ran that no one approved: %v, %v", ran, err)
	}
}

// A check that leaves a process running ends nevertheless, and so does an interrupted check. Neither process survives.
func TestABisectionLeavesNoProcess(t *testing.T) {
	t.Parallel()
	url, dir := marked(t, node(), "--allow", "mark")
	out := succeed(t, url, "bisect", "s", "--check", `sleep 300 & echo $! > `+dir+`/left; test $TURNLOG_ENTRY = 2`)
	if !strings.HasPrefix(out, "s: the check passes after entry ") {
		t.Errorf("bisect prints %q", out)
	}
	gone(t, filepath.Join(dir, "left"))

	p := at(t, url, "bisect", "s", "--check", `sleep 300 & echo $! > `+dir+`/cut; echo begun >&2; wait`)
	p.err.Await(t, "begun")
	p.signals <- os.Interrupt
	if code := p.end(t); code != 130 {
		t.Errorf("after an interrupt, bisect exits with %d: %s", code, p.err)
	}
	gone(t, filepath.Join(dir, "cut"))
}

// gone fails the test if the process still runs whose ID is in a file.
func gone(t *testing.T, file string) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err == nil && !strings.Contains(string(stat), ") Z ") {
		t.Errorf("process %d of %s still runs", pid, filepath.Base(file))
	}
}
