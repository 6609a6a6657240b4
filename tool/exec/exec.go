// Package exec turns executables into tools. A manifest in YAML or JSON names the
// tool, its input and the command that it runs; the program needs to know nothing
// about Turnlog.
//
// The one idea: no shell and no templates. A command is a list of arguments, and a
// placeholder stands for one whole argument, so no input can become another
// argument, an option or a command. A program can also read the input as JSON from
// stdin.
//
// Stdout is the tool's output, of any length where the host keeps long outputs (see
// [tool.Stash]). If the exit status is not zero, the call fails, and the model sees
// the status and stderr. A call owns every process that it started, as in package
// shell. The environment holds only the basics and what the manifest adds.
//
// A manifest is trusted like a program. What a call does with it is judged by
// [tool.Permissions] as a request of kind exec.run.
package exec

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/internal/hostenv"
	"github.com/turnlog/turnlog/internal/procgroup"
	"github.com/turnlog/turnlog/internal/sandbox"
	"github.com/turnlog/turnlog/tool"
)

// Failure codes, in addition to those of package tool.
const (
	CodeExit   = "exit_status" // the program failed
	CodeOutput = "bad_output"  // the output is not what the manifest promises
	CodeNotRun = "not_run"     // the program could not be started
)

// Options configures [New] and [Load].
type Options struct {
	Env     []string      // KEY=value, added to every command's environment
	Grace   time.Duration // from SIGTERM to SIGKILL; zero: 2 s
	Sandbox string        // none, bwrap, or auto for bwrap if it works; zero: none
	Network bool          // allow the network in a sandbox
}

// program is one tool.
type program struct {
	m     *manifest
	spec  tool.Spec
	root  *tool.Root
	dir   string // where it begins, absolute
	env   []string
	file  string
	box   *sandbox.Sandbox
	grace time.Duration
}

// New returns the tool of the manifest in data. Its commands begin below the
// directory root, and file names the manifest in errors. It returns an error if the
// manifest is invalid, or if the root, the program or the sandbox cannot be used.
func New(root, file string, data []byte, opts Options) (tool.Tool, error) {
	m, err := parseManifest(file, data)
	if err != nil {
		return nil, err
	}
	return newProgram(root, m, opts)
}

func newProgram(root string, m *manifest, opts Options) (tool.Tool, error) {
	if !procgroup.Supported {
		return nil, errors.New("tools from manifests need the process groups of Unix, which this system does not have")
	}
	r, err := tool.OpenRoot(root)
	if err != nil {
		return nil, err
	}
	box, _, err := sandbox.Open(context.Background(), opts.Sandbox, opts.Network)
	if err != nil {
		return nil, err
	}
	if opts.Grace <= 0 {
		opts.Grace = 2 * time.Second
	}
	p := &program{m: m, root: r, box: box, grace: opts.Grace}
	if err := p.prepare(opts); err != nil {
		return nil, err
	}
	t, err := tool.Compile(p)
	if err != nil {
		return nil, m.at("$.input", "%v", err)
	}
	return t, nil
}

// prepare resolves the environment, the directory and the program.
func (p *program) prepare(opts Options) error {
	passed, err := hostenv.Pass(p.m.Env)
	if err != nil {
		return p.m.at("$.env", "%v", err)
	}
	rel, err := p.root.Rel(p.m.Cwd)
	if err != nil {
		return p.m.at("$.cwd", "%v", err)
	}
	p.dir = filepath.Join(p.root.Dir(), filepath.FromSlash(rel))
	p.env = append(append(append(hostenv.Base(), opts.Env...), passed...), "PWD="+p.dir)
	p.file = p.m.command[0][0].text
	if strings.Contains(p.file, "/") {
		if !filepath.IsAbs(p.file) {
			p.file = filepath.Join(p.m.dir, p.file)
		}
		if !hostenv.Executable(p.file) {
			return p.m.at("$.command[0]", "%s does not exist or is not executable", p.file)
		}
	} else {
		file, path, ok := hostenv.LookPath(p.file, p.env)
		if !ok {
			return p.m.at("$.command[0]", "%s is not in PATH (%s)", p.file, path)
		}
		p.file = file
	}
	p.spec, err = p.m.spec(p.grace)
	return err
}

