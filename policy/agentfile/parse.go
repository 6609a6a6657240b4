package agentfile

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/turnlog/turnlog/internal/textfile"
)

// maxSize limits a file and each file that it includes.
const maxSize = 256 << 10

// Known says which references of an agent file are valid. The zero value checks none.
type Known struct {
	Models     func(name string) error    // returns an error for an unknown model; nil: unchecked
	Tools      func(pattern string) error // returns an error for a pattern of tools that looks misspelled; nil: unchecked
	SameFolder bool                       // agents delegate only to agents in the folder of their file
	Held       bool                       // sessions hold the definition, so it is limited to [MaxData]
}

// ReadFunc returns the content of a file that an agent file names.
type ReadFunc func(name string) ([]byte, error)

// Load reads an agent file and the files that it names. An agent without a name gets the name of its
// file. Load returns [Problems] for a file that cannot be used.
func Load(file string) (*Definition, error) { return Known{}.Load(file) }

// Load is [Load], and checks the references of the file.
func (k Known) Load(file string) (*Definition, error) {
	data, err := textfile.ReadFile(file, maxSize)
	if err != nil {
		return nil, fmt.Errorf("agent file: %w", err)
	}
	root, err := os.OpenRoot(filepath.Dir(file))
	if err != nil {
		return nil, fmt.Errorf("agent file %s: %w", file, err)
	}
	defer func() { _ = root.Close() }() // it was only read
	r := &reader{file: file, read: func(name string) ([]byte, error) { return textfile.ReadIn(root, name, maxSize) }, known: k, folder: filepath.Dir(file)}
	return r.definition(data)
}

// Parse is [Load] for a file in memory. It calls read for the files that it names; a
// nil read allows none.
func Parse(file string, data []byte, read ReadFunc) (*Definition, error) {
	return (&reader{file: file, read: read}).definition(data)
}

// reader reads one file and collects its problems.
type reader struct {
	file   string
	read   ReadFunc
	known  Known
	folder string // of the file; "": it is not in one

	tree     tree
	problems Problems
}

// definition reads the file in three steps: syntax, schema, and what the schema cannot
// express. Each step reports all of its problems; the next one needs a file without them.
func (r *reader) definition(data []byte) (*Definition, error) {
	r.parse(data)
	if len(r.problems) == 0 {
		r.matchSchema()
	}
	var d *Definition
	if len(r.problems) == 0 {
		d = r.decode()
	}
	if len(r.problems) == 0 {
		d.Name = cmp.Or(d.Name, baseName(r.file))
		r.inline(d)
		r.validate(d)
	}
	if len(r.problems) > 0 {
		return nil, r.problems.sorted()
	}
	return d, nil
}

func (r *reader) decode() *Definition {
	raw, err := json.Marshal(r.tree.value)
	var d *Definition
	if err == nil {
		d, err = decode(raw)
	}
	if err != nil {
		r.report("", "%v", err)
	}
	return d
}

// decode reads a definition from JSON that matches the schema.
func decode(raw []byte) (*Definition, error) {
	var d Definition
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.DisallowUnknownFields()
	return &d, dec.Decode(&d) //nolint:wrapcheck // it names the field
}

// baseName is the name of a file without its folder and extension.
func baseName(file string) string {
	base := filepath.Base(file)
	return strings.TrimSuffix(base, filepath.Ext(base))
}

// inline reads the files that the definition names, so that it is complete.
func (r *reader) inline(d *Definition) {
	if d.SystemFile != "" {
		d.System, d.SystemFile = string(r.open("$.system_file", d.SystemFile)), ""
	}
	if o := d.Output; o != nil && o.SchemaFile != "" {
		raw := r.open("$.output.schema_file", o.SchemaFile)
		if err := json.Unmarshal(raw, &o.Schema); err != nil && raw != nil {
			r.report("$.output.schema_file", "%s: %v", o.SchemaFile, err)
		}
		o.SchemaFile = ""
	}
}

func (r *reader) open(path, name string) []byte {
	if r.read == nil {
		r.report(path, "%s: a definition that is not in a file cannot name another file", name)
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

// Problem is one thing that is wrong with a file.
type Problem struct { //nolint:errname // it is one of several
	File    string `json:"file"`
	Line    int    `json:"line,omitempty"`   // from 1; 0: the whole file
	Column  int    `json:"column,omitempty"` // from 1
	Path    string `json:"path,omitempty"`   // path of the value, like $.tools[0].route; "": unknown
	Message string `json:"message"`
}

// Error returns file:line:column: path: message.
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

// Problems are returned by [Load] and [Parse] for a file that cannot be used, in the
// order of their lines.
type Problems []Problem //nolint:errname // the name is what users read

// Error lists them, one per line.
func (p Problems) Error() string { return strings.Join(p.Lines(), "\n") }

// Lines returns the text of each problem.
func (p Problems) Lines() []string {
	lines := make([]string, len(p))
	for i, one := range p {
		lines[i] = one.Error()
	}
	return lines
}

// sorted returns the problems by line, and at each place only the first one: the others are its
// consequences.
func (p Problems) sorted() Problems {
	slices.SortStableFunc(p, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	return slices.CompactFunc(p, func(a, b Problem) bool {
		return a.Line > 0 && a.Line == b.Line && a.Column == b.Column && a.Path == b.Path
	})
}

// report adds a problem with the value at a path.
func (r *reader) report(path, format string, args ...any) {
	r.problemAt(r.tree.position(path), path, format, args...)
}
