package settings

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"
)

// program is a program with its values.
type program struct {
	*cobra.Command

	name, server, context, creds string
	open, closed                 bool
	count                        int
	tools, mcp                   []string
}

func newProgram() *program {
	p := &program{Command: &cobra.Command{Use: "p"}}
	p.SetErr(io.Discard)
	p.SetOut(io.Discard)
	p.RunE = func(*cobra.Command, []string) error { return nil }
	fs := p.Flags()
	fs.StringVar(&p.name, "name", "usual", "")
	fs.IntVar(&p.count, "count", 1, "")
	fs.StringSliceVar(&p.tools, "tools", []string{"fs"}, "")
	fs.StringArrayVar(&p.mcp, "mcp", nil, "")
	fs.StringVar(&p.server, "server", "", "address [NATS_URL]")
	fs.StringVar(&p.context, "context", "", "context [NATS_CONTEXT]")
	fs.StringVar(&p.creds, "creds", "", "file [NATS_CREDS]")
	fs.BoolVar(&p.open, "open", false, "")
	fs.BoolVar(&p.closed, "closed", false, "")
	p.MarkFlagsMutuallyExclusive("open", "closed")
	Lasts(p.Command)
	return p
}

// run starts the program with a file, an environment and a command line.
func (p *program) run(t *testing.T, file string, env map[string]string, args ...string) error {
	t.Helper()
	if file != "" {
		path := filepath.Join(t.TempDir(), "f.yaml")
		if err := os.WriteFile(path, []byte(file), 0o600); err != nil {
			t.Fatal(err)
		}
		args = append(args, "--config", path)
	}
	Register(p.Command, func(name string) string { return env[name] })
	p.SetArgs(args)
	return p.ExecuteContext(t.Context())
}

func TestTheCommandLineOverridesTheEnvironmentAndThatTheFile(t *testing.T) {
	t.Parallel()
	const file = "all: {name: a, count: 2, mcp: [x=1], server: s, creds: c, other-programs: 1}\np: {name: p, tools: [web, 'a,b']}\n"
	for name, c := range map[string]struct {
		file string
		env  map[string]string
		args []string
		want program
	}{
		"defaults":            {"", nil, nil, program{name: "usual", count: 1, tools: []string{"fs"}}},
		"the file":            {file, nil, nil, program{name: "p", count: 2, tools: []string{"web", "a", "b"}, mcp: []string{"x=1"}, server: "s", creds: "c"}},
		"the environment":     {file, map[string]string{"TURNLOG_NAME": "e", "TURNLOG_MCP": "y=1\nz=2\n"}, nil, program{name: "e", count: 2, tools: []string{"web", "a", "b"}, mcp: []string{"y=1", "z=2"}, server: "s", creds: "c"}},
		"the command line":    {file, map[string]string{"TURNLOG_NAME": "e"}, []string{"--name", "l", "--tools", "one"}, program{name: "l", count: 2, tools: []string{"one"}, mcp: []string{"x=1"}, server: "s", creds: "c"}},
		"another choice":      {"p: {open: true}", map[string]string{"TURNLOG_CLOSED": "true"}, nil, program{name: "usual", closed: true, count: 1, tools: []string{"fs"}}},
		"the line's choice":   {"", map[string]string{"TURNLOG_CLOSED": "true"}, []string{"--open"}, program{name: "usual", open: true, count: 1, tools: []string{"fs"}}},
		"another server":      {file, map[string]string{"NATS_CONTEXT": "e"}, nil, program{name: "p", count: 2, tools: []string{"web", "a", "b"}, mcp: []string{"x=1"}, creds: "c"}},
		"another user":        {file, map[string]string{"NATS_USER": "e"}, []string{"--creds", "mine"}, program{name: "p", count: 2, tools: []string{"web", "a", "b"}, mcp: []string{"x=1"}, server: "s", creds: "mine"}},
		"a variable is empty": {file, map[string]string{"TURNLOG_NAME": ""}, nil, program{name: "p", count: 2, tools: []string{"web", "a", "b"}, mcp: []string{"x=1"}, server: "s", creds: "c"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newProgram()
			if err := p.run(t, c.file, c.env, c.args...); err != nil {
				t.Fatal(err)
			}
			p.Command = nil
			if diff := cmp.Diff(c.want, *p, cmp.AllowUnexported(program{})); diff != "" {
				t.Errorf("settings (-want +got):\n%s", diff)
			}
		})
	}
}

func TestWrongSettingsSayWhatIsWrong(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		file string
		env  map[string]string
		want string
	}{
		"an unknown setting":     {"p: {cuont: 1}", nil, `p has no setting "cuont": did you mean count?`},
		"another file":           {"p: {config: x}", nil, `p has no setting "config"`},
		"a value":                {"p: {count: x}", nil, `f.yaml: invalid argument "x" for "--count" flag`},
		"a list":                 {"p: {count: [1, 2]}", nil, "count: use one value, not a list"},
		"no value":               {"p: {name: }", nil, "p: name: the value is missing"},
		"a mapping":              {"p: {name: {a: b}}", nil, "is not a text, a number, true, false, or a list"},
		"a secret":               {"all: {password: x}", nil, "secrets are not allowed in a file"},
		"no sections":            {"name: x", nil, "the file does not consist of sections of settings"},
		"a variable":             {"", map[string]string{"TURNLOG_COUNT": "x"}, `TURNLOG_COUNT: invalid argument "x"`},
		"a file that is missing": {"", map[string]string{"TURNLOG_CONFIG": "/nothing/here"}, "read the settings: "},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := newProgram().run(t, c.file, c.env)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error = %v, want %q", err, c.want)
			}
		})
	}
}

// What a file must not reveal: errors name the place of a secret, and not the secret.
func TestErrorsDoNotShowSecrets(t *testing.T) {
	t.Parallel()
	for _, file := range []string{"all: {token: hunter2}", "all: {server: 'nats://a:hunter2@b'}", "p: {server: ['nats://a:hunter2@b']}"} {
		if err := newProgram().run(t, file, nil); err == nil || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("error for %q = %v", file, err)
		}
	}
}

// TestARepeatableVariableIsShownValueByValue has it as programs take it.
func TestARepeatableVariableIsShownValueByValue(t *testing.T) {
	t.Parallel()
	p := Program{Command: "p", Flags: []Flag{{Name: "mcp", Type: "stringArray", Variable: "TURNLOG_MCP"}}}
	got := p.Show(nil, func(string) string { return "y=1\nz=2\n" })
	want := []Setting{{Name: "mcp", Values: []string{"y=1", "z=2"}, From: "TURNLOG_MCP"}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("settings (-want +got):\n%s", diff)
	}
}
