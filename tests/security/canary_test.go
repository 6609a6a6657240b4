package security

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/turnlog/turnlog/client"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/embedded"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/internal/testing/clitest"
	"github.com/turnlog/turnlog/internal/testing/sample"
	"github.com/turnlog/turnlog/jetstream"
	"github.com/turnlog/turnlog/jetstream/admin"
	"github.com/turnlog/turnlog/session"
	"github.com/turnlog/turnlog/tool"
	"github.com/turnlog/turnlog/turnlogtest"
)

// canary is in every secret.
const canary = "c4n4ry"

// shop is a deployment of real processes.
type shop struct {
	t         *testing.T
	ctx       context.Context //nolint:containedctx // the test's
	bin, home string
	url       string
}

// outputs are what a process prints.
type outputs struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (o *outputs) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(b)
}

func (o *outputs) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

// as returns the user that a program connects as.
func as(program string) string {
	return map[string]string{"driver-node": "driver", "tool-worker": "worker", "observer": "observer", "turnlog": "client"}[program]
}

// command is a program with secrets in its environment.
func (s *shop) command(out io.Writer, name string, args ...string) *exec.Cmd {
	args = append(args, "--inbox-prefix", users()[as(name)].Prefix())
	cmd := exec.CommandContext(context.WithoutCancel(s.ctx), filepath.Join(s.bin, name), args...)
	cmd.Env = append(os.Environ(), "HOME="+s.home, "XDG_CONFIG_HOME="+s.home,
		"OPENAI_API_KEY=sk-"+canary, "WIKI_TOKEN="+canary+"-wiki", "NOTES_KEY="+canary+"-notes", "NATS_USER="+as(name), "NATS_PASSWORD="+canary+"-nats")
	cmd.Stdout, cmd.Stderr = out, out
	return cmd
}

// start runs a program until the test ends, and waits until it has printed a text.
func (s *shop) start(until, name string, args ...string) *outputs {
	s.t.Helper()
	out := new(outputs)
	cmd := s.command(out, name, args...)
	if err := cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	s.t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		if err := <-ended; err != nil {
			s.t.Errorf("%s: %v", name, err)
		}
		if s.t.Failed() {
			s.t.Logf("%s printed:\n%s", name, out)
		}
	})
	s.await(out, until)
	return out
}

func (s *shop) await(out *outputs, text string) {
	s.t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !strings.Contains(out.String(), text) {
		select {
		case <-tick.C:
		case <-s.ctx.Done():
			s.t.Fatalf("no %q in time", text)
		}
	}
}

// offered waits until a tool is in the catalog, so that the first model call shows it.
func (s *shop) offered(name string) {
	s.t.Helper()
	nc, err := nats.Connect(s.url, s.login("driver")...)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(nc.Close)
	cell, err := jetstream.Open(nc, "")
	if err != nil {
		s.t.Fatal(err)
	}
	view, err := cell.Catalog().Watch(s.ctx)
	if err != nil {
		s.t.Fatal(err)
	}
	defer view.Close()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !slices.ContainsFunc(view.Snapshot(), func(o jetstream.Offer) bool {
		return slices.ContainsFunc(o.Tools, func(x tool.Spec) bool { return x.Name == name })
	}) {
		select {
		case <-tick.C:
		case <-s.ctx.Done():
			s.t.Fatalf("%s is not offered in time", name)
		}
	}
}

// page returns what a program serves on its port for operators.
func (s *shop) page(out *outputs, path string) string {
	s.t.Helper()
	_, rest, _ := strings.Cut(out.String(), `"address": "`)
	address, _, ok := strings.Cut(rest, `"`)
	req, err := http.NewRequestWithContext(s.ctx, http.MethodGet, "http://"+address+path, http.NoBody)
	if err != nil || !ok {
		s.t.Fatalf("address %q: %v", address, err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		s.t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return string(body)
}

// run runs a program to its end.
func (s *shop) run(code int, name string, args ...string) string {
	s.t.Helper()
	out := new(outputs)
	err := s.command(out, name, args...).Run()
	got := 0
	if e, ok := errors.AsType[*exec.ExitError](err); ok {
		got = e.ExitCode()
	} else if err != nil {
		s.t.Fatal(err)
	}
	if got != code {
		s.t.Errorf("%s %v exited with %d:\n%s", name, args, got, out)
	}
	return out.String()
}

// newShop starts a server with a password, for programs that are built.
func newShop(t *testing.T) *shop {
	t.Helper()
	s := &shop{t: t, home: t.TempDir()}
	var err error
	if s.bin, err = clitest.Build(t.Context(), "./cmd/..."); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	t.Cleanup(cancel)
	s.ctx = ctx
	srv, err := embedded.Start(ctx, embedded.WithListener("127.0.0.1:0"), embedded.WithSettings(settings(t, false, canary+"-nats")))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(srv.Close)
	s.url = srv.ClientURL()
	nc, err := srv.Connect(s.login("provisioner")...)
	if err != nil {
		t.Fatal(err)
	}
	cell, err := jetstream.Open(nc, "")
	if err == nil {
		err = admin.Of(cell).Provision(ctx, admin.Config{Memory: true, Queues: []admin.QueueConfig{{Name: turnlogtest.Queue}}})
	}
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func (s *shop) login(name string) []nats.Option {
	return []nats.Option{nats.UserInfo(name, canary+"-nats"), nats.CustomInboxPrefix(users()[name].Prefix())}
}

// leakyServer is an MCP server that refuses every request and repeats its token.
func leakyServer(t *testing.T) (url string, asked func() bool) {
	t.Helper()
	came := make(chan struct{})
	once := sync.OnceFunc(func() { close(came) })
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if auth := r.Header.Get("Authorization"); strings.Contains(auth, canary) {
			once()
			w.Header().Set("X-Token", auth)
			http.Error(w, fmt.Sprintf("your token %q is not good", auth), http.StatusInternalServerError)
			return
		}
		http.NotFound(w, r)
	}))
	t.Cleanup(s.Close)
	return s.URL + "/mcp", func() bool {
		select {
		case <-came:
			return true
		case <-time.After(time.Minute):
			return false
		}
	}
}

