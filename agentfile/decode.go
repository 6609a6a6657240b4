package agentfile

import (
	"bytes"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
	"github.com/google/jsonschema-go/jsonschema"
)

// maxSyntax bounds how often reading begins anew without what is no YAML.
const maxSyntax = 20

// parse reads the file as YAML. Of what is none the key in whose value it stands is left
// out, so that what is wrong with the others is found, too.
func (r *reader) parse(data []byte) *ast.File {
	tree, err := parser.ParseBytes(data, 0)
	if err == nil {
		return tree
	}
	lines := bytes.SplitAfter(data, []byte("\n"))
	for _, b := range blocksOf(lines) { // by itself, so that what is open in one does not reach into the next
		if _, err := parser.ParseBytes(bytes.Join(b.only(lines), nil), 0); err != nil {
			r.leaveOut(lines, b, err)
		}
	}
	for range maxSyntax {
		if tree, err = parser.ParseBytes(bytes.Join(lines, nil), 0); err == nil {
			return tree
		}
		line := r.syntax(err).Line
		i := slices.IndexFunc(blocksOf(lines), func(b block) bool { return b.from < line && line <= b.to })
		if i < 0 {
			r.problems = append(r.problems, r.syntax(err))
			break
		}
		r.leaveOut(lines, blocksOf(lines)[i], err)
	}
	return &ast.File{}
}

// leaveOut reports why a key cannot be read, and takes it out of the lines.
func (r *reader) leaveOut(lines [][]byte, b block, why error) {
	r.problems = append(r.problems, r.syntax(why))
	r.bad = append(r.bad, "$."+b.key)
	for i := b.from; i < b.to; i++ {
		lines[i] = []byte("\n")
	}
}

// block is a key of the file with its value: lines from, from+1, … to-1.
type block struct {
	key      string
	from, to int
}

// only returns the lines with nothing but the block in them.
func (b block) only(lines [][]byte) [][]byte {
	out := make([][]byte, b.to)
	for i := range out {
		out[i] = []byte("\n")
	}
	copy(out[b.from:], lines[b.from:b.to])
	return out
}

// blocksOf finds the keys of a file by their places: at the begin of a line.
func blocksOf(lines [][]byte) []block {
	begin := regexp.MustCompile(`^["']?([A-Za-z_][A-Za-z0-9_-]*)["']?:(\s|$)`)
	var all []block
	for i, l := range lines {
		if m := begin.FindSubmatch(l); m != nil {
			all = append(all, block{key: string(m[1]), from: i})
		}
		if n := len(all); n > 0 {
			all[n-1].to = i + 1
		}
	}
	return all
}

// decode reads the definition out of the tree, but for keys that there are not and values
// of the wrong kind, which are reported and left out.
func (r *reader) decode(d *Definition) {
	if len(r.tree.Docs) == 0 || r.tree.Docs[0].Body == nil {
		return // a file without a value says nothing
	}
	body := r.tree.Docs[0].Body
	s, err := schema()
	if err != nil {
		r.report("", "%v", err)
		return
	}
	if !r.fits(body, s, "$") {
		return
	}
	if err := yaml.NewDecoder(strings.NewReader(""), yaml.Strict()).DecodeFromNode(body, d); err != nil {
		r.problems = append(r.problems, r.syntax(err))
	}
}

// fits reports whether a value is of the schema's kind. What in it is not is left out.
func (r *reader) fits(node ast.Node, s *jsonschema.Schema, path string) bool {
	inner, suffix := element(s)
	kind := typeOf(s)
	if s.Type != "" {
		kind = s.Type
	}
	switch n := node.(type) {
	case *ast.NullNode, *ast.AliasNode, *ast.MergeKeyNode: // nothing is said, or somewhere else
		return true
	case *ast.AnchorNode:
		return r.fits(n.Value, s, path)
	case *ast.TagNode:
		return r.fits(n.Value, s, path)
	case *ast.MappingNode:
		if kind != "object" {
			return kind == "any" || r.wrong(node, path, kind)
		}
		n.Values = slices.DeleteFunc(n.Values, func(v *ast.MappingValueNode) bool { return !r.keyFits(v, s, path) })
		return true
	case *ast.SequenceNode:
		if suffix != "[]" {
			return kind == "any" || r.wrong(node, path, kind)
		}
		for i, v := range n.Values {
			if !r.fits(v, inner, at(path, i)) {
				n.Values[i] = ast.Null(v.GetToken())
			}
		}
		return true
	}
	return r.scalarFits(node, kind, path)
}

