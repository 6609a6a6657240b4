package fs

import (
	"fmt"
	"slices"
	"strings"
)

// same compares a line of the file with a line of the patch, which may lack the file's line ending.
func same(have, want string) bool { return have == want || strings.TrimSuffix(have, "\r") == want }

func (f filePatch) apply(content string) (string, error) {
	crlf := strings.Contains(content, "\r\n")
	body, final := strings.CutSuffix(content, "\n")
	final = final || content == ""
	var lines, out []string
	if content != "" {
		lines = strings.Split(body, "\n")
	}
	from := 0 // lines already copied
	for i, h := range f.hunks {
		at, err := h.find(lines, from)
		if err != nil {
			return "", fmt.Errorf("%s: hunk %d (line %d of the patch): %w", show(f.name), i+1, h.line, err)
		}
		out = append(out, lines[from:at]...)
		from = at
		for _, l := range h.lines {
			switch {
			case l.op == '+' && crlf && !strings.HasSuffix(l.text, "\r"):
				out = append(out, l.text+"\r")
			case l.op == '+':
				out = append(out, l.text)
			case l.op == ' ':
				out = append(out, lines[from]) // with the file's line ending
				from++
			default:
				from++
			}
		}
	}
	if out = append(out, lines[from:]...); len(out) == 0 {
		return "", nil
	}
	text := strings.Join(out, "\n")
	if final {
		text += "\n"
	}
	return text, nil
}

// find returns where the hunk applies: the only place where it matches, or the first place after the
// lines that must precede it.
func (h *hunk) find(lines []string, from int) (int, error) {
	start, err := h.after(lines, from)
	if err != nil {
		return 0, err
	}
	old := h.old()
	switch {
	case len(old) > 0:
	case len(h.seek) > 0:
		return start, nil
	default:
		return len(lines), nil
	}
	var places []int
	for i := start; i+len(old) <= len(lines); i++ {
		if (!h.atEnd || i+len(old) == len(lines)) && slices.EqualFunc(lines[i:i+len(old)], old, same) {
			places = append(places, i)
		}
	}
	switch {
	case len(places) == 0:
		return 0, mismatch(lines, old, start)
	case len(places) == 1 || len(h.seek) > 0:
		return places[0], nil
	}
	for i := range places {
		places[i]++
	}
	return 0, fmt.Errorf("it matches at %s: give more lines of context", where(places))
}

// after returns where to start looking: after the lines that precede the hunk.
func (h *hunk) after(lines []string, from int) (int, error) {
	for _, seek := range h.seek {
		i := slices.IndexFunc(lines[from:], func(line string) bool { return strings.TrimSpace(line) == seek })
		if i < 0 {
			return 0, fmt.Errorf("no line from %d on is %q", from+1, seek)
		}
		from += i + 1
	}
	return from, nil
}

// mismatch describes how far the old lines match at their best place.
func mismatch(lines, old []string, start int) error {
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
