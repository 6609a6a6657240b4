package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/turnlog/turnlog/internal/cli"
)

// repairing does its work when the gate complains about the first try.
const repairing = `
replies:
  - text: It is done.
    usage: {input: 10, output: 1}
  - calls: [{name: fs_write_file, input: {path: done, content: "yes\n"}}]
    usage: {input: 20, output: 2}
  - text: "Now it is: {{.Prompt}}"
    usage: {input: 30, output: 3}
    repeat: true
`

// begin starts turnlog task in a new directory.
func begin(t *testing.T, root, script string, args ...string) *program {
	t.Helper()
	args = append([]string{"task", "--session", "s", "--root", root, "--allow-write", "--allow", "*", "--model", scripted(t, script)}, args...)
	return prepare(t, strings.NewReader(""), nil).start(t, args...)
}

func taskReportOf(t *testing.T, p *program) (r taskReport) {
	t.Helper()
	if err := json.Unmarshal([]byte(p.out.String()), &r); err != nil {
		t.Fatalf("%v in %s", err, p.out)
	}
	return r
}

func TestATaskGoesOnUntilItsGatePasses(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	p := begin(t, root, repairing, "--gate", "cat done", "-o", "json", "Make", "it so")
	if code := p.end(t); code != cli.CodeOK {
		t.Fatalf("code %d, err %s", code, p.err)
	}
	text := "Now it is: Verification failed. Fix these errors and try again:\ncat: done: No such file or directory\n[exit status 1]"
	want := taskReport{
		Status: "done", Verified: true, VerifyStatus: "passed", Attempts: 2, FilesChanged: []string{"done"},
		Summary: text, Text: text, Usage: usageReport{InputTokens: 60, OutputTokens: 6}, Approvals: []approvalReport{}, Session: "s",
	}
	if diff := cmp.Diff(want, taskReportOf(t, p)); diff != "" {
		t.Errorf("report (-want +got):\n%s", diff)
	}
	p = begin(t, root, repairing, "--gate", "cat done", "Make it so")
	if code := p.end(t); code != cli.CodeOK || p.out.String() != "It is done.\n" || !strings.HasPrefix(p.err.String(), "planning\nexecuting\nverifying, attempt 1 of 4\n✓ gate passed ") || !strings.HasSuffix(p.err.String(), "\nreporting\n") {
		t.Errorf("code %d, out %q, err %s", code, p.out, p.err)
	}
}

func TestATaskFailsWhenItsRetriesAreUsedUp(t *testing.T) {
	t.Parallel()
	p := begin(t, t.TempDir(), "replies:\n  - text: Done.\n    repeat: true\n", "--gate", "echo broken; exit 3", "--max-retries", "1", "Fix it")
	if code := p.end(t); code != cli.CodeFailed || p.out.String() != "Done.\nDone.\n" {
		t.Errorf("code %d, out %q", code, p.out)
	}
	for _, want := range []string{"verifying, attempt 2 of 2\n✗ gate failed ", "\n  broken\n  [exit status 3]\n", "verification failed after 2 attempts: [exit status 3]"} {
		if !strings.Contains(p.err.String(), want) {
			t.Errorf("err = %s, want %q", p.err, want)
		}
	}
	p = begin(t, t.TempDir(), "replies:\n  - text: Done.\n    repeat: true\n", "--gate", "false", "--max-retries", "0", "-o", "json", "Fix it")
	code, r := p.end(t), taskReportOf(t, p)
	if code != cli.CodeFailed || r.Status != "failed" || r.Verified || r.VerifyStatus != "failed" || r.Attempts != 1 || r.Cancelled {
		t.Errorf("code %d, report %+v", code, r)
	}
}

func TestATaskWithoutAGateIsTakenAsItIs(t *testing.T) {
	t.Parallel()
	p := begin(t, t.TempDir(), oneReply, "-o", "json", "Say hello")
	code, r := p.end(t), taskReportOf(t, p)
	if code != cli.CodeOK || r.Status != "done" || !r.Verified || r.VerifyStatus != "skipped" || r.Attempts != 0 || r.Text != "Hello." {
		t.Errorf("code %d, report %+v, err %s", code, r, p.err)
	}
	p = begin(t, t.TempDir(), oneReply, "-o", "jsonl", "Say hello")
	if code := p.end(t); code != cli.CodeOK || !strings.Contains(p.out.String(), `"task_started"`) || !strings.Contains(p.out.String(), `{"result":{"status":"done",`) {
		t.Errorf("code %d, out %s", code, p.out)
	}
}

