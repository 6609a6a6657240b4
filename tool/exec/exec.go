// Package exec makes tools of executables. A manifest in YAML or JSON says what a tool
// is called, what it takes, and which command it runs; the program needs to know
// nothing of Turnlog.
//
// The one idea: no shell. A command is a list of arguments, and what a model gives
// fills places in it, each one argument or a part of one, so nothing that a model says
// is ever taken for another argument, an option or a command. Or the program reads the
// whole input as JSON from stdin.
//
// What the program writes to stdout is the tool's output, of any length where the host
// keeps long outputs, see [tool.Stash]. If its exit status is not
// zero the call fails, and the model is told the status and what stood in stderr. A
// call owns all that it started, as in package shell: nothing of it is left when the
// call has ended. The environment is small, and what it holds besides is in the
// manifest.
//
// A manifest belongs to whoever runs the worker: it is trusted as a program is. What a
// call does with it is judged by [tool.Permissions] as a request of the kind exec.run.
package exec

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/internal/hostenv"
	"github.com/turnlog/turnlog/internal/procgroup"
	"github.com/turnlog/turnlog/internal/sandbox"
	"github.com/turnlog/turnlog/tool"
)

// Codes of failures, beside those of package tool.
const (
	CodeExit   = "exit_status" // the program says that it failed
	CodeOutput = "bad_output"  // the program did not write what its manifest promises
	CodeNotRun = "not_run"     // the program could not be started
)

// Options configures [Load] and [New].
type Options struct {
	Env     []string      // KEY=value, more for every command; a manifest adds its own
	Grace   time.Duration // from SIGTERM to SIGKILL; zero: 2 s
	Sandbox string        // what commands run in: none, bwrap, or auto for bwrap if it works; zero: none
	Network bool          // in a sandbox: use the network
}

// runner is one tool.
type runner struct {
	m     *Manifest
	spec  tool.Spec
	root  *tool.Root
	dir   string // where it begins, absolute
	env   []string
	file  string // the program
	box   *sandbox.Sandbox
	grace time.Duration
}

// New returns the tool of a manifest, whose commands begin below the directory root.
// It returns an error if the root, the program or the sandbox is not there.
func New(root string, m *Manifest, opts Options) (tool.Tool, error) {
	if !procgroup.Supported {
		return nil, errors.New("tools of manifests need the process groups of Unix, which this system does not have")
	}
	r, err := tool.OpenRoot(root)
	if err != nil {
		return nil, err
	}
	box, _, err := sandbox.Open(context.Background(), opts.Sandbox, sandbox.Options{Network: opts.Network})
	if err != nil {
		return nil, err
	}
	if opts.Grace <= 0 {
		opts.Grace = 2 * time.Second
	}
	x := &runner{m: m, root: r, box: box, grace: opts.Grace}
	if err := x.prepare(opts); err != nil {
		return nil, err
	}
	return tool.Compile(x)
}

// prepare finds what the manifest names.
func (x *runner) prepare(opts Options) error {
	passed, err := hostenv.Pass(x.m.Env)
	if err != nil {
		return x.m.at("$.env", "%v", err)
	}
	x.env = append(append(hostenv.Base(), opts.Env...), passed...)
	rel, err := x.root.Rel(x.m.Cwd)
	if err != nil {
		return x.m.at("$.cwd", "%v", err)
	}
	x.dir = filepath.Join(x.root.Dir(), filepath.FromSlash(rel))
	x.env = append(x.env, "PWD="+x.dir)
	program := x.m.command[0].args[0].plain()
	switch {
	case strings.Contains(program, "/"):
		x.file = program
		if !filepath.IsAbs(program) {
			x.file = filepath.Join(x.m.dir, program)
		}
		if !hostenv.Executable(x.file) {
			return x.m.at("$.command[0]", "%s is not there, or may not be run", x.file)
		}
	default:
		file, path, ok := hostenv.LookPath(program, x.env)
		if !ok {
			return x.m.at("$.command[0]", "%s is not in PATH (%s)", program, path)
		}
		x.file = file
	}
	x.spec, err = x.m.spec(x.grace)
	return err
}

