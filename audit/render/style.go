package render

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Style sets how content is shown. The zero value uses no colors and clips long texts.
type Style struct {
	Color bool // use ANSI colors
	Full  bool // do not clip
}

// Limits of a text that is clipped.
const (
	clipLine  = 120  // runes of a text within a line
	clipBlock = 2000 // runes of a block
	clipLines = 24   // lines of a block
)

// color is an ANSI attribute.
type color string

const (
	plain  color = ""
	bold   color = "1"
	dim    color = "2"
	red    color = "31"
	green  color = "32"
	yellow color = "33"
	blue   color = "34"
	cyan   color = "36"
)

// paint colors a text if the style uses colors.
func (s Style) paint(c color, text string) string {
	if !s.Color || c == plain || text == "" {
		return text
	}
	return "\x1b[" + string(c) + "m" + text + "\x1b[0m"
}

// Dim styles less important text.
func (s Style) Dim(text string) string { return s.paint(dim, text) }

// Good styles success.
func (s Style) Good(text string) string { return s.paint(green, text) }

// Bad styles failure.
func (s Style) Bad(text string) string { return s.paint(red, text) }

// Line returns an untrusted text as one safe line, clipped unless the style is Full.
func (s Style) Line(text string) string {
	if s.Full {
		return Safe(strings.Join(strings.Fields(text), " "))
	}
	// Do not process far more than is shown.
	short := text
	if len(short) > 16*clipLine {
		short = short[:16*clipLine]
	}
	short = Safe(strings.Join(strings.Fields(short), " "))
	kept, cut := firstRunes(short, clipLine)
	if !cut && len(text) <= 16*clipLine {
		return kept
	}
	return kept + s.Dim(fmt.Sprintf(" … %d characters", utf8.RuneCountInString(text)))
}

// block returns an untrusted text as safe, indented lines.
func (s Style) block(text, indent string) string {
	text = strings.TrimRight(text, " \t\r\n")
	if text == "" {
		return ""
	}
	lines := strings.Split(text, "\n")
	var b strings.Builder
	left := clipBlock
	for i, line := range lines {
		if !s.Full && (i == clipLines || left <= 0) {
			fmt.Fprintf(&b, "%s%s\n", indent, s.Dim("… "+Plural(len(lines)-i, "more line", "more lines")))
			break
		}
		line = Safe(strings.TrimRight(line, "\r"))
		if !s.Full {
			kept, cut := firstRunes(line, left)
			left -= utf8.RuneCountInString(kept)
			if cut {
				kept += s.Dim(" … " + Plural(utf8.RuneCountInString(line)-utf8.RuneCountInString(kept), "more character", "more characters"))
			}
			line = kept
		}
		b.WriteString(strings.TrimRight(indent+line, " ") + "\n")
	}
	return b.String()
}

func firstRunes(s string, n int) (kept string, cut bool) {
	for i := range s {
		if n == 0 {
			return s[:i], true
		}
		n--
	}
	return s, false
}

// Safe makes a text safe for a terminal: tabs stay, and every other control character is escaped.
func Safe(text string) string {
	if strings.IndexFunc(text, func(r rune) bool { return r == utf8.RuneError || !harmless(r) }) < 0 {
		return text
	}
	var b strings.Builder
	for _, r := range strings.ToValidUTF8(text, "\uFFFD") {
		if harmless(r) {
			b.WriteRune(r)
			continue
		}
		quoted := strconv.QuoteRuneToASCII(r)
		b.WriteString(quoted[1 : len(quoted)-1])
	}
	return b.String()
}

// harmless reports whether r is printable. Format characters are not: some reverse the text
// after them.
func harmless(r rune) bool {
	return r == '\t' || r == '\u200d' || !unicode.IsControl(r) && !unicode.Is(unicode.Cf, r) && !unicode.Is(unicode.Zl, r) && !unicode.Is(unicode.Zp, r)
}
