package integration

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/turnlog/turnlog/client"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/jetstream/admin"
	"github.com/turnlog/turnlog/session"
)

// open starts a session with a script and submits a prompt.
func (d *deployment) open(ctx context.Context, id content.SessionID, script string) *session.Session {
	d.t.Helper()
	c, err := client.Open(d.nc, "")
	if err != nil {
		d.t.Fatal(err)
	}
	s, err := c.Start(ctx, client.Options{ID: id, Config: events.Config{Model: "scripted:test", ModelData: []byte(script)}})
	if err != nil {
		d.t.Fatal(err)
	}
	d.t.Cleanup(func() { _ = s.Close(d.t.Context()) })
	if err := s.Send(ctx, events.Steer, content.UserText("go")); err != nil {
		d.t.Fatal(err)
	}
	return s
}

// until follows a session's journal to the first event that matches, and returns all
// events up to it.
func (d *deployment) until(ctx context.Context, id content.SessionID, match func(events.Event) bool) []events.Event {
	d.t.Helper()
	var seen []events.Event
	for rec, err := range d.cell.Journal().Follow(ctx, id, 0) {
		if err != nil {
			d.t.Fatal(err)
		}
		for _, ev := range rec.Entry.Events {
			seen = append(seen, ev)
			if match(ev) {
				return seen
			}
		}
	}
	d.t.Fatalf("%s: the event did not come: %v", id, context.Cause(ctx))
	return nil
}

func ends(ev events.Event) bool {
	_, ok := ev.(events.TurnFinished)
	return ok
}

func finished(ctx context.Context, t *testing.T, s *session.Session) session.TurnResult {
	t.Helper()
	step, err := s.Next(ctx)
	if err != nil {
		t.Fatal(err)
	}
	fin, ok := step.(*session.Finished)
	if !ok {
		t.Fatalf("Next = %T, want *session.Finished", step)
	}
	return fin.Result
}

func TestALostCallEndsUnknownAndTheTurnGoesOn(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	d := deploy(t)
	if err := admin.Of(d.cell).EnsureQueue(ctx, admin.QueueConfig{Name: "default", AckWait: lease}); err != nil {
		t.Fatal(err)
	}
	root := t.TempDir()
	d.workers(2, root)
	d.node("n1") // after the workers, so that its first model call shows their tools

	s := d.open(ctx, "lost-call", `
replies:
  - calls:
      - name: shell_exec
        input: {argv: ["sh", "-c", "test -e pid && echo second run && exit; echo $PPID > pid.tmp && mv pid.tmp pid; exec sleep 60"]}
  - text: "{{(index .Results 0).Text}}"
  - text: "I see."
`)
	d.killWriter(filepath.Join(root, "pid"))

	res := finished(ctx, t, s)
	if !strings.HasPrefix(res.Text(), "Outcome unknown") {
		t.Errorf("the model saw %q", res.Text())
	}
	var statuses []content.Status
	for _, ev := range d.until(ctx, s.ID(), ends) {
		if r, ok := ev.(events.ToolResultReceived); ok {
			statuses = append(statuses, r.Result.Status)
		}
	}
	if len(statuses) != 1 || statuses[0] != content.StatusUnknown {
		t.Errorf("results = %v, want one unknown", statuses)
	}
	d.runAgain("lost-call")
	d.verify("lost-call")
}

// runAgain retries the session's dead letter from the command line.
func (d *deployment) runAgain(id content.SessionID) {
	d.t.Helper()
	ctx, cancel := context.WithTimeout(d.t.Context(), patience)
	defer cancel()
	server := []string{"--server", "nats://" + d.addr}
	dead := func(args ...string) (out, errs string, code int) {
		return d.run("turnlog", append(append([]string{"dead"}, args...), server...)...)
	}
	if out, errs, code := dead("ls"); code != 0 || !strings.Contains(out, "call_1_1") {
		d.t.Errorf("dead ls = %d\n%s%s", code, out, errs)
	}
	if out, errs, code := dead("retry", string(id), "call_1_1"); code != 1 || !strings.Contains(errs, "--may-repeat") {
		d.t.Errorf("dead retry = %d\n%s%s", code, out, errs)
	}
	if out, errs, code := dead("retry", string(id), "call_1_1", "--may-repeat"); code != 0 {
		d.t.Fatalf("dead retry --may-repeat = %d\n%s%s", code, out, errs)
	}
	turns := 0
	for _, ev := range d.until(ctx, id, func(ev events.Event) bool {
		if ends(ev) {
			turns++
		}
		return turns == 2
	}) {
		if r, ok := ev.(events.ToolResultReceived); ok && r.Late && (r.Attempt != 2 || !strings.Contains(r.Result.Text(), "second run")) {
			d.t.Errorf("late result = %+v", r)
		}
	}
	if out, errs, code := dead("ls", "-o", "json"); code != 0 || out != "[]\n" {
		d.t.Errorf("dead ls = %d\n%s%s", code, out, errs)
	}
}

