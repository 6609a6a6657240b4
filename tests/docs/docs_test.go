//go:build unix

package docs

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/turnlog/turnlog/internal/testing/clitest"
	"github.com/turnlog/turnlog/internal/testing/cluster"
	"github.com/turnlog/turnlog/internal/testing/natstest"
	"github.com/turnlog/turnlog/internal/testing/parallel"
	"github.com/turnlog/turnlog/internal/testing/ramdisk"
)

// TestMain runs all pages at once: they mostly wait for sessions.
func TestMain(m *testing.M) {
	ramdisk.Use()
	parallel.Tests(16)
	os.Exit(m.Run())
}

// build builds the programs, once for all tests: even if nothing has changed, that takes half a second.
var build = sync.OnceValues(func() (dir string, err error) {
	return clitest.Build(context.Background(), "./cmd/...", "./examples/...")
})

// caches are where the go command keeps what it has built and fetched.
var caches = sync.OnceValues(func() (env []string, err error) {
	names := []string{"GOCACHE", "GOMODCACHE", "GOPATH", "GOPROXY"}
	out, err := exec.CommandContext(context.Background(), "go", append([]string{"env"}, names...)...).Output()
	for i, value := range strings.Split(strings.TrimSpace(string(out)), "\n") {
		env = append(env, names[i]+"="+value)
	}
	return env, err
})

func TestEveryCommandOfThePagesRuns(t *testing.T) {
	t.Parallel()
	dir, err := build()
	if err != nil {
		t.Fatal(err)
	}
	names, err := filepath.Glob("../../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, name := range append(names, "../../README.md") {
		all = append(all, strings.TrimPrefix(name, "../../"))
	}
	for name := range pages {
		if !slices.Contains(all, name) {
			t.Errorf("there is no page %s", name)
		}
	}
	for _, name := range all {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			text, err := os.ReadFile(filepath.Join("../..", name))
			if err != nil {
				t.Fatal(err)
			}
			r := &reader{page: pages[name], name: name, port: "4222", used: make(map[string]bool)}
			r.prepare(t, dir, string(text))
			for _, c := range r.before {
				r.run(t, command{text: c})
			}
			for _, b := range blocks(string(text)) {
				if _, ok := r.quotes[b.lines[0]]; ok {
					r.used[b.lines[0]] = true
				} else {
					r.follow(t, b)
				}
			}
			r.stop(t)
			for _, named := range []map[string]string{r.skip, r.quotes} {
				for what := range named {
					if !r.used[what] {
						t.Errorf("%s no longer has %q", name, what)
					}
				}
			}
		})
	}
}

// reader types the commands of one page.
type reader struct {
	page
	name    string
	used    map[string]bool // what was skipped
	dir     string          // the copy of the repository's root
	temp    string          // replaces the machine's /tmp, /var/lib and /mnt
	port    string          // of the last server
	moved   []string        // addresses of the page's other servers, each with that of the test
	env     []string
	running []*program
}

// program runs in the background.
type program struct {
	text   string
	screen *clitest.Screen
	cmd    *exec.Cmd
}

