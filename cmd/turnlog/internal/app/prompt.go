package app

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/turnlog/turnlog/internal/cli"
)

// maxPrompt bounds what is read from stdin. No model takes as much.
const maxPrompt = 16 << 20

// Prompt returns the arguments as one text, or stdin if there are none or "-".
func (a *App) Prompt(ctx context.Context, args []string) (string, error) {
	text := strings.Join(args, " ")
	if len(args) == 0 && a.IsIn {
		return "", cli.Usage("there is no prompt: add it to the command, or pipe it in")
	}
	if len(args) == 0 || text == "-" {
		err := a.Interruptible(ctx, func(ctx context.Context) (err error) {
			text, err = a.readAll(ctx)
			return err
		})
		if err != nil {
			return "", err
		}
	}
	switch {
	case len(text) > maxPrompt:
		return "", cli.Usage("the prompt is longer than %d MiB: put it into a file and ask about that", maxPrompt>>20)
	case !utf8.ValidString(text):
		return "", cli.Usage("the prompt is not valid UTF-8: convert it first")
	case strings.TrimSpace(text) == "":
		return "", cli.Usage("the prompt is empty")
	}
	return text, nil
}

// readAll reads stdin to its end, or until ctx ends.
func (a *App) readAll(ctx context.Context) (string, error) {
	done := make(chan struct{})
	var data []byte
	var err error
	go func() { // a read cannot be stopped: it ends with the process
		data, err = io.ReadAll(io.LimitReader(a.In, maxPrompt+1))
		close(done)
	}()
	select {
	case <-done:
		if err != nil {
			return "", fmt.Errorf("read the prompt from stdin: %w", err)
		}
		return strings.TrimSuffix(string(data), "\n"), nil
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
}

// Line is a line from stdin, what was pasted at once, or the error that ended it.
type Line struct {
	Text string
	Cut  bool // the terminal may have dropped its end
	Err  error

	// Set by a console, which knows which question a line answers.
	Answer bool // the question that was open
	Late   bool // that question was no longer open
}

const (
	// maxTyped is the length of the longest line that a terminal passes on; it drops the rest.
	maxTyped = 4095

	maxAhead = 100 // lines that are read ahead

	// A terminal marks what is pasted if it was asked to.
	markPastes, unmarkPastes = "\x1b[?2004h", "\x1b[?2004l"
	pasteBegins, pasteEnds   = "\x1b[200~", "\x1b[201~"
)

// Lines reads stdin line by line, ahead of its reader. From a terminal, lines that were pasted together
// are one Line. A read cannot be stopped: it ends with the process.
func (a *App) Lines() <-chan Line {
	if a.Typed != nil {
		return a.Typed
	}
	out := make(chan Line, maxAhead)
	go func() {
		r := bufio.NewReader(a.In)
		for {
			line, err := a.readLine(r)
			if line.Text != "" || err == nil {
				out <- line
			}
			if err != nil {
				out <- Line{Err: err}
				return
			}
		}
	}()
	return out
}

// Await tells the user that a line is expected, or not anymore.
func (a *App) Await(ready bool) {
	switch {
	case a.Ready != nil:
		a.Ready(ready)
	case a.IsIn && ready:
		_, _ = io.WriteString(a.Err, "> ")
	}
}

func (a *App) readLine(r *bufio.Reader) (line Line, err error) {
	var all strings.Builder
	for pasting := true; pasting && err == nil; {
		var text string
		text, err = r.ReadString('\n')
		line.Cut = line.Cut || a.IsIn && len(strings.TrimSuffix(text, "\n")) >= maxTyped
		all.WriteString(text)
		whole := all.String()
		pasting = a.IsIn && strings.LastIndex(whole, pasteBegins) > strings.LastIndex(whole, pasteEnds)
	}
	line.Text = all.String()
	if a.IsIn {
		line.Text = strings.NewReplacer(pasteBegins, "", pasteEnds, "").Replace(line.Text)
	}
	line.Text = strings.TrimRight(line.Text, "\r\n")
	return line, err
}

// MarkPastes makes the terminal mark pasted text until done is called.
func (a *App) MarkPastes() (done func()) {
	if !a.IsIn || a.Control == nil {
		return func() {}
	}
	_, _ = io.WriteString(a.Control, markPastes)
	return func() { _, _ = io.WriteString(a.Control, unmarkPastes) }
}
