package sandbox

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/turnlog/turnlog/internal/testing/sample"
)

func TestCommandLine(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	for _, dir := range []string{".git", "vendor", "a/b/c"} {
		if err := os.MkdirAll(filepath.Join(root, dir), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	sample.WriteProgram(t, filepath.Join(root, "key"), "secret", 0o600)
	if err := os.Symlink("key", filepath.Join(root, "link")); err != nil {
		t.Fatal(err)
	}
	below := func(names ...string) (out []string) {
		for _, n := range names {
			out = append(out, filepath.Join(root, n))
		}
		return out
	}
	c := Command{
		Root: root, Dir: "/srv/p/sub", Files: []string{"/tmp/state"}, Path: "/usr/bin/no-go", Argv: []string{"go", "test", "./..."},
		Paths: Paths{ReadOnly: below("vendor", "absent", "a/b/c"), Hidden: below(".git", "link", "absent")},
	}
	const begin = "/bin/bwrap --die-with-parent --new-session --unshare-all --cap-drop ALL --ro-bind / / --dev /dev --tmpfs /tmp --tmpfs /run --proc /proc --remount-ro /proc "
	end := strings.ReplaceAll("--bind ROOT ROOT --bind /tmp/state /tmp/state --bind ROOT/a ROOT/a --bind ROOT/a/b ROOT/a/b --ro-bind ROOT/vendor ROOT/vendor --ro-bind ROOT/a/b/c ROOT/a/b/c --tmpfs ROOT/.git --remount-ro ROOT/.git "+
		"--ro-bind /dev/null ROOT/key --chdir /srv/p/sub -- /usr/bin/no-go test ./...", "ROOT", root)
	warm, cold := &Sandbox{program: "/bin/bwrap", network: true, cache: filepath.Join(t.TempDir(), "cache")}, &Sandbox{program: "/bin/bwrap"}
	_, cache, _ := strings.Cut(warm.Env(root)[1], "=")
	if cache == warm.cacheOf("/srv/other") || cold.Env(root)[1] != "XDG_CACHE_HOME=/tmp/.cache" {
		t.Errorf("cache %s, without a directory %s", cache, cold.Env(root)[1])
	}
	if info, err := os.Stat(cache); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("the cache: %v, %v", info, err)
	}
	cached := strings.Replace(end, "--bind /tmp/state", "--bind "+cache+" "+cache+" --bind /tmp/state", 1)
	for want, s := range map[string]*Sandbox{
		"/usr/bin/no-go test ./...": nil,
		begin + end:                 cold,
		begin + "--share-net --ro-bind-try /run/systemd/resolve /run/systemd/resolve " + cached: warm,
	} {
		if diff := cmp.Diff(want, strings.Join(s.Wrap(c), " ")); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
	if c.Argv[0] != "go" {
		t.Error("the command's own arguments were changed")
	}
	if err := errors.Join(os.Remove(cache), os.Symlink(root, cache)); err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(warm.Wrap(c), " "); got != begin+"--share-net --ro-bind-try /run/systemd/resolve /run/systemd/resolve "+end {
		t.Errorf("with a link in place of the cache: %s", got)
	}
	// A program in /tmp, which the sandbox empties, stays visible.
	c = Command{Root: "/", Dir: "/", Argv: below("key")}
	want := begin + strings.ReplaceAll("--ro-bind KEY KEY --chdir / -- KEY", "KEY", c.Argv[0])
	if got := strings.Join((&Sandbox{program: "/bin/bwrap"}).Wrap(c), " "); got != want {
		t.Errorf("a program in /tmp: %s", got)
	}
}

func TestBrokenSandboxIsAnError(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	broken := filepath.Join(dir, "bwrap")
	sample.WriteProgram(t, broken, "#!/bin/sh\necho no namespaces for you >&2\nexit 1\n", 0o755)
	_, err := openBubblewrap(t.Context(), broken, false)
	if err == nil || err.Error() != broken+" does not work here: exit status 1: no namespaces for you" {
		t.Errorf("broken: %v", err)
	}
	_, err = openBubblewrap(t.Context(), filepath.Join(dir, "absent"), false)
	if err == nil || !strings.HasSuffix(err.Error(), "absent is not installed") {
		t.Errorf("absent: %v", err)
	}
	if _, _, err := Open(t.Context(), "jail", false); err == nil || err.Error() != `unknown sandbox "jail": use auto, none, bwrap` {
		t.Errorf("unknown: %v", err)
	}
	if s, why, err := Open(t.Context(), None, false); s.Name() != None || why != "" || err != nil {
		t.Errorf("none: %s, %q, %v", s.Name(), why, err)
	}
}

// TestAutoReportsWhatItFound runs a command in this machine's sandbox. If it has none,
// Auto must say so.
func TestAutoReportsWhatItFound(t *testing.T) {
	t.Parallel()
	s, why, err := Open(t.Context(), Auto, false)
	if err != nil || (s.Name() == None) == (why == "") {
		t.Fatalf("Open = %s, %q, %v", s.Name(), why, err)
	}
	if _, _, err := Open(t.Context(), Bubblewrap, false); (err == nil) != (s.Name() == Bubblewrap) {
		t.Fatalf("by name: %v, but auto found %s", err, s.Name())
	}
	root := t.TempDir()
	outside := filepath.Join(t.TempDir(), "outside")
	out := confined(t.Context(), s, root, "echo a > inside; echo b > "+outside+"; cat /proc/net/dev | grep -c :; true")
	if raw, err := os.ReadFile(filepath.Join(root, "inside")); err != nil || string(raw) != "a\n" {
		t.Errorf("inside: %q, %v: %s", raw, err, out)
	}
	_, err = os.Stat(outside)
	if escaped := err == nil; escaped != (s.Name() == None) {
		t.Errorf("%s: written outside: %v: %s", s.Name(), escaped, out)
	}
	if s.Name() == Bubblewrap && !strings.HasSuffix(out, "1\n") {
		t.Errorf("more than the loopback interface: %s", out)
	}
}

func confined(ctx context.Context, s *Sandbox, root, script string) string {
	argv := s.Wrap(Command{Root: root, Dir: root, Argv: []string{"/bin/sh", "-c", script}})
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Dir = root
	out, _ := cmd.CombinedOutput() // the files say more
	return string(out)
}

// TestAConfinedCommandCannotEscape runs attacks in this machine's sandbox. Without one there
// is nothing to attack: TestCommandLine checks what would confine them, and
// TestAutoReportsWhatItFound that its absence is reported.
func TestAConfinedCommandCannotEscape(t *testing.T) {
	t.Parallel()
	s, why, err := Open(t.Context(), Auto, false)
	if err != nil {
		t.Fatal(err)
	}
	if s.Name() == None {
		t.Log("no attacks without a sandbox: ", why)
		return
	}
	root, home := t.TempDir(), t.TempDir()
	for name, data := range map[string]string{"secret/key": "top secret", "docs/a": "as it was", "token": "top secret", "deep/down/key": "top secret"} {
		file := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(data), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	c := Command{Root: root, Dir: root, Paths: Paths{
		ReadOnly: []string{filepath.Join(root, "docs")}, Hidden: []string{filepath.Join(root, "secret"), filepath.Join(root, "token"), filepath.Join(root, "deep/down/key")},
	}}
	for name, script := range map[string]string{
		"write outside":                 "echo x > " + home + "/x",
		"write below a system folder":   "echo x > /usr/local/turnlog-was-here && rm /usr/local/turnlog-was-here",
		"change the kernel's settings":  `v=$(cat /proc/sys/kernel/core_pattern); echo "$v" > /proc/sys/kernel/core_pattern`,
		"change the kernel's devices":   `echo 1 > /sys/kernel/mm/ksm/run`,
		"read a hidden folder":          "cat secret/key",
		"read a hidden file":            "grep . token",
		"write a read-only path":        "echo x > docs/a",
		"replace a read-only path":      "mv docs elsewhere",
		"replace a hidden path":         "mv secret elsewhere || rm -r secret",
		"rename what it is in":          "mv deep/down elsewhere || mv deep elsewhere",
		"swap what it is in":            "mkdir other && mv --exchange -T other deep",
		"mount over it":                 "umount secret || mount -o remount,rw docs",
		"become root in a namespace":    "unshare -Urm mount -o remount,rw " + root + "/docs",
		"see processes of this machine": "grep -l . /proc/[0-9]*/comm | xargs cat | grep -v -x -e bwrap -e sh -e grep -e xargs -e cat",
		"signal this machine":           "kill -0 " + strconv.Itoa(os.Getpid()) + " && cat /proc/" + strconv.Itoa(os.Getpid()) + "/comm | grep -v -e sh -e bwrap -e cat",
		"use the network":               "cat /proc/net/dev | tail -n +3 | grep -v lo:",
	} {
		c.Argv = []string{"/bin/sh", "-c", "{ " + script + "; } && echo REACHED"}
		argv := s.Wrap(c)
		cmd := exec.CommandContext(t.Context(), argv[0], argv[1:]...)
		if out, _ := cmd.CombinedOutput(); strings.Contains(string(out), "REACHED") {
			t.Errorf("%s: %s", name, out)
		}
	}
	for name, want := range map[string]string{"secret/key": "top secret", "docs/a": "as it was", "token": "top secret"} {
		if raw, err := os.ReadFile(filepath.Join(root, name)); err != nil || string(raw) != want {
			t.Errorf("%s holds %q, %v", name, raw, err)
		}
	}
	c.Argv = []string{"/bin/sh", "-c", "cat docs/a && echo x > new && echo y > /tmp/y"}
	argv := s.Wrap(c)
	if out, err := exec.CommandContext(t.Context(), argv[0], argv[1:]...).CombinedOutput(); err != nil || string(out) != "as it was" {
		t.Errorf("what it may do: %s, %v", out, err)
	}
}

// TestAProbeFindsTheSameWhileThreadsEnd opens sandboxes while threads of this process end, as
// those that run commands do. The kernel kills what such a thread started, so other tests
// must not run meanwhile.
func TestAProbeFindsTheSameWhileThreadsEnd(t *testing.T) {
	first, _, err := Open(t.Context(), Auto, false)
	if err != nil {
		t.Fatal(err)
	}
	over := make(chan struct{})
	var ends sync.WaitGroup
	for range 2 {
		ends.Go(func() {
			for {
				select {
				case <-over:
					return
				default:
					var one sync.WaitGroup
					one.Go(runtime.LockOSThread) // and never unlocks: the thread ends
					one.Wait()
				}
			}
		})
	}
	for range 10 {
		if s, why, err := Open(t.Context(), Auto, false); err != nil || s.Name() != first.Name() {
			t.Errorf("first %s, then %s: %s, %v", first.Name(), s.Name(), why, err)
		}
	}
	close(over)
	ends.Wait()
}

func TestTheCacheOfARootThatIsGoneIsRemoved(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := &Sandbox{program: "/bin/bwrap", cache: filepath.Join(dir, "sandbox")}
	cache := func(root string) string {
		root = filepath.Join(dir, root)
		if err := os.MkdirAll(root, 0o700); err != nil {
			t.Fatal(err)
		}
		_, cache, _ := strings.Cut(s.Env(root)[1], "=")
		if err := os.WriteFile(filepath.Join(cache, "object"), nil, 0o400); err != nil {
			t.Fatal(err)
		}
		return cache
	}
	kept, gone := cache("kept"), cache("gone")
	// A link that a command planted removes nothing but caches.
	if err := errors.Join(os.Remove(filepath.Join(dir, "gone")), os.Symlink("/nowhere", filepath.Join(s.cache, "..."+linkSuffix))); err != nil {
		t.Fatal(err)
	}
	cache("another")
	if _, err := os.Stat(filepath.Join(kept, "object")); err != nil {
		t.Errorf("the cache of a root that exists: %v", err)
	}
	for _, path := range []string{gone, gone + linkSuffix} {
		if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: %v, want that it is removed", path, err)
		}
	}
}
