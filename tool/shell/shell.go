// Package shell offers one tool that runs commands: shell_exec.
//
// The one idea: a call owns every process that it started. A command runs in its own
// process group, and when the call ends the whole group has ended, whether the call
// was cancelled, timed out, or finished and left something in the background. Only a
// process that starts its own session survives; the call does not wait for it.
//
// Stdout and stderr are one stream, taken in bounded memory: the result shows the
// beginning and the end, and the host may store all of it (see [tool.Stash]). A command
// that ran is a success of the tool, whatever its exit status, which is part of the
// output for the model to judge.
//
// A command sees a small environment, without the host's secrets, and starts in a
// directory below the root. It is not confined to that: it may do what the host's user
// may do. Let [tool.Permissions] decide on the requests that the tool proposes (kind
// shell.command), or run commands in a sandbox: see [Options].Sandbox.
//
// With [Options].Shells, a call may keep its shell: the next call starts with the same
// directory and exported variables, but without functions and processes. Kept shells
// are in the memory of one worker. If a shell is gone, because the worker restarted or
// the call reached another one, the call fails and says so.
//
// Only Unix has process groups; elsewhere [New] returns an error.
package shell

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/turnlog/turnlog/internal/hostenv"
	"github.com/turnlog/turnlog/internal/procgroup"
	"github.com/turnlog/turnlog/internal/sandbox"
	"github.com/turnlog/turnlog/tool"
)

// Failure codes, in addition to those of package tool.
const (
	CodeNoProgram = "no_such_program" // the program does not exist
	CodeNotRun    = "not_run"         // the operating system cannot run it
	CodeShellGone = "shell_gone"      // the kept shell does not exist or has ended
	CodeShellBusy = "shell_busy"      // another call is running in the kept shell
)

// Options configures [New]. The zero value is ready for use.
type Options struct {
	Env   []string      // KEY=value, added to every command's environment; the last of equal keys wins
	Grace time.Duration // from SIGTERM to SIGKILL; zero: 2 s

	Shells    int           // how many shells are kept; one more evicts the least recently used; zero: none
	ShellIdle time.Duration // how long an unused shell is kept; zero: 30 min

	Sandbox string // auto, none or bwrap; zero: none. The tool's description says what auto found
	Network bool   // allow the network in a sandbox
}

const (
	defaultTimeout = 2 * time.Minute
	maxTimeout     = 10 * time.Minute
	maxOutput      = 1<<20 - 4096 // leaves room for notes in a result
)

// New returns the tool shell_exec for the directory root. It returns an error if root
// cannot be opened, the sandbox does not work, or the system has no process groups.
func New(root string, opts Options) (tool.Tool, error) {
	if !procgroup.Supported {
		return nil, errors.New("shell_exec needs the process groups of Unix, which this system does not have")
	}
	r, err := tool.OpenRoot(root)
	if err != nil {
		return nil, err
	}
	opts.Grace = cmp.Or(max(opts.Grace, 0), 2*time.Second)
	opts.ShellIdle = cmp.Or(max(opts.ShellIdle, 0), 30*time.Minute)
	box, _, err := sandbox.Open(context.Background(), opts.Sandbox, opts.Network)
	if err != nil {
		return nil, fmt.Errorf("shell_exec: %w", err)
	}
	s := &shell{
		root: r, opts: opts, env: append(hostenv.Base(), opts.Env...), box: box,
		kept: &kept{limit: opts.Shells, idle: opts.ShellIdle},
	}
	options := []tool.Option{
		tool.WithSchema(func(s *jsonschema.Schema) {
			s.Properties["argv"].MinItems = new(1)
			s.Properties["script"].MinLength = new(1)
			s.Properties["timeout_seconds"].ExclusiveMinimum, s.Properties["timeout_seconds"].Maximum = new(0.0), new(maxTimeout.Seconds())
		}),
		tool.WithSpec(func(s *tool.Spec) {
			s.Timeout = maxTimeout + 4*opts.Grace // the tool's own timeout comes first: its error shows the output
			s.OutputSchema = []byte(`{"type":"object","required":["exit_code","duration_ms"],"properties":{` +
				`"exit_code":{"type":"integer","description":"-1 if a signal ended the command"},` +
				`"signal":{"type":"string"},"duration_ms":{"type":"integer"},"cut_bytes":{"type":"integer"}}}`)
		}),
	}
	if opts.Shells <= 0 {
		options = append(options, tool.Without("shell", "end_shell"))
	}
	return tool.CallFunc("shell_exec",
		fmt.Sprintf("Runs a command and waits for it to end. Returns its output, stdout and stderr interleaved, and its exit status. "+
			"Give either argv or script. It starts in the root unless cwd is set, has no input, and is stopped after %s unless timeout_seconds is set. "+
			"Processes that it leaves running are stopped when it ends.%s", defaultTimeout, s.about()),
		s.exec, options...)
}

