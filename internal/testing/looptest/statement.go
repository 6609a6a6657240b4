package looptest

import (
	"slices"
	"strings"
	"unicode"
)

// statement is one command of a script: a verb, words, key=value options, and
// indented lines of the same shape.
type statement struct {
	verb  string
	pos   []string
	opt   map[string]string
	lines []statement
	json  string // the rest of a line from its first {, for verbs that take JSON
}

// statements parses the statements of a block. Comments start with #.
func statements(text string) []statement {
	var out []statement
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		switch {
		case line == "" || line[0] == '#':
		case unicode.IsSpace(rune(line[0])):
			last := &out[len(out)-1]
			last.lines = append(last.lines, parse(line))
		default:
			out = append(out, parse(line))
		}
	}
	return out
}

// parse parses a line. The JSON of tell, its checks and offer is kept as it is.
func parse(line string) statement {
	st := statement{opt: map[string]string{}}
	switch verb, _, _ := strings.Cut(strings.TrimSpace(line), " "); verb {
	case "tell", "offer", "check":
		if i := strings.IndexByte(line, '{'); i >= 0 {
			line, st.json = line[:i], line[i:]
		}
	}
	for i, word := range words(line) {
		key, value, isOption := strings.Cut(word, "=")
		switch {
		case i == 0:
			st.verb = word
		case isOption && isKey(key):
			st.opt[key] = unquote(value)
		default:
			st.pos = append(st.pos, unquote(word))
		}
	}
	return st
}

func isKey(s string) bool {
	return s != "" && !strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsLower(r) && r != '_' && r != '.' })
}

// words splits at spaces outside quotes and braces.
func words(line string) []string {
	depth, quoted := 0, false
	return strings.FieldsFunc(line, func(r rune) bool {
		switch r {
		case '"':
			quoted = !quoted
		case '{':
			depth++
		case '}':
			depth--
		}
		return r == ' ' && !quoted && depth == 0
	})
}

func unquote(s string) string {
	if len(s) >= 2 && s[0] == '"' && s[len(s)-1] == '"' {
		return strings.ReplaceAll(s[1:len(s)-1], `\n`, "\n")
	}
	return s
}

func (st statement) String() string { return strings.Join(append([]string{st.verb}, st.pos...), " ") }

func (st statement) arg(i int) string {
	if i < len(st.pos) {
		return st.pos[i]
	}
	return ""
}

// get returns an option by its key or a word by its index.
func (st statement) get(key any, otherwise string) string {
	switch k := key.(type) {
	case int:
		return def(st.arg(k), otherwise)
	case string:
		return def(st.opt[k], otherwise)
	}
	return otherwise
}

// has reports whether the word occurs alone or as an option.
func (st statement) has(word string) bool {
	_, ok := st.opt[word]
	return ok || slices.Contains(st.pos, word)
}

func (st statement) of(verb string) []statement {
	var out []statement
	for _, l := range st.lines {
		if l.verb == verb {
			out = append(out, l)
		}
	}
	return out
}
