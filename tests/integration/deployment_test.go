package integration

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/turnlog/turnlog/internal/testing/clitest"
	"github.com/turnlog/turnlog/internal/testing/parallel"
	"github.com/turnlog/turnlog/internal/testing/ramdisk"
	"github.com/turnlog/turnlog/jetstream"
	"github.com/turnlog/turnlog/jetstream/admin"
)

// binaries is where TestMain built the commands.
var binaries string

func TestMain(m *testing.M) {
	if name := os.Getenv(fragileNode); name != "" {
		if err := runFragileNode(name); err != nil {
			panic(err)
		}
		return
	}
	dir, err := clitest.Build(context.Background(), "./cmd/...")
	if err != nil {
		panic(err)
	}
	binaries = dir
	_ = os.Setenv("GOGC", "800") // of the processes, which are short-lived
	ramdisk.Use()
	parallel.Tests(8) // the tests mostly wait for processes
	os.Exit(m.Run())
}

// deployment is a NATS server with a cell, and the processes of a test.
type deployment struct {
	t    testing.TB
	addr string
	env  []string // of its processes, added to that of the test
	nc   *nats.Conn
	cell *jetstream.Cell

	server *process
}

func deploy(t testing.TB) *deployment { return deployIn(t, t.TempDir()) }

// deployIn is deploy with the streams in a directory.
func deployIn(t testing.TB, store string) *deployment {
	t.Helper()
	d := &deployment{t: t}
	d.server = d.start("turnlog", "server", "--open", "--listen", "127.0.0.1:0", "--store", store)
	d.eventually("the server listens", func(context.Context) bool {
		addr := regexp.MustCompile(`nats://(127\.0\.0\.1:[0-9]+)\n`).FindStringSubmatch(d.server.output())
		if addr != nil {
			d.addr = addr[1]
		}
		return addr != nil
	})
	d.nc = d.connect()
	cell, err := jetstream.Open(d.nc, "")
	if err != nil {
		t.Fatal(err)
	}
	d.cell = cell
	d.eventually("the cell is provisioned", func(ctx context.Context) bool { return admin.Of(cell).Check(ctx) == nil })
	return d
}

func (d *deployment) connect() *nats.Conn {
	d.t.Helper()
	var nc *nats.Conn
	d.eventually("the server answers", func(context.Context) bool {
		var err error
		nc, err = nats.Connect("nats://" + d.addr)
		return err == nil
	})
	d.t.Cleanup(nc.Close)
	return nc
}

// patience bounds every wait. On a busy machine a process may stall for many seconds.
const patience = 3 * time.Minute

// lease is the time after which a silent worker loses its call: long enough that a worker
// that gets no CPU for a while is not presumed dead.
const lease = 8 * time.Second

// eventually waits for a condition.
func (d *deployment) eventually(what string, ok func(context.Context) bool) {
	d.t.Helper()
	ctx, cancel := context.WithTimeout(d.t.Context(), patience)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !ok(ctx) {
		select {
		case <-tick.C:
		case <-ctx.Done():
			d.t.Fatalf("%s: not in time", what)
		}
	}
}

// process is a running command.
type process struct {
	cmd  *exec.Cmd
	done chan struct{}
	err  error

	mu  sync.Mutex
	out bytes.Buffer
}

// Write keeps what the process prints.
func (p *process) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.out.Write(b)
}

func (p *process) output() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.out.String()
}

// start runs a command in the background until the test ends.
func (d *deployment) start(name string, args ...string) *process {
	d.t.Helper()
	p := &process{done: make(chan struct{})}
	path := name
	if !filepath.IsAbs(path) {
		path = filepath.Join(binaries, name)
	}
	p.cmd = exec.CommandContext(context.WithoutCancel(d.t.Context()), path, args...)
	p.cmd.Stdout, p.cmd.Stderr = p, p
	p.cmd.Env = append(os.Environ(), d.env...)
	if err := p.cmd.Start(); err != nil {
		d.t.Fatal(err)
	}
	go func() {
		p.err = p.cmd.Wait()
		close(p.done)
	}()
	d.t.Cleanup(func() {
		p.signal(syscall.SIGTERM)
		select {
		case <-p.done:
		case <-time.After(time.Minute):
			p.signal(syscall.SIGKILL)
			<-p.done
			d.t.Errorf("%s did not end on SIGTERM", name)
		}
		if d.t.Failed() {
			d.t.Logf("%s %v printed:\n%s", name, args, p.output())
		}
	})
	return p
}

func (p *process) signal(s os.Signal) { _ = p.cmd.Process.Signal(s) }

// kill ends the process as a crash would.
func (p *process) kill() {
	p.signal(syscall.SIGKILL)
	<-p.done
}

// node starts a driver node whose policy allows every call.
func (d *deployment) node(name string, flags ...string) *process {
	d.t.Helper()
	policy := filepath.Join(d.t.TempDir(), "policy.yaml")
	if err := os.WriteFile(policy, []byte("rules: [{tool: '*', action: allow}]\n"), 0o600); err != nil {
		d.t.Fatal(err)
	}
	flags = append(flags, "--policy", policy)
	return d.start("driver-node", append(flags, "--server", "nats://"+d.addr, "--name", name)...)
}

// workers starts n tool workers on one root and waits until they offer their tools.
func (d *deployment) workers(n int, root string) []*process {
	d.t.Helper()
	out := make([]*process, n)
	for i := range out {
		// In a sandbox, a command cannot tell the process id of its worker, which tests kill.
		out[i] = d.start("tool-worker", "--server", "nats://"+d.addr, "--tools", "fs,shell", "--root", root, "--sandbox", "none")
	}
	view, err := d.cell.Catalog().Watch(d.t.Context())
	if err != nil {
		d.t.Fatal(err)
	}
	defer view.Close()
	d.eventually("the workers offer their tools", func(context.Context) bool { return len(view.Snapshot()) == n })
	return out
}

// run runs a command to its end and returns what it printed and its exit code.
func (d *deployment) run(name string, args ...string) (stdout, stderr string, code int) {
	d.t.Helper()
	cmd := exec.CommandContext(d.t.Context(), filepath.Join(binaries, name), args...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	cmd.Env = append(os.Environ(), d.env...)
	if err := cmd.Run(); err != nil && cmd.ProcessState == nil {
		d.t.Fatal(err)
	}
	return out.String(), errs.String(), cmd.ProcessState.ExitCode()
}

// verify has the observer check a session's journal.
func (d *deployment) verify(session string) {
	d.t.Helper()
	out, errs, code := d.run("observer", "verify", session, "--server", "nats://"+d.addr)
	if code != 0 {
		d.t.Fatalf("observer verify %s = %d\n%s%s", session, code, out, errs)
	}
}
