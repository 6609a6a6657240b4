package exec

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/internal/wire"
	"github.com/turnlog/turnlog/tool"
)

// Manifest says how an executable is a tool. [ReadManifest] and [ParseManifest] make
// it of YAML or JSON with these keys.
type Manifest struct {
	Name        string         `yaml:"name"`
	Description string         `yaml:"description"`
	Input       map[string]any `yaml:"input"`         // the JSON schema of the input; none: no arguments
	Schema      map[string]any `yaml:"output_schema"` // of the output, if that is json
	Command     []any          `yaml:"command"`       // arguments, and lists of arguments that belong together
	Stdin       string         `yaml:"stdin"`         // json: the input; none; or text with places; none is told by a command with places, json by one without
	Cwd         string         `yaml:"cwd"`           // where the command begins, relative to the root
	Env         []string       `yaml:"env"`           // NAME, passed on from the worker, or NAME=value
	Effects     string         `yaml:"effects"`       // read_only, idempotent or none
	Exclusive   bool           `yaml:"exclusive"`     // never beside another call of its round
	Timeout     string         `yaml:"timeout"`       // such as 30s; none: 2m
	Output      string         `yaml:"output"`        // text or json; none: text
	MaxOutput   int            `yaml:"max_output"`    // bytes of it that a result shows; none: 1 MiB less a little

	file, dir string
	tree      *ast.File
	command   []group
	stdin     template
	timeout   time.Duration
	lists     map[string]bool // the properties that are lists
}

// What a manifest does not say.
const (
	defaultTimeout   = 2 * time.Minute
	defaultMaxOutput = 1<<20 - 4096
	maxManifest      = 1 << 20
)

// ReadManifest reads a manifest from a file. Programs with a slash in their name are
// relative to its folder.
func ReadManifest(file string) (*Manifest, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, fmt.Errorf("manifest: %w", err)
	}
	defer func() { _ = f.Close() }() // nothing was written
	data, err := io.ReadAll(io.LimitReader(f, maxManifest+1))
	if err != nil {
		return nil, fmt.Errorf("manifest: %w", err)
	}
	return ParseManifest(file, data)
}

// ParseManifest is [ReadManifest] for a file that is in memory already. Its errors say
// in which line the manifest is wrong.
func ParseManifest(file string, data []byte) (*Manifest, error) {
	dir, err := filepath.Abs(filepath.Dir(file))
	if err != nil {
		return nil, fmt.Errorf("manifest %s: %w", file, err)
	}
	m := &Manifest{file: file, dir: dir}
	if len(data) > maxManifest {
		return nil, m.problem(0, "more than %d bytes", maxManifest)
	}
	if m.tree, err = parser.ParseBytes(data, 0); err == nil {
		err = wire.Safely(func() error { return yaml.NewDecoder(bytes.NewReader(data), yaml.Strict()).Decode(m) })
	}
	if errors.Is(err, io.EOF) { // it has nothing to decode
		m.file = file
		return nil, m.problem(0, "is empty: a name, a description and a command are needed")
	}
	if e, ok := errors.AsType[yaml.Error](err); ok {
		line := 0
		if t := e.GetToken(); t != nil && t.Position != nil {
			line = t.Position.Line
		}
		return nil, m.problem(line, "%s", e.GetMessage())
	}
	if err != nil {
		return nil, m.problem(0, "%v", err)
	}
	if len(m.tree.Docs) > 1 {
		return nil, m.problem(0, "holds %d documents, one is wanted", len(m.tree.Docs))
	}
	if err := m.complete(); err != nil {
		return nil, err
	}
	return m, nil
}

// problem is an error about a line of the manifest; 0: about all of it.
func (m *Manifest) problem(line int, format string, args ...any) error {
	at := m.file
	if line > 0 {
		at = fmt.Sprintf("%s:%d", m.file, line)
	}
	return fmt.Errorf("%s: "+format, append([]any{at}, args...)...)
}

