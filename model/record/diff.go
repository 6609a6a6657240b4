package record

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/rogpeppe/go-internal/diff"

	"github.com/turnlog/turnlog/content"
)

// Limits of a difference.
const (
	maxShown = 60  // lines
	maxWidth = 160 // bytes of a line
)

// nearest returns the number of the most similar recorded request, which has the shortest difference, and
// that difference. 0: the cassette is empty.
func (t *tape) nearest(asked request) (number int, difference []string) {
	for i, x := range t.exchanges {
		if d := differences(x.Request, asked.canonical); number == 0 || len(d) < len(difference) {
			number, difference = i+1, d
		}
	}
	return number, difference
}

// closest returns the exchange of the most similar recorded request.
func (t *tape) closest(asked request) (found exchange, ok bool) {
	n, _ := t.nearest(asked)
	if n == 0 {
		return exchange{}, false
	}
	return t.exchanges[n-1], true
}

// explain describes how a request differs from the most similar recorded one.
func (t *tape) explain(asked request) string {
	number, best := t.nearest(asked)
	if number == 0 {
		return "the request was not recorded: the cassette is empty"
	}
	return fmt.Sprintf("the request was not recorded; the most similar of %d is number %d (- recorded, + requested):\n%s",
		len(t.exchanges), number, strings.Join(clipped(best), "\n"))
}

// differences returns the lines of a unified diff, without its header.
func differences(a, b json.RawMessage) []string {
	unified := diff.Diff("recorded", indented(a), "requested", indented(b))
	lines := strings.Split(strings.TrimSuffix(string(unified), "\n"), "\n")
	return lines[min(3, len(lines)):] // the names of the two
}

// indented returns a request, one value per line.
func indented(raw json.RawMessage) []byte {
	var b bytes.Buffer
	if json.Indent(&b, raw, "", " ") != nil {
		return raw
	}
	return append(b.Bytes(), '\n')
}

// clipped limits the number of lines and shortens each around the place where it
// differs from the other request.
func clipped(lines []string) []string {
	shown := lines[:min(len(lines), maxShown)]
	out := make([]string, 0, len(shown)+1)
	for _, line := range shown {
		differs := 0
		for _, other := range shown {
			if other[0] != line[0] {
				differs = max(differs, commonPrefix(line[1:], other[1:]))
			}
		}
		out = append(out, clip(line, differs))
	}
	if rest := len(lines) - len(shown); rest > 0 {
		out = append(out, fmt.Sprintf("… and %d more lines", rest))
	}
	return out
}

func commonPrefix(a, b string) int {
	n := 0
	for n < min(len(a), len(b)) && a[n] == b[n] {
		n++
	}
	return n
}

// clip shortens a line to the part around a position. It keeps the first byte, the sign.
func clip(line string, at int) string {
	if len(line) <= maxWidth {
		return line
	}
	from := content.Boundary(line, max(1, at-maxWidth/4))
	out := line[:1] + content.Cut(line[from:], maxWidth)
	if from > 1 {
		out = line[:1] + "…" + out[1:]
	}
	if from+maxWidth < len(line) {
		out += "…"
	}
	return out
}
