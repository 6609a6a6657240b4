package toolset

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/turnlog/turnlog/internal/cli"
	"github.com/turnlog/turnlog/policy/permission"
	"github.com/turnlog/turnlog/tool"
)

// judge opens the tools that the flags name and says what their policy makes of a call:
// ok, the code of a denial, or the kinds of its questions.
func judge(t *testing.T, root, args, name, input string) string {
	t.Helper()
	var f Flags
	line := append([]string{"work", "--root", root, "--tools", "fs,shell", "--allow-write"}, strings.Fields(args)...)
	if code, printed := run(t, &f, line...); code != 0 {
		t.Fatalf("%s = %d %s", args, code, printed)
	}
	sources, err := open(f.Sets(), f.Options)
	if err != nil {
		t.Fatal(err)
	}
	c, err := tool.Sample(t.Context(), sources, tool.FirstWins)
	if err != nil {
		t.Fatal(err)
	}
	o, ok := c.Lookup(name)
	if !ok {
		t.Fatalf("there is no tool %s", name)
	}
	p := f.permissions
	if p == nil {
		return "no policy"
	}
	questions, err := permission.Judge(t.Context(), p, o.Tool, tool.Call{Name: name, Input: json.RawMessage(input)})
	if refusal, ok := errors.AsType[*tool.Error](err); ok {
		return refusal.Code
	}
	var kinds []string
	for _, g := range questions {
		kinds = append(kinds, g.RequestKind)
	}
	if len(kinds) == 0 {
		return "ok"
	}
	return strings.Join(kinds, " ")
}

