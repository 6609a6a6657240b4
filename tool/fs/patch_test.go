package fs_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/turnlog/turnlog/tool"
	"github.com/turnlog/turnlog/tool/fs"
)

const poem = "one\ntwo\nthree\nfour\nfive\n"

// patch puts the parts of files between the first and the last marker.
func patch(files string) string {
	return "Here it is:\n*** Begin Patch\n" + files + "*** End Patch\n"
}

func TestPatch(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		files   map[string]string
		patch   string
		want    map[string]string // files after the patch, without unchanged ones
		answer  string
		changed []string
	}{
		"all that can happen to a file": {
			map[string]string{"f": poem, "gone": "x", "old": "a\nb\n"},
			"*** Update File: f\n@@ two\n-three\n+drei\n*** Add File: n/new\n+hello\n+\n*** Delete File: gone\n" +
				"*** Update File: old\n*** Move to: moved\n a\n-b\n+c\n",
			map[string]string{"f": "one\ntwo\ndrei\nfour\nfive\n", "n/new": "hello\n\n", "gone": "", "old": "", "moved": "a\nc\n"},
			"changed f\ncreated n/new\ndeleted gone\nrenamed old to moved\nremoved old\n",
			[]string{"f", "gone", "moved", "n/new", "old"},
		},
		"several hunks": {
			map[string]string{"f": poem},
			"*** Update File: f\n@@\n one\n+1.5\n two\n@@\n-four\n-five\n+4\n",
			map[string]string{"f": "one\n1.5\ntwo\nthree\n4\n"},
			"changed f\n",
			[]string{"f"},
		},
		"only renamed": {
			map[string]string{"a b": "x\n"},
			"*** Update File: a b\n*** Move to: d/ü\n",
			map[string]string{"a b": "", "d/ü": "x\n"},
			"renamed a b to d/ü\nremoved a b\n",
			[]string{"a b", "d/ü"},
		},
		"context without its blank": {
			map[string]string{"f": "a\n\nb\n"},
			"*** Update File: f\n a\n\n-b\n+c\n",
			map[string]string{"f": "a\n\nc\n"},
			"changed f\n",
			[]string{"f"},
		},
		"lines that look like markers": {
			map[string]string{"f": "*** End Patch\nrest\n"},
			"*** Update File: f\n-*** End Patch\n+@@ y\n rest\n",
			map[string]string{"f": "@@ y\nrest\n"},
			"changed f\n",
			[]string{"f"},
		},
		"no newline at the end": {
			map[string]string{"f": "a\nb"},
			"*** Update File: f\n a\n-b\n+c\n",
			map[string]string{"f": "a\nc"},
			"changed f\n",
			[]string{"f"},
		},
		"line breaks of Windows": {
			map[string]string{"f": "a\r\nb\r\n"},
			"*** Update File: f\n a\n-b\n+c\n+d\n",
			map[string]string{"f": "a\r\nc\r\nd\r\n"},
			"changed f\n",
			[]string{"f"},
		},
		"what stands before decides": {
			map[string]string{"f": "func a\n\treturn\nfunc b\n\treturn\n"},
			"*** Update File: f\n@@ func b\n-\treturn\n+\treturn 1\n",
			map[string]string{"f": "func a\n\treturn\nfunc b\n\treturn 1\n"},
			"changed f\n",
			[]string{"f"},
		},
		"an insertion by what stands before": {
			map[string]string{"f": "@a\n@b\n"},
			"*** Update File: f\n@@ @a\n+x\n",
			map[string]string{"f": "@a\nx\n@b\n"},
			"changed f\n",
			[]string{"f"},
		},
		"at the end": {
			map[string]string{"f": "x\ny\nx\n"},
			"*** Update File: f\n@@\n-x\n+z\n*** End of File\n",
			map[string]string{"f": "x\ny\nz\n"},
			"changed f\n",
			[]string{"f"},
		},
		"appended": {
			map[string]string{"f": "x\n"},
			"*** Update File: f\n+y\n",
			map[string]string{"f": "x\ny\n"},
			"changed f\n",
			[]string{"f"},
		},
		"an empty file": {
			nil,
			"*** Add File: f\n*** Add File: g\n+x\n",
			map[string]string{"g": "x\n"},
			"created f\ncreated g\n",
			[]string{"f", "g"},
		},
		"by a link": {
			map[string]string{"f": "x\n", "link": "->f"},
			"*** Update File: link\n-x\n+y\n",
			map[string]string{"f": "y\n"},
			"changed f\n",
			[]string{"f"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k := patchKit(t, row.files)
			r := k.invoke(t, "fs_patch", args{"patch": patch(row.patch)})
			equal(t, "answer", r.Result.Text(), row.answer)
			if diff := cmp.Diff(row.changed, r.ChangedPaths); diff != "" {
				t.Errorf("changed paths (-want +got):\n%s", diff)
			}
			k.holds(t, row.files, row.want)
		})
	}
}

