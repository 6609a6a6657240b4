package output

import (
	"bytes"
	"fmt"
	"regexp"
	"strings"
)

// Bounds of one search.
const (
	maxMatches = 50
	maxShown   = 300       // bytes of a line that are shown
	maxLine    = 256 << 10 // bytes of a line that are looked at as one
	overlap    = 1 << 10   // that the next piece of a longer line begins with
)

// search finds the lines that match in what is written to it, and holds one of them. A
// line that is too long for that is taken in pieces.
type search struct {
	re   *regexp.Regexp
	from int // where it begins

	at    int    // in the whole, of what comes next
	line  []byte // what came of the line that is not at its end
	start int    // in the whole, of that
	known int    // bytes of it that were looked at as the end of the piece before

	found int
	full  bool // there are more than are shown
	next  int  // where the first of these stands
	out   strings.Builder
}

// Write takes all of p and never fails.
func (s *search) Write(p []byte) (int, error) {
	n := len(p)
	skip := min(max(0, s.from-s.at), n)
	s.at += skip
	if skip < n && s.at == s.from && s.from > 0 { // what is left of a character that begins before
		lead := boundary(p[skip:], 0)
		skip, s.at = skip+lead, s.at+lead
	}
	for p = p[skip:]; len(p) > 0 && !s.full; {
		if len(s.line) == 0 {
			s.start = s.at
		}
		end := bytes.IndexByte(p, '\n') + 1
		whole := end > 0
		if !whole {
			end = len(p)
		}
		if room := maxLine - len(s.line); end > room {
			end, whole = room, false
		}
		s.line, s.at, p = append(s.line, p[:end]...), s.at+end, p[end:]
		switch {
		case whole:
			s.look()
			s.line, s.known = s.line[:0], 0
		case len(s.line) == maxLine:
			s.look()
			rest := maxLine - overlap
			s.line, s.start, s.known = append(s.line[:0], s.line[rest:]...), s.start+rest, overlap
		}
	}
	return n, nil
}

// look looks at the line, or at a piece of it. Of a line that is shown as a whole one
// match counts, of a longer one those that were not shown with the one before.
func (s *search) look() {
	bare := bytes.TrimRight(s.line, "\r\n")
	for off := 0; off <= len(bare) && !s.full; {
		m := s.re.FindIndex(bare[off:])
		if m == nil {
			return
		}
		at, end := off+m[0], off+max(m[1], m[0]+1)
		off = end
		if s.known > 0 && end <= s.known {
			continue // it was found in the piece before
		}
		from, to := excerpt(bare, at)
		s.show(bare, from, to)
		off = max(off, to)
		if to == len(bare) {
			return
		}
	}
}

// show shows what surrounds a match.
func (s *search) show(line []byte, from, to int) {
	if s.found == maxMatches {
		s.full, s.next = true, s.start+from
		return
	}
	s.found++
	text := string(bytes.ToValidUTF8(line[from:to], []byte("\uFFFD")))
	if from > 0 || s.known > 0 {
		text = "…" + text
	}
	if to < len(line) {
		text += "…"
	}
	fmt.Fprintf(&s.out, "%d: %s\n", s.start+from, text)
}

// answer is what was found. It is asked once, behind the last line.
func (s *search) answer() string {
	if len(s.line) > s.known && !s.full {
		s.look()
	}
	switch {
	case s.full:
		fmt.Fprintf(&s.out, "[stopped after %d: go on with offset %d]\n", maxMatches, s.next)
	case s.found == 0:
		return fmt.Sprintf("no line from byte %d on matches\n", s.from)
	default:
		fmt.Fprintf(&s.out, "[matches: %d; each with its offset]\n", s.found)
	}
	return s.out.String()
}

// excerpt is what is shown of a line: all of it, or what surrounds the match.
func excerpt(line []byte, match int) (from, to int) {
	if len(line) <= maxShown {
		return 0, len(line)
	}
	from = boundary(line, max(0, min(match-maxShown/3, len(line)-maxShown)))
	return from, boundary(line, min(from+maxShown, len(line)))
}