func TestPolicyFlags(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	for _, dir := range []string{".git", "src/deep", "docs"} {
		if err := os.MkdirAll(filepath.Join(root, dir), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for from, to := range map[string]string{"src/git": "../.git", "tool": "/bin/ls"} {
		if err := os.Symlink(to, filepath.Join(root, from)); err != nil {
			t.Fatal(err)
		}
	}
	write := func(path string) string { return `{"path":"` + path + `","content":""}` }
	argv := func(words ...string) string { return `{"argv":["` + strings.Join(words, `","`) + `"]}` }
	const writes, runs = "fs_write_file", "shell_exec"
	for _, c := range []struct{ args, tool, input, want string }{
		{"", writes, write("a"), "no policy"},
		{"--protect .git", writes, write("a"), "ok"},
		{"--protect .git", writes, write(".git/a"), permission.CodeProtected},
		{"--protect .git", writes, write("src/git/new/a"), permission.CodeProtected},
		{"--protect " + root + "/.git", writes, write("src/git/a"), permission.CodeProtected},
		{"--protect src/git", writes, write(".git/a"), permission.CodeProtected}, // named by its link
		{"--protect .git", "fs_search", `{"path":".","pattern":"x"}`, "filesystem.read"},
		{"--protect later/key", writes, write("later/key"), permission.CodeProtected}, // not there yet
		{"--read-only docs --protect .git", writes, write("docs/a"), permission.CodeReadOnly},
		{"--read-only docs", "fs_read_file", `{"path":"docs/a"}`, "ok"},
		{"--allow-root src", writes, write("src/deep/a"), "ok"},
		{"--allow-root src", writes, write("docs/a"), "filesystem.write"},
		{"--allow-root src --allow-root docs", writes, write("docs/a"), "ok"},
		{"--protect .git", runs, argv("cat", ".git/config"), "ok"}, // a command's files are not seen

		{"--allow-command ls --allow-command /bin/cat", runs, argv("ls"), "ok"},
		{"--allow-command ls --allow-command /bin/cat", runs, argv("/bin/cat"), "ok"},
		{"--allow-command ls", runs, argv("/bin/ls"), "shell.command"}, // by name only
		{"--allow-command ls", runs, argv("rm"), "shell.command"},
		{"--allow-command ls", runs, `{"script":"ls"}`, "shell.script"},
		{"--deny-command ls", runs, argv("cat"), "ok"},
		{"--deny-command ls", runs, argv("/usr/bin/ls"), permission.CodeCommand},
		{"--deny-command ls", runs, argv("./tool"), permission.CodeCommand}, // through a link
		{"--deny-command ls", runs, argv("env", "ls"), permission.CodeCommand},
		{"--deny-command ls", runs, `{"script":"ls"}`, "shell.script"},
		{"--ask-command ls", runs, argv("cat"), "ok"},
		{"--ask-command ls", runs, argv("ls"), "shell.command"},
		{"--ask-command ls", runs, argv("./tool"), "shell.command"},
		{"--ask-command ls", runs, argv("env", "ls"), "shell.script shell.command"},
		{"--ask-command ls --allow-command cat", runs, argv("ls"), "shell.command"}, // one question, not two
		{"--ask-command ls --deny-command rm", runs, argv("env", "ls", "rm"), permission.CodeCommand},
		{"--allow-env CI --allow-env LC_*", runs, `{"argv":["ls"],"env":{"CI":"1","LC_ALL":"C"}}`, "ok"},
		{"--allow-env CI", runs, `{"argv":["ls"],"env":{"CI":"1","TZ":"UTC"}}`, "shell.env"},
		{"--deny-command rm", runs, `{"argv":["ls"],"env":{"LD_PRELOAD":"x"}}`, "shell.env"},
		{"--deny-command rm --allow-env LD_*", runs, `{"argv":["ls"],"env":{"LD_PRELOAD":"x"}}`, "ok"},
	} {
		if got := judge(t, root, c.args, c.tool, c.input); got != c.want {
			t.Errorf("with %q %s %s: %s, want %s", c.args, c.tool, c.input, got, c.want)
		}
	}
}

func TestPolicyFlagsWithoutEffectAreRefused(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	for args, want := range map[string]string{
		"--protect=":                        `--protect "": empty path: name a path; relative paths are relative to --root`,
		"--read-only=":                      `--read-only "": empty path`,
		"--allow-root=":                     `--allow-root "": empty path`,
		"--allow-root none":                 "--allow-root none: there is no directory " + root + "/none: create it or name another one",
		"--allow-root /etc/hosts":           "--allow-root /etc/hosts: there is no directory /etc/hosts",
		"--allow-command bin/ls":            `--allow-command "bin/ls": use the name of a program or its absolute path`,
		"--deny-command=":                   `--deny-command "": use the name of a program`,
		"--ask-command ./ls":                `--ask-command "./ls": use the name of a program`,
		"--allow-env A=1":                   `--allow-env "A=1": use the name of a variable, without a value`,
		"--allow-env=":                      `--allow-env "": use the name of a variable`,
		"--allow-command a --ask-command a": "--allow-command a and --ask-command a: use only one of them",
		"--ask-command a --deny-command a":  "--ask-command a and --deny-command a: use only one of them",
		"--tools fs --deny-command a":       "--deny-command needs the tool set shell: add it to --tools",
		"--tools shell --protect a":         "--protect needs the tool set fs: add it to --tools",
	} {
		line := []string{"work", "--root", root}
		if !strings.Contains(args, "--tools") {
			line = append(line, "--tools", "fs,shell")
		}
		code, printed := run(t, new(Flags), append(line, strings.Fields(args)...)...)
		if code != cli.CodeUsage || !strings.Contains(printed, want) || strings.Count(printed, "\n") != 1 {
			t.Errorf("%s = %d %q, want %q", args, code, printed, want)
		}
	}
}

func TestPolicyIsDescribed(t *testing.T) {
	t.Parallel()
	var f Flags
	code, printed := run(t, &f, "work", "--tools", "fs,shell", "--root", t.TempDir(), "--deny-command", "a", "--protect", "x,y", "--protect", "z")
	if want := []string{"protect=x,y", "protect=z", "deny-command=a"}; code != 0 || !slices.Equal(f.policy.given(), want) {
		t.Errorf("code %d %s, policy %q, want %q", code, printed, f.policy.given(), want)
	}
}

// A hard link shows a file of a protected directory under another name. Nothing resolves it.
func TestHardLinksDoNotLeadIntoProtectedDirectories(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	for name, text := range map[string]string{"secret/key": "needle", "plain": "needle"} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(root, name)), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(root, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.MkdirAll(filepath.Join(root, "open"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Link(filepath.Join(root, "secret/key"), filepath.Join(root, "open/link")); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ args, tool, input, want string }{
		{"--protect secret", "fs_read_file", `{"path":"open/link"}`, "filesystem.read"},
		{"--protect secret", "fs_replace_in_file", `{"path":"open/link","old":"n","new":"m"}`, "filesystem.edit"},
		{"--protect secret", "fs_read_file", `{"path":"plain"}`, "ok"},
		{"--protect secret", "fs_delete", `{"path":"open/link"}`, "ok"}, // only the name goes
		{"--read-only secret", "fs_write_file", `{"path":"open/link","content":""}`, "filesystem.write"},
		{"--allow-root open", "fs_read_file", `{"path":"open/link"}`, "ok"}, // nothing is protected
	} {
		if got := judge(t, root, c.args, c.tool, c.input); got != c.want {
			t.Errorf("with %q %s %s: %s, want %s", c.args, c.tool, c.input, got, c.want)
		}
	}
	for want, options := range map[string]Options{"could not be read: 1": {Unlinked: true}, "link:1": {}} {
		options.Root = filepath.Join(root, "open")
		sources, err := open([]string{"fs"}, options)
		if err != nil {
			t.Fatal(err)
		}
		all, err := sources[0].Tools(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		i := slices.IndexFunc(all, func(x tool.Tool) bool { return x.Spec().Name == "fs_search" })
		r := call(t, all[i], map[string]any{"pattern": "needle"})
		if !strings.Contains(r.Text(), want) || options.Unlinked == strings.Contains(r.Text(), "link:1") {
			t.Errorf("%+v: %q, want %q", options, r.Text(), want)
		}
	}
}
