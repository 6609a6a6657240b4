package worker_test

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/policy/permission"
	"github.com/turnlog/turnlog/tool"
	"github.com/turnlog/turnlog/worker"
	"github.com/turnlog/turnlog/worker/task"
)

type writing struct {
	Path string `json:"path"`
}

func (w writing) Describe() (kind, summary string, target any) {
	return "filesystem.write", "write " + w.Path, w
}

// A worker judges resolved paths, and an approval answers only its own question.
func TestPermissionsAreEnforcedOnResolvedPaths(t *testing.T) {
	t.Parallel()
	top, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	root := filepath.Join(top, "work")
	for _, dir := range []string{"work/.git", "out"} {
		if err := os.MkdirAll(filepath.Join(top, dir), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("../out", filepath.Join(root, "link")); err != nil {
		t.Fatal(err)
	}
	policy, err := permission.NewPaths(root, permission.PathRules{Protect: []string{".git"}, Allow: []string{"."}})
	if err != nil {
		t.Fatal(err)
	}
	write, err := tool.Func("write", "Writes.", func(_ context.Context, in writing) (string, error) {
		return "wrote " + in.Path, os.WriteFile(filepath.Join(root, in.Path), nil, 0o600)
	})
	if err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		w := b.start(t, worker.Config{Slots: 1, Permissions: policy}, write)
		try := func(n int, path string, approved ...content.QuestionKey) task.Report {
			b.dispatch(t, "write", func(x *task.Task) {
				x.Input, x.Approved = json.RawMessage(`{"path":"`+path+`"}`), approved
			})
			synctest.Wait()
			all := b.all()
			if len(all) != n {
				t.Fatalf("%d reports, want %d", len(all), n)
			}
			return all[n-1]
		}
		wantOutcome(t, try(1, "a"), content.StatusOK, "wrote a")
		wantOutcome(t, try(2, ".git/hook"), content.StatusDenied, `Permission denied: path_protected: path ".git/hook" is protected`)
		key := content.QuestionKey{Kind: "filesystem.write", Scope: filepath.Join(top, "out", "new")}
		if r := try(3, "link/new"); r.Question == nil || r.Question.Key() != key || r.Question.Reason != content.SensitivePath {
			t.Fatalf("report = %+v, want to be asked about %v", r, key)
		}
		if r := try(4, "link/other", key); r.Question == nil {
			t.Errorf("report = %+v: the approval of one path opened another", r)
		}
		wantOutcome(t, try(5, "link/new", key), content.StatusOK, "wrote link/new")
		w.end(t)
	})
	if _, err := os.Stat(filepath.Join(top, "out", "other")); err == nil {
		t.Error("an unapproved file was written")
	}
}

// A task contains its agent's policy and bounds. The worker's own apply as well.
func TestThePolicyOfAnAgentIsEnforcedOnTheWorker(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	write, err := tool.Func("write", "Writes.", func(ctx context.Context, in writing) (string, error) {
		if in.Path == "slow" {
			<-ctx.Done()
			return "", ctx.Err()
		}
		return strings.Repeat("wrote "+in.Path+" ", 100), nil
	}, tool.WithSpec(func(s *tool.Spec) { s.Timeout = time.Hour }))
	if err != nil {
		t.Fatal(err)
	}
	own := permission.Kinds{Deny: []string{"filesystem.delete"}}
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		w := b.start(t, worker.Config{Slots: 1, Permissions: own, Root: root}, write)
		try := func(n int, path, policy string) task.Report {
			b.dispatch(t, "write", func(x *task.Task) {
				x.Attempt, x.Input, x.Policy, x.MaxOutput = n, json.RawMessage(`{"path":"`+path+`"}`), json.RawMessage(policy), 200
				x.Timeout, x.Deadline = time.Minute, content.TimeOf(time.Now().Add(time.Minute))
			})
			synctest.Wait()
			if path == "slow" {
				pass(time.Minute)
				synctest.Wait()
			}
			all := b.all()
			if len(all) != n {
				t.Fatalf("%d reports, want %d", len(all), n)
			}
			return all[n-1]
		}
		policy := `{"paths":{"protect":["keys"],"allow":["src"]}}`
		wantOutcome(t, try(1, "keys/a", policy), content.StatusDenied, "path_protected")
		if r := try(2, "a", policy); r.Question == nil || r.Question.Scope != filepath.Join(root, "a") {
			t.Errorf("report = %+v, want to be asked", r)
		}
		wantOutcome(t, try(3, "src/a", policy), content.StatusOK, "bytes were cut here")
		wantOutcome(t, try(4, "src/a", `{"disks":{}}`), content.StatusDenied, permission.CodePolicy)
		wantOutcome(t, try(5, "slow", ""), content.StatusError, "Tool timed out after 1m0s")
		w.end(t)
	})
}

// A call that was judged by the effects that another worker declares does not run where the tool may do more.
func TestACallJudgedAsHarmlessDoesNoHarm(t *testing.T) {
	t.Parallel()
	for own, runs := range map[content.Effects]map[content.Effects]bool{
		content.Once:       {content.Once: true, content.Idempotent: false, content.ReadOnly: false},
		content.Idempotent: {content.Once: true, content.Idempotent: true, content.ReadOnly: false},
		content.ReadOnly:   {content.Once: true, content.Idempotent: true, content.ReadOnly: true},
	} {
		for judged, want := range runs {
			t.Run(string(own)+" judged as "+string(judged), func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					b := newBench(t)
					ran := false
					x, err := tool.Func("act", "Acts.", func(context.Context, struct{}) (string, error) {
						ran = true
						return "done", nil
					}, tool.WithSpec(func(s *tool.Spec) { s.Effects = own }))
					if err != nil {
						t.Fatal(err)
					}
					w := b.start(t, worker.Config{Slots: 1}, x)
					b.dispatch(t, "act", func(x *task.Task) { x.Effects, x.Declared = content.Once, judged })
					synctest.Wait()
					r := b.all()[0].Outcome.Result
					if ran != want || !want && (r.Status != content.StatusError || r.Code != worker.CodeNotRun) {
						t.Errorf("ran: %t, result %+v", ran, r)
					}
					w.end(t)
				})
			})
		}
	}
}