func TestAnInterruptCancelsATaskAndItsGate(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	p := begin(t, root, oneReply, "--gate", "touch begun; sleep 120; touch over", "-o", "json", "Wait")
	awaited(t, "the begin of the gate", func() bool {
		_, err := os.Stat(filepath.Join(root, "begun"))
		return err == nil
	})
	start := time.Now()
	p.signals <- os.Interrupt
	code, took := p.end(t), time.Since(start)
	r := taskReportOf(t, p)
	if code != cli.CodeCancelled || r.Status != "cancelled" || !r.Cancelled || r.Verified || r.VerifyStatus != "cancelled" {
		t.Errorf("code %d, report %+v, err %s", code, r, p.err)
	}
	if took > 30*time.Second {
		t.Errorf("it took %v", took)
	}
}

func TestATaskThatEndsEarlyIsNotVerified(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		script string
		args   []string
		code   int
		status string
		say    string
	}{
		"limit":    {"replies:\n  - calls: [{name: fs_list_directory, input: {}}]\n    repeat: true\n", []string{"--limit", "rounds=1"}, cli.CodeFailed, "failed", "max turns reached (1)"},
		"error":    {"replies:\n  - calls: [{name: nothing, input: {}}]\n", nil, cli.CodeFailed, "failed", "exhausted"},
		"blocked":  {"replies:\n  - {text: no, finish_reason: blocked}\n", nil, cli.CodeFailed, "blocked", "blocked the reply"},
		"time":     {endless, []string{"--timeout", "50ms"}, cli.CodeCancelled, "cancelled", "its time was over"},
		"approval": {"replies:\n  - calls: [{name: fs_delete, input: {path: x}}]\n", []string{"--ask", "*"}, cli.CodeApproval, "needs_approval", "fs_delete (call call_1_1) needs approval"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			args := append([]string{"task", "--root", t.TempDir(), "--allow-write", "--model", scripted(t, tc.script), "--gate", "true", "-o", "json"}, tc.args...)
			p := expect(t, tc.code, append(args, "go")...)
			if r := taskReportOf(t, p); r.Status != tc.status || r.Verified || r.Attempts != 0 || !strings.Contains(p.err.String(), tc.say) {
				t.Errorf("report %+v, err %s", r, p.err)
			}
		})
	}
}

func TestTasksOfADeploymentNeedAWorkerThatRunsGates(t *testing.T) {
	t.Parallel()
	url := cellOf(t, node())
	p := at(t, url, "task", "--model", scripted(t, oneReply), "--gate", "true", "go")
	if code := p.end(t); code != cli.CodeFailed || !strings.Contains(p.err.String(), "no worker runs the gates of tasks: start a tool-worker with --tools gate") {
		t.Errorf("code %d, err %s", code, p.err)
	}
	succeed(t, url, "task", "--session", "s", "--model", scripted(t, echo), "one")
	if out := succeed(t, url, "task", "--session", "s", "two"); out != "You said two.\n" {
		t.Errorf("out %q", out)
	}
	busy := at(t, url, "run", "--session", "busy", "-o", "jsonl", "--model", scripted(t, endless), "wait")
	busy.out.Await(t, "model_call_started")
	p = at(t, url, "task", "--session", "busy", "me too")
	if code := p.end(t); code != cli.CodeFailed || !strings.Contains(p.err.String(), "session busy is busy with another turn or task") {
		t.Errorf("code %d, err %s", code, p.err)
	}
	succeed(t, url, "cancel", "busy")
	busy.end(t)
	for args, want := range map[string]string{"--max-retries -1": "--max-retries -1: use 0 or more", "--gate=": "--gate is empty"} {
		p := expect(t, cli.CodeUsage, append(append([]string{"task"}, strings.Fields(args)...), "go")...)
		if !strings.Contains(p.err.String(), want) {
			t.Errorf("%s: err %s", args, p.err)
		}
	}
}