// Spec returns what the manifest says.
func (p *program) Spec() tool.Spec { return p.spec }

// target is what a permission request is about.
type target struct {
	Argv []string `json:"argv"`
	Cwd  string   `json:"cwd"`
}

// Propose makes one request, for the command that the call would run.
func (p *program) Propose(_ context.Context, c tool.Call) ([]tool.Request, error) {
	r := tool.RequestFor(p.spec, c)
	in, err := readInput(c.Input)
	if err != nil {
		return nil, err
	}
	argv, err := p.m.argv(in)
	if err != nil {
		return []tool.Request{r}, nil //nolint:nilerr // the call reports it and runs nothing
	}
	argv[0] = p.file
	r.Kind, r.Summary = "exec.run", "run "+strings.Join(argv, " ")
	if r.Target, err = json.Marshal(target{argv, p.dir}); err != nil {
		return nil, fmt.Errorf("propose %s: %w", p.spec.Name, err)
	}
	return []tool.Request{r}, nil
}

// maxStderr is how much of stderr a failure shows.
const maxStderr = 16 << 10

var errTimeout = errors.New("the command ran out of time")

// Call runs the command.
func (p *program) Call(ctx context.Context, c tool.Call) (tool.Output, error) {
	in, err := readInput(c.Input)
	if err != nil {
		return tool.Output{}, err
	}
	argv, err := p.m.argv(in)
	if err != nil {
		return tool.Output{}, err
	}
	if _, err := p.root.Subdir(p.dir); err != nil { // it may have become a link
		return tool.Output{}, err
	}
	limited, cancel := context.WithTimeoutCause(ctx, p.m.timeout, errTimeout)
	defer cancel()
	stdout, stderr := c.Spool(p.m.MaxOutput), tool.NewClip(maxStderr)
	defer stdout.Close()
	argv = p.box.Wrap(sandbox.Command{Root: p.root.Dir(), Dir: p.dir, Path: p.file, Argv: argv})
	state, err := procgroup.Run(limited, procgroup.Command{
		Path: argv[0], Args: argv, Dir: p.dir, Env: p.env,
		Input: bytes.NewReader(p.m.input(in, c.Input)), Answer: stdout, Output: stderr, Grace: p.grace,
	})
	switch {
	case err != nil:
		return tool.Output{}, tool.Failure(CodeNotRun, "%s cannot be run: %v", p.m.Name, err)
	case state.Success():
		return p.output(ctx, stdout)
	case ctx.Err() != nil:
		return tool.Output{}, context.Cause(ctx)
	}
	text, _ := stderr.Text()
	if text = strings.TrimSpace(text); text == "" {
		text = strings.TrimSpace(stdout.Part(ctx).Text)
	}
	if text != "" {
		text = ": " + text
	}
	if limited.Err() != nil {
		return tool.Output{}, tool.Failure(tool.CodeTimeout, "it was stopped after %s%s", p.m.timeout, text)
	}
	return tool.Output{}, tool.Failure(CodeExit, "%s%s", state, text)
}

// output is the output of a successful call. JSON that is too long for a result
// becomes text where the host keeps it whole.
func (p *program) output(ctx context.Context, stdout *tool.Spool) (tool.Output, error) {
	long := stdout.Cut() > 0
	if long && p.m.Output == "json" && !stdout.Keeps() {
		return tool.Output{}, tool.Failure(CodeOutput, "it wrote more than %d bytes of JSON", p.m.MaxOutput)
	}
	part := stdout.Part(ctx)
	if long || p.m.Output != "json" {
		return tool.Output{Parts: []content.Part{part}}, nil
	}
	raw := json.RawMessage(strings.TrimSpace(part.Text))
	if !json.Valid(raw) {
		return tool.Output{}, tool.Failure(CodeOutput, "it wrote no valid JSON: %.300s", raw)
	}
	return tool.Output{Parts: []content.Part{content.StructuredPart(raw)}}, nil
}
