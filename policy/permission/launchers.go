package permission

import (
	"slices"
	"strings"

	"github.com/turnlog/turnlog/content"
)

// launcher is a group of programs that can start other programs or run code.
type launcher struct {
	names string // as [base] returns them
	code  string // arguments that are, or announce, a command or code; see [announces]
}

// launchers lists what is known about programs that start others. A program that is not listed may do
// so as well: see [readers].
func launchers() []launcher {
	return []launcher{
		// Everything after their own options is a command or code.
		{"env sudo doas su runuser pkexec nice ionice chrt taskset choom prlimit setarch nohup time timeout xargs exec command setsid stdbuf unbuffer " +
			"chroot busybox toybox unshare nsenter setpriv capsh bwrap firejail fakeroot proot script strace ltrace gdb lldb valgrind perf watch entr " +
			"parallel eval expect flock socat start-stop-daemon systemd-run dbus-run-session run-parts screen tmux crontab at batch " +
			"awk gawk mawk nawk sed ed ex vi vim view nvim emacs nano less more man psql mysql sqlite npx bunx uvx pipx cmd pwsh powershell", "*"},
		// Interpreters and builders run files; these arguments are code themselves.
		{"sh bash dash zsh ksh mksh ash fish csh tcsh rbash yash", "-*c* +*c* -*C* --command* -*k* --rcfile* --init-file*"},
		{"python pypy", "-*c*"},
		{"perl", "-*e* -*E* -*M* -*m* -*d*"},
		{"ruby lua luajit", "-*e* -*r* -*l*"},
		{"node nodejs bun deno", "-*e* -*p* -*r* --eval* --print* --require* --import* --loader* --experimental-loader* eval"},
		{"php", "-*r* -*B* -*R* -*E* -*F* -*d*"},
		{"osascript rscript julia groovy scala elixir erl ghc tclsh guile", "-*e* -*E* -c* --eval* --cmd* -cmd* -s*"},
		{"make gmake", "-*E* --eval* *=*"},
		{"npm pnpm yarn", "exec x dlx -c* --call* --node-options* --script-shell*"},
		{"ssh scp sftp autossh sshfs", "-*o* -*F* -*S* -*D*"},
		{"docker podman nerdctl kubectl", ""},
		// Programs with another purpose, some of whose options take a command.
		{"git", "-c* --config* --exec* --upload-pack* --receive-pack* -u* --extcmd* --open-files-in-pager* -O* --ext-diff --textconv --template* -x* *ext::* " +
			"config bisect filter-branch submodule difftool mergetool hook send-email daemon instaweb foreach"},
		{"go", "-exec* --exec* -toolexec* --toolexec* -vettool* --vettool* -ldflags* --ldflags* -overlay* --overlay* env generate tool"},
		{"cargo", "--config* +*"},
		{"gcc g++ cc c++ clang clang++ cpp", "-wrapper* -B* -specs* --specs* -fplugin* @*"},
		{"find", "-exec* -ok* -delete -fprint* -fls*"},
		{"tar gtar bsdtar", "--to-command* --checkpoint-action* --use-compress-program* --info-script* --new-volume-script* --rsh-command* --rmt-command* " +
			"-*I* -*F* ^*I* ^*F* *:*"},
		{"rsync", "-*e* --rsh* --rsync-path*"},
		{"zip", "-*T* --unzip-command*"},
		{"wget", "-*e* --execute* --use-askpass* -*i* --config*"},
		{"curl", "-*K* --config*"},
		{"split", "--filter*"},
		{"sort", "-*o* --output* --compress-program*"},
		{"rg", "--pre* --hostname-bin*"},
		{"tree", "-*o*"},
		{"date", "-*s* --set*"},
		{"tcpdump", "-*z*"},
		{"nmap", "--script*"},
	}
}

func launcherOf(program string) (launcher, bool) {
	name, all := base(program), launchers()
	i := slices.IndexFunc(all, func(l launcher) bool { return slices.Contains(strings.Fields(l.names), name) })
	if i < 0 {
		return launcher{}, false
	}
	return all[i], true
}

// readers returns the programs that only read files and print, unless one of the arguments in the
// table of launchers is present. They run without a question if no program is allowed by name.
func readers() []string {
	return strings.Fields("ls cat head tail wc grep egrep fgrep cut tr comm cmp diff stat basename dirname realpath readlink pwd echo printf true false " +
		"test [ expr seq date df du id whoami groups uname nproc arch cksum md5sum sha1sum sha224sum sha256sum sha384sum sha512sum b2sum sum " +
		"base64 base32 od hexdump nl fold fmt paste join tac rev expand unexpand sort find rg tree jq ps sleep printenv")
}

// passesCode reports whether the command passes code or another command to its program. If that is
// unclear it returns true, so that a person decides.
func (c command) passesCode() bool {
	l, _ := launcherOf(c.Argv[0])
	return slices.ContainsFunc(strings.Fields(l.code), func(pattern string) bool {
		if first, ok := strings.CutPrefix(pattern, "^"); ok {
			return len(c.Argv) > 1 && !strings.HasPrefix(c.Argv[1], "-") && content.Matches(first, c.Argv[1])
		}
		return slices.ContainsFunc(c.Argv[1:], func(arg string) bool { return announces(pattern, arg) })
	})
}

// announces reports whether an argument matches a pattern. In a pattern, * matches any characters,
// because short flags can be combined, and ^ matches the first argument, without a dash. GNU programs
// accept the beginning of a long flag.
func announces(pattern, arg string) bool {
	if strings.HasPrefix(arg, "--") && strings.HasPrefix(pattern, "-") {
		name, _, _ := strings.Cut(arg, "=")
		return strings.HasPrefix(pattern, "--") && (content.Matches(pattern, arg) || name != "--" && strings.HasPrefix(pattern, name))
	}
	return content.Matches(pattern, arg)
}

// harmlessEnv returns the environment variables that say how a program prints or what it builds. They
// cannot make it run, load or write another file.
func harmlessEnv() []string {
	return []string{
		"CI", "DEBUG", "VERBOSE", "QUIET", "NO_COLOR", "FORCE_COLOR", "CLICOLOR", "CLICOLOR_FORCE", "COLUMNS", "LINES", "TZ", "LANG", "LC_*",
		"SOURCE_DATE_EPOCH", "GOOS", "GOARCH", "GOMAXPROCS", "CGO_ENABLED", "NODE_ENV", "RUST_BACKTRACE", "RUST_LOG", "PYTHONUNBUFFERED",
		"PYTHONDONTWRITEBYTECODE", "PYTHONHASHSEED",
	}
}