// prepare makes the reader's machine.
func (r *reader) prepare(t *testing.T, binaries, text string) {
	t.Helper()
	home := t.TempDir()
	r.dir, r.temp = t.TempDir(), t.TempDir()
	root := os.DirFS("../..")
	for _, part := range []string{"README.md", "go.mod", "docs", "events", "examples"} {
		copyOf(t, root, part, r.dir)
	}
	bin := t.TempDir()
	real, err := exec.LookPath("go")
	if err != nil {
		t.Fatal(err)
	}
	// What "go run" would build here was built before.
	write(t, filepath.Join(bin, "go"), "#!/bin/sh\n[ \"$1\" = run ] || exec "+real+" \"$@\"\nprogram=$(basename \"$2\")\nshift 2\nexec "+binaries+"/\"$program\" \"$@\"\n", 0o700)
	r.env = []string{"HOME=" + home, "XDG_CONFIG_HOME=" + home + "/.config", "TMPDIR=" + r.temp, "PATH=" + bin + ":" + binaries + ":" + os.Getenv("PATH")}
	kept, err := caches()
	if err != nil {
		t.Fatal(err)
	}
	r.env = append(r.env, kept...)
	switch r.servers {
	case 0:
	case 1:
		r.serve(t, natstest.Serve(t).ClientURL(), text)
	default:
		c, err := cluster.Start(t.Context(), t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(c.Close)
		r.serve(t, c.ClientURL(), text)
	}
}

// serve makes a server the one that the page refers to, by its address, or else the one
// that programs find by default.
func (r *reader) serve(t *testing.T, address, text string) {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	r.port = u.Port()
	if !strings.Contains(text, ":4222") {
		r.env = append(r.env, "NATS_URL="+address)
	}
}

// local replaces the addresses and folders of a page with those of the test.
func (r *reader) local(text string) string {
	return strings.NewReplacer(append(r.moved, "127.0.0.1:4222", "127.0.0.1:"+r.port, "turnlog-4222", "turnlog-"+r.port,
		"/tmp/", r.temp+"/", "/var/lib/", r.temp+"/", "/mnt/", r.temp+"/")...).Replace(text)
}

// usage matches the placeholders in the usage of a command.
var usage = regexp.MustCompile(`\s(\[[A-Z-]|[A-Z]{2,}(\.\.\.)?(\s|$))`)

// follow types the commands of a block.
func (r *reader) follow(t *testing.T, b block) {
	t.Helper()
	for _, c := range b.commands() {
		if _, ok := r.skip[c.text]; ok {
			r.used[c.text] = true
			continue
		}
		if variable, ok := strings.CutPrefix(c.text, "export "); ok {
			name, _, _ := strings.Cut(variable, "=")
			out, err := r.shell(t, c.text+"; printenv "+name).Output()
			if err != nil {
				t.Fatalf("%s:%d: %s: %v", r.name, c.line, c.text, err)
			}
			r.env = append(r.env, name+"="+strings.TrimSpace(string(out)))
			continue
		}
		if first, _, _ := strings.Cut(c.text, "\n"); usage.MatchString(unquoted(first)) {
			r.help(t, c)
			continue
		}
		r.run(t, c)
	}
}

// quoted is an argument in quotes.
var quoted = regexp.MustCompile(`'[^']*'|"[^"]*"`)

func unquoted(text string) string { return quoted.ReplaceAllString(text, "x") }

// help compares a description of usage with the command's help.
func (r *reader) help(t *testing.T, c command) {
	t.Helper()
	var path []string
	for word := range strings.FieldsSeq(c.text) {
		if word != strings.ToLower(word) || strings.HasPrefix(word, "-") || strings.HasPrefix(word, "[") {
			break
		}
		path = append(path, word)
	}
	name := strings.Join(path, " ")
	out, err := r.shell(t, name+" --help").CombinedOutput()
	if err != nil || !bytes.Contains(out, []byte("  "+name+" ")) {
		t.Errorf("%s:%d: %s --help: %v\n%s", r.name, c.line, name, err, out)
	}
	for _, m := range regexp.MustCompile(`[ \[](--?[a-z][a-z-]*)`).FindAllStringSubmatch(strings.TrimPrefix(c.text, name), -1) {
		flag := m[1]
		if !regexp.MustCompile(`(?m)^ +(-\w, )?` + regexp.QuoteMeta(flag) + `[ ,]`).Match(out) {
			t.Errorf("%s:%d: %s has no flag %s", r.name, c.line, name, flag)
		}
	}
}

// Programs that serve at an address that their command line names.
const (
	witness = "turnlog witness --sign-key"
	another = "turnlog server --listen 127.0.0.1:4223"
	gateway = "turnlog gateway --listen"
)

// endless are the programs that run until they are stopped, with what they print when they are ready.
var endless = map[string]string{
	"turnlog server": `(?m)^nats://`, "turnlog dev": "is up at", "driver-node": "node started", "tool-worker": "worker started",
	"turnlog notary --sign-key": "log of heads opened", "turnlog webhooks --endpoints": "endpoint followed", another: `(?m)^nats://`, witness: `(?m)^http://`, gateway: `http://`,
	"go run ./examples/custom-tool-worker turnlog-4222": "on offer", "observer tail": `"parked"`,
}

// run types one command and checks how it ends and what it prints.
func (r *reader) run(t *testing.T, c command) {
	t.Helper()
	text, _ := strings.CutSuffix(c.text, " &")
	name := ""
	for n := range endless {
		if (text == n || strings.HasPrefix(text, n+" ")) && len(n) > len(name) {
			name = n
		}
	}
	var have string
	switch {
	case strings.HasPrefix(text, "sleep "): // until models see the tools of the running workers
		for !strings.Contains(have, "fs_") {
			out, err := r.shell(t, "turnlog tools ls --server 127.0.0.1:4222").CombinedOutput()
			if have = string(out); err != nil || t.Context().Err() != nil {
				t.Fatalf("no worker offers tools: %v\n%s", err, have)
			}
		}
	case name == "turnlog server" || name == "turnlog dev":
		r.stop(t)
		if !strings.Contains(text, "--listen") {
			text = name + " --listen 127.0.0.1:4222" + strings.TrimPrefix(text, name)
		}
		p := r.start(t, strings.Replace(text, ":4222", ":0", 1), endless[name])
		r.port = p.screen.AwaitMatch(t, `nats://127.0.0.1:(\d+)`)
		if c.inform {
			p.screen.Await(t, "ends it")
		}
		have = p.screen.String()
	case name == another || name == witness || name == gateway:
		address := regexp.MustCompile(`127\.0\.0\.1:\d+`).FindString(text)
		p := r.start(t, strings.Replace(text, address, "127.0.0.1:0", 1), endless[name])
		r.moved = append(r.moved, address, p.screen.AwaitMatch(t, `(?:http|nats)://(127\.0\.0\.1:\d+)`))
		have = p.screen.String()
	case name != "":
		have = r.start(t, text, endless[name]).screen.String()
	default:
		cmd := r.shell(t, text)
		out, err := cmd.CombinedOutput()
		if have = string(out); err != nil {
			t.Errorf("%s:%d: %s: %v\n%s", r.name, c.line, c.text, err, have)
			return
		}
		if strings.Contains(have, "no tool on offer") {
			t.Errorf("%s:%d: %s names a tool that no worker offers:\n%s", r.name, c.line, c.text, have)
		}
		t.Logf("%s:%d: %s\n%s", r.name, c.line, c.text, have)
	}
	var want []string
	for _, line := range c.output {
		want = append(want, r.local(line))
	}
	if missing, ok := printed(want, have); !ok {
		t.Errorf("%s:%d: %s does not print %q but\n%s", r.name, c.line, c.text, missing, have)
	}
}

// shell returns a command that a shell runs. It can be killed with all processes that it starts.
func (r *reader) shell(t *testing.T, text string) *exec.Cmd {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), clitest.Patience)
	t.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, "bash", "-euo", "pipefail", "-c", r.local(text)) //nolint:gosec // that is the test
	cmd.Dir, cmd.Env = r.dir, r.env
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	return cmd
}

