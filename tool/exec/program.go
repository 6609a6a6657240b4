package exec

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/internal/hostenv"
	"github.com/turnlog/turnlog/internal/sandbox"
	"github.com/turnlog/turnlog/tool"
)

type program struct {
	host // includes the environment of its commands

	m    *manifest
	spec tool.Spec
	dir  string // where it begins, absolute
	file string
}

// New returns the tool of the manifest in data. Its commands begin below the
// directory root, and file names the manifest in errors. It returns an error if the
// manifest is invalid, or if the root, the program or the sandbox cannot be used.
func New(root, file string, data []byte, opts Options) (tool.Tool, error) {
	m, err := parseManifest(file, data)
	if err != nil {
		return nil, err
	}
	h, err := newHost(root, opts)
	if err != nil {
		return nil, err
	}
	return newProgram(h, m)
}

func newProgram(h host, m *manifest) (tool.Tool, error) {
	p := &program{host: h, m: m}
	if err := p.prepare(); err != nil {
		return nil, err
	}
	t, err := tool.Compile(p)
	if err != nil {
		return nil, m.at("$.input", "%v", err)
	}
	return t, nil
}

// prepare resolves the environment, the directory and the program.
func (p *program) prepare() error {
	passed, err := hostenv.Pass(p.m.Env)
	if err != nil {
		return p.m.at("$.env", "%v", err)
	}
	rel, err := p.root.Rel(p.m.Cwd)
	if err != nil {
		return p.m.at("$.cwd", "%v", err)
	}
	p.dir = filepath.Join(p.root.Dir(), filepath.FromSlash(rel))
	p.env = slices.Concat(p.env, passed, []string{"PWD=" + p.dir})
	p.file = p.m.command[0][0]
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
	if r.Target, err = json.Marshal(target{Argv: argv, Cwd: p.dir}); err != nil {
		return nil, fmt.Errorf("propose %s: %w", p.spec.Name, err)
	}
	return []tool.Request{r}, nil
}

// maxStderr is how many bytes of stderr a failure shows.
const maxStderr = 16 << 10

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
	stdout, stderr := c.Spool(p.m.MaxOutput), tool.NewClip(maxStderr)
	defer stdout.Close()
	state, stopped, err := p.run(ctx, command{
		Command: sandbox.Command{Dir: p.dir, Path: p.file, Argv: argv}, env: p.env, timeout: p.m.timeout,
		stdin: bytes.NewReader(p.m.input(in, c.Input)), stdout: stdout, stderr: stderr,
	})
	switch {
	case err != nil:
		return tool.Output{}, err
	case state.Success():
		return p.output(ctx, stdout)
	}
	text, _ := stderr.Text()
	if text = strings.TrimSpace(text); text == "" {
		text = strings.TrimSpace(stdout.Part(ctx).Text)
	}
	if text != "" {
		text = ": " + text
	}
	if stopped {
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
		return tool.Output{}, tool.Failure(CodeOutput, "it did not write valid JSON: %.300s", raw)
	}
	return tool.Output{Parts: []content.Part{content.StructuredPart(raw)}}, nil
}
