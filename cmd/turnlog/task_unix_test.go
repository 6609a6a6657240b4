//go:build unix

package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/turnlog/turnlog/internal/cli"
)

// begin starts "turnlog task" in a new directory.
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

func TestAnInterruptCancelsATaskAndItsVerifier(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	pipe := filepath.Join(root, "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	p := begin(t, root, oneReply, "--gate", "echo > pipe; sleep 120; touch over", "-o", "json", "Wait")
	if _, err := os.ReadFile(pipe); err != nil { // waits for the verifier
		t.Fatal(err)
	}
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
