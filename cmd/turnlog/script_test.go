package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/turnlog/turnlog/cmd/turnlog/internal/app"
	"github.com/turnlog/turnlog/internal/cli"
	"github.com/turnlog/turnlog/internal/testing/clitest"
	"github.com/turnlog/turnlog/internal/testing/golden"
	"github.com/turnlog/turnlog/tool"
)

var update = golden.Flag()

// TestScripts runs the scripts in testdata/script. Commands run in this process, with
// the files of the script in $WORK. Besides the commands of testscript there are:
//
//	turnlog ARG...           runs a command; "! turnlog" expects it to fail
//	code N                   checks the exit code of the last command
//	in TEXT                  what the next command reads from stdin
//	terminal                 the next command has a terminal for stdin and stdout
//	deploy [TOOL...]         starts a deployment with test tools and sets NATS_URL
//	start NAME ARG...        starts a command in the background
//	await NAME TEXT          waits until it prints TEXT
//	type NAME TEXT           types a line at its terminal
//	interrupt NAME           sends it an interrupt
//	end NAME                 waits for its end; it is the last command then
//	release                  ends all calls of the tool "wait"
//	until TEXT ARG...        runs a command until it prints TEXT
//	usage CODE FILE          runs the commands in a file, one per line: ARG... | the
//	                         words that it prints on one line as it fails with CODE;
//	                         ~ is a space in an ARG, and s3cret is never printed
//
// In output, times, durations, hashes and generated IDs are replaced by their kind.
func TestScripts(t *testing.T) {
	t.Parallel()
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		UpdateScripts:       *update,
		RequireExplicitExec: true,
		Setup: func(e *testscript.Env) error {
			e.Setenv("HOME", filepath.Join(e.WorkDir, "home")) // testscript's is for programs that write nothing
			e.Values[scriptKey{}] = &script{t: e.T().(testing.TB), running: make(map[string]*program)}
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"turnlog": with((*script).turnlog), "code": with((*script).code), "in": with((*script).in), "terminal": with((*script).terminal),
			"deploy": with((*script).deploy), "start": with((*script).start), "await": with((*script).await), "type": with((*script).typeLine),
			"usage": with((*script).usage), "interrupt": with((*script).interrupt), "end": with((*script).end), "release": with((*script).release), "until": with((*script).until),
		},
	})
}

type scriptKey struct{}

// script is the state of one script.
type script struct {
	t       testing.TB
	stdin   io.Reader
	isTerm  bool
	keys    io.Writer // of the last terminal
	last    int       // exit code
	running map[string]*program
	waiting chan struct{} // closed by release
}

func with(do func(*script, *testscript.TestScript, bool, []string)) func(*testscript.TestScript, bool, []string) {
	return func(ts *testscript.TestScript, neg bool, args []string) {
		do(ts.Value(scriptKey{}).(*script), ts, neg, args)
	}
}

// begin starts a command with the stdin and terminal that the script set up.
func (s *script) begin(ts *testscript.TestScript, args []string) *program {
	p := &program{
		out: clitest.NewScreen(), err: clitest.NewScreen(), both: clitest.NewScreen(),
		signals: make(chan os.Signal, 4), code: make(chan int, 1), keys: s.keys,
	}
	p.app = &app.App{
		Terminal: app.Terminal{In: s.stdin, Out: io.MultiWriter(p.out, p.both), Err: io.MultiWriter(p.err, p.both), IsIn: s.isTerm, IsOut: s.isTerm},
		Signals:  p.signals, Exit: func(int) {}, Getenv: ts.Getenv, Patience: unhurried(),
	}
	if s.stdin == nil {
		p.app.In = strings.NewReader("")
	}
	s.stdin, s.isTerm = nil, false
	root := newRootCommand(p.app, args...)
	go func() { p.code <- cli.Execute(s.t.Context(), root) }()
	return p
}

// finish waits for a command's end and shows what it printed.
func (s *script) finish(ts *testscript.TestScript, neg bool, p *program) {
	select {
	case s.last = <-p.code:
	case <-time.After(clitest.Patience):
		ts.Fatalf("the command does not end:\n%s%s", p.out, p.err)
	}
	_, _ = io.WriteString(ts.Stdout(), plain(ts, p.out.String()))
	_, _ = io.WriteString(ts.Stderr(), plain(ts, p.err.String()))
	if neg != (s.last != cli.CodeOK) {
		ts.Fatalf("exit code %d:\n%s%s", s.last, p.out, p.err)
	}
}

func (s *script) turnlog(ts *testscript.TestScript, neg bool, args []string) {
	s.finish(ts, neg, s.begin(ts, args))
}

func (s *script) code(ts *testscript.TestScript, _ bool, args []string) {
	if want, err := strconv.Atoi(args[0]); err != nil || s.last != want {
		ts.Fatalf("exit code %d, want %s", s.last, args[0])
	}
}

func (s *script) in(_ *testscript.TestScript, _ bool, args []string) {
	s.stdin = strings.NewReader(strings.ReplaceAll(strings.Join(args, " "), `\n`, "\n"))
}

