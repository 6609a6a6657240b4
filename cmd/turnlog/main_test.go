package main

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/oklog/ulid/v2"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest"
	"golang.org/x/sync/errgroup"

	"github.com/turnlog/turnlog/actor"
	"github.com/turnlog/turnlog/cmd/turnlog/internal/app"
	"github.com/turnlog/turnlog/internal/cli"
	"github.com/turnlog/turnlog/internal/cli/toolset"
	"github.com/turnlog/turnlog/internal/testing/clitest"
	"github.com/turnlog/turnlog/internal/testing/natstest"
	"github.com/turnlog/turnlog/internal/testing/parallel"
	"github.com/turnlog/turnlog/internal/testing/ramdisk"
	"github.com/turnlog/turnlog/jetstream/admin"
	"github.com/turnlog/turnlog/jetstream/memory"
	"github.com/turnlog/turnlog/model/registry"
	"github.com/turnlog/turnlog/policy/agentfile"
	"github.com/turnlog/turnlog/policy/permission"
	"github.com/turnlog/turnlog/tool"
	"github.com/turnlog/turnlog/worker"
)

// TestMain runs more tests at once than there are CPUs: most of them wait for a session.
func TestMain(m *testing.M) {
	natstest.CollectRarely()
	ramdisk.Use()
	parallel.Tests(24)
	os.Exit(m.Run())
}

// program is one run of the binary.
type program struct {
	app      *app.App
	out, err *clitest.Screen
	both     *clitest.Screen // of scripts: out and err
	signals  chan os.Signal
	code     chan int
	keys     io.Writer // of its terminal
}

// env is the environment of a program.
type env map[string]string

// prepare returns a program that has not started.
func prepare(t *testing.T, in io.Reader, vars env) *program {
	t.Helper()
	p := &program{out: clitest.NewScreen(), err: clitest.NewScreen(), signals: make(chan os.Signal, 4), code: make(chan int, 1)}
	home := t.TempDir()
	p.app = &app.App{
		Terminal: app.Terminal{In: in, Out: p.out, Err: p.err},
		Signals:  p.signals,
		Exit:     func(code int) { t.Errorf("exit(%d)", code) },
		Patience: unhurried(),
		Getenv: func(name string) string {
			if v, ok := vars[name]; ok || name != "HOME" {
				return v
			}
			return home
		},
	}
	return p
}

// unhurried is the patience of a program on a busy machine: its output must not depend on
// other load.
func unhurried() app.Patience {
	return app.Patience{
		Nudge: clitest.Patience, Answer: clitest.Patience, Cancel: clitest.Patience, Leave: clitest.Patience, Servers: clitest.Patience,
	}
}

// start starts a program and does not wait for its end.
func (p *program) start(t *testing.T, args ...string) *program {
	t.Helper()
	root := newRootCommand(p.app, args...)
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
func cellOf(t testing.TB, cfg actor.Config, tools ...tool.Tool) string {
	t.Helper()
	srv := natstest.Serve(t)
	cell, nc := clitest.Open(t, srv.ClientURL())
	if err := admin.Of(cell).Provision(t.Context(), admin.Config{Memory: true, Queues: []admin.QueueConfig{{Name: defaultQueue}}}); err != nil {
		t.Fatal(err)
	}
	d := &cli.Cell{Cell: cell, Conn: nc}
	if cfg.Models != nil {
		hostOn(t, d, cfg, tools...)
	}
	return srv.ClientURL()
}

// hostOn runs a node and a worker on a cell until the test ends, or stop is called.
func hostOn(t testing.TB, d *cli.Cell, cfg actor.Config, tools ...tool.Tool) (stop func()) {
	t.Helper()
	source, err := tool.NewRegistry("test", tools...)
	if err != nil {
		t.Fatal(err)
	}
	cfg.Logger = zaptest.NewLogger(t, zaptest.Level(zap.WarnLevel))
	cfg.Agents = agentfile.Host{Find: toolset.Published(d.Cell), Models: cfg.Models, Notes: memory.Of(d.Cell)}
	if cfg.Policy == nil {
		cfg.Policy = permission.AllowAll()
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	group, ctx := errgroup.WithContext(ctx)
	queue, err := d.Queue(ctx, defaultQueue)
	if err != nil {
		t.Fatal(err)
	}
	offers := d.Offers(ulid.Make().String(), defaultQueue)
	w, err := worker.New(worker.Config{
		Queue: queue, Tools: []tool.Source{source}, Logger: cfg.Logger, Offers: offers, DrainTimeout: time.Second,
	})
	if err != nil {
		t.Fatal(err)
	}
	group.Go(func() error { return w.Run(ctx) })
	<-offers.Made()
	n, err := actor.NewNode(d.Cell, cfg)
	if err != nil {
		t.Fatal(err)
	}
	group.Go(func() error { return n.Run(ctx) })
	<-n.Ready()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := group.Wait(); err != nil && !errors.Is(err, context.Canceled) {
			t.Errorf("the deployment ended with %v", err)
		}
	})
	t.Cleanup(stop)
	return stop
}

// defaultQueue is the queue of workers that name none.
const defaultQueue = "default"

// node is the default configuration of a deployment's node. Its sessions do not park, which is an entry, while a test runs.
func node() actor.Config { return actor.Config{Models: registry.New(nil).Open, Idle: time.Hour} }
