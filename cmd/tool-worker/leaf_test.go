package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/embedded"
	"github.com/turnlog/turnlog/internal/testing/clitest"
	"github.com/turnlog/turnlog/jetstream"
	"github.com/turnlog/turnlog/jetstream/admin"
)

// TestAWorkerBehindALeafNodeServesAQueue runs a worker at a nats-server that is a leaf of the deployment's, with exactly
// the permissions of a worker. A microservice behind the same leaf is one of its tools.
func TestAWorkerBehindALeafNodeServesAQueue(t *testing.T) {
	t.Parallel()
	accounts, err := admin.Accounts([]admin.User{
		{Name: "cell", Grant: admin.Grant{Roles: []admin.Role{admin.RoleDriver, admin.RoleProvisioner}, Inbox: "_INBOX_cell"}},
		{Name: "worker", Grant: admin.Grant{Roles: []admin.Role{admin.RoleWorker}, Queue: "default", Inbox: "_INBOX_worker"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	conf, err := admin.AccountsConf(accounts, func(u admin.User) string { return "user: " + u.Name + ", password: p" })
	if err != nil {
		t.Fatal(err)
	}
	hub, at := serveLeaves(t, conf)
	nc, err := nats.Connect(hub.ClientURL(), nats.UserInfo("cell", "p"), nats.CustomInboxPrefix("_INBOX_cell"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	cell, err := jetstream.Open(nc, "")
	if err != nil {
		t.Fatal(err)
	}
	if err := admin.Of(cell).Provision(t.Context(), admin.Config{}); err != nil {
		t.Fatal(err)
	}
	if err := admin.Of(cell).EnsureQueue(t.Context(), admin.QueueConfig{Name: "default"}); err != nil {
		t.Fatal(err)
	}
	d := &deployment{t: t, cell: cell}
	d.url = d.leaf(at, "worker", "p")
	addWords(t, clitest.Dial(t, d.url))
	root := t.TempDir()
	if err := os.WriteFile(filepath.Join(root, "hello.txt"), []byte("hello, world"), 0o600); err != nil {
		t.Fatal(err)
	}
	w := d.start("--root", root, "--nats-service", "words", "--provision=false", "--inbox-prefix", "_INBOX_worker")
	d.eventually("the service's tool is on offer", func(ctx context.Context) bool { return d.hasTool(ctx, "words_count") })
	d.call("fs_read_file", `{"path":"hello.txt"}`)
	if r := d.result().Result; r.Status != content.StatusOK || !strings.Contains(r.Text(), "hello, world") {
		t.Errorf("result = %+v", r)
	}
	w.end()
	if left, err := d.offers(t.Context()); err != nil || len(left) != 0 {
		t.Errorf("its tools are still on offer: %+v, %v", left, err)
	}
}

// serveLeaves starts a server with a port for leaf nodes, and returns the address of that.
func serveLeaves(t *testing.T, conf string) (*embedded.Server, string) {
	t.Helper()
	for try := 1; ; try++ {
		l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		at := l.Addr().String()
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		s, err := embedded.Start(t.Context(), embedded.WithListener("127.0.0.1:0"), embedded.WithSettings(conf+`
default_js_domain: { "turnlog/worker/default": "" }
leafnodes { listen: "`+at+`" }`))
		if err == nil {
			t.Cleanup(s.Close)
			return s, at
		}
		if try == 5 { // another process may take the port in the meantime
			t.Fatal(err)
		}
	}
}

// leaf starts a nats-server that is a leaf of another one, and returns its URL when requests reach that.
func (d *deployment) leaf(at, user, password string) string {
	d.t.Helper()
	bin, err := clitest.Build(d.t.Context(), "github.com/nats-io/nats-server/v2")
	if err != nil {
		d.t.Fatal(err)
	}
	dir := d.t.TempDir()
	conf := filepath.Join(dir, "leaf.conf")
	text := fmt.Sprintf(`listen: "127.0.0.1:-1"
ports_file_dir: %q
default_js_domain: { "$G": "" }
leafnodes { remotes: [ { url: "nats-leaf://%s:%s@%s" } ] }`, dir, user, password, at)
	if err := os.WriteFile(conf, []byte(text), 0o600); err != nil {
		d.t.Fatal(err)
	}
	log := clitest.NewScreen()
	cmd := exec.CommandContext(d.t.Context(), filepath.Join(bin, "nats-server"), "-c", conf)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 10 * time.Second
	if err := cmd.Start(); err != nil {
		d.t.Fatal(err)
	}
	d.t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait()
		if d.t.Failed() {
			d.t.Logf("the leaf printed:\n%s", log)
		}
	})
	var ports struct{ Nats []string }
	d.eventually("the leaf says where it listens", func(context.Context) bool {
		files, err := filepath.Glob(filepath.Join(dir, "*.ports"))
		if err != nil || len(files) == 0 {
			return false
		}
		raw, err := os.ReadFile(files[0])
		return err == nil && json.Unmarshal(raw, &ports) == nil && len(ports.Nats) > 0
	})
	nc, err := nats.Connect(ports.Nats[0], nats.CustomInboxPrefix("_INBOX_"+user))
	if err != nil {
		d.t.Fatal(err)
	}
	defer nc.Close()
	d.eventually("the leaf is connected", func(ctx context.Context) bool {
		_, err := nc.RequestWithContext(ctx, "$JS.API.CONSUMER.INFO.TURNLOG_TASKS.q_default", nil)
		return err == nil
	})
	return ports.Nats[0]
}
