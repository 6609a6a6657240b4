package render

import (
	"io"
	"regexp"
	"strings"
)

// Terminal returns a writer to a terminal. It escapes all control characters except tabs, line breaks
// and the colors of a [Style]. So no name, text or error from a model, a tool or a file can set the
// title, write to the clipboard or hide lines. Each Write must have whole characters and colors.
func Terminal(w io.Writer) io.Writer {
	return terminal{w, regexp.MustCompile(`\n|\x1b\[(?:[0-2]|3[1-6])m`)}
}

type terminal struct {
	to    io.Writer
	plain *regexp.Regexp // what passes as it is
}

// Write implements io.Writer.
func (t terminal) Write(p []byte) (int, error) {
	text := string(p)
	var b strings.Builder
	at := 0
	for _, pass := range t.plain.FindAllStringIndex(text, -1) {
		b.WriteString(Safe(text[at:pass[0]]) + text[pass[0]:pass[1]])
		at = pass[1]
	}
	b.WriteString(Safe(text[at:]))
	if _, err := io.WriteString(t.to, b.String()); err != nil {
		return 0, err //nolint:wrapcheck // of the terminal, for its user
	}
	return len(p), nil
}