func (s *script) terminal(*testscript.TestScript, bool, []string) {
	s.stdin, s.keys = io.Pipe()
	s.isTerm = true
}

func (s *script) start(ts *testscript.TestScript, _ bool, args []string) {
	s.running[args[0]] = s.begin(ts, args[1:])
}

func (s *script) await(_ *testscript.TestScript, _ bool, args []string) {
	s.running[args[0]].both.Await(s.t, strings.Join(args[1:], " "))
}

func (s *script) typeLine(_ *testscript.TestScript, _ bool, args []string) {
	_, _ = fmt.Fprintln(s.running[args[0]].keys, strings.Join(args[1:], " "))
}

func (s *script) interrupt(_ *testscript.TestScript, _ bool, args []string) {
	s.running[args[0]].signals <- os.Interrupt
}

func (s *script) end(ts *testscript.TestScript, neg bool, args []string) {
	s.finish(ts, neg, s.running[args[0]])
}

func (s *script) until(ts *testscript.TestScript, _ bool, args []string) {
	for end := time.Now().Add(clitest.Patience); ; {
		p := s.begin(ts, args[1:])
		if <-p.code == cli.CodeOK && strings.Contains(p.out.String(), args[0]) {
			return
		}
		if time.Now().After(end) {
			ts.Fatalf("it does not print %q:\n%s%s", args[0], p.out, p.err)
		}
	}
}

func (s *script) usage(ts *testscript.TestScript, _ bool, args []string) {
	for line := range strings.Lines(ts.ReadFile(args[1])) {
		command, want, _ := strings.Cut(strings.TrimSpace(line), " | ")
		words := strings.Fields(strings.ReplaceAll(command, "$WORK", ts.Getenv("WORK")))
		for i, word := range words {
			words[i] = strings.ReplaceAll(word, "~", " ")
		}
		p := s.begin(ts, words)
		code := <-p.code
		if printed := p.err.String(); strconv.Itoa(code) != args[0] || !strings.HasPrefix(printed, "turnlog: ") || !strings.Contains(printed, want) ||
			strings.Count(printed, "\n") != 1 || strings.Contains(printed, "s3cret") || p.out.String() != "" {
			s.t.Errorf("turnlog %s exits with %d, want %s and one line with %q:\n%s%s", command, code, args[0], want, printed, p.out)
		}
	}
}

func (s *script) release(*testscript.TestScript, bool, []string) { close(s.waiting) }

// deploy starts a deployment whose worker has test tools: greet and names with an
// underscore answer at once, edit takes a path and two texts, wait answers after release.
// All but wait may need approval.
func (s *script) deploy(ts *testscript.TestScript, _ bool, names []string) {
	s.waiting = make(chan struct{})
	var tools []tool.Tool
	for _, name := range names {
		var x tool.Tool
		var err error
		switch name {
		case "wait":
			x, err = tool.Func(name, "Waits.", func(ctx context.Context, _ struct{}) (string, error) {
				select {
				case <-s.waiting:
					return "released", nil
				case <-ctx.Done():
					return "", context.Cause(ctx)
				}
			}, tool.ReadOnly())
		case "edit":
			type edit struct {
				Path string `json:"path"`
				Old  string `json:"old"`
				New  string `json:"new"`
			}
			x, err = tool.Func(name, "Edits.", func(context.Context, edit) (string, error) { return name, nil })
		default:
			x, err = tool.Func(name, "Does it.", func(context.Context, struct{}) (string, error) { return name, nil })
		}
		ts.Check(err)
		tools = append(tools, x)
	}
	ts.Setenv("NATS_URL", cellOf(s.t, node(), tools...))
}

// plain replaces the parts of output that differ from run to run.
func plain(ts *testscript.TestScript, text string) string {
	text = strings.ReplaceAll(text, ts.Getenv("WORK"), "$WORK")
	if url := ts.Getenv("NATS_URL"); url != "" {
		text = strings.ReplaceAll(text, url, "$NATS_URL")
	}
	for _, v := range []struct {
		what *regexp.Regexp
		kind string
	}{
		{regexp.MustCompile(`\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)`), "TIME"},
		{regexp.MustCompile(`([^:])\b[0-9a-f]{64}\b`), "${1}HASH"}, // but the keys of a cassette, sha256:…, tell its requests apart
		{regexp.MustCompile(`\b[0-9a-f]{16}\b`), "VERSION"},
		{regexp.MustCompile(`\b[0-9A-HJKMNP-TV-Z]{26}\b`), "ID"},
		{regexp.MustCompile(`\$JS\.ACK\.[^"]*`), "TOKEN"},
		{regexp.MustCompile(`"duration_ms":\d+`), `"duration_ms":0`},
		{regexp.MustCompile(`(?m)^([✓✗] .*) [\d.]+(µs|ms|s)$`), "$1 DURATION"},
	} {
		text = v.what.ReplaceAllString(text, v.kind)
	}
	return text
}
