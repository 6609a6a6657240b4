package app

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/turnlog/turnlog/audit/render"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/internal/cli"
)

// Output holds the flag -o of a command and prints its result.
type Output struct {
	*cli.Choice

	app *App
}

// Output adds the flag -o to cmd. Without formats there are text and json.
func (a *App) Output(cmd *cobra.Command, formats ...string) Output {
	if len(formats) == 0 {
		formats = []string{"text", "json"}
	}
	return Output{cli.OutputFlag(cmd, formats...), a}
}

// Print writes v as JSON if the flag says so, and otherwise calls text.
func (o Output) Print(v any, text func(io.Writer) error) error {
	if o.String() == "json" {
		return WriteJSON(o.app.Out, v)
	}
	out := &counter{Writer: o.app.Out}
	err := text(out)
	if out.n == 0 && o.app.IsOut && err == nil {
		o.app.Hint("none") // for an empty list, programs expect no line, but people expect a message
	}
	return err
}

// counter counts the bytes that it passes on.
type counter struct {
	io.Writer

	n int
}

func (c *counter) Write(b []byte) (int, error) {
	c.n += len(b)
	return c.Writer.Write(b)
}

// WriteJSON writes a value as one line.
func WriteJSON(w io.Writer, value any) error {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(value); err != nil {
		return err
	}
	_, err := w.Write(b.Bytes())
	return err
}

// Table writes rows in aligned columns below a header, or nothing if there are none. The
// header separates columns by spaces, and words of one column by underscores.
// Cells are printed with %v, on one line and without control characters.
func Table[R any](w io.Writer, header string, rows []R, cells func(R) []any) error {
	if len(rows) == 0 {
		return nil
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(t, strings.NewReplacer(" ", "\t", "_", " ").Replace(header)) // Flush reports errors
	for _, r := range rows {
		for i, c := range cells(r) {
			if i > 0 {
				_, _ = io.WriteString(t, "\t")
			}
			_, _ = io.WriteString(t, render.Safe(fmt.Sprint(c)))
		}
		_, _ = io.WriteString(t, "\n")
	}
	return t.Flush()
}

// When prints a time to the second.
func When(t content.Time) string { return t.Std().Format(time.RFC3339) }

// Fields writes names and values in two aligned columns.
func Fields(w io.Writer, fill func(row func(name, format string, args ...any))) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fill(func(name, format string, args ...any) {
		_, _ = fmt.Fprintf(t, "%s\t%s\n", name, render.Safe(fmt.Sprintf(format, args...))) // Flush reports errors
	})
	return t.Flush()
}
