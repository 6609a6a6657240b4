package integration

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/jetstream/admin"
)

// script writes a model's script and returns how the command line names it.
func (d *deployment) script(body string) string {
	d.t.Helper()
	path := filepath.Join(d.t.TempDir(), "script.yaml")
	if err := os.WriteFile(path, []byte(body), 0o600); err != nil {
		d.t.Fatal(err)
	}
	return "scripted:" + path
}

// turn is what `turnlog run` and `turnlog wait` print of a turn.
type turn struct {
	Text         string
	FinishReason string `json:"finish_reason"`
	Approvals    []struct{ Call, Tool string }
	ToolCalls    []struct{ Name, Status, Route string } `json:"tool_calls"`
}

// turnlog runs the command and demands an exit code.
func (d *deployment) turnlog(want int, args ...string) (got turn) {
	d.t.Helper()
	out, errs, code := d.run("turnlog", append(args, "--server", "nats://"+d.addr)...)
	if code != want {
		d.t.Fatalf("turnlog %v = %d, want %d\n%s%s", args, code, want, out, errs)
	}
	if strings.HasPrefix(out, "{") {
		if err := json.Unmarshal([]byte(out), &got); err != nil {
			d.t.Fatalf("%v in %s", err, out)
		}
	}
	return got
}

// TestAnApprovalOutlivesTheNode kills the only node, so only the journal holds the open
// approval.
func TestAnApprovalOutlivesTheNode(t *testing.T) {
	t.Parallel()
	d := deploy(t)
	root := t.TempDir()
	d.workers(1, root)
	first := d.node("n1")
	waiting := d.turnlog(5, "run", "--session", "patient", "-o", "json", "go", "--model", d.script(`
replies:
  - calls: [{name: shell_exec, input: {argv: ["sh", "-c", "echo ran >> log"]}}]
  - text: "it ran"
`))
	if len(waiting.Approvals) != 1 || waiting.Approvals[0].Tool != "shell_exec" {
		t.Fatalf("run printed %+v, want one approval", waiting)
	}
	d.eventually("the node has announced that it holds the session", func(ctx context.Context) bool {
		records, err := d.cell.Nodes().List(ctx)
		return err == nil && len(records) == 1 && len(records[0].Held) == 1
	})
	first.kill()
	d.node("n2")
	d.turnlog(0, "approve", "patient", waiting.Approvals[0].Call)
	if got := d.turnlog(0, "wait", "patient", "-o", "json"); got.Text != "it ran" || got.FinishReason != "completed" {
		t.Errorf("wait printed %+v", got)
	}
	if raw, err := os.ReadFile(filepath.Join(root, "log")); err != nil || string(raw) != "ran\n" {
		t.Errorf("log = %q, %v, want one run", raw, err)
	}
	var owners []string
	for _, ev := range d.until(t.Context(), "patient", ends) {
		if c, ok := ev.(events.DriverClaimed); ok && (len(owners) == 0 || owners[len(owners)-1] != c.Node) {
			owners = append(owners, c.Node)
		}
	}
	if strings.Join(owners, " ") != "n1 n2" {
		t.Errorf("driven by %v, want n1, then n2", owners)
	}
	d.verify("patient")
}

// TestABackgroundCallOutlivesItsTurnAndEndsWithItsWorker kills the worker after the turn
// that started the call has ended. The outcome wakes the session.
func TestABackgroundCallOutlivesItsTurnAndEndsWithItsWorker(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	d := deploy(t)
	if err := admin.Of(d.cell).EnsureQueue(ctx, admin.QueueConfig{Name: "default", AckWait: lease}); err != nil {
		t.Fatal(err)
	}
	root := t.TempDir()
	d.workers(2, root)
	d.node("n1")
	got := d.turnlog(0, "run", "--session", "late", "-o", "json", "go", "--allow", "shell_exec", "--route", "shell_exec=background", "--model", d.script(`
replies:
  - calls:
      - name: shell_exec
        input: {argv: ["sh", "-c", "echo $PPID > pid.tmp && mv pid.tmp pid; exec sleep 60"]}
  - text: "it runs"
  - text: "I heard"
`))
	if got.Text != "it runs" || len(got.ToolCalls) != 1 || got.ToolCalls[0].Route != "background" {
		t.Fatalf("run printed %+v", got)
	}
	d.killWriter(filepath.Join(root, "pid"))

	finished := 0
	seen := d.until(ctx, "late", func(ev events.Event) bool {
		if ends(ev) {
			finished++
		}
		return finished == 2
	})
	var statuses []content.Status
	for _, ev := range seen {
		if r, ok := ev.(events.ToolResultReceived); ok {
			statuses = append(statuses, r.Result.Status)
		}
	}
	if len(statuses) != 1 || statuses[0] != content.StatusUnknown {
		t.Errorf("results = %v, want one unknown", statuses)
	}
	if got := d.turnlog(0, "wait", "late", "-o", "json"); got.Text != "I heard" {
		t.Errorf("wait printed %+v", got)
	}
	d.verify("late")
}

// TestAnObserverThatIsKilledGoesOnFromItsCursor checks that every entry is shown at least
// once, and that repeated entries are the last ones before the kill.
func TestAnObserverThatIsKilledGoesOnFromItsCursor(t *testing.T) {
	t.Parallel()
	d := deploy(t)
	d.node("n1")
	cursor := filepath.Join(t.TempDir(), "cursor")
	tail := func() *process {
		return d.start("observer", "tail", "--server", "nats://"+d.addr, "--from", "1", "--cursor", cursor, "-o", "jsonl")
	}
	shows := func(p *process, session string) {
		d.eventually("the end of "+session+" is shown", func(context.Context) bool {
			for line := range strings.Lines(p.output()) {
				if strings.Contains(line, `"session":"`+session+`"`) && strings.Contains(line, "turn_finished") {
					return true
				}
			}
			return false
		})
	}
	say := func(session string) {
		d.turnlog(0, "run", "--session", session, "--model", d.script("replies: [{text: hello}]"), "go")
	}
	var shown []uint64
	for _, session := range []string{"a", "b", "c"} {
		say(session + "1") // while no observer runs
		p := tail()
		say(session + "2")
		shows(p, session+"1")
		shows(p, session+"2")
		p.kill()
		for line := range strings.Lines(p.output()) {
			var e struct{ Position uint64 }
			if err := json.Unmarshal([]byte(line), &e); err != nil {
				t.Fatalf("%v in %s", err, line)
			}
			shown = append(shown, e.Position)
		}
	}
	next := uint64(1)
	for _, at := range shown {
		if at > next {
			t.Fatalf("entry %d is shown, want %d: %v", at, next, shown)
		}
		next = max(next, at+1)
	}
}
