package sandbox

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/turnlog/turnlog/internal/testing/sample"
)

func TestCommandLine(t *testing.T) {
	t.Parallel()
	c := Command{Root: "/srv/p", Dir: "/srv/p/sub", Files: []string{"/tmp/state"}, Path: "/usr/bin/go", Argv: []string{"go", "test", "./..."}}
	for want, s := range map[string]*Sandbox{
		"/usr/bin/go test ./...": nil,
		"/bin/bwrap --die-with-parent --new-session --unshare-all --cap-drop ALL --ro-bind / / --dev /dev --proc /proc --tmpfs /tmp --tmpfs /run " +
			"--bind /srv/p /srv/p --bind /tmp/state /tmp/state --chdir /srv/p/sub -- /usr/bin/go test ./...": {program: "/bin/bwrap"},
		"/bin/bwrap --die-with-parent --new-session --unshare-all --cap-drop ALL --ro-bind / / --dev /dev --proc /proc --tmpfs /tmp --tmpfs /run " +
			"--share-net --ro-bind-try /run/systemd/resolve /run/systemd/resolve " +
			"--bind /srv/p /srv/p --bind /tmp/state /tmp/state --chdir /srv/p/sub -- /usr/bin/go test ./...": {program: "/bin/bwrap", network: true},
	} {
		if diff := cmp.Diff(want, strings.Join(s.Wrap(c), " ")); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
	if c.Argv[0] != "go" {
		t.Error("the command's own arguments were changed")
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
	if _, _, err := Open(t.Context(), "jail", false); err == nil || err.Error() != `sandbox "jail": known are auto, none, bwrap` {
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
