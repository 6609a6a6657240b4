package main

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest"

	"github.com/turnlog/turnlog/actor"
	"github.com/turnlog/turnlog/internal/cli"
	"github.com/turnlog/turnlog/internal/testing/clitest"
	"github.com/turnlog/turnlog/jetstream"
	"github.com/turnlog/turnlog/model/registry"
	"github.com/turnlog/turnlog/policy/agentfile"
	"github.com/turnlog/turnlog/tool"
)

// program is one run of the binary.
type program struct {
	app      *app
	out, err *clitest.Screen
	signals  chan os.Signal
	code     chan int
}

// env is the environment of a program.
type env map[string]string

// prepare makes a program that has not begun.
func prepare(t *testing.T, in io.Reader, vars env) *program {
	t.Helper()
	p := &program{out: clitest.NewScreen(), err: clitest.NewScreen(), signals: make(chan os.Signal, 4), code: make(chan int, 1)}
	home := t.TempDir()
	p.app = &app{
		term:     terminal{in: in, out: p.out, err: p.err},
		signals:  p.signals,
		exit:     func(code int) { t.Errorf("exit(%d)", code) },
		patience: unhurried(),
		getenv: func(name string) string {
			if v, ok := vars[name]; ok || name != "HOME" {
				return v
			}
			return home
		},
	}
	return p
}

// unhurried is the patience of a program on a machine that is busy elsewhere: what it
// prints must not depend on how busy that is.
func unhurried() patience {
	return patience{
		nudge: clitest.Patience, answer: clitest.Patience, cancel: clitest.Patience, leave: clitest.Patience, servers: clitest.Patience,
	}
}

// start begins a program and does not wait for its end.
func (p *program) start(t *testing.T, args ...string) *program {
	t.Helper()
	root := newRootCommand(p.app)
	root.SetArgs(args)
	go func() { p.code <- cli.Execute(t.Context(), root) }()
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("turnlog %.300q printed:\n%.5000s%.5000s", args, p.out, p.err)
		}
	})
	return p
}

// end waits for the exit code.
func (p *program) end(t *testing.T) int {
	t.Helper()
	select {
	case code := <-p.code:
		return code
	case <-time.After(clitest.Patience):
		t.Fatal("the program did not end")
		return -1
	}
}

// expect runs the binary and checks its exit code.
func expect(t *testing.T, code int, args ...string) *program {
	t.Helper()
	p := prepare(t, strings.NewReader(""), nil).start(t, args...)
	if got := p.end(t); got != code {
		t.Fatalf("turnlog %q exits with %d, want %d:\n%s%s", args, got, code, p.out, p.err)
	}
	return p
}

// scripted writes a script and returns the name of its model.
func scripted(t *testing.T, script string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "script.yaml")
	if err := os.WriteFile(file, []byte(script), 0o600); err != nil {
		t.Fatal(err)
	}
	return "scripted:" + file
}

const (
	oneReply = "replies:\n  - text: Hello.\n    usage: {input: 7, output: 2}\n"
	echo     = "replies:\n  - text: \"You said {{.Prompt}}.\"\n    repeat: true\n"
	endless  = "replies:\n  - text: never\n    delay: 1h\n"
)

// cellOf starts a deployment with a port, and returns the URL.
func cellOf(t *testing.T, cfg actor.Config, tools ...tool.Tool) string {
	t.Helper()
	srv := clitest.Serve(t)
	d, err := provisionOn(t.Context(), srv, "", jetstream.QueueConfig{Name: defaultQueue})
	if err != nil {
		t.Fatal(err)
	}
	if cfg.Models != nil {
		hostOn(t, d, cfg, tools...)
	}
	return srv.ClientURL()
}

// hostOn runs a node and a worker on a cell until the test ends, or stop is called.
func hostOn(t *testing.T, d *cli.Cell, cfg actor.Config, tools ...tool.Tool) (stop func()) {
	t.Helper()
	source, err := tool.NewRegistry("test", tools...)
	if err != nil {
		t.Fatal(err)
	}
	cfg.Logger = zaptest.NewLogger(t, zaptest.Level(zap.WarnLevel))
	cfg.Agents = agentfile.Host{Find: published(d.Cell), Models: cfg.Models, Notes: d.Memory()}
	l := local{drain: time.Second, log: cfg.Logger}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	up, down := make(chan struct{}), make(chan struct{})
	var ended error
	go func() {
		defer close(down)
		ended = l.host(ctx, d, cfg, []tool.Source{source}, func(ctx context.Context) error {
			close(up)
			<-ctx.Done()
			return context.Cause(ctx)
		})
	}()
	stop = func() {
		cancel()
		<-down
	}
	t.Cleanup(func() {
		stop()
		if !errors.Is(ended, context.Canceled) {
			t.Errorf("the deployment ended with %v", ended)
		}
	})
	select {
	case <-up:
	case <-down:
		t.FailNow()
	}
	return stop
}

// node is how a deployment's node is set up if a test does not care.
func node() actor.Config { return actor.Config{Models: registry.New(nil).Open} }