// killWriter kills the process whose ID appears in a file: the worker whose shell wrote
// it.
func (d *deployment) killWriter(path string) {
	d.t.Helper()
	var raw []byte
	d.eventually("the tool runs", func(context.Context) bool {
		var err error
		raw, err = os.ReadFile(path)
		return err == nil
	})
	pid, err := strconv.Atoi(strings.TrimSpace(string(raw)))
	if err != nil || pid < 2 {
		d.t.Fatalf("pid %q: %v", raw, err)
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		d.t.Fatal(err)
	}
}

func TestRunAgainstADeployment(t *testing.T) {
	t.Parallel()
	d := deploy(t)
	root := t.TempDir()
	if err := os.WriteFile(filepath.Join(root, "hello.txt"), []byte("hello\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	script := filepath.Join(t.TempDir(), "script.yaml")
	body := `
replies:
  - calls: [{name: fs_read_file, input: {path: hello.txt}}]
    usage: {input: 10, output: 5}
  - text: "read it"
    usage: {input: 20, output: 2}
`
	if err := os.WriteFile(script, []byte(body), 0o600); err != nil {
		t.Fatal(err)
	}
	d.workers(2, root)
	d.node("n1")
	out, errs, code := d.run("turnlog", "run", "--server", "nats://"+d.addr, "--session", "r1", "--model", "scripted:"+script, "-o", "json", "read hello.txt")
	if code != 0 {
		t.Fatalf("run = %d\n%s%s", code, out, errs)
	}
	var got struct {
		Session, Text string
		FinishReason  string `json:"finish_reason"`
		Rounds        int
		Usage         struct {
			InputTokens int `json:"input_tokens"`
		}
		ToolCalls []struct {
			Name, Status string
			Attempts     int
		} `json:"tool_calls"`
		Journal struct {
			Seq  uint64
			Hash string
		}
	}
	if err := json.Unmarshal([]byte(out), &got); err != nil {
		t.Fatalf("%v in %s", err, out)
	}
	if got.Session != "r1" || got.Text != "read it" || got.FinishReason != "completed" || got.Rounds != 2 || got.Usage.InputTokens != 30 {
		t.Errorf("run printed %+v", got)
	}
	if len(got.ToolCalls) != 1 || got.ToolCalls[0].Status != "ok" || got.ToolCalls[0].Attempts != 1 {
		t.Errorf("tool calls = %+v", got.ToolCalls)
	}
	if got.Journal.Seq == 0 || len(got.Journal.Hash) != 64 {
		t.Errorf("journal = %+v", got.Journal)
	}
	d.verify("r1")

	exported := filepath.Join(t.TempDir(), "r1.jsonl")
	dump, errs, code := d.run("observer", "export", "r1", "--server", "nats://"+d.addr)
	if code != 0 {
		t.Fatalf("export = %d %s", code, errs)
	}
	if err := os.WriteFile(exported, []byte(dump), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, errs, code := d.run("observer", "verify", "--file", exported); code != 0 {
		t.Errorf("verify --file = %d\n%s%s", code, out, errs)
	}
	broken := strings.Replace(dump, "hello.txt", "hullo.txt", 1)
	if err := os.WriteFile(exported, []byte(broken), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, errs, code := d.run("observer", "verify", "--file", exported); code != 1 {
		t.Errorf("verify of a changed file = %d\n%s%s", code, out, errs)
	}
}