// Spec returns what the manifest says.
func (x *runner) Spec() tool.Spec { return x.spec }

// target is what a request for permission is about.
type target struct {
	Argv []string `json:"argv"`
	Cwd  string   `json:"cwd"`
}

// Propose makes one request, about the command that the call would run.
func (x *runner) Propose(_ context.Context, c tool.Call) ([]tool.Request, error) {
	r := tool.RequestFor(x.spec, c)
	in, err := readInput(c.Input)
	if err != nil {
		return nil, err
	}
	argv, err := x.m.argv(in)
	if err != nil {
		return []tool.Request{r}, nil //nolint:nilerr // the call says so, and runs nothing
	}
	argv[0] = x.file
	r.Kind, r.Summary = "exec.run", "run "+strings.Join(argv, " ")
	if r.Target, err = json.Marshal(target{argv, x.dir}); err != nil {
		return nil, fmt.Errorf("propose %s: %w", x.spec.Name, err)
	}
	return []tool.Request{r}, nil
}

// Call runs the command.
func (x *runner) Call(ctx context.Context, c tool.Call) (tool.Output, error) {
	in, err := readInput(c.Input)
	if err != nil {
		return tool.Output{}, err
	}
	argv, err := x.m.argv(in)
	if err != nil {
		return tool.Output{}, err
	}
	if err := x.start(); err != nil {
		return tool.Output{}, err
	}
	stdin, err := x.m.input(in, c.Input)
	if err != nil {
		return tool.Output{}, err
	}
	limited, cancel := context.WithTimeoutCause(ctx, x.m.timeout, errTimeout)
	defer cancel()
	out := c.Spool(x.m.MaxOutput)
	defer out.Close()
	return x.run(ctx, limited, argv, stdin, out)
}

var errTimeout = errors.New("the command's time is over")

// start checks that the directory in which the command begins is still there, and
// leads nowhere else.
func (x *runner) start() error {
	rel, err := x.root.Rel(x.dir)
	if err != nil {
		return err
	}
	info, err := x.root.Stat(rel)
	switch {
	case err != nil:
		return x.root.Explain("cwd "+rel, err)
	case !info.IsDir():
		return tool.Failure(tool.CodeFileSystem, "cwd %s is not a directory", rel)
	}
	return nil
}

func (x *runner) run(ctx, limited context.Context, argv []string, stdin []byte, out *tool.Spool) (tool.Output, error) {
	input, err := spool(stdin)
	if err != nil {
		return tool.Output{}, fmt.Errorf("pass the input: %w", err)
	}
	answer, write, err := os.Pipe()
	if err != nil {
		_ = input.Close()
		return tool.Output{}, fmt.Errorf("take the output: %w", err)
	}
	problems := tool.NewClip(maxProblems)
	drained := make(chan struct{})
	go func() {
		defer close(drained)
		_, _ = io.Copy(out, answer) // ends with the last writer, or by the deadline below
	}()
	argv = x.box.Wrap(sandbox.Command{Root: x.root.Dir(), Dir: x.dir, Path: x.file, Argv: argv})
	state, err := procgroup.Run(limited, procgroup.Command{
		Path: argv[0], Args: argv, Dir: x.dir, Env: x.env, Input: input, Answer: write, Output: problems, Grace: x.grace,
	})
	await(drained, time.Second) // what the program left behind is gone by now, but for what made itself a new session
	_ = answer.SetReadDeadline(time.Now())
	<-drained
	_ = answer.Close()
	if err != nil {
		return tool.Output{}, tool.Failure(CodeNotRun, "%s cannot be run: %v", x.m.Name, err)
	}
	said, _ := problems.Text()
	switch {
	case state.Success():
		return x.output(ctx, out)
	case ctx.Err() != nil:
		return tool.Output{}, context.Cause(ctx)
	case limited.Err() != nil:
		return tool.Output{}, tool.Failure(tool.CodeTimeout, "it was stopped after %s%s", x.m.timeout, told(ctx, said, out))
	}
	return tool.Output{}, tool.Failure(CodeExit, "%s%s", state, told(ctx, said, out))
}

