package render

import (
	"fmt"
	"io"
	"strings"

	"github.com/turnlog/turnlog/audit/explain"
	"github.com/turnlog/turnlog/content"
)

// Explain writes in sentences what a journal records about a call.
func Explain(w io.Writer, style Style, c explain.Call) error {
	p := phrases{
		quote: func(text string) phrase { return phrase(`"` + strings.ReplaceAll(style.Line(text), `"`, `\"`) + `"`) },
		code:  func(text string) phrase { return phrase(style.Line(text)) },
		bare:  content.IsToken,
	}
	var b strings.Builder
	b.WriteString(string(p.title(c)) + "\n")
	fmt.Fprintf(&b, "%s\n", style.Dim(string(p.say("%s, round %d of %s, effects: %s", c.Place, c.Round, c.Turn, c.Effects))))
	for _, part := range []struct {
		head  string
		lines []phrase
	}{
		{"Who asked", p.asked(c.Asked)},
		{"Arguments", p.arguments(c)},
		{"Why it was allowed or denied", p.allowed(c)},
		{"Where it ran", p.places(c)},
		{"What came back", p.results(c)},
		{"What the model saw", p.seen(c)},
	} {
		b.WriteString("\n" + style.paint(bold, part.head) + "\n")
		for _, line := range part.lines {
			b.WriteString("  " + sentence(line) + "\n")
		}
	}
	if _, err := io.WriteString(w, b.String()); err != nil {
		return fmt.Errorf("write: %w", err)
	}
	return nil
}

// sentence begins with a capital letter.
func sentence(p phrase) string { return strings.ToUpper(string(p[:1])) + string(p[1:]) }

// Hit writes what a search found as one line.
func Hit(w io.Writer, style Style, h explain.Hit) error {
	front := style.paint(blue, Safe(string(h.Session))) + " " + style.Dim(fmt.Sprintf("%*d  %s", seqWidth, h.Seq, h.At.Std().Format(timeLayout)))
	kind := fmt.Sprintf("%-*s", kindWidth, Safe(string(h.Kind)))
	detail := style.list("", h.Call, "", h.Tool, "", h.Status, "by", h.Person.String())
	if detail == "" {
		detail = style.Line(h.Text)
	} else {
		detail += style.colon(h.Text)
	}
	_, err := fmt.Fprintln(w, strings.TrimRight(front+"  "+kind+"  "+detail, " "))
	return err //nolint:wrapcheck // its caller says what it wrote
}