// keyFits reports whether a key is one of the schema's and its value is of the right kind.
func (r *reader) keyFits(v *ast.MappingValueNode, s *jsonschema.Schema, path string) bool {
	if v.Key.IsMergeKey() {
		return true
	}
	key := v.Key.GetToken().Value
	here := path + "." + key
	inner, suffix := element(s)
	if suffix != ".NAME" {
		if inner = s.Properties[key]; inner == nil {
			if len(s.PropertyOrder) == 0 { // any key
				return true
			}
			r.bad = append(r.bad, here)
			r.problem(v.Key, "", "unknown field %q%s", key, meant(key, s.PropertyOrder))
			return false
		}
	}
	return r.fits(v.Value, inner, here)
}

func (r *reader) scalarFits(node ast.Node, kind, path string) bool {
	ok := kind == "any"
	switch node.(type) {
	case *ast.IntegerNode:
		ok = ok || kind == "integer" || kind == "number" || kind == "string"
	case *ast.FloatNode:
		ok = ok || kind == "number" || kind == "string"
	case *ast.BoolNode:
		ok = ok || kind == "boolean" || kind == "string"
	case *ast.StringNode, *ast.LiteralNode:
		ok = ok || kind == "string"
	default: // infinity, not a number
		ok = ok || kind == "number"
	}
	return ok || r.wrong(node, path, kind)
}

// wrong reports that a value is of another kind than is wanted.
func (r *reader) wrong(node ast.Node, path, want string) bool {
	r.bad = append(r.bad, path)
	r.problem(node, path, "want %s, not %s", nameOf(want), kindOf(node))
	return false
}

// problem adds a problem at a node.
func (r *reader) problem(node ast.Node, path, format string, args ...any) {
	p := Problem{File: r.file, Path: path, Message: fmt.Sprintf(format, args...)}
	if t := first(node); t != nil && t.Position != nil {
		p.Line, p.Column = t.Position.Line, t.Position.Column
	}
	r.problems = append(r.problems, p)
}

// nameOf is a kind of values for people.
func nameOf(kind string) string {
	switch kind {
	case "object":
		return "keys with values"
	case "array":
		return "a list"
	case "integer":
		return "a whole number"
	case "number":
		return "a number"
	case "boolean":
		return "true or false"
	}
	return "a text"
}

func kindOf(node ast.Node) string {
	switch node.(type) {
	case *ast.MappingNode:
		return nameOf("object")
	case *ast.SequenceNode:
		return nameOf("array")
	case *ast.IntegerNode, *ast.FloatNode, *ast.InfinityNode, *ast.NanNode:
		return "the number " + node.GetToken().Value
	case *ast.BoolNode:
		return node.GetToken().Value
	}
	return fmt.Sprintf("the text %.40q", node.GetToken().Value)
}

// meant suggests the key that somebody may have meant.
func meant(key string, keys []string) string {
	best, least := "", 3
	for _, k := range keys {
		if n := distance(key, k); n < least && n < len(k) {
			best, least = k, n
		}
	}
	if best == "" {
		return ""
	}
	return fmt.Sprintf(": did you mean %s?", best)
}

// distance is how many characters of a have to be changed, added or taken away for b.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		left := row[0]
		row[0] = i + 1
		for j := range len(b) {
			change := left
			if a[i] != b[j] {
				change++
			}
			left = row[j+1]
			row[j+1] = min(change, row[j+1]+1, row[j]+1)
		}
	}
	return row[len(b)]
}
