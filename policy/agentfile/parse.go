package agentfile

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/token"
	"github.com/google/jsonschema-go/jsonschema"
	"github.com/gowebpki/jcs"

	"github.com/turnlog/turnlog/internal/wire"
)

// maxSize bounds a file, and what it takes from others.
const maxSize = 256 << 10

// Problem is one thing that is wrong with a file.
type Problem struct { //nolint:errname // it is one of several
	File    string `json:"file"`
	Line    int    `json:"line,omitempty"`   // from 1; 0: the whole file
	Column  int    `json:"column,omitempty"` // from 1
	Path    string `json:"path,omitempty"`   // of the value, like $.tools[0].route; "": not known
	Message string `json:"message"`
}

// Error is file:line:column: path: message.
func (p Problem) Error() string {
	var b strings.Builder
	b.WriteString(p.File)
	if p.Line > 0 {
		fmt.Fprintf(&b, ":%d:%d", p.Line, p.Column)
	}
	if key := strings.TrimPrefix(strings.TrimPrefix(p.Path, "$"), "."); key != "" {
		b.WriteString(": " + key)
	}
	return b.String() + ": " + p.Message
}

// Problems are returned by [Load] and [Parse] for a file that cannot be used, in
// the order of their lines.
type Problems []Problem //nolint:errname // its users read of problems

// Error lists them, one a line.
func (p Problems) Error() string { return strings.Join(p.Lines(), "\n") }

// Lines are the problems in words, for programs that print each on a line of its own.
func (p Problems) Lines() []string {
	lines := make([]string, len(p))
	for i, one := range p {
		lines[i] = one.Error()
	}
	return lines
}

// ReadFunc returns the content of a file that an agent file names.
type ReadFunc func(name string) ([]byte, error)

// definition reads what the file says.
func (r *reader) definition(data []byte) (d *Definition, err error) {
	err = wire.Safely(func() (err error) {
		d, err = r.readAll(data)
		return err
	})
	if errors.Is(err, wire.ErrBroke) {
		r.problems = append(r.problems, Problem{File: r.file, Message: fmt.Sprintf("not YAML: %v", err)})
		return nil, r.problems
	}
	return d, err
}

func (r *reader) readAll(data []byte) (*Definition, error) {
	if len(data) > maxSize {
		r.report("", "%d bytes, more than %d", len(data), maxSize)
		return nil, r.problems
	}
	data = plain(data)
	if !r.isText(data) {
		return nil, r.problems
	}
	r.tree = r.parse(data)
	if len(r.tree.Docs) > 1 {
		r.second(r.tree.Docs)
		return nil, r.problems
	}
	var d Definition
	if !r.decode(&d) {
		return nil, r.problems
	}
	d.Name = cmp.Or(d.Name, baseName(r.file))
	r.inline(&d)
	r.validate(&d)
	if len(r.problems) > 0 {
		slices.SortStableFunc(r.problems, func(a, b Problem) int {
			return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
		})
		return nil, r.problems
	}
	return &d, nil
}

// baseName is the file's name without folder and ending.
func baseName(file string) string {
	base := filepath.Base(file)
	return strings.TrimSuffix(base, filepath.Ext(base))
}

// Encode returns the definition in its one canonical form, which [Parse] reads.
func (d *Definition) Encode() ([]byte, error) {
	raw, err := json.Marshal(d)
	if err != nil {
		return nil, fmt.Errorf("agent %s: %w", d.Name, err)
	}
	raw, err = jcs.Transform(raw)
	if err != nil {
		return nil, fmt.Errorf("agent %s: %w", d.Name, err)
	}
	return raw, nil
}

// versionBytes is how much of the digest names a version.
const versionBytes = 8

// Version names the definition as it is: the digest of its canonical form, in 16
// hexadecimal digits.
func (d *Definition) Version() (string, error) {
	raw, err := d.Encode()
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(raw)
	return hex.EncodeToString(sum[:versionBytes]), nil
}

// reader reads one file and gathers what is wrong with it.
type reader struct {
	file     string
	read     ReadFunc
	tree     *ast.File
	problems Problems
	known    Known
	folder   string   // of the file; "": it is in none
	kept     bool     // a journal has it already, so it is too late for what used to be let through
	bad      []string // paths of what could not be read, so that nothing follows from its absence

	schemaOf *jsonschema.Schema  // of the whole file
	anchors  map[string]ast.Node // what aliases stand for
	within   []string            // aliases that are looked at
}

// report adds a problem at the value of the path, unless something in it could not be
// read.
func (r *reader) report(path, format string, args ...any) {
	if r.isBad(path) {
		return
	}
	p := Problem{File: r.file, Path: path, Message: fmt.Sprintf(format, args...)}
	p.Line, p.Column = r.position(path)
	r.problems = append(r.problems, p)
}

// position is where the value of the path stands, or the nearest that holds it.
func (r *reader) position(path string) (line, column int) {
	for path != "" && path != "$" && r.tree != nil {
		if at, err := yaml.PathString(path); err == nil {
			if node, err := at.FilterFile(r.tree); err == nil && node != nil {
				tok := first(node)
				return tok.Position.Line, tok.Position.Column
			}
		}
		path = path[:max(0, strings.LastIndexAny(path, ".["))]
	}
	return 0, 0
}

// first is the token with which a value begins.
func first(node ast.Node) *token.Token {
	if m, ok := node.(*ast.MappingNode); ok && len(m.Values) > 0 {
		return m.Values[0].Key.GetToken()
	}
	return node.GetToken()
}

// isBad reports whether the value of the path, or something in it, could not be read.
func (r *reader) isBad(path string) bool {
	return path != "" && slices.ContainsFunc(r.bad, func(b string) bool {
		rest, ok := strings.CutPrefix(b, path)
		return ok && (rest == "" || rest[0] == '.' || rest[0] == '[')
	})
}

// inline reads what the file takes from others, so that the definition holds it.
func (r *reader) inline(d *Definition) {
	if d.SystemFile != "" {
		if d.System != "" {
			r.report("$.system_file", "system is given too: give one of them")
		}
		d.System, d.SystemFile = string(r.open("$.system_file", d.SystemFile)), ""
	}
	if o := d.Output; o != nil && o.SchemaFile != "" {
		if o.Schema != nil {
			r.report("$.output.schema_file", "schema is given too: give one of them")
		}
		raw := r.open("$.output.schema_file", o.SchemaFile)
		if err := json.Unmarshal(raw, &o.Schema); err != nil && raw != nil {
			r.report("$.output.schema_file", "%s: %v", o.SchemaFile, err)
		}
		o.SchemaFile = ""
	}
}

func (r *reader) open(path, name string) []byte {
	if r.read == nil {
		r.report(path, "%s: a definition that is not in a file can name no other file", name)
		return nil
	}
	raw, err := r.read(name)
	switch {
	case err != nil:
		r.report(path, "%v: name a file in the folder of the agent file or below", err)
		return nil
	case len(raw) > maxSize:
		r.report(path, "%s: %d bytes, more than %d", name, len(raw), maxSize)
		return nil
	}
	return raw
}
