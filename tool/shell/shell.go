// Package shell offers one tool that runs commands: shell_exec.
//
// The one idea: a call owns every process that it started. A command runs in a
// process group of its own, and the whole group has ended when the call has: when
// it is cancelled, when its time is over, and also when the command itself is done
// and has left something behind. Only a process that made itself a new session
// survives; nobody waits for it.
//
// Output is taken as it comes, stdout and stderr in one stream, in bounded memory:
// of too much of it the beginning and the end are kept, and all of it where the host
// keeps long outputs, see [tool.Stash]. A command that ran is a
// success of the tool, whatever its exit status; that is in the output, for the
// model to judge.
//
// A command sees a small environment, without whatever secrets the host has in its
// own, and begins in a directory within the root. It is not confined to it: what
// the host's user may do, a command may do. Let [tool.Permissions] decide on the
// requests that the tool proposes (kind shell.command), or have commands run in a
// sandbox, where the machine offers one: see [Options].Sandbox.
//
// With [Options].Shells a call may keep its shell: the directory it ends in and its
// exported variables, but no functions and no processes, are where the next call in it
// begins. They are in this worker's memory alone. Where they are gone, since the worker
// ended or another one got the call, the call fails and says so.
//
// There are process groups on Unix only; elsewhere [New] returns an error.
package shell

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/turnlog/turnlog/internal/hostenv"
	"github.com/turnlog/turnlog/internal/procgroup"
	"github.com/turnlog/turnlog/internal/sandbox"
	"github.com/turnlog/turnlog/tool"
)

// Codes of failures, beside those of package tool.
const (
	CodeNoProgram = "no_such_program" // the program is not there
	CodeNotRun    = "not_run"         // the operating system does not run it
	CodeShellGone = "shell_gone"      // the kept shell is not there, or not there any more
	CodeShellBusy = "shell_busy"      // another call runs in the kept shell
)

// Options configures [New]. The zero value is ready for use.
type Options struct {
	Env        []string      // KEY=value, more for every command; of equal keys the last one counts
	Timeout    time.Duration // of a command that does not say; zero: 2 min
	MaxTimeout time.Duration // that a command may ask for; zero: 10 min, or Timeout if that is more
	MaxOutput  int           // bytes of a command's output that a result shows; zero: 1 MiB less a little
	Grace      time.Duration // from SIGTERM to SIGKILL; zero: 2 s
	Progress   time.Duration // how often the last line of output is told; zero: 500 ms

	Shells    int           // how many kept shells there may be; one more ends the one not used for longest; zero: none are offered
	ShellIdle time.Duration // after which a kept shell that is not used ends; zero: 30 min

	Sandbox string // auto, none or bwrap: what commands run in; zero: none. What auto found is in the tool's description
	Network bool   // in a sandbox: use the network
}

func (o Options) withDefaults() Options {
	set := func(d *time.Duration, value time.Duration) {
		if *d <= 0 {
			*d = value
		}
	}
	set(&o.Timeout, 2*time.Minute)
	set(&o.MaxTimeout, max(10*time.Minute, o.Timeout))
	set(&o.Grace, 2*time.Second)
	set(&o.Progress, 500*time.Millisecond)
	set(&o.ShellIdle, 30*time.Minute)
	if o.MaxOutput <= 0 {
		o.MaxOutput = 1<<20 - 4096 // the rest of what a result may hold is for what is said about it
	}
	return o
}

