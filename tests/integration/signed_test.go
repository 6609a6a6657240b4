package integration

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestEverySignatureIsRequiredThroughRealProcesses has a node, a worker and two people sign with separate keys. The
// node is killed while a person decides. The journal must reach the level signed, and what is unsigned, or signed with
// the key of another role, must have no effect.
func TestEverySignatureIsRequiredThroughRealProcesses(t *testing.T) {
	t.Parallel()
	d, dir, root := deploy(t), t.TempDir(), t.TempDir()
	must := func(want int, program string, args ...string) string {
		t.Helper()
		out, errs, code := d.run(program, args...)
		if code != want {
			t.Fatalf("%s %v = %d, want %d\n%s%s", program, args, code, want, out, errs)
		}
		return out
	}
	key := func(name string) string { return filepath.Join(dir, name+".nk") }
	at := func(args ...string) []string { return append(args, "--server", "nats://"+d.addr) }
	must(0, "turnlog", "keys", "init", "--dir", dir)
	for _, who := range []string{"driver:n1", "driver:n2", "worker:gpu", "client:ada", "approver:bob"} {
		must(0, "turnlog", "keys", "add", who, "--dir", dir)
	}
	must(0, "turnlog", "keys", "require", "driver", "worker", "client", "approver", "--dir", dir)
	must(0, "turnlog", at("keys", "publish", "--dir", dir)...)
	public, err := os.ReadFile(filepath.Join(dir, "root.pub"))
	if err != nil {
		t.Fatal(err)
	}
	keysRoot := strings.TrimSpace(string(public))

	d.start("tool-worker", at("--tools", "shell", "--root", root, "--sandbox", "none", "--sign-key", key("gpu"), "--keys-root", keysRoot)...)
	view, err := d.cell.Catalog().Watch(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer view.Close()
	d.eventually("the worker offers its tools", func(context.Context) bool { return len(view.Snapshot()) == 1 })
	n1 := d.start("driver-node", at("--name", "n1", "--sign-key", key("n1"), "--keys-root", keysRoot)...)

	script := d.script(`
replies:
  - calls: [{name: shell_exec, input: {argv: ["sh", "-c", "echo ran >> log"]}}]
  - text: "it ran"
`)
	var waiting turn
	out := must(5, "turnlog", at("run", "--session", "s", "-o", "json", "go", "--model", script, "--sign-key", key("ada"))...)
	if err := json.Unmarshal([]byte(out), &waiting); err != nil || len(waiting.Approvals) != 1 {
		t.Fatalf("run printed %s, want one approval: %v", out, err)
	}
	call := waiting.Approvals[0].Call
	n1.kill()
	d.start("driver-node", at("--name", "n2", "--sign-key", key("n2"), "--keys-root", keysRoot)...)
	for _, wrong := range [][]string{{}, {"--sign-key", key("ada")}} {
		must(1, "turnlog", at(append([]string{"approve", "s", call}, wrong...)...)...)
	}
	if _, err := os.Stat(filepath.Join(root, "log")); !os.IsNotExist(err) {
		t.Errorf("the call ran before it was approved: %v", err)
	}
	must(0, "turnlog", at("approve", "s", call, "--sign-key", key("bob"))...)
	must(0, "turnlog", at("wait", "s")...)

	verified := must(0, "observer", at("verify", "s", "--keys-root", keysRoot, "--every-signature", "--require", "signed")...)
	for _, who := range []string{"n1", "n2", "gpu", "ada", "bob"} {
		if !strings.Contains(verified, who) {
			t.Errorf("verify does not name %s:\n%s", who, verified)
		}
	}
	if raw, err := os.ReadFile(filepath.Join(root, "log")); err != nil || string(raw) != "ran\n" {
		t.Errorf("log = %q, %v, want one run", raw, err)
	}
}