func TestPatchKeepsPermissions(t *testing.T) {
	t.Parallel()
	k := newKit(t, map[string]string{"run": "a\n", "tool": "a\n"})
	for _, name := range []string{"run", "tool"} {
		if err := os.Chmod(filepath.Join(k.root, name), 0o750); err != nil {
			t.Fatal(err)
		}
	}
	k.invoke(t, "fs_patch", args{"patch": patch("*** Update File: run\n-a\n+b\n*** Update File: tool\n*** Move to: bin/tool\n-a\n+b\n")})
	for _, name := range []string{"run", "bin/tool"} {
		equal(t, name, k.content(t, name), "b\n")
		if info, err := os.Stat(filepath.Join(k.root, name)); err != nil || info.Mode().Perm() != 0o750 {
			t.Errorf("%s: mode %v, %v", name, info.Mode(), err)
		}
	}
}

// patchKit creates files. Content that begins with -> is a symbolic link.
func patchKit(t *testing.T, files map[string]string) kit {
	t.Helper()
	plain := map[string]string{}
	for name, content := range files {
		if !strings.HasPrefix(content, "->") {
			plain[name] = content
		}
	}
	k := newKit(t, plain)
	for name, content := range files {
		if to, ok := strings.CutPrefix(content, "->"); ok {
			k.link(t, to, name)
		}
	}
	return k
}

// holds checks that files are unchanged except for those in changed, where an empty
// one is deleted.
func (k kit) holds(t *testing.T, files, changed map[string]string) {
	t.Helper()
	for name, before := range files {
		if _, ok := changed[name]; !ok && !strings.HasPrefix(before, "->") {
			equal(t, name, k.content(t, name), before)
		}
	}
	for name, want := range changed {
		if want != "" {
			equal(t, name, k.content(t, name), want)
		} else if _, err := os.Lstat(filepath.Join(k.root, name)); !os.IsNotExist(err) {
			t.Errorf("%s is still there", name)
		}
	}
	noLeftovers(t, k)
}

func TestPatchThatDoesNotApplyChangesNothing(t *testing.T) {
	t.Parallel()
	const good = "*** Update File: f\n-one\n+eins\n"
	files := map[string]string{"f": poem, "g": "a\nb\na\nb\n", "d/x": "x\n", "bin": "a\x00b", "out": "->../secret"}
	for name, row := range map[string]struct{ code, patch, want string }{
		"no patch": {fs.CodePatch, "--- f\n+++ f\n@@ -1 +1 @@\n-one\n+eins\n", "no line of the patch is *** Begin Patch: put *** Update File:, *** Add File: or " +
			"*** Delete File: with the file's name between it and *** End Patch. Nothing was changed."},
		"no file":         {fs.CodePatch, patch(""), "line 3 of the patch: there is no file before *** End Patch. Nothing was changed."},
		"no name":         {fs.CodePatch, patch("*** Delete File:\n"), "line 3 of the patch: no file name. Nothing was changed."},
		"no hunk":         {fs.CodePatch, patch("*** Update File: f\n"), "line 3 of the patch: f has no hunk. Nothing was changed."},
		"bad begin":       {fs.CodePatch, patch("*** Update File: f\n-one\n#two\n"), `line 5 of the patch: begins with "#": lines of a hunk begin with a space, + or -. Nothing was changed.`},
		"bad new line":    {fs.CodePatch, patch("*** Add File: n\n+x\ny\n"), "line 5 of the patch: the lines of a new file begin with +. Nothing was changed."},
		"changes nothing": {fs.CodePatch, patch("*** Update File: f\n@@\n one\n"), "line 4 of the patch: the hunk changes nothing: no line begins with + or -. Nothing was changed."},
		"to the same":     {fs.CodePatch, patch("*** Update File: f\n-one\n+one\n"), "line 3 of the patch: there is no change of f. Nothing was changed."},
		"the second file": {fs.CodePatch, patch(good + "*** Update File: g\n@@\n a\n-c\n+d\n"), `g: hunk 1 (line 7 of the patch): it matches from line 1, but line 2 is "b", not "c": read the file again. Nothing was changed.`},
		"not there":       {fs.CodePatch, patch("*** Update File: f\n-uno\n+eins\n"), `f: hunk 1 (line 4 of the patch): no line from 1 on is "uno": read the file again. Nothing was changed.`},
		"beyond the end":  {fs.CodePatch, patch("*** Update File: f\n five\n-six\n+sechs\n"), `f: hunk 1 (line 4 of the patch): it matches from line 5, but the file ends before "six". Nothing was changed.`},
		"several places":  {fs.CodePatch, patch("*** Update File: g\n a\n-b\n+c\n"), "g: hunk 1 (line 4 of the patch): it matches at lines 1, 3: give more lines of context. Nothing was changed."},
		"wrong order":     {fs.CodePatch, patch("*** Update File: f\n-four\n+4\n@@\n-one\n+1\n"), `f: hunk 2 (line 6 of the patch): no line from 5 on is "one": read the file again. Nothing was changed.`},
		"twice":           {fs.CodePatch, patch(good + good), "line 6 of the patch: f appears twice: put its hunks together. Nothing was changed."},
		"exists":          {fs.CodePatch, patch("*** Add File: f\n+x\n"), "line 3 of the patch: f already exists: change it, or delete it first. Nothing was changed."},
		"onto another":    {fs.CodePatch, patch("*** Update File: f\n*** Move to: g\n"), "line 3 of the patch: g already exists: change it, or delete it first. Nothing was changed."},
		"no end":          {fs.CodePatch, "*** Begin Patch\n*** Delete File: f\n", "line 2 of the patch: the patch does not end: *** End Patch is missing. Nothing was changed."},
		"unknown marker":  {fs.CodePatch, patch("*** Change File: f\n"), `line 3 of the patch: "*** Change File: f": want *** Add File:, *** Update File:, *** Delete File: or *** End Patch. Nothing was changed.`},
		"no such line":    {fs.CodePatch, patch("*** Update File: f\n@@ zero\n-one\n+eins\n"), `f: hunk 1 (line 4 of the patch): no line from 1 on is "zero". Nothing was changed.`},
		"not the end":     {fs.CodePatch, patch("*** Update File: f\n@@\n-one\n+eins\n*** End of File\n"), "f: hunk 1 (line 4 of the patch): it matches at line 1, but must be at the end of the file. Nothing was changed."},
		"binary":          {fs.CodeBinary, patch("*** Update File: bin\n-a\n+b\n"), "bin is a binary file of 3 bytes, not text"},
		"directory":       {fs.CodeKind, patch("*** Update File: d\n-a\n+b\n"), "d is a directory: list it with fs_list_directory, or name a file in it"},
		"missing":         {tool.CodeNoFile, patch(good + "*** Update File: no\n-a\n+b\n"), "no does not exist: use fs_list_directory or fs_find to see what does"},
		"outside":         {tool.CodeDenied, patch(good + "*** Add File: ../x\n+x\n"), `path "../x" is outside the root: use a path relative to it`},
		"by a link out":   {tool.CodeDenied, patch(good + "*** Add File: out\n+x\n"), "out leads out of the root through a symbolic link, which is not followed"},
		"below a file":    {tool.CodeFileSystem, patch(good + "*** Add File: d/x/y\n+x\n"), "d/x/y: not a directory"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k := patchKit(t, files)
			equal(t, "answer", k.fail(t, row.code, "fs_patch", args{"patch": row.patch}), "Tool failed: "+row.want)
			k.holds(t, files, nil)
		})
	}
}

