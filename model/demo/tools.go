package demo

import (
	"encoding/json"
	"path"
	"regexp"
	"strconv"
	"strings"
)

// The tools that plans use.
const (
	toolList   = "fs_list_directory"
	toolFind   = "fs_find"
	toolCount  = "fs_count"
	toolSearch = "fs_search"
	toolRead   = "fs_read_file"
)

// The codes of failures that plans go on from.
const (
	codeMissing = "no_such_file"
	codeKind    = "wrong_kind"
)

// vendored matches directories of code that others wrote.
const vendored = "{vendor,node_modules,third_party,.venv,venv,__pycache__}"

// call is a planned tool call.
type call struct {
	tool  string
	input json.RawMessage
}

// arguments are the inputs of all tools; each has some of them, under these
// names.
type arguments struct {
	Path       string `json:"path,omitempty"`
	Glob       string `json:"glob,omitempty"`
	Pattern    string `json:"pattern,omitempty"`
	Literal    bool   `json:"literal,omitempty"`
	IgnoreCase bool   `json:"ignore_case,omitempty"`
	Include    string `json:"include,omitempty"`
	Exclude    string `json:"exclude,omitempty"`
	Sort       string `json:"sort,omitempty"`
	Type       string `json:"type,omitempty"`
	Context    int    `json:"context,omitempty"`
	Depth      int    `json:"depth,omitempty"`
	First      int    `json:"first_line,omitempty"`
	Last       int    `json:"last_line,omitempty"`
	Limit      int    `json:"limit,omitempty"`
}

func callOf(tool string, a arguments) call {
	if a.Path == "." {
		a.Path = ""
	}
	input, err := json.Marshal(a)
	if err != nil { // strings, numbers and booleans always are JSON
		input = json.RawMessage(`{}`)
	}
	return call{tool: tool, input: input}
}

func listCall(dir string, depth int) call {
	return callOf(toolList, arguments{Path: dir, Depth: depth})
}

func readCall(file string, first, last int) call {
	return callOf(toolRead, arguments{Path: file, First: first, Last: last})
}

// glob matches the names of the files of a kind; empty for any.
func (k kind) glob() string {
	switch len(k.suffixes) {
	case 0:
		return ""
	case 1:
		return "*" + k.suffixes[0]
	}
	return "*{" + strings.Join(k.suffixes, ",") + "}"
}

// counted is what fs_count returns.
type counted struct {
	Files []fileCount `json:"files"`
	Total struct {
		Files int   `json:"files"`
		Lines int   `json:"lines"`
		Bytes int64 `json:"bytes"`
	} `json:"total"`
}

type fileCount struct {
	Path  string `json:"path"`
	Lines int    `json:"lines"`
	Bytes int64  `json:"bytes"`
}

// entry is a name in a directory.
type entry struct {
	path  string
	isDir bool
	bytes int64 // -1: not known
}

// directory is what fs_list_directory or fs_find returned.
type directory struct {
	entries []entry
	partial bool // the tool stopped
}

// listed reads a listing, or what was found: a path a line.
func listed(a answered) directory {
	var d directory
	if a.isError {
		return d
	}
	sized := regexp.MustCompile(`^(.+) \((?:(\d+) bytes|not a regular file)\)$`)
	for line := range strings.Lines(a.text) {
		line = strings.TrimSuffix(line, "\n")
		switch {
		case strings.HasPrefix(line, "[stopped"):
			d.partial = true
			continue
		case strings.HasPrefix(line, "[") && strings.HasSuffix(line, "]"),
			strings.HasSuffix(line, " is empty"), strings.HasPrefix(line, "nothing matches among "):
			continue
		}
		e := entry{path: line, bytes: -1}
		if m := sized.FindStringSubmatch(line); m != nil {
			e.path = m[1]
			if n, err := strconv.ParseInt(m[2], 10, 64); err == nil {
				e.bytes = n
			}
		}
		e.path, _, _ = strings.Cut(e.path, " -> ")
		e.path, e.isDir = strings.CutSuffix(e.path, "/")
		e.path = unquote(e.path)
		d.entries = append(d.entries, e)
	}
	return d
}

// unquote takes the quotes off a name with unusual characters.
func unquote(name string) string {
	if s, err := strconv.Unquote(name); err == nil {
		return s
	}
	return name
}

// match is a line that a search found.
type match struct {
	path string
	line int
	text string
}

// found is what fs_search returned.
type found struct {
	matches []match
	context []match // the lines around them
	partial bool
}

// files counts the files that the matches are in.
func (f found) files() int {
	n, last := 0, ""
	for _, m := range f.matches {
		if m.path != last {
			n, last = n+1, m.path
		}
	}
	return n
}

func searched(a answered) found {
	var f found
	if a.isError {
		return f
	}
	hit := regexp.MustCompile(`^(.+?)([:-])(\d+)([:-]) (.*)$`)
	for line := range strings.Lines(a.text) {
		line = strings.TrimSuffix(line, "\n")
		m := hit.FindStringSubmatch(line)
		switch {
		case m != nil && m[2] == m[4]:
			n, _ := strconv.Atoi(m[3])
			one := match{path: unquote(m[1]), line: n, text: m[5]}
			if m[2] == ":" {
				f.matches = append(f.matches, one)
			} else {
				f.context = append(f.context, one)
			}
		case strings.HasPrefix(line, "[stopped"):
			f.partial = true
		}
	}
	return f
}

// page is a piece of a file, as fs_read_file returned it.
type page struct {
	path        string
	first, last int
	total       int // lines of the file
	bytes       int64
	text        string
}

func (a answered) page() (page, bool) {
	if a.isError {
		return page{}, false
	}
	header, text, _ := strings.Cut(a.text, "\n")
	m := regexp.MustCompile(`^(.+): lines (\d+) to (\d+) of (\d+) \((\d+) bytes\)`).FindStringSubmatch(header)
	if m == nil {
		name, empty := strings.CutSuffix(header, " is empty")
		return page{path: unquote(name)}, empty
	}
	p := page{path: unquote(m[1]), first: atoi(m[2]), last: atoi(m[3]), total: atoi(m[4]), text: text}
	p.bytes, _ = strconv.ParseInt(m[5], 10, 64)
	return p, true
}

// base returns the last name of a path.
func base(name string) string { return path.Base(name) }
