package main

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// typist is a chat at a terminal that draws.
type typist struct {
	*program

	t    *testing.T
	keys io.Writer
	home string
}

func atTerminal(t *testing.T, args ...string) *typist {
	t.Helper()
	in, keys := io.Pipe()
	p := prepare(t, in, nil)
	p.app.IsIn, p.app.IsOut, p.app.Control = true, true, p.err
	p.start(t, append([]string{"chat"}, args...)...)
	return &typist{p, t, keys, p.app.Getenv("HOME")}
}

// send types a line, and waits for what it leads to.
func (c *typist) send(line, want string) {
	c.t.Helper()
	if _, err := io.WriteString(c.keys, line+"\r"); err != nil {
		c.t.Fatal(err)
	}
	c.err.Await(c.t, want)
}

const changes = `replies:
  - text: I will **change** it.
    calls:
      - {name: fs_write_file, input: {path: a.txt, content: "one\n2\n"}}
  - text: Changed.
  - text: An answer to the fork.
`

func TestAChatAtATerminal(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	script := filepath.Join(dir, "script.yaml")
	for name, text := range map[string]string{script: changes, filepath.Join(dir, "a.txt"): "one\ntwo\n"} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	c := atTerminal(t, "--model", "scripted:"+script, "--tools", "fs", "--allow-write", "--root", dir)
	c.send("/fork", "there is nothing to fork yet")
	c.send("change it", "Run it?")
	for _, want := range []string{"> change it", "I will change it.", "-two", "+2"} {
		if !strings.Contains(c.err.String(), want) {
			t.Errorf("%q is not shown", want)
		}
	}
	c.send("y", "Changed.")
	if data, err := os.ReadFile(filepath.Join(dir, "a.txt")); err != nil || string(data) != "one\n2\n" {
		t.Errorf("the file has %q, %v", data, err)
	}
	first := c.err.AwaitMatch(t, `session ([0-9A-Z]{26})`)
	c.send("/fork 1", "had not started")
	c.send("/fork x", "give the number of an entry")
	c.send("/fork", first+"@6#")
	c.send("and now?", "An answer to the fork.")
	c.send("/sessions 99", "session 99: no such session")
	c.send("/sessions", "2 ")
	c.send("/sessions 2", "session "+first)
	c.send("/nothing", "there is no command /nothing")
	c.send("/help", "lists the commands")
	c.send("/quit", "--session "+first)
	if code := c.end(t); code != 0 {
		t.Errorf("exit code %d", code)
	}
	history, err := os.ReadFile(filepath.Join(c.home, ".local", "state", "turnlog", "history"))
	if err != nil || !strings.Contains(string(history), `"change it"`) || strings.Contains(string(history), `"y"`) {
		t.Errorf("history %q, %v", history, err)
	}
}

// TestAChatReturnsTheTerminalAsItWas ends chats in every way.
func TestAChatReturnsTheTerminalAsItWas(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(c *typist){
		"end of input": func(c *typist) { _, _ = io.WriteString(c.keys, "\x04") },
		"a signal":     func(c *typist) { c.signals <- syscall.SIGTERM },
		"a command":    func(c *typist) { _, _ = io.WriteString(c.keys, "/quit\r") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := atTerminal(t, "--model", "demo", "--store", "")
			c.err.Await(t, "leaves")
			end(c)
			c.end(t)
			const marks, unmarks = "\x1b[?2004h", "\x1b[?2004l"
			if out := c.err.String(); strings.LastIndex(out, marks) < 0 || strings.LastIndex(out, unmarks) < strings.LastIndex(out, marks) {
				t.Errorf("the terminal still marks what is pasted: %q", out)
			}
			if _, err := os.Stat(filepath.Join(c.home, ".local")); !os.IsNotExist(err) {
				t.Errorf("something is kept: %v", err)
			}
		})
	}
}
