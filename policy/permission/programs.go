package permission

import (
	"encoding/json"
	"path"
	"slices"
	"strings"

	"github.com/turnlog/turnlog/tool"
)

// command is the target of a request of the kind shell.command.
type command struct {
	Argv []string `json:"argv"`
	Cwd  string   `json:"cwd"`
	Env  []string `json:"env"` // the keys
}

func readCommand(target json.RawMessage) (command, bool) {
	var c command
	err := json.Unmarshal(target, &c)
	return c, err == nil && len(c.Argv) > 0 && c.Argv[0] != ""
}

// scope returns the scope of an approval: the program, or exactly this command if the
// program runs other programs.
func (c command) scope() string {
	switch name := c.Argv[0]; {
	case c.runsOthers():
		return c.exactly()
	case !strings.Contains(name, "/") || path.IsAbs(name):
		return name
	case path.IsAbs(c.Cwd):
		return path.Join(c.Cwd, name)
	default:
		return "./" + path.Join(c.Cwd, name) // differs from a program on the search path
	}
}

// exactly returns a digest of the command with its arguments and directory.
func (c command) exactly() string {
	raw, _ := json.Marshal([]any{c.Argv, c.Cwd}) //nolint:errchkjson // texts can always be encoded
	return tool.Digest(raw)
}

// base returns the name of a program without path and version: python for
// /usr/bin/python3.12, and cmd for CMD.EXE.
func base(program string) string {
	name := strings.ToLower(path.Base(strings.ReplaceAll(program, `\`, "/")))
	name = strings.TrimSuffix(name, ".exe")
	if short := strings.TrimRight(name, "0123456789.-"); short != "" {
		return short
	}
	return name
}

// shells are the interpreters that take code after a cluster of flags with a c in it.
func shells() []string {
	return []string{"sh", "bash", "dash", "zsh", "ksh", "mksh", "ash", "fish", "csh", "tcsh", "rbash", "yash", "pwsh", "powershell", "cmd"}
}

// launchers are the programs that run the ones that their arguments name.
func launchers() []string {
	return []string{
		"env", "sudo", "doas", "su", "nice", "ionice", "nohup", "time", "timeout", "xargs", "exec", "command", "setsid", "stdbuf", "chroot",
		"busybox", "toybox", "unshare", "nsenter", "script", "strace", "watch", "parallel", "eval",
	}
}

// flagsOfCode are the flags whose value is code for the interpreter.
func flagsOfCode(name string) []string {
	switch name {
	case "python", "pypy":
		return []string{"c"}
	case "perl", "ruby", "lua", "luajit":
		return []string{"e", "E"}
	case "node", "nodejs", "bun", "deno":
		return []string{"e", "p", "eval", "print"}
	case "php":
		return []string{"r", "B", "R", "E"}
	case "osascript", "rscript", "julia", "groovy", "scala", "elixir", "erl", "ghc", "sqlite":
		return []string{"e", "eval", "cmd"}
	}
	if slices.Contains(shells(), name) {
		return []string{"c", "k", "command", "encodedcommand"}
	}
	return nil
}

// runsOthers reports whether the program is an interpreter or a launcher.
func (c command) runsOthers() bool {
	name := base(c.Argv[0])
	return slices.Contains(launchers(), name) || isAwk(name) || name == "find" || flagsOfCode(name) != nil
}

// isAwk reports whether the first argument of the program is code.
func isAwk(name string) bool { return slices.Contains([]string{"awk", "gawk", "mawk", "nawk"}, name) }

// passesCode reports whether the command passes code to an interpreter, or another command
// to a launcher. In doubt it returns true, so a person decides.
func (c command) passesCode() bool {
	name := base(c.Argv[0])
	flags := flagsOfCode(name)
	switch {
	case slices.Contains(launchers(), name), isAwk(name):
		return len(c.Argv) > 1
	case name == "find":
		return slices.ContainsFunc(c.Argv, func(arg string) bool { return strings.HasPrefix(arg, "-exec") || strings.HasPrefix(arg, "-ok") })
	case name == "deno" && slices.Contains(c.Argv, "eval"):
		return true
	case name == "cmd":
		return len(c.Argv) > 1
	}
	return flags != nil && slices.ContainsFunc(c.Argv[1:], func(arg string) bool { return isFlag(arg, flags) })
}

// isFlag reports whether the argument is one of the flags, alone, with a value, or in a
// cluster such as -xec.
func isFlag(arg string, flags []string) bool {
	if strings.HasPrefix(arg, "--") {
		name, _, _ := strings.Cut(arg[2:], "=")
		return slices.Contains(flags, name)
	}
	if len(arg) < 2 || !strings.ContainsAny(arg[:1], "-+") {
		return false
	}
	return slices.ContainsFunc(flags, func(f string) bool {
		return len(f) == 1 && strings.Contains(strings.ToLower(arg[1:]), strings.ToLower(f)) || strings.EqualFold(arg[1:], f)
	})
}

// dangerousEnv are the environment variables that control what a program runs or loads.
func dangerousEnv() []string {
	return []string{
		"PATH", "LD_*", "DYLD_*", "BASH_ENV", "ENV", "SHELLOPTS", "BASHOPTS", "PS4", "IFS", "PROMPT_COMMAND", "BASH_FUNC_*", "ZDOTDIR",
		"PYTHON*", "PERL*", "RUBY*", "NODE_*", "GIT_*", "SSH_*", "EDITOR", "VISUAL", "PAGER", "BROWSER", "GOFLAGS", "CC", "CXX",
	}
}