// maxProblems is how much of stderr a model is shown.
const maxProblems = 16 << 10

// told is what the program said before it failed.
func told(ctx context.Context, said string, out *tool.Spool) string {
	if said = strings.TrimSpace(said); said == "" {
		said = strings.TrimSpace(out.Part(ctx).Text)
	}
	if said == "" {
		return ""
	}
	return ": " + said
}

// output is what a call that went well hands back. JSON that is too long for a result
// is handed over as text, where the host keeps it.
func (x *runner) output(ctx context.Context, out *tool.Spool) (tool.Output, error) {
	long := out.Cut() > 0
	if long && x.m.Output == "json" && !out.Keeps() {
		return tool.Output{}, tool.Failure(CodeOutput, "it wrote more than %d bytes of JSON", x.m.MaxOutput)
	}
	part := out.Part(ctx)
	if long || x.m.Output != "json" {
		return tool.Output{Parts: []content.Part{part}}, nil
	}
	raw := json.RawMessage(strings.TrimSpace(part.Text))
	if !json.Valid(raw) {
		return tool.Output{}, tool.Failure(CodeOutput, "it wrote no valid JSON: %.300s", raw)
	}
	return tool.Output{Parts: []content.Part{content.StructuredPart(raw)}}, nil
}

// spool makes a file of the input, which has no name any more: a program that does not
// read it holds nothing up. It is nil if there is no input.
func spool(input []byte) (*os.File, error) {
	if input == nil {
		return nil, nil //nolint:nilnil // no input, no file
	}
	f, err := os.CreateTemp("", "turnlog-input-*")
	if err != nil {
		return nil, err //nolint:wrapcheck // run says what it was for
	}
	_ = os.Remove(f.Name())
	if _, err = f.Write(input); err == nil {
		_, err = f.Seek(0, io.SeekStart)
	}
	if err != nil {
		_ = f.Close()
		return nil, err //nolint:wrapcheck // as above
	}
	return f, nil
}

func await(done <-chan struct{}, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-done:
	case <-timer.C:
	}
}

// Load returns the tools of a manifest, or of all manifests (.yaml, .yml and .json)
// directly in a folder, in the order of their names.
func Load(root, name string, opts Options) ([]tool.Tool, error) {
	files, err := manifests(name)
	if err != nil {
		return nil, err
	}
	var tools []tool.Tool
	of := map[string]string{} // which file a name is from
	for _, f := range files {
		m, err := ReadManifest(f)
		if err != nil {
			return nil, err
		}
		if other, ok := of[m.Name]; ok {
			return nil, m.at("$.name", "%q is the name of the tool of %s, too", m.Name, filepath.Base(other))
		}
		of[m.Name] = f
		t, err := New(root, m, opts)
		if err != nil {
			return nil, err
		}
		tools = append(tools, t)
	}
	return tools, nil
}

func manifests(name string) ([]string, error) {
	info, err := os.Stat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("manifest %s: no such file or folder", name)
	}
	if err != nil {
		return nil, fmt.Errorf("manifest: %w", err)
	}
	if !info.IsDir() {
		return []string{name}, nil
	}
	entries, err := os.ReadDir(name)
	if err != nil {
		return nil, fmt.Errorf("manifests: %w", err)
	}
	var files []string
	for _, e := range entries {
		switch filepath.Ext(e.Name()) {
		case ".yaml", ".yml", ".json":
			files = append(files, filepath.Join(name, e.Name()))
		}
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("manifests: %s holds no .yaml, .yml or .json", name)
	}
	return files, nil
}
