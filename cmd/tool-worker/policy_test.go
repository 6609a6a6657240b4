package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/zap/zaptest"

	"github.com/turnlog/turnlog/actor"
	"github.com/turnlog/turnlog/client"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/internal/testing/clitest"
	"github.com/turnlog/turnlog/internal/testing/sample"
	"github.com/turnlog/turnlog/model/registry"
	"github.com/turnlog/turnlog/policy/permission"
	"github.com/turnlog/turnlog/session"
)

// node drives the deployment's sessions until the test ends.
func (d *deployment) node() {
	d.t.Helper()
	n, err := actor.NewNode(d.cell, actor.Config{Policy: permission.AllowAll(), Models: registry.New(nil).Open, Logger: zaptest.NewLogger(d.t)})
	if err != nil {
		d.t.Fatal(err)
	}
	ctx, stop := context.WithCancel(d.t.Context())
	ended := make(chan error, 1)
	go func() { ended <- n.Run(ctx) }()
	d.t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil && !errors.Is(err, context.Canceled) {
			d.t.Errorf("the node ended: %v", err)
		}
	})
}

// ask opens a session with a script and submits a prompt.
func (d *deployment) ask(ctx context.Context, script string) *session.Session {
	d.t.Helper()
	c, err := client.Open(clitest.Dial(d.t, d.url), "")
	if err != nil {
		d.t.Fatal(err)
	}
	s, err := c.Start(ctx, client.Options{Config: events.Config{Model: "scripted:x", ModelData: []byte(script)}})
	if err != nil {
		d.t.Fatal(err)
	}
	d.t.Cleanup(func() { _ = s.Close(d.t.Context()) })
	if err := s.Send(ctx, events.Steer, content.UserText("go")); err != nil {
		d.t.Fatal(err)
	}
	return s
}

// results are those of the session's calls so far, in the order of the journal.
func (d *deployment) results(s *session.Session) []content.ToolResult {
	d.t.Helper()
	var out []content.ToolResult
	for rec, err := range d.cell.Journal().Read(d.t.Context(), s.ID(), 0) {
		if err != nil {
			d.t.Fatal(err)
		}
		for _, ev := range rec.Entry.Events {
			if r, ok := ev.(events.ToolResultReceived); ok {
				out = append(out, r.Result)
			}
		}
	}
	return out
}

func next(ctx context.Context, t *testing.T, s *session.Session) session.Step {
	t.Helper()
	step, err := s.Next(ctx)
	if err != nil {
		t.Fatal(err)
	}
	return step
}

