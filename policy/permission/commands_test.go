package permission_test

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/policy/permission"
	"github.com/turnlog/turnlog/tool"
)

func commands(t *testing.T, root string, r permission.CommandRules) *permission.Commands {
	t.Helper()
	p, err := permission.NewCommands(root, r)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestCommandsByProgramDirectoryAndEnvironment(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	if err := os.Mkdir(filepath.Join(root, "sub"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/", filepath.Join(root, "out")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/usr/bin/rm", filepath.Join(root, "harmless")); err != nil {
		t.Fatal(err)
	}
	p := commands(t, root, permission.CommandRules{
		Allow: []string{"git", "go", "sh", "python3", "/opt/tool", "env"}, Deny: []string{"rm", "/usr/bin/curl"},
		Dirs: []string{"."}, AllowEnv: nil, DenyEnv: []string{"AWS_*"},
	})
	for name, tc := range map[string]struct {
		c    command
		want string
	}{
		"allowed":                     {command{Argv: []string{"git", "status"}}, "allow"},
		"not allowed":                 {command{Argv: []string{"make"}}, "ask shell.command"},
		"allowed by its path":         {command{Argv: []string{"/opt/tool"}}, "allow"},
		"by name only, not a path":    {command{Argv: []string{"./git"}}, "ask shell.command"},
		"an absolute one":             {command{Argv: []string{"/tmp/git"}}, "ask shell.command"},
		"denied":                      {command{Argv: []string{"rm", "-rf", "/"}}, "deny command_not_allowed"},
		"denied under a path":         {command{Argv: []string{"/bin/rm"}}, "deny command_not_allowed"},
		"denied in another case":      {command{Argv: []string{"RM"}}, "deny command_not_allowed"},
		"denied through a link":       {command{Argv: []string{"./harmless"}}, "deny command_not_allowed"},
		"denied through a launcher":   {command{Argv: []string{"env", "A=1", "rm", "x"}}, "deny command_not_allowed"},
		"denied by its path":          {command{Argv: []string{"/usr/bin/../bin/curl"}}, "deny command_not_allowed"},
		"another of that name":        {command{Argv: []string{"curl"}}, "ask shell.command"},
		"code for a shell":            {command{Argv: []string{"/bin/sh", "-c", "git status"}}, "ask shell.script"},
		"code in a cluster":           {command{Argv: []string{"sh", "-xec", "true"}}, "ask shell.script"},
		"a script":                    {command{Argv: []string{"sh", "build.sh", "/c/d"}}, "allow"},
		"code for python":             {command{Argv: []string{"python3", "-c", "1"}}, "ask shell.script"},
		"code for python, stuck":      {command{Argv: []string{"python3", "-Sc1"}}, "ask shell.script"},
		"a module":                    {command{Argv: []string{"python3", "-m", "http"}}, "allow"},
		"php":                         {command{Argv: []string{"php", "-r", "1"}}, "ask shell.script"},
		"julia":                       {command{Argv: []string{"julia", "-e", "1"}}, "ask shell.script"},
		"a name of digits":            {command{Argv: []string{"7"}}, "ask shell.command"},
		"perl":                        {command{Argv: []string{"perl", "-ne", "1"}}, "ask shell.script"},
		"node":                        {command{Argv: []string{"node", "--eval=1"}}, "ask shell.script"},
		"deno":                        {command{Argv: []string{"deno", "eval", "1"}}, "ask shell.script"},
		"cmd":                         {command{Argv: []string{`C:\Windows\CMD.EXE`, "/c", "dir"}}, "ask shell.script"},
		"awk":                         {command{Argv: []string{"awk", "1"}}, "ask shell.script"},
		"find that only finds":        {command{Argv: []string{"find", ".", "-name", "x"}}, "ask shell.command"},
		"find that runs":              {command{Argv: []string{"find", ".", "-exec", "x"}}, "ask shell.script"},
		"a launcher, though allowed":  {command{Argv: []string{"env", "git", "status"}}, "ask shell.script"},
		"a launcher alone":            {command{Argv: []string{"env"}}, "allow"},
		"below the directory":         {command{Argv: []string{"git"}, Cwd: "sub"}, "allow"},
		"above it":                    {command{Argv: []string{"git"}, Cwd: "../"}, "ask shell.cwd"},
		"out through a link":          {command{Argv: []string{"git"}, Cwd: "out/etc"}, "ask shell.cwd"},
		"out through a link and back": {command{Argv: []string{"git"}, Cwd: "out/../sub"}, "ask shell.cwd"},
		"absolute, inside":            {command{Argv: []string{"git"}, Cwd: root}, "allow"},
		"program and directory":       {command{Argv: []string{"make"}, Cwd: "/"}, "ask shell.command shell.cwd"},
		"all three":                   {command{Argv: []string{"make"}, Cwd: "/", Env: []string{"PATH"}}, "ask shell.command shell.cwd shell.env"},
		"harmless variable":           {command{Argv: []string{"git"}, Env: []string{"CI"}}, "allow"},
		"steering variable":           {command{Argv: []string{"git"}, Env: []string{"CI", "LD_PRELOAD"}}, "ask shell.env"},
		"denied variable":             {command{Argv: []string{"git"}, Env: []string{"aws_secret"}}, "deny env_not_allowed"},
		"no program":                  {command{}, "deny unreadable_request"},
		"an empty program":            {command{Argv: []string{""}}, "deny unreadable_request"},
	} {
		if got := ruling(evaluate(t, p, run(t, tc.c))); got != tc.want {
			t.Errorf("%s: %s, want %s", name, got, tc.want)
		}
	}
	if got := ruling(evaluate(t, p, path(t, "read", "x"))); got != "none" {
		t.Errorf("of a path: %s, want none", got)
	}
	if got := ruling(evaluate(t, p, requestOf(t, "x", "shell.command", nil))); got != "deny unreadable_request" {
		t.Errorf("without a target: %s", got)
	}
}

func TestCommandsCanBeJudgedWithoutQuestions(t *testing.T) {
	t.Parallel()
	strict := commands(t, "/", permission.CommandRules{
		Allow: []string{"git"}, Dirs: []string{"/nowhere"}, AllowEnv: []string{"PATH", "CI_*"}, Outside: "deny", Code: "deny",
	})
	for want, c := range map[string]command{
		"deny command_not_allowed": {Argv: []string{"make"}, Cwd: "nowhere"},
		"deny cwd_not_allowed":     {Argv: []string{"git"}, Cwd: "tmp"},
		"deny env_not_allowed":     {Argv: []string{"git"}, Cwd: "/nowhere/x", Env: []string{"PATH", "CI_X", "HOME"}},
		"deny script_not_allowed":  {Argv: []string{"bash", "-lc", "x"}, Cwd: "nowhere"},
		"allow":                    {Argv: []string{"git"}, Cwd: "nowhere", Env: []string{"PATH", "CI_X"}},
	} {
		if got := ruling(evaluate(t, strict, run(t, c))); got != want {
			t.Errorf("%v: %s, want %s", c, got, want)
		}
	}
	loose := commands(t, "", permission.CommandRules{Code: "allow"})
	for _, c := range []command{{Argv: []string{"bash", "-c", "x"}, Cwd: "/"}, {Argv: []string{"anything"}}} {
		if got := ruling(evaluate(t, loose, run(t, c))); got != "allow" {
			t.Errorf("%v: %s, want allow", c, got)
		}
	}
}

func TestQuestionsAboutCommandsHaveScopes(t *testing.T) {
	t.Parallel()
	p := commands(t, "/", permission.CommandRules{Allow: []string{"none"}, Dirs: []string{"/nowhere"}})
	v := evaluate(t, p, run(t, command{Argv: []string{"cargo", "test"}, Cwd: "tmp", Env: []string{"PATH"}}))
	reasons := map[string]content.ApprovalReason{
		"shell.command": content.SensitiveCommand, "shell.cwd": content.SensitivePath, "shell.env": content.SensitiveCommand,
	}
	for _, q := range v.Questions() {
		if q.Reason != reasons[q.RequestKind] || q.Summary == "" || q.Scope == "" {
			t.Errorf("question = %+v", q)
		}
	}
	if v.Also[0].Scope != "/tmp" {
		t.Errorf("the scope of the directory is %q, want /tmp", v.Also[0].Scope)
	}
	if v := evaluate(t, p, run(t, command{Argv: []string{"sh", "-c", "x"}, Cwd: "nowhere"})); v.Reason != content.EscalatedRisk {
		t.Errorf("code is asked about for %s", v.Reason)
	}
}

func TestInvalidCommandConfigsAreRefused(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]permission.CommandRules{
		"a directory without a root": {Dirs: []string{"x"}},
		"a relative program":         {Allow: []string{"bin/x"}},
		"an empty program":           {Deny: []string{""}},
		"allow outside":              {Outside: "allow"},
		"an unknown ruling":          {Code: "maybe"},
	} {
		if _, err := permission.NewCommands("", c); err == nil {
			t.Errorf("%s was accepted", name)
		}
	}
}

// A permanent approval must not cover anything else.
func TestDifferentQuestionsHaveDifferentScopes(t *testing.T) {
	t.Parallel()
	scope := func(kind string, r tool.Request) string {
		ask := says{Ruling: tool.Ask, RequestKind: kind}
		questions, err := permission.Judge(t.Context(), ask, proposing{requests: []tool.Request{r}}, tool.Call{})
		if err != nil || len(questions) != 1 {
			t.Fatalf("Judge = %+v, %v", questions, err)
		}
		return questions[0].Scope
	}
	status := command{Argv: []string{"git", "status"}, Env: []string{"LANG"}, Values: "x"}
	if one, again := scope(permission.KindCall, run(t, status)), scope(permission.KindCall, run(t, status)); one != again {
		t.Errorf("the same command is %q and %q", one, again)
	}
	seen := map[string]command{}
	for _, c := range []command{
		status,
		{Argv: []string{"git", "status"}, Env: []string{"LANG"}, Values: "y"},
		{Argv: []string{"git", "status"}},
		{Argv: []string{"git", "push"}},
		{Argv: []string{"git", "push"}, Cwd: "x"},
		{Argv: []string{"git"}},
		{Argv: []string{"/usr/bin/git"}},
		{Argv: []string{"./git"}},
		{Argv: []string{"./git"}, Cwd: "a"},
		{Argv: []string{"./git"}, Cwd: "/a"},
		{Argv: []string{"../git"}},
		{Argv: []string{"sh", "-c", "a"}},
		{Argv: []string{"sh", "-c", "b"}},
		{Argv: []string{"sh", "-c", "b"}, Cwd: "a"},
		{Argv: []string{"python3", "a.py"}},
		{Argv: []string{"python3", "b.py"}},
		{Argv: []string{"env", "a"}},
		{Argv: []string{"find", "."}},
	} {
		s := scope(permission.KindCall, run(t, c))
		if before, dup := seen[s]; dup || s == "" {
			t.Errorf("%v and %v are both about %q", before, c, s)
		}
		seen[s] = c
	}
	// A node does not have the requests that a worker's tool makes, only its spec and input.
	exact := remote{tool.Spec{Name: "shell", Exact: true}}
	for _, input := range []string{`{"argv":["git","status"]}`, `{"argv":["git","push"]}`} {
		questions, err := permission.Judge(t.Context(), says{Ruling: tool.Ask, RequestKind: permission.KindCall}, exact, tool.Call{Input: json.RawMessage(input)})
		if err != nil || len(questions) != 1 || questions[0].Scope != tool.Digest([]byte(input)) {
			t.Errorf("Judge = %+v, %v", questions, err)
		}
	}
	for name, tc := range map[string]struct {
		kind string
		r    tool.Request
		want string
	}{
		"the call as such":    {permission.KindCall, path(t, "write", "a"), ""},
		"a path":              {"filesystem.write", path(t, "write", "a/../b"), "b"},
		"no target":           {"x", requestOf(t, "x", "x", nil), ""},
		"another target":      {"x", requestOf(t, "x", "x", 1), tool.Digest([]byte("1"))},
		"several paths":       {"filesystem.move", requestOf(t, "x", "filesystem.move", map[string]string{"from": "a", "to": "b"}), tool.Digest([]byte(`{"from":"a","to":"b"}`))},
		"a command, no argv":  {"shell.command", requestOf(t, "x", "shell.command", map[string]string{}), tool.Digest([]byte("{}"))},
		"a path of no object": {"filesystem.write", requestOf(t, "x", "filesystem.write", "a"), tool.Digest([]byte(`"a"`))},
	} {
		if got := scope(tc.kind, tc.r); got != tc.want {
			t.Errorf("%s: %q, want %q", name, got, tc.want)
		}
	}
}

// remote is a tool of which only the spec is known.
type remote struct{ spec tool.Spec }

func (r remote) Spec() tool.Spec { return r.spec }

func (remote) Call(context.Context, tool.Call) (tool.Output, error) { return tool.Output{}, nil }