// New returns the tool shell_exec for the directory root. It returns an error if
// root cannot be opened, or if there are no process groups on this system.
func New(root string, opts Options) (tool.Tool, error) {
	if !procgroup.Supported {
		return nil, errors.New("shell_exec needs the process groups of Unix, which this system does not have")
	}
	r, err := tool.OpenRoot(root)
	if err != nil {
		return nil, err
	}
	opts = opts.withDefaults()
	box, _, err := sandbox.Open(context.Background(), opts.Sandbox, sandbox.Options{Network: opts.Network})
	if err != nil {
		return nil, fmt.Errorf("shell_exec: %w", err)
	}
	s := &shell{
		root: r, opts: opts, env: append(hostenv.Base(), opts.Env...), box: box,
		kept: &kept{limit: opts.Shells, idle: opts.ShellIdle},
	}
	return tool.CallFunc(
		"shell_exec",
		fmt.Sprintf("Runs a command and waits for it to end. Answers with its output, stdout and stderr as they came, and its exit status. "+
			"Give either argv or script. It begins in the root unless cwd says otherwise, has no input, and is stopped after %s unless timeout_seconds says otherwise. "+
			"Whatever it leaves running is stopped when it ends.%s", opts.Timeout, s.about()),
		s.exec,
		tool.WithSchema(func(s *jsonschema.Schema) {
			s.Properties["argv"].MinItems = new(1)
			s.Properties["script"].MinLength = new(1)
			s.Properties["timeout_seconds"].ExclusiveMinimum = new(0.0)
			s.Properties["timeout_seconds"].Maximum = new(opts.MaxTimeout.Seconds())
			if opts.Shells <= 0 {
				delete(s.Properties, "shell")
				delete(s.Properties, "end_shell")
				s.PropertyOrder = slices.DeleteFunc(s.PropertyOrder, func(name string) bool { return strings.HasSuffix(name, "shell") })
			}
		}),
		tool.WithSpec(func(s *tool.Spec) {
			s.Timeout = opts.MaxTimeout + 4*opts.Grace // the tool's own timeout comes first: it shows the output
			s.OutputSchema = []byte(`{"type":"object","required":["exit_code","duration_ms"],"properties":{` +
				`"exit_code":{"type":"integer","description":"-1 if a signal ended the command"},` +
				`"signal":{"type":"string"},"duration_ms":{"type":"integer"},"cut_bytes":{"type":"integer"}}}`)
		}),
	)
}

// about is what the description says of how the tool was set up.
func (s *shell) about() string {
	text := ""
	if s.opts.Shells > 0 {
		text += ` To keep the directory and the exported variables from one script to the next, give shell "new", then the name that the answer gives.`
	}
	if s.box.Name() != sandbox.None {
		text += " Commands may write below the root and in /tmp only, and /tmp is a new one for each."
		if !s.opts.Network {
			text += " They have no network."
		}
	}
	return text
}

type input struct {
	Argv    []string          `json:"argv,omitempty" jsonschema:"The program and its arguments, one element each. No shell is involved: nothing is expanded and nothing needs to be quoted."`
	Script  string            `json:"script,omitempty" jsonschema:"A script for /bin/sh instead of argv, for pipes, redirections and several commands."`
	Cwd     string            `json:"cwd,omitempty" jsonschema:"The directory to begin in, relative to the root. The root itself if left out."`
	Env     map[string]string `json:"env,omitempty" jsonschema:"Environment variables to set. Only PATH, HOME, LANG and TMPDIR are set otherwise."`
	Timeout float64           `json:"timeout_seconds,omitempty" jsonschema:"When to stop the command."`
	Shell   string            `json:"shell,omitempty" jsonschema:"The shell to run the script in, as an earlier answer named it; or new to begin one that is kept. Not kept if left out."`
	End     bool              `json:"end_shell,omitempty" jsonschema:"Do not keep the shell any longer."`
}

// target is what a request for permission is about.
type target struct {
	Argv []string `json:"argv"`
	Cwd  string   `json:"cwd"`
	Env  []string `json:"env,omitempty"` // the keys
}

