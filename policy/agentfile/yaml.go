package agentfile

import (
	"bytes"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
)

// maxSyntax bounds how often reading begins anew without what is no YAML.
const maxSyntax = 20

// plain is the text of a file as every editor writes it: without a mark of its encoding, and
// with lines that end alike, so that an agent is the same whoever checked its file out.
func plain(data []byte) []byte {
	data = bytes.TrimPrefix(data, []byte("\xef\xbb\xbf"))
	return bytes.ReplaceAll(data, []byte("\r\n"), []byte("\n"))
}

// isText reports what is no text in UTF-8.
func (r *reader) isText(data []byte) bool {
	for i, line := range bytes.Split(data, []byte("\n")) {
		if at := bytes.IndexByte(line, 0); at >= 0 || !utf8.Valid(line) {
			r.problems = append(r.problems, Problem{File: r.file, Line: i + 1, Column: max(at, 0) + 1, Message: "not a text in UTF-8: save the file as one"})
			return false
		}
	}
	return true
}

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

// syntax is the problem that the YAML reader found.
func (r *reader) syntax(err error) Problem {
	p := Problem{File: r.file, Message: err.Error()}
	if y, ok := errors.AsType[yaml.Error](err); ok {
		p.Message = y.GetMessage()
		if t := y.GetToken(); t != nil {
			p.Line, p.Column = t.Position.Line, t.Position.Column
		}
	}
	p.Message = strings.ReplaceAll(p.Message, "agentfile.", "")
	for _, w := range advice() {
		if strings.Contains(p.Message, w.says) {
			p.Message += ": " + w.do
			break
		}
	}
	return p
}

// advice is what to do about what the YAML reader says, the first that fits counts.
func advice() []struct{ says, do string } {
	return []struct{ says, do string }{
		{"found character '\t'", "indent with spaces, YAML takes no tabs"},
		{"mapping value is not allowed", "if a text holds \": \", put it in quotes; else look whether the lines are indented alike"},
		{"value is not allowed in this context", "look whether the lines are indented alike"},
		{"non-map value", "if this belongs to the text or list above, indent it further than its key"},
		{"undefined alias name", `a text that begins with * has to be in quotes, like "*"`},
		{"could not find end character", "the quotes that open here are never closed"},
		{"sequence end token", "the list that opens here is never closed"},
		{"mapping end token", "the { that opens here is never closed"},
		{"already defined at", "give each key once"},
	}
}

// second reports that a file holds more than one document.
func (r *reader) second(docs []*ast.DocumentNode) {
	p := Problem{File: r.file, Message: fmt.Sprintf("holds %d documents, one is wanted: put each agent into a file of its own", len(docs))}
	if start := docs[1].Start; start != nil {
		p.Line, p.Column = start.Position.Line, start.Position.Column
	}
	r.problems = append(r.problems, p)
}
