package render

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/turnlog/turnlog/audit/compare"
	"github.com/turnlog/turnlog/content"
)

// Compare writes how two sessions differ: what each cost, where they diverge, and every difference.
func Compare(w io.Writer, style Style, d *compare.Diff) error {
	p := &lines{w: w}
	p.sides(style, d)
	for _, c := range d.Changes {
		p.change(style, c)
	}
	return p.err
}

// SideBySide writes two sessions side by side, each line at most width columns wide.
func SideBySide(w io.Writer, style Style, d *compare.Diff, width int) error {
	p := &lines{w: w}
	p.sides(style, d)
	half := max((width-3)/2, 20)
	for _, r := range d.Rows {
		mark := " "
		switch {
		case r.A == nil:
			mark = style.Good(">")
		case r.B == nil:
			mark = style.Bad("<")
		case !r.Same:
			mark = style.paint(yellow, "|")
		}
		p.printf("%s %s %s\n", pad(r.A, half), mark, strings.TrimRight(pad(r.B, half), " "))
	}
	return p.err
}

// lines writes until a write fails.
type lines struct {
	w   io.Writer
	err error
}

func (p *lines) printf(format string, args ...any) {
	if p.err == nil {
		_, p.err = fmt.Fprintf(p.w, format, args...)
	}
}

func (p *lines) sides(style Style, d *compare.Diff) {
	for _, s := range []compare.Side{d.A, d.B} {
		p.printf("%s  %s, %s, %s, %s%s, %s\n", Safe(string(s.Session)), Plural(int(s.Entries), "entry", "entries"),
			Plural(s.Rounds, "model call", "model calls"), Plural(s.Calls, "tool call", "tool calls"), tokens(s.Usage), money(s.Usage), outcome(s))
	}
	if d.Same {
		p.printf("%s\n", style.Good("They do not differ."))
		return
	}
	var at []string
	if s := d.First.A; s != nil {
		at = append(at, fmt.Sprintf("entry %d of %s", s.Seq, Safe(string(d.A.Session))))
	}
	if s := d.First.B; s != nil {
		at = append(at, fmt.Sprintf("entry %d of %s", s.Seq, Safe(string(d.B.Session))))
	}
	p.printf("They differ from %s on. %s:\n", strings.Join(at, " and "), Plural(len(d.Changes), "difference", "differences"))
}

func tokens(u content.Usage) string {
	return fmt.Sprintf("%d input and %d output tokens", u.InputTokens, u.OutputTokens)
}

func money(u content.Usage) string {
	if cost := u.Cost(); cost != "" {
		return ", " + Safe(cost)
	}
	return ""
}

func outcome(s compare.Side) string {
	switch {
	case s.Open:
		return "its turn is open"
	case s.Outcome == "":
		return "no turn has begun"
	}
	return s.Outcome
}

func (p *lines) change(style Style, c compare.Change) {
	if c.A != nil {
		p.printf("%s\n", style.Bad("- "+step(style, c.A)))
	}
	if c.B != nil {
		p.printf("%s\n", style.Good("+ "+step(style, c.B)))
	}
}

func step(style Style, s *compare.Step) string {
	name := string(s.Kind)
	if s.Tool != "" {
		name += " " + Safe(s.Tool)
	}
	return fmt.Sprintf("%d %s %s", s.Seq, name, style.Line(s.Line))
}

// pad returns a step in a column.
func pad(s *compare.Step, width int) string {
	if s == nil {
		return strings.Repeat(" ", width)
	}
	text := step(Style{Full: true}, s)
	if n := utf8.RuneCountInString(text); n <= width {
		return text + strings.Repeat(" ", width-n)
	}
	return string([]rune(text)[:width-1]) + "…"
}
