package integration

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/turnlog/turnlog/jetstream"
)

// One file has the settings of all programs. The environment overrides it, and a program reads it again when it gets SIGHUP.
func TestProgramsReadTheirSettingsFromAFile(t *testing.T) {
	t.Parallel()
	d := deploy(t)
	file := filepath.Join(t.TempDir(), "turnlog.yaml")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(strings.ReplaceAll(text, "ADDRESS", d.addr)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	const all = "all: {server: 'nats://ADDRESS', log-format: json}\ntool-worker: {tools: [fs, shell], slots: 3}\n"
	write(all + "driver-node: {capacity: 7, name: from-the-file, log-level: error}\n")
	d.env = append(d.env, "TURNLOG_CONFIG="+file, "TURNLOG_NAME=from-the-environment")
	node, worker := d.start("driver-node"), d.start("tool-worker", "--slots", "5")
	says := func(p *process, text string) {
		t.Helper()
		d.eventually(text, func(context.Context) bool { return strings.Contains(p.output(), text) })
	}
	says(worker, `"tools":["fs","shell"]`)
	says(worker, `"slots":5`)
	d.eventually("the node runs under its name", func(ctx context.Context) bool {
		nodes, err := d.cell.Nodes().List(ctx)
		return err == nil && slices.ContainsFunc(nodes, func(r jetstream.NodeRecord) bool { return r.Node == "from-the-environment" })
	})

	write(all + "driver-node: {capacity: 8, name: another}\n") // and the usual level
	node.signal(syscall.SIGHUP)
	says(node, `"msg":"settings reloaded","restart_to_change":["capacity"]`)
	write(all + "driver-node: {capacitee: 8}\n")
	node.signal(syscall.SIGHUP)
	says(node, `driver-node has no setting \"capacitee\": did you mean capacity?`)
	if strings.Contains(node.output(), "node started") {
		t.Error("it logged more than errors from the start")
	}
}
