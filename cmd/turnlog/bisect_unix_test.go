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
	"testing"

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

// A fork in the middle of a turn goes on with it, and the check sees what came of that. A later search checks no fork that
// was sent something, nor another session with such a name.
func TestABisectionChecksForksWhoseTurnHasEnded(t *testing.T) {
	t.Parallel()
	url, dir := marked(t, node(), "--allow", "mark")
	log := filepath.Join(dir, "log")
	seen := func() []string {
		t.Helper()
		out := succeed(t, url, "bisect", "s", "--check", `cd `+dir+`; echo $TURNLOG_FORK >> log
			test $TURNLOG_ENTRY = 2 || exit 1; ls "$TURNLOG_FORK" || exit 125`)
		if !strings.HasPrefix(out, "s is well after entry 2 and wrong after entry ") {
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
	last := first[0] // the search begins with the last entry
	succeed(t, url, "send", "s-at-2", "--wait", "and now?")
	succeed(t, url, "sessions", "rm", last)
	succeed(t, url, "run", "--session", last+"-2", "--model", "demo", "something else")
	want := slices.Clone(first)
	for i, name := range want {
		switch name {
		case "s-at-2":
			want[i] = "s-at-2-2"
		case last:
			want[i] = last + "-3"
		}
	}
	if again := seen(); !slices.Equal(again, want) {
		t.Errorf("the forks were %v, want %v", again, want)
	}
}

func TestABisectionThatCannotTellEnds(t *testing.T) {
	t.Parallel()
	asking := permission.Default()
	cfg := node()
	cfg.Policy = &asking
	url, dir := marked(t, cfg, "--yes")
	for _, v := range []struct{ check, timeout, want string }{
		{"false", "1m", "the turn of s-at-2 waits: approval pending: mark {} (call call_1_1): decide with "},
		{`sleep 300 & echo $! > ` + dir + `/pid; wait`, "50ms", " does not end within 50ms: --timeout gives it more time"},
		{`true`, "0s", "--timeout"},
	} {
		p := at(t, url, "bisect", "s", "--check", v.check, "--timeout", v.timeout)
		if code := p.end(t); code == cli.CodeOK || !strings.Contains(p.err.String(), v.want) {
			t.Errorf("bisect --check %q --timeout %s exits with %d: %s", v.check, v.timeout, code, p.err)
		}
	}
	gone(t, filepath.Join(dir, "pid"))
	_, err := os.Stat(filepath.Join(dir, "s-at-2"))
	if err == nil {
		t.Error("a call ran that no one approved")
	}
}

// A check that leaves a process behind ends nevertheless, and so does one that an interrupt ends. Neither process lives on.
func TestABisectionLeavesNoProcess(t *testing.T) {
	t.Parallel()
	url, dir := marked(t, node(), "--allow", "mark")
	out := succeed(t, url, "bisect", "s", "--check", `sleep 300 & echo $! > `+dir+`/left; test $TURNLOG_ENTRY = 2`)
	if !strings.HasPrefix(out, "s is well after entry ") {
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
