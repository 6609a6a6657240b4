// Package exec runs commands as tools: shell_exec, for commands that a model writes, and
// tools for the executables that manifests describe.
//
// A call owns every process that it started. A command runs in its own process group,
// and when the call ends, the whole group has ended, whether the call was canceled,
// timed out, or finished and left something in the background. Only a process that
// starts its own session survives; the call does not wait for it.
//
// Output is collected in bounded memory: a result shows its beginning and its end, and
// the host may store all of it (see [tool.Stash]). A command sees a small environment,
// without the host's secrets, and starts in a directory below the root. It is not
// confined to that directory: it may do whatever the host's user may do. Let
// [tool.Permissions] decide on the requests that the tools propose (kinds shell.command
// and exec.run). That is only a filter; to confine commands, use a sandbox, see
// [Options].Sandbox.
//
// [NewShell] returns shell_exec. Stdout and stderr are one stream. A command that ran is a
// success of the tool, whatever its exit status: the status is part of the output, and the
// model judges it.
//
// [New] and [Load] return the tools of manifests. A manifest in YAML or JSON names the
// tool, its input and its command; the program needs to know nothing about Turnlog. There
// is no shell and there are no templates: a placeholder is one whole argument, so
// no input can become another argument, an option or a command. A program can also read
// the input as JSON from stdin. Stdout is the tool's output. If the exit status is not
// zero, the call fails, and the model sees the status and stderr. A manifest is trusted
// like a program.
//
// Only Unix has process groups; elsewhere the constructors return errors.
package exec

import (
	"cmp"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"slices"
	"time"

	"github.com/turnlog/turnlog/internal/hostenv"
	"github.com/turnlog/turnlog/internal/procgroup"
	"github.com/turnlog/turnlog/internal/sandbox"
	"github.com/turnlog/turnlog/tool"
)

// Failure codes, in addition to those of package tool.
const (
	CodeNoProgram = "no_such_program" // the program does not exist
	CodeNotRun    = "not_run"         // the operating system cannot run it
	CodeExit      = "exit_status"     // the program of a manifest failed
	CodeOutput    = "bad_output"      // the output is not what the manifest promises
)

// Options configures [NewShell], [New] and [Load]. The zero value is ready for use.
type Options struct {
	Env   []string      // KEY=value, added to every command's environment; the last of equal keys wins
	Grace time.Duration // from SIGTERM to SIGKILL; zero: 2 s

	Sandbox  string   // none, bwrap, or auto for bwrap if it works; zero: none
	Network  bool     // allow the network in a sandbox
	Writable []string // absolute paths that commands in a sandbox may write, in addition to the root
	ReadOnly []string // absolute paths that they may only read, even below the root
	Hidden   []string // absolute paths that are empty to them
}

const (
	defaultTimeout = 2 * time.Minute
	maxOutput      = 1<<20 - 4096 // bytes that a result shows by default; leaves room for notes
)

// host has what the commands of a tool share.
type host struct {
	root  *tool.Root
	env   []string
	box   *sandbox.Sandbox
	files []string // files that commands in the sandbox may write
	paths sandbox.Paths
	grace time.Duration
}

func newHost(root string, opts Options) (host, error) {
	if !procgroup.Supported {
		return host{}, errors.New("commands need the process groups of Unix, which this system does not have")
	}
	r, err := tool.OpenRoot(root)
	if err != nil {
		return host{}, err
	}
	box, _, err := sandbox.Open(context.Background(), opts.Sandbox, opts.Network)
	if err != nil {
		return host{}, err
	}
	return host{
		root: r, env: slices.Concat(hostenv.Base(), box.Env(r.Dir()), opts.Env), grace: cmp.Or(max(opts.Grace, 0), 2*time.Second),
		box: box, files: opts.Writable, paths: sandbox.Paths{ReadOnly: opts.ReadOnly, Hidden: opts.Hidden},
	}, nil
}

type command struct {
	sandbox.Command

	env     []string
	timeout time.Duration
	stdin   io.Reader // nil: empty
	stdout  io.Writer // nil: stderr
	stderr  io.Writer
}

// run runs a command. stopped reports that its timeout passed first. The error says why the command
// did not start, or is the cause of ctx if that ended first.
func (h host) run(ctx context.Context, c command) (state *os.ProcessState, stopped bool, err error) {
	if ctx.Err() != nil {
		return nil, false, context.Cause(ctx)
	}
	limited, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	c.Root, c.Files, c.Paths = h.root.Dir(), append(c.Files, h.files...), h.paths
	argv := h.box.Wrap(c.Command)
	state, err = procgroup.Run(limited, procgroup.Command{
		Path: argv[0], Args: argv, Dir: c.Dir, Env: c.env, Input: c.stdin, Answer: c.stdout, Output: c.stderr, Grace: h.grace,
	})
	switch {
	case err != nil:
		return nil, false, notStarted(c.Argv[0], err)
	case !state.Success() && ctx.Err() != nil:
		return nil, false, context.Cause(ctx)
	}
	return state, !state.Success() && limited.Err() != nil, nil
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

// target is what a permission request is about.
type target struct {
	Argv   []string `json:"argv"`
	Cwd    string   `json:"cwd"`
	Env    []string `json:"env,omitempty"`    // the keys that a call sets
	Values string   `json:"values,omitempty"` // digest of what it sets them to
}

func invalid(format string, args ...any) error {
	return tool.Failure(tool.CodeInvalidArguments, format, args...)
}