// Describe names the request for permission.
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
	bad := func(text string) error { return &tool.Error{Code: tool.CodeInvalidArguments, Message: text} }
	switch argv := in.command(); {
	case in.Script != "" && len(in.Argv) > 0:
		return bad("argv, script: give one of them, not both")
	case len(argv) == 0:
		return bad("argv, script: give one of them")
	case argv[0] == "":
		return bad("argv[0]: is empty, want a program")
	case slices.ContainsFunc(argv, hasNUL):
		return bad("argv, script: a character NUL cannot be passed to a program")
	}
	if err := in.checkShell(); err != nil {
		return err
	}
	for key, value := range in.Env {
		if key == "" || strings.Contains(key, "=") || hasNUL(key) || hasNUL(value) {
			return bad(fmt.Sprintf("env: %q is not the name of a variable, or its value has a character NUL", key))
		}
	}
	return nil
}

func hasNUL(s string) bool { return strings.ContainsRune(s, 0) }

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
	dir, err := s.directory(in.Cwd)
	if err != nil {
		return tool.Output{}, err
	}
	p := process{
		argv: in.command(), dir: dir, env: append(slices.Clone(s.env), "PWD="+dir),
		opts: s.opts, call: c,
	}
	for key, value := range in.Env {
		p.env = append(p.env, key+"="+value)
	}
	if p.path, err = lookPath(p.argv[0], p.env); err != nil {
		return tool.Output{}, err
	}
	if in.Timeout > 0 {
		p.opts.Timeout = time.Duration(in.Timeout * float64(time.Second))
	}
	if in.Shell == "" {
		return s.confined(p).run(ctx)
	}
	k, err := s.kept.take(c.Session, in.Shell)
	if err != nil {
		return tool.Output{}, err
	}
	defer func() { s.kept.put(k, in.End) }()
	return s.runKept(ctx, p, k, in)
}

// runKept runs a script in a kept shell.
func (s *shell) runKept(ctx context.Context, p process, k *keptShell, in input) (tool.Output, error) {
	v, err := k.visit(in, p.dir)
	if err != nil {
		return tool.Output{}, err
	}
	defer v.leave()
	p.argv = []string{"/bin/sh", "-c", v.script(in)}
	out, err := s.confined(p, v.files).run(ctx)
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

// confined is the process in the sandbox, if there is one.
func (s *shell) confined(p process, files ...string) process {
	if s.box.Name() == sandbox.None {
		return p
	}
	p.argv = s.box.Wrap(sandbox.Command{Root: s.root.Dir(), Dir: p.dir, Files: files, Path: p.path, Argv: p.argv})
	p.path = p.argv[0]
	return p
}

// directory finds where the command begins.
func (s *shell) directory(cwd string) (string, error) {
	rel, err := s.root.Rel(cwd)
	if err != nil {
		return "", err
	}
	info, err := s.root.Stat(rel)
	switch {
	case err != nil:
		return "", s.root.Explain("cwd: "+rel, err)
	case !info.IsDir():
		return "", tool.Failure(tool.CodeFileSystem, "cwd: %s is not a directory", rel)
	}
	return filepath.Join(s.root.Dir(), filepath.FromSlash(rel)), nil
}

// lookPath finds a program where the command would, not where this process would:
// in the PATH of env. A name with a slash is taken as it is, relative to the
// directory in which the command begins.
func lookPath(name string, env []string) (string, error) {
	if strings.Contains(name, "/") {
		return name, nil
	}
	full, path, ok := hostenv.LookPath(name, env)
	if ok {
		return full, nil
	}
	return "", tool.Failure(CodeNoProgram, "program %q is not in PATH (%s): check its name, or name its file", name, path)
}

// notStarted explains why a program did not run.
func notStarted(name string, err error) error {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return tool.Failure(CodeNoProgram, "program %q does not exist, or what it is a script for", name)
	case errors.Is(err, fs.ErrPermission):
		return tool.Failure(CodeNotRun, "program %q may not be run: it is not executable", name)
	}
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		err = e.Err
	}
	return tool.Failure(CodeNotRun, "program %q cannot be run: %v", name, err)
}
