package main

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/turnlog/turnlog/cmd/turnlog/internal/app"
	"github.com/turnlog/turnlog/internal/testing/clitest"
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

// TestAQuestionSaysThatAFileStaysTheSame has a call that writes the content that a file already has.
func TestAQuestionSaysThatAFileStaysTheSame(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "a.txt"), []byte("x\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	p := prepare(t, strings.NewReader(""), nil)
	lines := make(chan app.Line, 3)
	p.app.IsIn, p.app.Typed, p.app.Ready = true, lines, func(bool) {}
	script := scripted(t, "replies:\n  - calls: [{name: fs_write_file, input: {path: a.txt, content: \"x\\n\"}}]\n")
	p.start(t, "chat", "--model", script, "--tools", "fs", "--allow-write", "--root", dir, "--store", "")
	lines <- app.Line{Text: "write"}
	p.err.Await(t, "Run it?")
	if shown := p.err.String(); !strings.Contains(shown, "does not change a.txt") || strings.Contains(shown, "    changes") {
		t.Errorf("the question is %s", shown)
	}
	lines <- app.Line{Text: "n", Answer: true}
	lines <- app.Line{Text: "/quit"}
	p.end(t)
}

// TestOnlyWhatWasSentAsAnAnswerIsOne sends lines just before and after a question, as a user does who has not seen it
// yet.
func TestOnlyWhatWasSentAsAnAnswerIsOne(t *testing.T) {
	t.Parallel()
	p := prepare(t, strings.NewReader(""), nil)
	lines := make(chan app.Line, 10)
	p.app.IsIn, p.app.Typed, p.app.Ready = true, lines, func(bool) {}
	script := scripted(t, "replies:\n  - calls: [{name: fs_write_file, input: {path: a.txt, content: x}}]\n  - {text: \"You said {{.Prompt}}.\", repeat: true}\n")
	p.start(t, "chat", "--model", script, "--tools", "fs", "--allow-write", "--root", t.TempDir(), "--store", "")
	lines <- app.Line{Text: "write"}
	p.err.Await(t, "Run it?")
	lines <- app.Line{Text: "yes, and then?"}
	lines <- app.Line{Text: "y", Late: true}
	p.err.Await(t, "that question is closed")
	lines <- app.Line{Text: "n not now", Answer: true}
	p.err.Await(t, "✗ fs_write_file")
	p.out.Await(t, "You said yes, and then?.")
	lines <- app.Line{Text: "y", Answer: true} // the turn ended before
	lines <- app.Line{Text: "/quit"}
	if code := p.end(t); code != 0 || strings.Count(p.err.String(), "that question is closed") != 2 || strings.Contains(p.out.String(), "said y.") {
		t.Errorf("code %d, out %q, err %q", code, p.out, p.err)
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
			c.err.Await(t, "Ctrl-D exits")
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

// TestAChatGoesOnWhenItsNodeIsKilled kills the node in the middle of a reply. Another one takes over.
func TestAChatGoesOnWhenItsNodeIsKilled(t *testing.T) {
	t.Parallel()
	var calls atomic.Int32
	provider := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "text/event-stream")
		say := func(text, reason string) {
			_, _ = fmt.Fprintf(w, `data: {"id":"x","object":"chat.completion.chunk","model":"m","choices":[{"index":0,"delta":{"content":%q},"finish_reason":%s}]}`+"\n\n", text, reason)
			_ = http.NewResponseController(w).Flush()
		}
		if calls.Add(1) == 1 {
			for tick := time.NewTicker(20 * time.Millisecond); ; { // who follows a turn may miss its first pieces
				say("Half a reply ", "null")
				select {
				case <-tick.C:
				case <-r.Context().Done(): // its node is killed
					return
				}
			}
		}
		say("Half a reply and the rest.", `"stop"`)
		_, _ = io.WriteString(w, "data: [DONE]\n\n")
	}))
	t.Cleanup(provider.Close)
	bin, err := clitest.Build(t.Context(), "./cmd/turnlog", "./cmd/driver-node")
	if err != nil {
		t.Fatal(err)
	}
	site := clitest.NewCell(t, bin, "OPENAI_BASE_URL="+provider.URL)
	site.Run(0, "turnlog", "provision")
	nodes := []*clitest.Program{site.Start("driver-node"), nil}
	nodes[0].Await(t, "node started")
	c := atTerminal(t, "--server", site.NATS, "--model", "openai:m?api=chat")
	c.send("go", "Half a reply")
	nodes[1] = site.Start("driver-node")
	nodes[1].Await(t, "node started")
	nodes[0].Kill()
	c.err.Await(t, "[the reply starts again]")
	c.err.Await(t, "Half a reply and the rest.")
	before := len(c.err.String())
	c.send("more", "> more")
	c.err.AwaitMatch(t, `(?s)> more.*Half a reply and the rest\.`)
	c.send("/quit", "continues this chat")
	if code := c.end(t); code != 0 {
		t.Errorf("exit code %d, %q", code, c.err.String()[before:])
	}
	id := c.err.AwaitMatch(t, `session ([0-9A-Z]{26})`)
	if out := site.Run(0, "turnlog", "sessions", "show", id); !strings.Contains(out, "idle") {
		t.Errorf("the session is %s", out)
	}
}

// stalled is an output that takes nothing while it is locked.
type stalled struct {
	sync.Mutex
	*clitest.Screen
}

func (s *stalled) Write(b []byte) (int, error) {
	s.Lock()
	defer s.Unlock()
	return s.Screen.Write(b)
}

// TestAnOutputThatStandsStillHoldsNoSession blocks the output of a chat without a terminal until its turn is over. Live pieces of
// the reply may be lost then, and the full reply is printed again.
func TestAnOutputThatStandsStillHoldsNoSession(t *testing.T) {
	t.Parallel()
	url := cellOf(t, node())
	text := strings.Repeat("word ", 5000) + "end"
	p := prepare(t, strings.NewReader("go\n"), nil)
	out := &stalled{Screen: p.out}
	p.app.Out = out
	out.Lock()
	p.start(t, "chat", "--session", "s", "--model", scripted(t, "replies:\n  - {text: \""+text+"\", chunk: 5}\n"), "--server", url)
	for end := time.Now().Add(clitest.Patience); ; { // until another client has all of it
		w := at(t, url, "wait", "s")
		if w.end(t) == 0 {
			break
		}
		if time.Now().After(end) {
			out.Unlock()
			t.Fatal("the turn did not end")
		}
	}
	out.Unlock()
	code, all := p.end(t), p.out.String()
	if again := strings.Contains(p.err.String(), "the full reply is"); code != 0 || !strings.HasSuffix(all, text+"\n") || again == (all == text+"\n") {
		t.Errorf("code %d, out %.100q… of %d, err %s", code, p.out, len(p.out.String()), p.err)
	}
}