// start starts a program and waits until it is ready.
func (r *reader) start(t *testing.T, text, ready string) *program {
	t.Helper()
	p := &program{text: text, screen: clitest.NewScreen(), cmd: r.shell(t, "exec "+text)}
	p.cmd.Stdout, p.cmd.Stderr = p.screen, p.screen
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	r.running = append(r.running, p)
	p.screen.AwaitMatch(t, ready)
	return p
}

// stop stops what runs in the background: servers last.
func (r *reader) stop(t *testing.T) {
	t.Helper()
	for _, p := range slices.Backward(r.running) {
		if err := errors.Join(p.cmd.Process.Signal(syscall.SIGTERM), p.cmd.Wait()); err != nil {
			t.Errorf("%s: %s: %v\n%s", r.name, p.text, err, p.screen)
		}
	}
	r.running = nil
}

func write(t *testing.T, name, data string, mode fs.FileMode) {
	t.Helper()
	if err := os.WriteFile(name, []byte(data), mode); err != nil {
		t.Fatal(err)
	}
}

// copyOf copies a file or a folder.
func copyOf(t *testing.T, from fs.FS, name, to string) {
	t.Helper()
	err := fs.WalkDir(from, name, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return errors.Join(err, os.MkdirAll(filepath.Join(to, path), 0o700))
		}
		data, err := fs.ReadFile(from, path)
		if err != nil {
			return fmt.Errorf("copy the repository: %w", err)
		}
		return os.WriteFile(filepath.Join(to, path), data, 0o600)
	})
	if err != nil {
		t.Fatal(err)
	}
}
