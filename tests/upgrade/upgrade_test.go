//go:build upgrade

package upgrade

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/turnlog/turnlog/internal/testing/clitest"
)

// earlier is the commit whose programs meet today's, of 25 November 2026. The clone needs its history.
const earlier = "c4ac90dadad3eb399990262219dff17c07098f65"

// releases are the folders with the programs of each release, and programs what is in them.
type releases struct{ before, now string }

var programs = []string{"./cmd/turnlog", "./cmd/driver-node", "./cmd/tool-worker", "./cmd/observer"}

func build(t *testing.T) (r releases) {
	t.Helper()
	var err error
	if r.now, err = clitest.Build(t.Context(), programs...); err != nil {
		t.Fatal(err)
	}
	source := t.TempDir()
	r.before = filepath.Join(source, "bin") + string(filepath.Separator)
	shell(t, "../..", "git", "archive", "-o", filepath.Join(source, "source.tar"), earlier)
	shell(t, source, "tar", "-xf", "source.tar")
	shell(t, source, "go", append([]string{"build", "-buildvcs=false", "-ldflags=-s -w", "-o", r.before}, programs...)...)
	return r
}

func shell(t *testing.T, dir, name string, args ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s %v: %v\n%s", name, args, err, out)
	}
}

// Each deployment starts with the programs of one release and ends with those of the other. A session has a call
// that runs while its node is killed, another one an approval that a person decides afterwards.
func TestReleasesShareADeployment(t *testing.T) {
	t.Parallel()
	r := build(t)
	t.Run("move", func(t *testing.T) {
		t.Parallel()
		moves(t, r)
	})
	for name, c := range map[string]struct{ server, from, to string }{
		"upgrade":                  {r.before, r.before, r.now},
		"upgrade after the server": {r.now, r.before, r.now},
		"return":                   {r.before, r.now, r.before},
		"return after the server":  {r.now, r.now, r.before},
	} {
		for _, first := range []string{"worker", "node"} {
			t.Run(name+", first the "+first, func(t *testing.T) {
				t.Parallel()
				replace(t, clitest.NewCell(t, c.server).Of(c.from), c.to, first, r)
			})
		}
	}
}

// replace replaces the programs of a release, in a deployment without any, by those of another one.
func replace(t *testing.T, from *clitest.Site, release, first string, r releases) {
	t.Helper()
	to := from.Of(release)
	from.Run(0, "turnlog", "provision")
	to.Run(0, "turnlog", "provision")
	root := t.TempDir()
	start := map[string]func(*clitest.Site) *clitest.Program{
		"worker": func(s *clitest.Site) *clitest.Program {
			p := s.Start("tool-worker", "--tools", "shell", "--root", root, "--sandbox", "none")
			p.Await(t, "worker started")
			return p
		},
		"node": func(s *clitest.Site) *clitest.Program {
			p := s.Start("driver-node")
			p.Await(t, "node started")
			return p
		},
	}
	olds := map[string]*clitest.Program{"node": start["node"](from), "worker": start["worker"](from)}
	script := filepath.Join(t.TempDir(), "script.yaml")
	text := fmt.Sprintf("replies:\n  - calls: [{name: shell_exec, input: {script: %q}}]\n  - {text: '{{.Prompt}} is done.', repeat: true}\n",
		"until test -e go; do sleep 0.05; done; printf hi")
	if err := os.WriteFile(script, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	run := func(s *clitest.Site, session string, more ...string) *clitest.Program {
		return s.Start("turnlog", append([]string{"run", "--session", session, "--model", "scripted:" + script}, more...)...)
	}
	from.Run(5, "turnlog", "run", "--session", "asks", "--model", "scripted:"+script, "the approved one")
	running := run(from, "runs", "--yes", "the running one")
	running.Await(t, "shell_exec")
	order := []string{first, map[string]string{"node": "worker", "worker": "node"}[first]}
	for _, what := range order {
		start[what](to)
		if what == "node" {
			olds[what].Kill()
		}
	}
	shell(t, root, "touch", "go")
	running.Await(t, "the running one is done.")
	olds["worker"].Stop() // it had the call
	to.Run(0, "turnlog", "approve", "asks", "call_1_1")
	to.Run(0, "turnlog", "wait", "asks")
	for _, session := range []string{"asks", "runs"} {
		to.Run(0, "turnlog", "run", "--session", session, "--model", "scripted:"+script, "the next one")
		for _, bin := range []string{r.before, r.now} {
			out := to.Of(bin).Run(0, "observer", "verify", session)
			if strings.Contains(out, "fault") {
				t.Errorf("observer verify %s\n%s", session, out)
			}
			out = to.Of(bin).Run(0, "turnlog", "sessions", "show", session)
			if !regexp.MustCompile(`(?m)^turns +2$`).MatchString(out) {
				t.Errorf("turnlog sessions show %s\n%s", session, out)
			}
		}
	}
}

// moves moves a session between cells with nodes of the earlier release. Where it was, that release takes it as deleted; where it
// went, its node goes on with it. Its observer does not know the field that says so, and judges neither journal.
func moves(t *testing.T, r releases) {
	t.Helper()
	source, target := clitest.NewCell(t, r.before).Of(r.before), clitest.NewCell(t, r.before).Of(r.before)
	for _, s := range []*clitest.Site{source, target} {
		s.Run(0, "turnlog", "provision")
		s.Of(r.now).Run(0, "turnlog", "provision")
		s.Start("driver-node").Await(t, "node started")
	}
	script := filepath.Join(t.TempDir(), "script.yaml")
	if err := os.WriteFile(script, []byte("replies:\n  - {text: '{{.Prompt}} is done.', repeat: true}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	source.Run(0, "turnlog", "run", "--session", "s", "--model", "scripted:"+script, "the first")
	source.Of(r.now).Run(0, "turnlog", "sessions", "move", "s", "--to", target.NATS)
	if out := source.Run(1, "turnlog", "send", "s", "more"); !strings.Contains(out, "session s was deleted at") {
		t.Errorf("an earlier client at the source: %s", out)
	}
	for _, site := range []*clitest.Site{source, target} {
		if out := site.Run(1, "observer", "verify", "s"); !strings.Contains(out, "a field occurs twice, or is unknown") {
			t.Errorf("an earlier observer: %s", out)
		}
	}
	target.Run(0, "turnlog", "run", "--session", "s", "the second")
	now := target.Of(r.now)
	now.Start("driver-node").Await(t, "node started")
	now.Run(0, "turnlog", "run", "--session", "s", "the third")
	now.Run(0, "observer", "verify", "s")
	source.Of(r.now).Run(8, "observer", "verify", "s")
	out := now.Run(0, "observer", "transcript", "s")
	for _, reply := range []string{"the first is done.", "the second is done.", "the third is done."} {
		if !strings.Contains(out, reply) {
			t.Errorf("%q is not in the transcript\n%s", reply, out)
		}
	}
}
