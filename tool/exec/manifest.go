package exec

import (
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/internal/schema"
	"github.com/turnlog/turnlog/internal/textfile"
	"github.com/turnlog/turnlog/internal/yamltext"
	"github.com/turnlog/turnlog/tool"
)

// manifest describes an executable as a tool.
type manifest struct {
	Name        string         `yaml:"name"`
	Description string         `yaml:"description"`
	Input       map[string]any `yaml:"input"`         // JSON schema; none: no properties
	Schema      map[string]any `yaml:"output_schema"` // JSON schema, if output is json
	Command     []any          `yaml:"command"`       // arguments, and lists of arguments that belong together
	Stdin       string         `yaml:"stdin"`         // json, none or a placeholder; zero: none if command has placeholders, else json
	Cwd         string         `yaml:"cwd"`           // relative to the root
	Env         []string       `yaml:"env"`           // NAME, taken from the worker's environment, or NAME=value
	Effects     string         `yaml:"effects"`       // read_only, idempotent or none
	Exclusive   bool           `yaml:"exclusive"`     // never runs at the same time as another call of its round
	Timeout     string         `yaml:"timeout"`       // zero: 2m
	Output      string         `yaml:"output"`        // text or json; zero: text
	MaxOutput   int            `yaml:"max_output"`    // bytes that a result shows; zero: 1 MiB less room for notes

	file, dir string
	root      ast.Node
	command   []group
	timeout   time.Duration
	effects   content.Effects
}

const maxManifest = 1 << 20

// readManifest reads a manifest. Programs with a slash in their name are relative
// to its folder.
func readManifest(file string) (*manifest, error) {
	data, err := textfile.ReadFile(file, maxManifest)
	if err != nil {
		return nil, fmt.Errorf("manifest: %w", err)
	}
	return parseManifest(file, data)
}

// parseManifest reads a manifest from YAML or JSON. Its errors name the line.
func parseManifest(file string, data []byte) (*manifest, error) {
	dir, err := filepath.Abs(filepath.Dir(file))
	if err != nil {
		return nil, fmt.Errorf("manifest %s: %w", file, err)
	}
	m := &manifest{dir: dir}
	if len(data) > maxManifest {
		return nil, problem(file, 0, "more than %d bytes", maxManifest)
	}
	if m.root, err = yamltext.Parse(data); err == nil {
		err = yamltext.Value(m.root, m, yaml.Strict())
	}
	m.file = file
	if e, ok := errors.AsType[yaml.Error](err); ok {
		line := 0
		if t := e.GetToken(); t != nil && t.Position != nil {
			line = t.Position.Line
		}
		return nil, problem(file, line, "%s", e.GetMessage())
	}
	switch {
	case errors.Is(err, yamltext.ErrEmpty):
		return nil, problem(file, 0, "is empty: add a name, a description and a command")
	case err != nil:
		return nil, problem(file, 0, "%v", err)
	}
	if err := m.complete(); err != nil {
		return nil, err
	}
	return m, m.parseCommand()
}

// problem returns an error about a line of a file. Line 0 is the whole file.
func problem(file string, line int, format string, args ...any) error {
	if line > 0 {
		file = fmt.Sprintf("%s:%d", file, line)
	}
	return fmt.Errorf("%s: "+format, append([]any{file}, args...)...)
}

// at returns an error about the value at a path of the manifest.
func (m *manifest) at(path, format string, args ...any) error {
	line := 0
	if p, err := yaml.PathString(path); err == nil {
		if node, err := p.FilterNode(m.root); err == nil && node != nil && node.GetToken() != nil {
			line = node.GetToken().Position.Line
		}
	}
	return problem(m.file, line, strings.TrimPrefix(path, "$.")+": "+format, args...)
}

// complete checks the values and sets defaults.
func (m *manifest) complete() error {
	switch {
	case !content.IsToken(m.Name) || len(m.Name) > 64:
		return m.at("$.name", "%q: use 1 to 64 letters, digits, '-' or '_'", m.Name)
	case strings.TrimSpace(m.Description) == "":
		return m.at("$.description", "is missing: tell the model what the tool does and when to use it")
	case m.MaxOutput < 0:
		return m.at("$.max_output", "%d: use a positive number", m.MaxOutput)
	case m.Output != "" && m.Output != "text" && m.Output != "json":
		return m.at("$.output", "%q: use text or json", m.Output)
	case m.Schema != nil && m.Output != "json":
		return m.at("$.output_schema", "needs output: json")
	}
	if m.MaxOutput == 0 {
		m.MaxOutput = maxOutput
	}
	m.timeout = defaultTimeout
	if m.Timeout != "" {
		var err error
		if m.timeout, err = time.ParseDuration(m.Timeout); err != nil || m.timeout <= 0 {
			return m.at("$.timeout", "%q: use a duration such as 30s", m.Timeout)
		}
	}
	var err error
	if m.effects, err = content.ParseEffects(m.Effects); err != nil {
		return m.at("$.effects", "%w", err)
	}
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
	return nil
}

// spec is what models, drivers and workers see.
func (m *manifest) spec(grace time.Duration) (tool.Spec, error) {
	s := tool.Spec{
		Name: m.Name, Description: m.Description, Effects: m.effects, Exclusive: m.Exclusive,
		Timeout: m.timeout + 4*grace, // the manifest's own comes first: it shows the output so far
	}
	var err error
	if s.InputSchema, err = json.Marshal(m.Input); err != nil {
		return s, m.at("$.input", "%v", err)
	}
	if m.Schema == nil {
		return s, nil
	}
	if s.OutputSchema, err = json.Marshal(m.Schema); err == nil {
		_, err = schema.Compile(s.OutputSchema)
	}
	if err != nil {
		return s, m.at("$.output_schema", "%v", err)
	}
	return s, nil
}