// at is an error about the value at a path of the manifest.
func (m *Manifest) at(path, format string, args ...any) error {
	line := 0
	if p, err := yaml.PathString(path); err == nil && m.tree != nil {
		if node, err := p.FilterFile(m.tree); err == nil && node != nil && node.GetToken() != nil {
			line = node.GetToken().Position.Line
		}
	}
	return m.problem(line, strings.TrimPrefix(path, "$.")+": "+format, args...)
}

// complete checks the manifest and fills in what it leaves open.
func (m *Manifest) complete() error {
	var err error
	switch {
	case !content.IsToken(m.Name) || len(m.Name) > 64:
		return m.at("$.name", "%q: use 1 to 64 letters, digits, '-' or '_'", m.Name)
	case strings.TrimSpace(m.Description) == "":
		return m.at("$.description", "is missing: a model has to be told what the tool does and when to use it")
	case m.MaxOutput < 0:
		return m.at("$.max_output", "%d: use a positive number", m.MaxOutput)
	case m.Output != "" && m.Output != "text" && m.Output != "json":
		return m.at("$.output", "%q: use text or json", m.Output)
	case m.Schema != nil && m.Output != "json":
		return m.at("$.output_schema", "is for an output that is json")
	}
	if _, err = m.effects(); err != nil {
		return err
	}
	if m.MaxOutput == 0 {
		m.MaxOutput = defaultMaxOutput
	}
	m.timeout = defaultTimeout
	if m.Timeout != "" {
		if m.timeout, err = time.ParseDuration(m.Timeout); err != nil || m.timeout <= 0 {
			return m.at("$.timeout", "%q: use a time such as 30s", m.Timeout)
		}
	}
	if err := m.schema(); err != nil {
		return err
	}
	return m.parseCommand()
}

func (m *Manifest) effects() (content.Effects, error) {
	switch m.Effects {
	case "", "none":
		return content.Once, nil
	case "read_only":
		return content.ReadOnly, nil
	case "idempotent":
		return content.Idempotent, nil
	}
	return content.Once, m.at("$.effects", "%q: use read_only, idempotent or none", m.Effects)
}

// schema checks the schema of the input, and finds which properties are lists. What it
// does not say of other properties it is made to: there are none.
func (m *Manifest) schema() error {
	if m.Input == nil {
		m.Input = map[string]any{}
	}
	if kind, ok := m.Input["type"]; ok && kind != "object" {
		return m.at("$.input.type", "%v: the input of a tool is an object", kind)
	}
	m.Input["type"] = "object"
	if _, ok := m.Input["additionalProperties"]; !ok {
		m.Input["additionalProperties"] = false
	}
	if err := m.types("$.input", m.Input); err != nil {
		return err
	}
	if err := m.types("$.output_schema", m.Schema); err != nil {
		return err
	}
	m.lists = map[string]bool{}
	properties, _ := m.Input["properties"].(map[string]any)
	for name, p := range properties {
		about, _ := p.(map[string]any)
		m.lists[name] = about["type"] == "array"
	}
	return nil
}

// spec is what models, drivers and workers are told.
func (m *Manifest) spec(grace time.Duration) (tool.Spec, error) {
	s := tool.Spec{
		Name: m.Name, Description: m.Description, Exclusive: m.Exclusive,
		Timeout: m.timeout + 4*grace, // the tool's own comes first: it shows what the program said
	}
	var err error
	if s.Effects, err = m.effects(); err != nil {
		return s, err
	}
	if s.InputSchema, err = json.Marshal(m.Input); err != nil {
		return s, m.at("$.input", "%v", err)
	}
	if m.Schema != nil {
		if s.OutputSchema, err = json.Marshal(m.Schema); err != nil {
			return s, m.at("$.output_schema", "%v", err)
		}
	}
	if _, err := tool.NewRegistry("manifest", declared{s}); err != nil {
		return s, m.at("$.input", "%v", err)
	}
	return s, nil
}

// declared is a spec that nobody calls.
type declared struct{ spec tool.Spec }

// Spec returns it.
func (d declared) Spec() tool.Spec { return d.spec }

// Call does nothing.
func (declared) Call(context.Context, tool.Call) (tool.Output, error) { return tool.Output{}, nil }