// tree creates files. A text that begins with #! makes an executable one, one that begins
// with -> a link, and a name that ends with a slash a directory.
func tree(t *testing.T, files map[string]string) string {
	t.Helper()
	root := t.TempDir()
	for name, text := range files {
		at := filepath.Join(root, name)
		err := os.MkdirAll(filepath.Dir(at), 0o700)
		to, link := strings.CutPrefix(text, "->")
		switch {
		case err != nil:
		case strings.HasSuffix(name, "/"):
			err = os.MkdirAll(at, 0o700)
		case link:
			err = os.Symlink(to, at)
		default:
			sample.WriteProgram(t, at, text, 0o700)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return root
}

func TestPathsAreJudgedByTheirTargets(t *testing.T) {
	t.Parallel()
	root := tree(t, map[string]string{
		".git/config": "secret", "link": "->.git", "around": "->link/config", "docs/a.md": "a", "work/": "", "elsewhere/": "",
	})
	d := deploy(t)
	w := d.start("--root", root, "--allow-write", "--protect", ".git", "--read-only", "docs", "--allow-root", "work", "--allow-root", "docs")
	d.node()
	ctx, cancel := context.WithTimeout(t.Context(), 2*clitest.Patience)
	defer cancel()
	s := d.ask(ctx, `
replies:
  - calls:
      - {name: fs_read_file, input: {path: link/config}}
      - {name: fs_read_file, input: {path: around}}
      - {name: fs_write_file, input: {path: link/hooks/new, content: x}}
      - {name: fs_write_file, input: {path: docs/a.md, content: x}}
      - {name: fs_read_file, input: {path: docs/a.md}}
      - {name: fs_write_file, input: {path: work/b, content: x}}
      - {name: fs_write_file, input: {path: work/../elsewhere/c, content: x}}
  - text: done
`)
	req, ok := next(ctx, t, s).(*session.ApprovalRequest)
	if !ok || req.RequestKind != "filesystem.write" || req.Reason != content.SensitivePath || !strings.HasSuffix(req.Scope, "/elsewhere/c") {
		t.Fatalf("step = %+v, want to be asked about elsewhere/c", req)
	}
	if err := req.DenyWithReason(ctx, "not there"); err != nil {
		t.Fatal(err)
	}
	if fin, ok := next(ctx, t, s).(*session.Finished); !ok || fin.Result.Text() != "done" {
		t.Fatalf("step = %+v, want the end", fin)
	}
	const protected = `Permission denied: path_protected: path "`
	want := []string{
		protected + `link/config" is protected`, protected + `around" is protected`, protected + `link/hooks/new" is protected`,
		`Permission denied: path_read_only: path "docs/a.md" may only be read`, "a", "", "Permission denied: not there",
	}
	got := d.results(s)
	if len(got) != len(want) {
		t.Fatalf("%d results, want %d", len(got), len(want))
	}
	for i, r := range got {
		if !strings.Contains(r.Text(), want[i]) || (r.Status == content.StatusDenied) != strings.HasPrefix(want[i], "Permission") {
			t.Errorf("result %d = %s %q, want %q", i, r.Status, r.Text(), want[i])
		}
	}
	for name, there := range map[string]bool{".git/hooks": false, "work/b": true, "elsewhere/c": false} {
		if _, err := os.Stat(filepath.Join(root, name)); (err == nil) != there {
			t.Errorf("%s: %v, want it there: %v", name, err, there)
		}
	}
	w.end()
}

func TestACommandThatNeedsApprovalRunsOnce(t *testing.T) {
	t.Parallel()
	const bump = "#!/bin/sh\necho ran >> \"$(dirname \"$0\")/log\"\n"
	root := tree(t, map[string]string{"bump": bump, "other": "->bump", "never": bump})
	d := deploy(t)
	w := d.start("--root", root, "--tools", "shell", "--ask-command", "bump", "--deny-command", "never")
	d.node()
	ctx, cancel := context.WithTimeout(t.Context(), 2*clitest.Patience)
	defer cancel()
	s := d.ask(ctx, `
replies:
  - calls: [{name: shell_exec, input: {argv: [./other]}}]
  - calls: [{name: shell_exec, input: {argv: [./never]}}]
  - calls: [{name: shell_exec, input: {argv: [env, ./never]}}]
  - calls: [{name: shell_exec, input: {script: "./bump; ./bump"}}]
  - text: done
`)
	ran := func() int {
		raw, err := os.ReadFile(filepath.Join(root, "log"))
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Fatal(err)
		}
		return strings.Count(string(raw), "ran")
	}
	req, ok := next(ctx, t, s).(*session.ApprovalRequest)
	if !ok || req.RequestKind != "shell.command" || req.Reason != content.SensitiveCommand || ran() != 0 {
		t.Fatalf("step = %+v after %d runs, want to be asked first", req, ran())
	}
	if err := req.Approve(ctx); err != nil {
		t.Fatal(err)
	}
	script, ok := next(ctx, t, s).(*session.ApprovalRequest)
	if !ok || script.RequestKind != "shell.script" || script.Reason != content.EscalatedRisk || ran() != 1 {
		t.Fatalf("step = %+v after %d runs, want to be asked about the script after one", script, ran())
	}
	if err := script.Deny(ctx); err != nil {
		t.Fatal(err)
	}
	if fin, ok := next(ctx, t, s).(*session.Finished); !ok || fin.Result.Text() != "done" {
		t.Fatalf("step = %+v, want the end", fin)
	}
	var got []content.Status
	for _, r := range d.results(s) {
		got = append(got, r.Status)
	}
	want := []content.Status{content.StatusOK, content.StatusDenied, content.StatusDenied, content.StatusDenied}
	if ran() != 1 || len(got) != len(want) {
		t.Fatalf("%d runs, results %v, want one and %v", ran(), got, want)
	}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("results = %v, want %v", got, want)
		}
	}
	w.end()
}