// TestFailedPatchIsUndone ends with a file below one that the patch itself creates,
// which fails only when it is written.
func TestFailedPatchIsUndone(t *testing.T) {
	t.Parallel()
	files := map[string]string{"f": poem, "gone": "bye\n"}
	k := patchKit(t, files)
	text := k.fail(t, tool.CodeFileSystem, "fs_patch", args{
		"patch": patch("*** Update File: f\n-one\n+eins\n*** Delete File: gone\n*** Add File: new\n+n\n*** Add File: new/x\n+x\n"),
	})
	equal(t, "answer", text, "Tool failed: new: file exists")
	k.holds(t, files, map[string]string{"new": ""})
}

func TestPatchProposesEveryFile(t *testing.T) {
	t.Parallel()
	k := newKit(t, nil)
	raw, err := json.Marshal(args{"patch": "*** Begin Patch\n*** Update File: a\n*** Move to: b\n*** Add File: c\n+x\n*** Delete File: ./d\n*** End Patch"})
	if err != nil {
		t.Fatal(err)
	}
	requests, err := k.tools["fs_patch"].(tool.Proposer).Propose(t.Context(), tool.Call{Input: raw})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, r := range requests {
		got = append(got, r.Kind+" "+string(r.Target)+" "+r.Summary)
	}
	want := []string{
		`filesystem.edit {"path":"a"} edit a`, `filesystem.delete {"path":"a"} rename a`, `filesystem.write {"path":"b"} write b`,
		`filesystem.write {"path":"c"} write c`, `filesystem.delete {"path":"d"} delete d`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
}

func FuzzPatch(f *testing.F) {
	f.Add("*** Begin Patch\n*** Update File: f\n@@ two\n-three\n+drei\n*** End of File\n*** End Patch\n")
	f.Add("*** Begin Patch\n*** Update File: f\n*** Move to: b\n@@\n\n*** End Patch\n")
	f.Fuzz(func(t *testing.T, patch string) {
		k := newKit(t, map[string]string{"f": poem})
		if r := k.invoke(t, "fs_patch", args{"patch": patch}).Result; r.Code == tool.CodePanic {
			t.Error(r.Text())
		}
	})
}
