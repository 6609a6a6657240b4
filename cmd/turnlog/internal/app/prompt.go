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

// Line is a line from stdin, or the error that ended it.
type Line struct {
	Text string
	Err  error
}

// Lines reads stdin line by line, one ahead. A read cannot be stopped: it ends with
// the process.
func (a *App) Lines() <-chan Line {
	out := make(chan Line)
	go func() {
		r := bufio.NewReader(a.In)
		for {
			line, err := r.ReadString('\n')
			if line != "" {
				out <- Line{Text: strings.TrimRight(line, "\r\n")}
			}
			if err != nil {
				out <- Line{Err: err}
				return
			}
		}
	}()
	return out
}
