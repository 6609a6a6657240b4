package integration

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/synadia-io/orbit.go/natscontext"

	"github.com/turnlog/turnlog/jetstream"
)

// deployRoles starts a server with a user for each role, or with the given users. It also returns the command that the server prints for a
// role, and the flags with which a program connects as its user.
func deployRoles(t *testing.T, users ...string) (d *deployment, printed, at func(role string) []string) {
	t.Helper()
	d = &deployment{t: t, env: []string{"HOME=" + t.TempDir(), "XDG_CONFIG_HOME="}}
	d.server = d.start("turnlog", append([]string{"server", "--roles", "--listen", "127.0.0.1:0", "--store", t.TempDir()}, users...)...)
	d.eventually("the server serves", func(context.Context) bool { return strings.Contains(d.server.output(), "Ctrl-C ends it") })
	printed = func(role string) []string {
		t.Helper()
		line := regexp.MustCompile(`(?m)^  ` + role + ` +([^"\n]+)`).FindStringSubmatch(d.server.output())
		if line == nil {
			t.Fatalf("nothing for %s in %s", role, d.server.output())
		}
		return strings.Fields(line[1])
	}
	at = func(role string) []string {
		words := printed(role)
		for i, w := range words {
			if w == "--context" {
				return words[i : i+2]
			}
		}
		t.Fatalf("no context in %v", words)
		return nil
	}
	return d, printed, at
}

// TestASessionWithAnApprovalThroughUsersWithRoles starts the programs that "turnlog server --roles"
// prints, each as its user.
func TestASessionWithAnApprovalThroughUsersWithRoles(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	d, printed, at := deployRoles(t)
	as := func(role string, want int, program string, args ...string) (got turn) {
		t.Helper()
		out, errs, code := d.run(program, append(args, at(role)...)...)
		if code != want {
			t.Fatalf("%s: %s %v = %d, want %d\n%s%s", role, program, args, code, want, out, errs)
		}
		if strings.HasPrefix(out, "{") {
			if err := json.Unmarshal([]byte(out), &got); err != nil {
				t.Fatalf("%v in %s", err, out)
			}
		}
		return got
	}

	worker := printed("worker")
	d.start(worker[0], append(worker[1:], "--tools", "shell", "--root", root, "--sandbox", "none")...)
	node := printed("driver")
	d.start(node[0], node[1:]...)
	// Any program of NATS finds its credentials in the context.
	nc, _, err := natscontext.Connect(filepath.Join(d.env[0][len("HOME="):], ".config", "nats", "context", at("driver")[1]+".json"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	cell, err := jetstream.Open(nc, "")
	if err != nil {
		t.Fatal(err)
	}
	view, err := cell.Catalog().Watch(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer view.Close()
	d.eventually("the worker offers its tools", func(context.Context) bool { return len(view.Snapshot()) == 1 })

	waiting := as("client", 5, "turnlog", "run", "--session", "s", "-o", "json", "go", "--allow", "*", "--model", d.script(`
replies:
  - calls: [{name: shell_exec, input: {argv: ["sh", "-c", "echo ran >> log"]}}]
  - text: "it ran"
`))
	if len(waiting.Approvals) != 1 {
		t.Fatalf("run printed %+v, want one approval", waiting)
	}
	as("client", 1, "turnlog", "approve", "s", waiting.Approvals[0].Call)
	if _, err := os.Stat(filepath.Join(root, "log")); !os.IsNotExist(err) {
		t.Errorf("the call ran before it was approved: %v", err)
	}
	as("approver", 0, "turnlog", "approve", "s", waiting.Approvals[0].Call)
	if got := as("client", 0, "turnlog", "wait", "s", "-o", "json"); got.Text != "it ran" {
		t.Errorf("wait printed %+v", got)
	}
	if raw, err := os.ReadFile(filepath.Join(root, "log")); err != nil || string(raw) != "ran\n" {
		t.Errorf("log = %q, %v, want one run", raw, err)
	}
	as("observer", 0, "observer", "verify", "s")
	as("scheduler", 0, "turnlog", "schedule", "ls")
	as("doctor", 0, "turnlog", "doctor", "--profile", "dev")
	as("keeper", 0, "turnlog", "gc", "--older-than", "90d")
	as("provisioner", 0, "turnlog", "provision")
}
