package output

import (
	"bytes"
	"fmt"
	"regexp"
	"strings"

	"github.com/turnlog/turnlog/content"
)

// Limits of one search.
const (
	maxMatches = 50
	maxShown   = 300       // bytes shown of a line
	maxLine    = 256 << 10 // bytes searched at once
	overlap    = 1 << 10   // of consecutive pieces of a longer line
)

// search finds matching lines in its input. It holds one line, or a piece of a line that is too long.
type search struct {
	re   *regexp.Regexp
	from int // where it starts

	at    int    // position of the next byte
	line  []byte // the current line so far
	start int    // position of line
	known int    // bytes of line that were searched with the previous piece

	found int
	full  bool // there are more matches
	next  int  // position of the first of them
	out   strings.Builder
}

// Write accepts all of p and never fails.
func (s *search) Write(p []byte) (int, error) {
	n := len(p)
	skip := min(max(0, s.from-s.at), n)
	s.at += skip
	if skip < n && s.at == s.from && s.from > 0 { // the rest of a character that begins before
		lead := content.Boundary(p[skip:], 0)
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

// look searches the line, or a piece of it. A line that is shown whole counts once; a
// longer one counts each match that the previous excerpt does not show.
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
			continue // found in the previous piece
		}
		from, to := excerpt(bare, at)
		s.show(bare, from, to)
		off = max(off, to)
		if to == len(bare) {
			return
		}
	}
}

// show prints the text around a match.
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

// answer returns the result. Call it once, after the last write.
func (s *search) answer() string {
	if len(s.line) > s.known && !s.full {
		s.look()
	}
	switch {
	case s.full:
		fmt.Fprintf(&s.out, "[stopped after %d: continue with offset %d]\n", maxMatches, s.next)
	case s.found == 0:
		return fmt.Sprintf("no line from byte %d on matches\n", s.from)
	default:
		fmt.Fprintf(&s.out, "[matches: %d; each with its offset]\n", s.found)
	}
	return s.out.String()
}

// excerpt returns the line, or the part of it around the match.
func excerpt(line []byte, match int) (from, to int) {
	if len(line) <= maxShown {
		return 0, len(line)
	}
	from = content.Boundary(line, max(0, min(match-maxShown/3, len(line)-maxShown)))
	return from, content.Boundary(line, min(from+maxShown, len(line)))
}
