package exec

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/turnlog/turnlog/internal/hostenv"
	"github.com/turnlog/turnlog/internal/sandbox"
	"github.com/turnlog/turnlog/tool"
)

const maxTimeout = 10 * time.Minute // the longest timeout that a call of shell_exec can ask for

type shell struct {
	host

	network bool
}

// NewShell returns the tool shell_exec for the directory root. It returns an error if root
// or the sandbox cannot be used.
func NewShell(root string, opts Options) (tool.Tool, error) {
	h, err := newHost(root, opts)
	if err != nil {
		return nil, err
	}
	s := &shell{host: h, network: opts.Network}
	return tool.CallFunc("shell_exec",
		fmt.Sprintf("Runs a command and waits for it to end. Returns its output, stdout and stderr interleaved, and its exit status. "+
			"Give either argv or script. It starts in the root unless cwd is set, has no input, and is stopped after %s unless timeout_seconds is set. "+
			"Processes that it leaves running are stopped when it ends.%s", defaultTimeout, s.about()),
		s.exec,
		tool.WithSchema(func(s *jsonschema.Schema) {
			s.Properties["argv"].MinItems = new(1)
			s.Properties["script"].MinLength = new(1)
			s.Properties["timeout_seconds"].ExclusiveMinimum, s.Properties["timeout_seconds"].Maximum = new(0.0), new(maxTimeout.Seconds())
		}),
		tool.WithSpec(func(s *tool.Spec) {
			s.Exact = true
			s.Timeout = maxTimeout + 4*h.grace // the tool's own timeout comes first: its error shows the output
			s.OutputSchema = []byte(`{"type":"object","required":["exit_code","duration_ms"],"properties":{` +
				`"exit_code":{"type":"integer","description":"-1 if a signal ended the command"},` +
				`"signal":{"type":"string"},"duration_ms":{"type":"integer"},"cut_bytes":{"type":"integer"}}}`)
		}),
	)
}

// about describes how the tool is configured.
func (s *shell) about() string {
	if s.box.Name() == sandbox.None {
		return ""
	}
	text := " Commands can write only below the root and in /tmp, and each has its own empty /tmp."
	if !s.network {
		text += " They have no network."
	}
	return text
}

type input struct {
	Argv    []string          `json:"argv,omitempty" jsonschema:"The program and its arguments, one element each. There is no shell: nothing is expanded and nothing needs quotes."`
	Script  string            `json:"script,omitempty" jsonschema:"A script for /bin/sh instead of argv, for pipes, redirections and several commands."`
	Cwd     string            `json:"cwd,omitempty" jsonschema:"The directory to start in, relative to the root. Default: the root."`
	Env     map[string]string `json:"env,omitempty" jsonschema:"Environment variables to set, in addition to PATH, HOME, LANG and TMPDIR."`
	Timeout float64           `json:"timeout_seconds,omitempty" jsonschema:"After how long to stop the command."`
}

// Describe describes the permission request.
func (in input) Describe() (kind, summary string, about any) {
	t := target{Argv: in.command(), Cwd: filepath.ToSlash(filepath.Clean(in.Cwd))}
	for key := range in.Env {
		t.Env = append(t.Env, key)
	}
	slices.Sort(t.Env)
	if raw, err := json.Marshal(in.Env); err == nil && len(in.Env) > 0 { // its keys are sorted
		t.Values = tool.Digest(raw)
	}
	summary = in.Script
	if summary == "" {
		summary = strings.Join(in.Argv, " ")
	}
	return "shell.command", "run " + summary, t
}

func (in input) command() []string {
	if in.Script != "" {
		return []string{"/bin/sh", "-c", in.Script}
	}
	return in.Argv
}

func (in input) check() error {
	switch argv := in.command(); {
	case in.Script != "" && len(in.Argv) > 0:
		return invalid("argv, script: give one of them, not both")
	case len(argv) == 0:
		return invalid("argv, script: give one of them")
	case argv[0] == "":
		return invalid("argv[0]: is empty, want a program")
	case slices.ContainsFunc(argv, hasNUL):
		return invalid("argv, script: an argument cannot contain a NUL character")
	}
	for key, value := range in.Env {
		if key == "" || strings.Contains(key, "=") || hasNUL(key) || hasNUL(value) {
			return invalid("env: %q is not a variable name, or its value contains a NUL character", key)
		}
	}
	return nil
}

func hasNUL(s string) bool { return strings.ContainsRune(s, 0) }

func (s *shell) exec(ctx context.Context, c tool.Call, in input) (tool.Output, error) {
	if err := in.check(); err != nil {
		return tool.Output{}, err
	}
	dir, err := s.root.Subdir(in.Cwd)
	if err != nil {
		return tool.Output{}, err
	}
	cmd := command{
		Command: sandbox.Command{Dir: dir, Argv: in.command()}, env: append(slices.Clone(s.env), "PWD="+dir),
		timeout: cmp.Or(time.Duration(in.Timeout*float64(time.Second)), defaultTimeout),
	}
	for key, value := range in.Env {
		cmd.env = append(cmd.env, key+"="+value)
	}
	if cmd.Path, err = lookPath(cmd.Argv[0], cmd.env); err != nil {
		return tool.Output{}, err
	}
	return s.once(ctx, c, cmd)
}

// lookPath finds a program in the PATH of env, as the command would. A name with a slash is used
// unchanged, relative to the directory in which the command starts.
func lookPath(name string, env []string) (string, error) {
	if strings.Contains(name, "/") {
		return name, nil
	}
	full, path, ok := hostenv.LookPath(name, env)
	if ok {
		return full, nil
	}
	return "", tool.Failure(CodeNoProgram, "program %q is not in PATH (%s): check the name, or give the path of its file", name, path)
}
