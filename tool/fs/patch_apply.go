package fs

import (
	"bytes"
	"fmt"
	"io/fs"
	"slices"
	"strings"
)

// created returns the content of a new file.
func (f filePatch) created() []byte {
	out := []byte{}
	for _, h := range f.hunks {
		for _, l := range h.lines {
			out = append(append(out, l.text...), '\n')
		}
		if h.newEnd {
			out = bytes.TrimSuffix(out, []byte("\n"))
		}
	}
	return out
}

// permissions returns the new mode of a file with mode was. Zero is the default.
func (f filePatch) permissions(was fs.FileMode) fs.FileMode {
	switch {
	case f.mode == "" || was == 0 && f.mode != executable:
		return was
	case was == 0:
		return 0o755
	case f.mode == executable:
		return was | was&0o444>>2 // every reader may read it may run it
	}
	return was &^ 0o111
}

// document is a file as lines without their newlines.
type document struct {
	lines []string
	final bool // the last line ends with a newline
	crlf  bool // lines end with \r\n
}

func documentOf(content []byte) document {
	doc := document{final: true, crlf: bytes.Contains(content, []byte("\r\n"))}
	if len(content) == 0 {
		return doc
	}
	doc.lines = strings.Split(string(content), "\n")
	if n := len(doc.lines) - 1; doc.lines[n] == "" {
		doc.lines = doc.lines[:n]
	} else {
		doc.final = false
	}
	return doc
}

func (d document) bytes() []byte {
	if len(d.lines) == 0 {
		return []byte{}
	}
	text := strings.Join(d.lines, "\n")
	if d.final {
		text += "\n"
	}
	return []byte(text)
}

// same compares a line of the file with one of the patch, which does not show the
// file's line endings.
func same(have, want string) bool { return have == want || strings.TrimSuffix(have, "\r") == want }

// apply returns the content of a file after the patch.
func (f filePatch) apply(content []byte) ([]byte, error) {
	doc := documentOf(content)
	out := document{final: doc.final, crlf: doc.crlf}
	from, shift := 0, 0 // lines already copied; how far off the line numbers are
	for i, h := range f.hunks {
		old := h.old()
		at, err := h.find(doc, old, from, shift)
		if err != nil {
			return nil, fmt.Errorf("%s: hunk %d (line %d of the patch): %w", show(f.name), i+1, h.line, err)
		}
		if h.at > 0 {
			shift = at + 1 - h.at
		}
		out.lines = append(out.lines, doc.lines[from:at]...)
		out.lines = append(out.lines, h.replacement(doc, at)...)
		from = at + len(old)
		switch {
		case from < len(doc.lines):
		case h.newEnd:
			out.final = false
		case h.oldEnd:
			out.final = true
		}
	}
	out.lines = append(out.lines, doc.lines[from:]...)
	return out.bytes(), nil
}

// old returns the lines that the hunk has to match.
func (h hunk) old() []string {
	var out []string
	for _, l := range h.lines {
		if l.op != '+' {
			out = append(out, l.text)
		}
	}
	return out
}

// replacement returns the new lines at a place: context as the file has it, and what
// the hunk adds.
func (h hunk) replacement(doc document, at int) []string {
	var out []string
	for _, l := range h.lines {
		switch {
		case l.op == '+' && doc.crlf && !strings.HasSuffix(l.text, "\r"):
			out = append(out, l.text+"\r")
		case l.op == '+':
			out = append(out, l.text)
		case l.op == ' ':
			out = append(out, doc.lines[at])
			at++
		default:
			at++
		}
	}
	return out
}

// find returns where the hunk applies: at its line number, else at the only place
// where it matches, else at the first place after the lines that it says precede it.
func (h hunk) find(doc document, old []string, from, shift int) (int, error) {
	said := h.at - 1 + shift
	start, err := h.after(doc.lines, from)
	if err != nil {
		return 0, err
	}
	if len(old) == 0 {
		switch {
		case h.at > 0:
			return min(max(said, from), len(doc.lines)), nil
		case len(h.seek) > 0:
			return start, nil
		}
		return len(doc.lines), nil
	}
	var places []int
	for i := start; i+len(old) <= len(doc.lines); i++ {
		if (!h.atEnd || i+len(old) == len(doc.lines)) && slices.EqualFunc(doc.lines[i:i+len(old)], old, same) {
			places = append(places, i)
		}
	}
	switch {
	case h.at > 0 && slices.Contains(places, said):
		return said, nil
	case len(places) == 1, len(places) > 1 && len(h.seek) > 0:
		return places[0], nil
	case len(places) > 1:
		for i := range places {
			places[i]++
		}
		return 0, fmt.Errorf("it matches at %s: give more lines of context", where(places))
	}
	return 0, h.mismatch(doc.lines, old, start)
}

// after returns where to start looking: after the lines that precede the hunk.
func (h hunk) after(lines []string, from int) (int, error) {
	for _, seek := range h.seek {
		i := slices.IndexFunc(lines[from:], func(line string) bool { return strings.TrimSpace(line) == seek })
		if i < 0 {
			return 0, fmt.Errorf("no line from %d on is %q", from+1, seek)
		}
		from += i + 1
	}
	return from, nil
}

// mismatch describes how far the hunk matches at its best place.
func (h hunk) mismatch(lines, old []string, start int) error {
	best, fits := 0, 0
	for i := start; i < len(lines); i++ {
		n := 0
		for n < len(old) && i+n < len(lines) && same(lines[i+n], old[n]) {
			n++
		}
		if n > fits {
			best, fits = i, n
		}
	}
	switch {
	case fits == len(old):
		return fmt.Errorf("it matches at line %d, but must be at the end of the file", best+1)
	case fits == 0:
		return fmt.Errorf("no line from %d on is %q: read the file again", start+1, excerpt([]byte(old[0]), 0))
	case best+fits == len(lines):
		return fmt.Errorf("it matches from line %d, but the file ends before %q", best+1, excerpt([]byte(old[fits]), 0))
	}
	return fmt.Errorf("it matches from line %d, but line %d is %q, not %q: read the file again",
		best+1, best+fits+1, excerpt([]byte(lines[best+fits]), 0), excerpt([]byte(old[fits]), 0))
}
