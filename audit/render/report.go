package render

import (
	_ "embed" // the page
	"fmt"
	"html/template"
	"io"
	"strings"

	"github.com/turnlog/turnlog/audit/explain"
	"github.com/turnlog/turnlog/audit/verdict"
	"github.com/turnlog/turnlog/content"
)

// clipReport bounds each text of a report, in characters.
const clipReport = 400

// Markdown writes a report and its verdict as Markdown. Untrusted texts are code spans, in which no markup is
// interpreted.
func Markdown(w io.Writer, r explain.Report, v *verdict.Verdict) error {
	code := func(text string) phrase { return codeSpan(reportText(text)) }
	p := phrases{code, code, func(text string) bool { return content.IsToken(text) && !strings.Contains(text, "_") }}.page(r, v)
	var b strings.Builder
	write := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	write("# %s\n\n%s\n", p.Title, p.Period)
	write("> **%s**", p.Verdict)
	if p.Covers != "" {
		write(">\n> %s", p.Covers)
	}
	for _, f := range p.Faults {
		write(">\n> - %s", f)
	}
	write("")
	for _, l := range p.Facts {
		write("- %s: %s", l.Name, l.Text)
	}
	write("\n## People\n")
	for _, l := range p.People {
		write("- %s: %s", l.Name, l.Text)
	}
	if len(p.People) == 0 {
		write("%s", p.NoPeople())
	}
	for _, part := range p.sections() {
		write("\n## %s\n", part.Head)
		if len(part.Blocks) == 0 {
			write("%s", part.None)
		}
		for _, block := range part.Blocks {
			write("- **%s**: %s", block.Name, block.Status)
			for _, l := range block.Lines {
				write("  - %s: %s", l.Name, l.Text)
			}
		}
	}
	write("\n## What is not proved\n")
	for _, what := range p.Unproved {
		write("- %s", what)
	}
	write("\n---\n\n%s", p.Foot)
	if _, err := io.WriteString(w, b.String()); err != nil {
		return fmt.Errorf("write: %w", err)
	}
	return nil
}

// section is a part of a page.
type section struct {
	Head   string
	None   phrase
	Blocks []block
}

func (p page) sections() []section {
	return []section{
		{"What was asked and answered", p.none("No turn started."), p.Turns},
		{"What it did that may have changed something", p.none("No call that may change something ran."), p.Acts},
		{"What was denied", p.none("Nothing was denied."), p.Denied},
	}
}

// none returns the text of a part without content. If the record cannot be read completely, it does not show that there is
// nothing.
func (p page) none(text phrase) phrase {
	if p.Unread != "" {
		return p.Unread
	}
	return text
}

// NoPeople is none for the people.
func (p page) NoPeople() phrase { return p.none("The record names none.") }

// reportText makes a text one safe, short line.
func reportText(text string) string {
	line := Safe(strings.Join(strings.Fields(text), " "))
	if kept, cut := firstRunes(line, clipReport); cut {
		return kept + " …"
	}
	return line
}

// codeSpan returns a code span of Markdown with a text of one line. Its fence is longer than any in the text.
func codeSpan(text string) phrase {
	fence := "`"
	for strings.Contains(text, fence) {
		fence += "`"
	}
	pad := ""
	if text == "" || strings.HasPrefix(text, "`") || strings.HasSuffix(text, "`") || strings.TrimSpace(text) != text {
		pad = " "
	}
	return phrase(fence + pad + text + pad + fence)
}

//go:embed report.html
var pageText string

// HTML writes a report and its verdict as one HTML page, which needs no other file and runs no script. All texts
// are escaped for their context.
func HTML(w io.Writer, r explain.Report, v *verdict.Verdict) error {
	p := phrases{
		quote: func(text string) phrase {
			return phrase("“" + strings.ReplaceAll(reportText(text), "”", `"`) + "”")
		},
		code: func(text string) phrase { return phrase(reportText(text)) },
		bare: content.IsToken,
	}.page(r, v)
	t, err := template.New("report").Parse(pageText)
	if err == nil {
		err = t.Execute(w, struct {
			page
			Sections []section
		}{p, p.sections()})
	}
	if err != nil {
		return fmt.Errorf("write: %w", err)
	}
	return nil
}