// about describes how the tool is configured.
func (s *shell) about() string {
	text := ""
	if s.opts.Shells > 0 {
		text += ` To keep the directory and exported variables from one script to the next, set shell to "new", then to the name that the result gives.`
	}
	if s.box.Name() != sandbox.None {
		text += " Commands can write only below the root and in /tmp, and each has its own empty /tmp."
		if !s.opts.Network {
			text += " They have no network."
		}
	}
	return text
}

type input struct {
	Argv    []string          `json:"argv,omitempty" jsonschema:"The program and its arguments, one element each. There is no shell: nothing is expanded and nothing needs quotes."`
	Script  string            `json:"script,omitempty" jsonschema:"A script for /bin/sh instead of argv, for pipes, redirections and several commands."`
	Cwd     string            `json:"cwd,omitempty" jsonschema:"The directory to start in, relative to the root. Default: the root."`
	Env     map[string]string `json:"env,omitempty" jsonschema:"Environment variables to set, in addition to PATH, HOME, LANG and TMPDIR."`
	Timeout float64           `json:"timeout_seconds,omitempty" jsonschema:"After how long to stop the command."`
	Shell   string            `json:"shell,omitempty" jsonschema:"The shell to run the script in, as an earlier result named it, or new to start one that is kept. Default: a shell that is not kept."`
	End     bool              `json:"end_shell,omitempty" jsonschema:"End the shell after this script."`
}

// target is what a permission request is about.
type target struct {
	Argv []string `json:"argv"`
	Cwd  string   `json:"cwd"`
	Env  []string `json:"env,omitempty"` // the keys
}

// Describe describes the permission request.
func (in input) Describe() (kind, summary string, about any) {
	t := target{Argv: in.command(), Cwd: filepath.ToSlash(filepath.Clean(in.Cwd))}
	for key := range in.Env {
		t.Env = append(t.Env, key)
	}
	slices.Sort(t.Env)
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
	case in.Shell == "" && in.End:
		return invalid("end_shell: needs shell")
	case in.Shell != "" && in.Script == "":
		return invalid("shell: needs a script, not argv")
	}
	for key, value := range in.Env {
		switch {
		case key == "" || strings.Contains(key, "=") || hasNUL(key) || hasNUL(value):
			return invalid("env: %q is not a variable name, or its value contains a NUL character", key)
		case in.Shell != "" && !regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`).MatchString(key):
			return invalid("env: %q is not a shell variable", key)
		}
	}
	return nil
}

func hasNUL(s string) bool { return strings.ContainsRune(s, 0) }

func invalid(format string, args ...any) error {
	return tool.Failure(tool.CodeInvalidArguments, format, args...)
}

type shell struct {
	root *tool.Root
	opts Options
	env  []string
	box  *sandbox.Sandbox
	kept *kept
}

func (s *shell) exec(ctx context.Context, c tool.Call, in input) (tool.Output, error) {
	if err := in.check(); err != nil {
		return tool.Output{}, err
	}
	dir, err := s.root.Subdir(in.Cwd)
	if err != nil {
		return tool.Output{}, err
	}
	p := process{
		shell: s, call: c, timeout: cmp.Or(time.Duration(in.Timeout*float64(time.Second)), defaultTimeout),
		cmd: sandbox.Command{Root: s.root.Dir(), Dir: dir, Argv: in.command()}, env: append(slices.Clone(s.env), "PWD="+dir),
	}
	for key, value := range in.Env {
		p.env = append(p.env, key+"="+value)
	}
	if p.cmd.Path, err = lookPath(p.cmd.Argv[0], p.env); err != nil {
		return tool.Output{}, err
	}
	if in.Shell == "" {
		return p.run(ctx)
	}
	k, err := s.kept.take(c.Session, in.Shell)
	if err != nil {
		return tool.Output{}, err
	}
	defer func() { s.kept.put(k, in.End) }()
	return p.runKept(ctx, k, in)
}

// runKept runs a script in a kept shell.
func (p process) runKept(ctx context.Context, k *keptShell, in input) (tool.Output, error) {
	v, err := k.visit(in, p.cmd.Dir)
	if err != nil {
		return tool.Output{}, err
	}
	defer v.leave()
	p.cmd.Argv, p.cmd.Files = []string{"/bin/sh", "-c", v.script(in)}, []string{v.files}
	out, err := p.run(ctx)
	note := v.keep(in.End)
	if e, ok := errors.AsType[*tool.Error](err); ok {
		return tool.Output{}, tool.Failure(e.Code, "%s\n%s", strings.TrimSuffix(e.Message, "\n"), strings.TrimSuffix(note, "\n"))
	}
	if err != nil {
		return tool.Output{}, err
	}
	out.Parts[0].Text += note
	return out, nil
}

// lookPath finds a program in the PATH of env, as the command would. A name with a
// slash is used as is, relative to the directory in which the command starts.
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

// notStarted explains why a program did not start.
func notStarted(name string, err error) error {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return tool.Failure(CodeNoProgram, "program %q does not exist, or its interpreter does not", name)
	case errors.Is(err, fs.ErrPermission):
		return tool.Failure(CodeNotRun, "program %q cannot be run: it is not executable", name)
	}
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		err = e.Err
	}
	return tool.Failure(CodeNotRun, "program %q cannot be run: %v", name, err)
}