func TestProgramsRevealNoSecretsWithinTheirPermissions(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	notes := filepath.Join(s.home, "notes")
	sample.WriteProgram(t, notes, "#!/bin/sh\ntest -n \"$NOTES_KEY\" && exit 3\nexit 4\n", 0o700)
	wiki, asked := leakyServer(t)
	with := func(user string) string { return strings.Replace(s.url, "//", "//"+user+":"+canary+"-nats@", 1) }
	told := map[string]string{}

	policy := filepath.Join(s.home, "policy.yaml")
	if err := os.WriteFile(policy, []byte("rules: [{tool: '*', action: allow}]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	own := filepath.Join(s.home, "own.yaml")
	if err := os.WriteFile(own, []byte("name: look_around\ndescription: Looks around\ncommand: [sh, -c, 'env; cat /proc/$PPID/environ; echo seen']\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	toolWorker := s.start("configuration", "tool-worker", "--server", with("worker"), "--provision=false", "--queue", turnlogtest.Queue, "--tools", "shell", "--root", t.TempDir(), "--log-level", "debug",
		"--http", "127.0.0.1:0", "--mcp", "wiki="+wiki, "--mcp-token", "wiki=env:WIKI_TOKEN", "--mcp", "notes="+notes, "--mcp-env", "notes=NOTES_KEY")
	if !asked() {
		t.Error("the MCP server was not given its token")
	}
	s.offered("shell_exec") // a node that starts later has it from the start
	node := s.start("node started", "driver-node", "--server", s.url, "--policy", policy, "--log-level", "debug", "--http", "127.0.0.1:0",
		"--tool-manifest", own, "--allow-commands", "--root", t.TempDir())

	nc, err := nats.Connect(s.url, s.login("client")...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	c, err := client.Open(nc, "")
	if err != nil {
		t.Fatal(err)
	}
	script := "replies:\n  - calls: [{name: shell_exec, input: {script: 'env; echo ran'}}, {name: look_around, input: {}}]\n" +
		"  - text: '{{range .Results}}{{.Text}}{{end}}'\n"
	x, err := c.Start(s.ctx, client.Options{ID: "s", Config: events.Config{Model: "scripted:x", ModelData: []byte(script)}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = x.Close(t.Context()) }()
	if err := x.Send(s.ctx, "", content.UserText("go")); err != nil {
		t.Fatal(err)
	}
	step, err := x.Next(s.ctx)
	if fin, ok := step.(*session.Finished); err != nil || !ok || !strings.Contains(fin.Result.Text(), "ran") || !strings.Contains(fin.Result.Text(), "seen") {
		t.Fatalf("Next = %+v, %v", step, err)
	}
	told["the reply"] = step.(*session.Finished).Result.Text()
	told["the journal"] = s.run(0, "observer", "export", "s", "--server", with("observer"))
	told["a report"] = s.run(0, "observer", "report", "s", "--server", with("observer"))
	told["a search"] = s.run(0, "observer", "search", "--status", "ok", "--server", with("observer"))
	if alerts := s.run(0, "observer", "watch", "--once", "--from", "1", "--server", with("observer")); alerts != "" {
		t.Errorf("alerts about an intact cell: %s", alerts)
	}
	told["metrics of the node"] = s.page(node, "/metrics")
	told["metrics of the worker"] = s.page(toolWorker, "/metrics")
	told["a wrong password"] = s.run(1, "turnlog", "sessions", "ls", "--server", s.url, "--user", "client", "--password", canary+"-wrong", "--log-level", "debug")
	told["a wrong URL"] = s.run(2, "turnlog", "sessions", "ls", "--server", "nats://client:"+canary+"-wrong@[::", "--log-level", "debug")
	told["a token that is a flag"] = s.run(2, "tool-worker", "--server", s.url, "--mcp", "wiki="+wiki, "--mcp-token", "wiki="+canary)
	s.await(toolWorker, "status 3") // the other MCP server got its variable
	told["the log of the node"], told["the log of the worker"] = node.String(), toolWorker.String()
	told["the sessions"] = s.run(0, "turnlog", "sessions", "ls", "--server", s.url)
	for what, text := range told {
		if strings.Contains(text, "ermissions Violation") {
			t.Errorf("%s: something is not permitted: %s", what, text)
		}
		if text == "" {
			t.Errorf("%s is empty", what)
		}
		if i := strings.Index(text, canary); i >= 0 {
			t.Errorf("%s tells a secret: …%s…", what, text[max(0, i-200):min(len(text), i+60)])
		}
	}
}
