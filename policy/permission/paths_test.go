package permission_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/policy/permission"
	"github.com/turnlog/turnlog/tool"
)

// tree creates files (a name, or a directory if it ends in a slash) and links (name ->
// target) below a new directory, without symbolic links on the way to it.
func tree(t testing.TB, entries ...string) string {
	t.Helper()
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		name, to, link := strings.Cut(e, " -> ")
		full := filepath.Join(root, name)
		err := os.MkdirAll(filepath.Dir(full), 0o700)
		switch {
		case err != nil:
		case link && strings.HasPrefix(to, "="):
			err = os.Link(filepath.Join(root, to[1:]), full)
		case link:
			err = os.Symlink(strings.ReplaceAll(to, "ROOT", root), full)
		case strings.HasSuffix(name, "/"):
			err = os.MkdirAll(full, 0o700)
		default:
			err = os.WriteFile(full, []byte("x"), 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return root
}

func paths(t testing.TB, root string, r permission.PathRules) *permission.Paths {
	t.Helper()
	p, err := permission.NewPaths(root, r)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestPathsAreJudgedByWhereTheyLead(t *testing.T) {
	t.Parallel()
	top := tree(t,
		"work/src/a.go", "work/.git/config", "work/vendor/v.go", "work/.env", "elsewhere/secret",
		"work/to_src -> src", "work/to_out -> ../elsewhere", "work/to_nothing -> ../elsewhere/new", "work/to_git -> ROOT/work/.git/new",
		"work/circle -> circle", "work/hard -> =work/.env", "work/src/up -> ..", "work/far -> src/up/../elsewhere", "work/lib/vendored -> ../vendor",
	)
	p := paths(t, filepath.Join(top, "work"), permission.PathRules{
		Protect: []string{".git", ".env", "not_there/yet"}, ReadOnly: []string{"vendor"}, Allow: []string{"."},
	})
	for _, tc := range []struct{ kind, path, want string }{
		{"read", "src/a.go", "allow"},
		{"write", "src/a.go", "allow"},
		{"write", "src/new/deep/file", "allow"},
		{"write", "./src//a.go", "allow"},
		{"write", "nothing/../src/a.go", "allow"},
		{"write", top + "/work/src/a.go", "allow"},

		{"write", "../elsewhere/x", "ask filesystem.write"},
		{"write", "src/../../elsewhere/x", "ask filesystem.write"},
		{"read", "/etc/passwd", "ask filesystem.read"},
		{"write", "to_out/new", "ask filesystem.write"},
		{"write", "to_out/sub/../new", "ask filesystem.write"},
		{"write", "to_nothing", "ask filesystem.write"},
		{"write", "to_nothing/below", "ask filesystem.write"},
		{"write", "to_out/../src/a.go", "ask filesystem.write"}, // the operating system resolves it differently
		{"read", "src/up/../elsewhere/secret", "ask filesystem.read"},
		{"write", "to_src/a.go", "allow"},
		{"write", "far/x", "ask filesystem.write"},

		{"read", ".git/config", "deny path_protected"},
		{"list", ".git", "deny path_protected"},
		{"list", ".", "allow"},
		{"read", ".", "ask filesystem.read"}, // reading all of it would read protected files
		{"read", "src", "allow"},
		{"write", ".git", "deny path_protected"},
		{"write", ".GIT/config", "deny path_protected"},
		{"write", "to_git", "deny path_protected"},
		{"write", "src/up/.git/x", "deny path_protected"},
		{"write", "not_there/yet/x", "deny path_protected"},
		{"write", "not_there/YET", "deny path_protected"},
		{"write", "not_there/other", "allow"},
		{"write", "hard", "deny path_protected"},
		{"write", ".env.example", "allow"},
		{"write", ".github", "allow"},

		{"read", "vendor/v.go", "allow"},
		{"list", "vendor", "allow"},
		{"write", "vendor/v.go", "deny path_read_only"},
		{"edit", "vendor/new", "deny path_read_only"},
		{"mkdir", "vendor/x/y", "deny path_read_only"},
		{"write", "lib/vendored/v.go", "deny path_read_only"},
		{"read", "lib/vendored/v.go", "allow"},

		{"delete", "src", "allow"},
		{"delete", "vendor/v.go", "deny path_read_only"},
		{"delete", "lib/vendored", "allow"}, // the link itself
		{"delete", "to_git", "allow"},
		{"delete", "to_out", "allow"},
		{"delete", "to_out/secret", "ask filesystem.delete"},
		{"delete", ".", "deny path_protected"}, // with all that is in it
		{"delete", "..", "deny path_protected"},
		{"delete", ".git/config", "deny path_protected"},

		{"chmod", "vendor", "deny path_read_only"},
		{"chmod", "to_git", "deny path_protected"},
		{"chmod", "src/a.go", "allow"},

		{"read", "circle", "deny path_not_allowed"},
		{"read", "a\x00b", "deny path_not_allowed"},
		{"read", "", "deny unreadable_request"},
	} {
		if got := ruling(evaluate(t, p, path(t, tc.kind, tc.path))); got != tc.want {
			t.Errorf("%s %q: %s, want %s", tc.kind, tc.path, got, tc.want)
		}
	}
}

func TestEveryPathOfARequestCounts(t *testing.T) {
	t.Parallel()
	top := tree(t, "work/a", "work/.git/x", "other/b")
	root, cfg := filepath.Join(top, "work"), permission.PathRules{Protect: []string{".git"}, Allow: []string{"."}}
	p := paths(t, root, cfg)
	move := func(from, to string) tool.Request {
		return requestOf(t, "fs", "filesystem.move", map[string]string{"from": from, "to": to})
	}
	for want, r := range map[string]tool.Request{
		"allow":                               move("a", "b"),
		"deny path_protected":                 move("a", ".git/y"),
		"ask filesystem.move":                 move("a", "../other/b"),
		"ask filesystem.move filesystem.move": move("../x", "../other/b"),
		"ask filesystem.copy":                 requestOf(t, "fs", "filesystem.copy", map[string][]string{"paths": {"a", "/etc/x"}}),
		"none":                                requestOf(t, "fs", "shell.command", map[string]string{"path": ".git"}),
	} {
		if got := ruling(evaluate(t, p, r)); got != want {
			t.Errorf("%s: %s, want %s", r.Target, got, want)
		}
	}
	cfg.Outside = "deny"
	v := evaluate(t, paths(t, root, cfg), path(t, "write", "../other/b"))
	if ruling(v) != "deny path_not_allowed" || !strings.Contains(v.Message, "../other/b") || strings.Contains(v.Message, top) {
		t.Errorf("verdict = %+v, want a denial that names the path as the model gave it", v)
	}
	cfg.Allow = nil
	for kind, want := range map[string]string{"write": "none", "delete": "none"} {
		if got := ruling(evaluate(t, paths(t, root, cfg), path(t, kind, "/tmp/x"))); got != want {
			t.Errorf("%s without allowed roots: %s, want %s", kind, got, want)
		}
	}
	cfg.ReadOnly = []string{"a"}
	both := requestOf(t, "fs", "filesystem.read", map[string][]string{"paths": {"a", "b"}})
	if got := ruling(evaluate(t, paths(t, root, cfg), both)); got != "none" {
		t.Errorf("one path allowed and no opinion about the other: %s, want none", got)
	}
}

func TestTheQuestionAboutAPathNamesWhereItLeads(t *testing.T) {
	t.Parallel()
	top := tree(t, "work/link -> ../else")
	p := paths(t, filepath.Join(top, "work"), permission.PathRules{Allow: []string{"."}})
	v := evaluate(t, p, path(t, "write", "link/new"))
	if at := filepath.Join(top, "else", "new"); v.Scope != at || v.Reason != content.SensitivePath || !strings.Contains(v.Summary, at) {
		t.Errorf("verdict = %+v, want the question about %s", v, at)
	}
}

func TestRootsMayBeLinks(t *testing.T) {
	t.Parallel()
	top := tree(t, "real/src/a", "alias -> real", "real/keep/x")
	p := paths(t, filepath.Join(top, "alias"), permission.PathRules{
		Protect: []string{filepath.Join(top, "real", "keep")}, Allow: []string{filepath.Join(top, "alias")},
	})
	for name, want := range map[string]string{
		"src/a": "allow", filepath.Join(top, "real", "src"): "allow", "keep/x": "deny path_protected", "../x": "ask filesystem.write",
	} {
		if got := ruling(evaluate(t, p, path(t, "write", name))); got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
	linked := paths(t, top, permission.PathRules{Protect: []string{"alias"}})
	for _, name := range []string{"alias", "alias/src/a", "real/src/a"} {
		if got := ruling(evaluate(t, linked, path(t, "delete", name))); got != "deny path_protected" {
			t.Errorf("delete %s, protected by its link: %s", name, got)
		}
	}
}

func TestInvalidPathRulesAreRefused(t *testing.T) {
	t.Parallel()
	if _, err := permission.NewPaths("", permission.PathRules{}); err == nil {
		t.Error("rules without a root were accepted")
	}
	if _, err := permission.NewPaths("/", permission.PathRules{Outside: "allow"}); err == nil {
		t.Error("rules that allow everything outside were accepted")
	}
}

// FuzzPaths looks for an allowed path that leads out of the root or into .git. A
// write to an allowed path changes something in the root, whether the path is
// cleaned first or not.
func FuzzPaths(f *testing.F) {
	top := tree(f, "work/src/a", "work/.git/config", "out/secret",
		"work/l1 -> ../out", "work/l2 -> src/../../out/new", "work/l3 -> ROOT/work/.git", "work/src/up -> ../..", "work/l4 -> l4", "work/l5 -> src")
	work := filepath.Join(top, "work")
	p := paths(f, work, permission.PathRules{Protect: []string{".git"}, Allow: []string{"."}, Outside: "deny"})
	for _, s := range []string{"src/a", "l1/x", "l2", "l3/config", "src/up/out/x", "../work/./l5/../.git", "l5/up/work/.GIT", "a/../../out", "/", "l4", "x\x00"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, name string) {
		v := evaluate(t, p, path(t, "write", name))
		if v.Ruling != tool.Allow {
			return
		}
		for _, full := range []string{work + "/" + name, filepath.Join(work, name)} {
			if strings.HasPrefix(name, "/") {
				full = strings.Replace(full, work+"/", "", 1)
			}
			at := existing(full)
			if at != work && !strings.HasPrefix(at, work+"/") || strings.HasPrefix(at, filepath.Join(work, ".git")) {
				t.Errorf("%q is allowed, but leads to %s", name, at)
			}
		}
	})
}

// existing returns where the existing part of a path leads, according to the
// operating system.
func existing(full string) string {
	for {
		if at, err := filepath.EvalSymlinks(full); err == nil {
			return at
		}
		cut := strings.LastIndexByte(strings.TrimRight(full, "/"), '/')
		if cut <= 0 {
			return "/"
		}
		full = full[:cut]
	}
}

// A command may remove a link in the path to a protected file. The link's target at the time the policy
// was made stays protected.
func TestProtectedPathsDoNotDependOnLinks(t *testing.T) {
	t.Parallel()
	root := tree(t, "real/keys/k", "config -> real")
	p := paths(t, root, permission.PathRules{Protect: []string{"config/keys"}})
	if err := os.Remove(filepath.Join(root, "config")); err != nil {
		t.Fatal(err)
	}
	if got := ruling(evaluate(t, p, path(t, "read", "real/keys/k"))); got != "deny path_protected" {
		t.Errorf("what the link led to: %s", got)
	}
}
