package fs_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/policy/permission"
	"github.com/turnlog/turnlog/tool"
)

// flipped is a policy that redirects a link after a number of judgments, as a concurrent command can.
type flipped struct {
	tool.Permissions

	after int
	flip  func()
}

func (f *flipped) Evaluate(ctx context.Context, r tool.Request) (tool.Verdict, error) {
	v, err := f.Permissions.Evaluate(ctx, r)
	if f.after--; f.after == 0 {
		f.flip()
	}
	return v, err
}

// A command that redirects a link after a policy judged it must not get a tool to use a
// protected or read-only file.
func TestLinksThatChangeWhileACallRunsLeadNowhere(t *testing.T) {
	t.Parallel()
	calls := map[string][]args{
		"fs_count":           {{"path": "link"}, {"path": "link/k"}},
		"fs_delete":          {{"path": "link/k"}, {"path": "link/d", "recursive": true}},
		"fs_find":            {{"path": "link", "glob": "**"}},
		"fs_list_directory":  {{"path": "link"}},
		"fs_patch":           {{"patch": patch("*** Update File: link/k\n-before\n+after\n")}, {"patch": patch("*** Add File: link/new\n+x\n")}},
		"fs_read_file":       {{"path": "link/k"}},
		"fs_replace_in_file": {{"path": "link/k", "old": "before", "new": "after"}},
		"fs_search":          {{"path": "link", "pattern": "."}, {"path": "link/k", "pattern": "."}},
		"fs_write_file":      {{"path": "link/k", "content": "after\n"}, {"path": "link/new/x", "content": "x"}},
	}
	for name, all := range calls {
		for i, in := range all {
			for after := 1; after <= 4; after++ {
				for _, rules := range []permission.PathRules{{Protect: []string{"guarded"}}, {ReadOnly: []string{"guarded"}}} {
					t.Run(fmt.Sprintf("%s/%d/%d/%t", name, i, after, rules.Protect != nil), func(t *testing.T) {
						t.Parallel()
						lead(t, name, in, after, rules)
					})
				}
			}
		}
	}
}

func lead(t *testing.T, name string, in args, after int, rules permission.PathRules) {
	t.Helper()
	k := newKit(t, map[string]string{"open/k": "before\n", "open/d/x": "", "guarded/k": "before\nsecret\n", "guarded/d/x": "", "guarded/secret": "secret"})
	k.link(t, "open", "link")
	p, err := permission.NewPaths(k.root, rules)
	if err != nil {
		t.Fatal(err)
	}
	before := listing(t, filepath.Join(k.root, "guarded"))
	link, next := filepath.Join(k.root, "link"), filepath.Join(k.root, "next")
	policy := &flipped{p, after, func() {
		if err := os.Symlink("guarded", next); err != nil {
			t.Error(err)
		}
		if err := os.Rename(next, link); err != nil {
			t.Error(err)
		}
	}}
	x := k.tools[name]
	k.tools[name] = tool.Wrap(x, permission.Guard(policy, x))
	r := k.invoke(t, name, in).Result
	if now := listing(t, filepath.Join(k.root, "guarded")); now != before {
		t.Errorf("it changed the files:\n%s\n%s: %s", now, r.Status, r.Text())
	}
	if rules.Protect != nil && strings.Contains(r.Text(), "secret") {
		t.Errorf("it read a protected file: %s", r.Text())
	}
	if after > 1 && policy.after > 0 && r.Status != content.StatusOK {
		t.Errorf("without a change: %s: %s", r.Status, r.Text())
	}
}

// listing describes a directory and its files.
func listing(t *testing.T, dir string) string {
	t.Helper()
	var b strings.Builder
	err := filepath.WalkDir(dir, func(name string, e os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		fmt.Fprintln(&b, name)
		if e.Type().IsRegular() {
			raw, err := os.ReadFile(name)
			fmt.Fprintf(&b, "%s\n", raw)
			return err
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return b.String()
}
