package fs

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/tool"
)

const (
	defaultMatches = 100
	maxSearchLine  = 1 << 20 // only the beginning of a longer line is searched
	maxShownLine   = 300     // a longer line is cut around the match
)

type searchInput struct {
	Pattern    string `json:"pattern" jsonschema:"What to look for: a regular expression (RE2 syntax, without lookaround or backreferences), matched against each line."`
	Literal    bool   `json:"literal,omitempty" jsonschema:"Treat the pattern as plain text."`
	IgnoreCase bool   `json:"ignore_case,omitempty" jsonschema:"Ignore case."`
	Path       string `json:"path,omitempty" jsonschema:"The directory or file to search, relative to the root. Default: everything."`
	Include    string `json:"include,omitempty" jsonschema:"Search only files that match this glob, for example *.go or docs/**/*.{md,txt}; with a slash it starts from path."`
	Exclude    string `json:"exclude,omitempty" jsonschema:"Leave out files and directories that match this glob, for example node_modules."`
	Context    int    `json:"context,omitempty" jsonschema:"How many lines to show before and after each match. Default: none."`
	Ignored    bool   `json:"include_ignored,omitempty" jsonschema:"Also search files that .gitignore excludes, such as build output and dependencies."`
	Limit      int    `json:"limit,omitempty" jsonschema:"Stop after this many matching lines. Default: 100."`
}

// Describe describes the permission request.
func (in searchInput) Describe() (kind, summary string, target any) {
	return describe("read", "search", in.Path)
}

func newSearch(d *dir) (tool.Tool, error) {
	return tool.CallFunc("fs_search",
		"Searches the content of text files, line by line, except files that .gitignore excludes. Each match is one line, path:line: text; context lines have - instead of the colons. "+
			"The last line is a summary. Use it to find where something is defined or used; then read around the line with fs_read_file.",
		bind(d, (*dir).search), tool.ReadOnly(), tool.WithSchema(func(s *jsonschema.Schema) {
			s.Properties["pattern"].MinLength = new(1)
			between(s, "context", 0, 20)
			between(s, "limit", 1, 1000)
		}))
}

func (d *dir) search(ctx context.Context, in searchInput) (string, error) {
	re, err := in.compile()
	if err != nil {
		return "", err
	}
	m := matches{re: re, context: in.Context, left: cmp.Or(in.Limit, defaultMatches)}
	searched := 0
	skip, err := d.files(ctx, selection{in.Path, in.Include, in.Exclude, in.Ignored}, func(name string, r *bufio.Reader, _ int64) error {
		searched++
		return m.file(name, r)
	})
	if err != nil {
		return "", err
	}
	if m.found == 0 {
		return fmt.Sprintf("no match in %d files%s\n", searched, skip), nil
	}
	fmt.Fprintf(&m.out, "[matching lines: %d, in %d of %d files%s]\n", m.found, m.files, searched, skip)
	if m.more {
		m.out.WriteString("[stopped: narrow the pattern, the path or include, or raise limit]\n")
	}
	return m.out.String(), nil
}

func (in searchInput) compile() (*regexp.Regexp, error) {
	pattern := in.Pattern
	if in.Literal {
		pattern = regexp.QuoteMeta(pattern)
	}
	if in.IgnoreCase {
		pattern = "(?i)" + pattern
	}
	re, err := regexp.Compile(pattern)
	if err != nil {
		return nil, invalid("pattern", fmt.Errorf("%w; set literal to search for plain text", err))
	}
	return re, nil
}

// matches collects the results of a search.
type matches struct {
	re      *regexp.Regexp
	context int
	left    int // matching lines that may still be shown

	out          strings.Builder
	found, files int
	more         bool // there is at least one more match

	// Of the current file:
	name   string
	last   int      // the last line shown, or 0
	after  int      // how many context lines to show after the last match
	before []string // context lines to show if a match follows
}

func (m *matches) file(name string, r *bufio.Reader) error {
	m.name, m.last, m.after, m.before = name, 0, 0, m.before[:0]
	found := m.found
	err := eachLine(r, maxSearchLine, m.line)
	if m.found > found {
		m.files++
	}
	return err
}

func (m *matches) line(n int, line []byte) error {
	line = bytes.TrimRight(line, "\r\n")
	at := m.re.FindIndex(line)
	switch {
	case at != nil && m.left == 0:
		m.more = true
		return errStop
	case at != nil:
		m.match(n, excerpt(line, at[0]))
	case m.after > 0:
		m.show(n, '-', excerpt(line, 0))
		m.after--
	case m.context > 0:
		if len(m.before) == m.context {
			m.before = slices.Delete(m.before, 0, 1)
		}
		m.before = append(m.before, excerpt(line, 0))
	}
	return nil
}

func (m *matches) match(n int, text string) {
	first := n - len(m.before)
	if m.context > 0 && m.out.Len() > 0 && (m.last == 0 || first > m.last+1) {
		m.out.WriteString("--\n")
	}
	for i, text := range m.before {
		m.show(first+i, '-', text)
	}
	m.show(n, ':', text)
	m.before, m.after = m.before[:0], m.context
	m.found++
	m.left--
}

func (m *matches) show(n int, sep byte, text string) {
	fmt.Fprintf(&m.out, "%s%c%d%c %s\n", show(m.name), sep, n, sep, text)
	m.last = n
}

// excerpt returns the part of a line around a match, as valid text.
func excerpt(line []byte, at int) string {
	from, to := 0, len(line)
	if to > maxShownLine {
		from = max(0, min(at-maxShownLine/3, to-maxShownLine))
		to = from + maxShownLine
		from, to = content.Boundary(line, from), content.Boundary(line, to)
	}
	text := strings.ToValidUTF8(string(line[from:to]), "\uFFFD")
	if from > 0 {
		text = "…" + text
	}
	if to < len(line) {
		text += "…"
	}
	return text
}
