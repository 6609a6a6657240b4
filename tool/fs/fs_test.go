package fs_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/tool"
	"github.com/turnlog/turnlog/tool/fs"
	"github.com/turnlog/turnlog/tool/tooltest"
)

// kit is a root with files and the tools for it.
type kit struct {
	root  string
	tools map[string]tool.Tool
}

// newKit creates files by name and content. A name that ends with a slash is
// an empty directory.
func newKit(t *testing.T, files map[string]string) kit {
	t.Helper()
	k := kit{root: t.TempDir(), tools: make(map[string]tool.Tool)}
	for name, content := range files {
		full := filepath.Join(k.root, name)
		dir := filepath.Dir(full)
		if strings.HasSuffix(name, "/") {
			dir = full
		}
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		if dir == full {
			continue
		}
		if err := os.WriteFile(full, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	k.open(t, fs.Options{Write: true})
	return k
}

// open creates the tools again.
func (k kit) open(t *testing.T, opts fs.Options) {
	t.Helper()
	tools, err := fs.New(k.root, opts)
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range tools {
		k.tools[x.Spec().Name] = x
	}
}

type args map[string]any

func (k kit) invoke(t *testing.T, name string, in args) tool.Result {
	t.Helper()
	raw, err := json.Marshal(in)
	if err != nil {
		t.Fatal(err)
	}
	return tool.Invoke(t.Context(), k.tools[name], tool.Call{ID: "c1", Name: name, Input: raw})
}

// call returns the text of a call that must succeed.
func (k kit) call(t *testing.T, name string, in args) string {
	t.Helper()
	r := k.invoke(t, name, in).Result
	if r.Status != content.StatusOK {
		t.Fatalf("%s %v: %s", name, in, r.Text())
	}
	return r.Text()
}

// fail returns the text of a call that must fail with code.
func (k kit) fail(t *testing.T, code, name string, in args) string {
	t.Helper()
	r := k.invoke(t, name, in).Result
	if r.Status != content.StatusError || r.Code != code {
		t.Errorf("%s %v: %s, code %q, want an error with %q: %s", name, in, r.Status, r.Code, code, r.Text())
	}
	return r.Text()
}

func (k kit) content(t *testing.T, name string) string {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(k.root, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

func (k kit) link(t *testing.T, to, name string) {
	t.Helper()
	if err := os.Symlink(to, filepath.Join(k.root, name)); err != nil {
		t.Fatal(err)
	}
}

func equal(t *testing.T, what, got, want string) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

func TestToolsHoldTheContract(t *testing.T) {
	t.Parallel()
	files := map[string]string{"a.txt": "one\ntwo\n", "d/b.go": "package b\n"}
	for name, cases := range map[string][]tooltest.Case{
		"fs_list_directory":  {{Name: "root", Input: `{}`, Text: "a.txt (8 bytes)"}},
		"fs_read_file":       {{Name: "file", Input: `{"path":"a.txt"}`, Text: "two"}, {Name: "none", Input: `{"path":"x"}`, Status: content.StatusError, Code: tool.CodeNoFile}},
		"fs_search":          {{Name: "word", Input: `{"pattern":"tw."}`, Text: "a.txt:2: two"}},
		"fs_find":            {{Name: "go", Input: `{"glob":"*.go"}`, Text: "d/b.go"}},
		"fs_count":           {{Name: "all", Input: `{}`, Text: `{"path":"a.txt","lines":2,`}},
		"fs_write_file":      {{Name: "new", Input: `{"path":"n/new.txt","content":"x"}`, Text: "created", Paths: []string{"n/new.txt"}}},
		"fs_replace_in_file": {{Name: "one", Input: `{"path":"a.txt","old":"one","new":"eins"}`, Text: "line 1", Paths: []string{"a.txt"}}},
		"fs_patch":           {{Name: "one", Input: `{"patch":"*** Begin Patch\n*** Update File: a.txt\n-one\n+eins\n*** End Patch"}`, Text: "changed a.txt", Paths: []string{"a.txt"}}},
		"fs_delete":          {{Name: "file", Input: `{"path":"a.txt"}`, Text: "deleted", Paths: []string{"a.txt"}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tooltest.Run(t, newKit(t, files).tools[name], cases...)
		})
	}
}

func TestWithoutWriteThereAreOnlyReadTools(t *testing.T) {
	t.Parallel()
	tools, err := fs.New(t.TempDir(), fs.Options{})
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, x := range tools {
		names = append(names, x.Spec().Name)
		if x.Spec().Effects != content.ReadOnly || x.Spec().Writes {
			t.Errorf("%s is not declared read only", x.Spec().Name)
		}
	}
	want := []string{"fs_count", "fs_find", "fs_list_directory", "fs_read_file", "fs_search"}
	if !slices.Equal(names, want) {
		t.Errorf("tools = %v, want %v", names, want)
	}
}

func TestEffectsOfTheToolsThatWrite(t *testing.T) {
	t.Parallel()
	k := newKit(t, nil)
	for name, want := range map[string]content.Effects{
		"fs_write_file": content.Idempotent, "fs_replace_in_file": content.Once,
		"fs_delete": content.Once,
	} {
		spec := k.tools[name].Spec()
		if spec.Effects != want || !spec.Exclusive || !spec.Writes {
			t.Errorf("%s = effects %q, exclusive %v, writes %v", name, spec.Effects, spec.Exclusive, spec.Writes)
		}
	}
}

func TestMissingRootIsAnError(t *testing.T) {
	t.Parallel()
	root := filepath.Join(t.TempDir(), "missing")
	want := "root " + root + ": no such directory: create it or name another one"
	if _, err := fs.New(root, fs.Options{}); err == nil || err.Error() != want {
		t.Errorf("error = %v, want %s", err, want)
	}
}

// TestNothingOutsideOfTheRootIsReached tries each tool with each path that leads out.
func TestNothingOutsideOfTheRootIsReached(t *testing.T) {
	t.Parallel()
	outside := t.TempDir()
	secret := filepath.Join(outside, "secret")
	if err := os.WriteFile(secret, []byte("treasure\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	k := newKit(t, map[string]string{"in/file": "x\n"})
	k.link(t, outside, "out")
	k.link(t, secret, "leak")
	k.link(t, "../../..", "in/up")
	up, err := filepath.Rel(k.root, secret)
	if err != nil {
		t.Fatal(err)
	}
	ways := []string{
		up, "in/../" + up, secret, outside, "/", "..", k.root + "/../x", k.root + "x", "out/secret", "out", "leak", "in/up", "in/up/etc", "out/new/file",
	}
	inputs := map[string]func(path string) args{
		"fs_read_file":       func(p string) args { return args{"path": p} },
		"fs_list_directory":  func(p string) args { return args{"path": p, "depth": 3} },
		"fs_search":          func(p string) args { return args{"path": p, "pattern": "."} },
		"fs_find":            func(p string) args { return args{"path": p, "glob": "*"} },
		"fs_count":           func(p string) args { return args{"path": p} },
		"fs_write_file":      func(p string) args { return args{"path": p, "content": "pwned"} },
		"fs_replace_in_file": func(p string) args { return args{"path": p, "old": "treasure", "new": "pwned"} },
	}
	for name, input := range inputs {
		for _, way := range ways {
			r := k.invoke(t, name, input(way)).Result
			if r.Status != content.StatusError {
				t.Errorf("%s %s: %s", name, way, r.Text())
			}
			if strings.Contains(r.Text(), "treasure") {
				t.Errorf("%s %s shows what is outside: %s", name, way, r.Text())
			}
			if link := strings.HasPrefix(way, "out") || way == "leak" || strings.HasPrefix(way, "in/up"); r.Code != tool.CodeDenied && !link {
				t.Errorf("%s %s: code %q: %s", name, way, r.Code, r.Text())
			}
		}
	}
	for _, way := range []string{up, secret, "..", "/", "out/secret"} {
		k.fail(t, tool.CodeDenied, "fs_delete", args{"path": way, "recursive": true})
	}
	if got := k.fail(t, tool.CodeDenied, "fs_read_file", args{"path": "leak"}); got != "Tool failed: leak leads out of the root through a symbolic link, which is not followed" {
		t.Error(got)
	}

	// Tools that walk the tree meet the links and do not follow them.
	for name, in := range map[string]args{
		"fs_search": {"pattern": "treasure"}, "fs_count": {}, "fs_find": {"glob": "secret"}, "fs_list_directory": {"depth": 9},
	} {
		if got := k.call(t, name, in); strings.Contains(got, "treasure") || strings.Contains(got, "out/secret") || strings.Contains(got, `"leak"`) {
			t.Errorf("%s: %s", name, got)
		}
	}
	k.call(t, "fs_delete", args{"path": "out", "recursive": true}) // the link, not what it leads to
	if raw, err := os.ReadFile(secret); err != nil || string(raw) != "treasure\n" {
		t.Errorf("outside has changed: %q, %v", raw, err)
	}
	if entries, err := os.ReadDir(outside); err != nil || len(entries) != 1 {
		t.Errorf("outside has changed: %v, %v", entries, err)
	}
}

func TestPathsWithinTheRoot(t *testing.T) {
	t.Parallel()
	k := newKit(t, map[string]string{"d/file": "x\n"})
	k.link(t, "d", "link")
	alias := filepath.Join(t.TempDir(), "alias")
	if err := os.Symlink(k.root, alias); err != nil {
		t.Fatal(err)
	}
	tools, err := fs.New(alias, fs.Options{})
	if err != nil {
		t.Fatal(err)
	}
	aliased := kit{root: alias, tools: map[string]tool.Tool{tools[3].Spec().Name: tools[3]}}
	for _, path := range []string{"d/file", "./d/../d/file", k.root + "/d/file", "link/file"} {
		want := "d/file: lines 1 to 1 of 1 (2 bytes)\nx\n"
		if path == "link/file" {
			want = strings.Replace(want, "d/", "link/", 1)
		}
		equal(t, path, k.call(t, "fs_read_file", args{"path": path}), want)
		equal(t, path, aliased.call(t, "fs_read_file", args{"path": path}), want)
	}
	equal(t, "alias", aliased.call(t, "fs_read_file", args{"path": alias + "/d/file"}), "d/file: lines 1 to 1 of 1 (2 bytes)\nx\n")
}

func TestPermissionRequests(t *testing.T) {
	t.Parallel()
	k := newKit(t, nil)
	for name, want := range map[string]string{
		"fs_list_directory": "filesystem.list list a/b", "fs_find": "filesystem.list find names in a/b",
		"fs_read_file": "filesystem.read read a/b", "fs_search": "filesystem.read search a/b", "fs_count": "filesystem.read count in a/b",
		"fs_write_file": "filesystem.write write a/b", "fs_replace_in_file": "filesystem.edit edit a/b",
		"fs_delete": "filesystem.delete delete a/b",
	} {
		rs, err := k.tools[name].(tool.Proposer).Propose(t.Context(), tool.Call{Input: json.RawMessage(`{"path":"a/./c/../b"}`)})
		if err != nil || len(rs) != 1 {
			t.Fatalf("%s: %v, %v", name, rs, err)
		}
		equal(t, name, rs[0].Kind+" "+rs[0].Summary, want)
		equal(t, name, string(rs[0].Target), `{"path":"a/b"}`)
	}
}
