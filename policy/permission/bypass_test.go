package permission_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/turnlog/turnlog/policy/permission"
)

// bypasses are command lines that run rm, or do what rm does, without naming it as the
// program.
func bypasses() []string {
	return []string{
		"./cleanup", "sh cleanup.sh", "sh -c rm~x", "bash -xc rm~x", "bash --rcfile cleanup.sh -i", "make", "make --eval=x:;rm~x", "make SHELL=./rm",
		"git -c alias.x=!rm x", "git -calias.x=!rm x", "git config alias.x !rm", "git --config-env=alias.x=X x", "git clone ext::rm x", "git bisect run rm",
		"git --exec-path=. x", "git submodule foreach rm", "git rebase -x rm", "git grep -Orm x", "git difftool --extcmd=rm",
		"tar cf a x --checkpoint=1 --checkpoint-action=exec=rm", "tar xf a --to-command=rm", "tar xf a --to-com=rm", "tar -I rm -xf a", "tar xIf rm a",
		"tar xf host:a --rsh-command=rm", "ssh -o ProxyCommand=rm host", "ssh -oProxyCommand=rm host", "scp -S rm a b:", "rsync -e rm a b:",
		"find . -delete", "find . -exec rm {} +", "find . -execdir rm ;", "find . -ok rm ;", "find . -fprint x", "xargs rm", "env rm x", "env -S rm~x",
		"nice rm x", "timeout 5 rm x", "nohup rm x", "setsid rm x", "stdbuf -o0 rm", "busybox rm x", "sudo rm x", "flock x rm x", "strace rm x",
		"awk system(\"rm~x\")", "sed 1e~rm~x a", "perl -e unlink", "python3 -c import~os", "node -e x", "ruby -rx", "php -r x", "lua -e x",
		"sort --compress-program=rm a", "sort --compress-p=rm a", "sort -o x a", "split --filter=rm a", "rg --pre rm x", "zip a x -T -TT rm",
		"go run x.go", "go test -exec rm", "go vet -vettool=rm", "go build -toolexec rm", "npm exec rm", "npx rm", "docker run -v /:/x rm", "unlink x",
		"truncate -s0 x", "shred x", "dd of=x", "mv x y", "cp /bin/rm y", "ln -sf y x", "rsync --delete a x", "git clean -fdx", "vim -c !rm", "less x", "man -P rm ls",
		"wget --use-askpass=rm x", "gcc -wrapper rm x.c", "/tmp/ls x", "busybox", "ex x", "gdb -ex !rm~x", "systemd-run rm", "at now", "watch rm x",
	}
}

// words splits a command line at spaces. ~ is a space in an argument.
func words(line string) []string {
	out := strings.Fields(line)
	for i := range out {
		out[i] = strings.ReplaceAll(out[i], "~", " ")
	}
	return out
}

// A denied program cannot be started in another way without a person's approval.
func TestDeniedProgramsCannotBeStartedInAnotherWay(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	if err := os.WriteFile(filepath.Join(root, "cleanup"), []byte("#!/bin/sh\nrm x\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	p := commands(t, root, permission.CommandRules{Deny: []string{"rm"}})
	for _, line := range bypasses() {
		if got := ruling(evaluate(t, p, run(t, command{Argv: words(line)}))); got == "allow" || got == "none" {
			t.Errorf("%s: %s, want a question or a denial", line, got)
		}
	}
	for _, line := range []string{"ls -la", "cat a b", "grep -rn x .", "find . -name x.go -type f", "sort -rn a", "rg -n x", "tree -L 2", "date +%s", "head -n1 a"} {
		if got := ruling(evaluate(t, p, run(t, command{Argv: words(line)}))); got != "allow" {
			t.Errorf("%s: %s, want allow: it only reads", line, got)
		}
	}
}

// Even an allowed program needs an approval to run a command from its arguments.
func TestAllowedProgramsDoNotLaunchOthers(t *testing.T) {
	t.Parallel()
	p := commands(t, t.TempDir(), permission.CommandRules{Allow: []string{"*"}, Deny: []string{"rm"}})
	harmless := []string{ // what a person who allows all programs accepts
		"sh cleanup.sh", "make", "busybox", "docker run -v /:/x rm", "unlink x", "truncate -s0 x", "shred x", "dd of=x", "mv x y", "cp /bin/rm y", "ln -sf y x",
		"rsync --delete a x", "git clean -fdx", "go run x.go",
	}
	for _, line := range bypasses() {
		got := ruling(evaluate(t, p, run(t, command{Argv: words(line)})))
		if asked := got != "allow"; asked == slices.Contains(harmless, line) {
			t.Errorf("%s: %s", line, got)
		}
	}
	for _, line := range []string{
		"git status", "git commit -m x", "git log -p", "git diff", "git -C sub add .", "git push origin main", "go test ./...", "go build -o x .", "tar -xzf a.tgz",
		"tar czf a.tgz x", "make -j4 test", "npm test", "npm run build", "cargo build --release", "curl -s https://example.com", "ssh host uptime", "python3 a.py",
		"gcc -O2 -o x x.c",
	} {
		if got := ruling(evaluate(t, p, run(t, command{Argv: words(line)}))); got != "allow" {
			t.Errorf("%s: %s, want allow", line, got)
		}
	}
}

// A variable that a call sets is harmless only if it is known to be.
func TestVariablesThatSteerProgramsAreAskedAbout(t *testing.T) {
	t.Parallel()
	p := commands(t, "", permission.CommandRules{Allow: []string{"git", "tar"}})
	for _, key := range []string{
		"HOME", "XDG_CONFIG_HOME", "TAR_OPTIONS", "GIT_SSH_COMMAND", "GIT_CONFIG_COUNT", "LD_PRELOAD", "LD_LIBRARY_PATH", "PATH", "BASH_ENV", "PAGER", "LESSOPEN",
		"RIPGREP_CONFIG_PATH", "GREP_OPTIONS", "MAKEFLAGS", "GOFLAGS", "GOPROXY", "npm_config_script_shell", "PYTHONSTARTUP", "PERL5OPT", "RUBYOPT", "NODE_OPTIONS",
		"JAVA_TOOL_OPTIONS", "http_proxy", "SSL_CERT_FILE", "TMPDIR", "LOCPATH", "TERMINFO", "SHELL", "anything",
	} {
		if got := ruling(evaluate(t, p, run(t, command{Argv: []string{"git", "status"}, Env: []string{key}}))); got != "ask shell.env" {
			t.Errorf("%s: %s, want ask shell.env", key, got)
		}
	}
}
