package main

import (
	"context"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// maxPrompt bounds what is read from stdin. No model takes as much.
const maxPrompt = 16 << 20

// prompt is what the arguments say, or stdin, if there are none or "-".
func (a *app) prompt(ctx context.Context, args []string) (string, error) {
	text := strings.Join(args, " ")
	if len(args) == 0 && a.term.isIn {
		return "", usageError("there is no prompt: write it behind the command, or pipe it in")
	}
	if len(args) == 0 || text == "-" {
		err := a.interruptible(ctx, func(ctx context.Context) (err error) {
			text, err = a.readAll(ctx)
			return err
		})
		if err != nil {
			return "", err
		}
	}
	switch {
	case len(text) > maxPrompt:
		return "", usageError("the prompt is longer than %d MiB: put it into a file and ask about that", maxPrompt>>20)
	case !utf8.ValidString(text):
		return "", usageError("the prompt is not valid UTF-8: convert it first")
	case strings.TrimSpace(text) == "":
		return "", usageError("the prompt is empty")
	}
	return text, nil
}

// readAll reads stdin to its end, or until ctx ends.
func (a *app) readAll(ctx context.Context) (string, error) {
	type read struct {
		data []byte
		err  error
	}
	done := make(chan read, 1)
	go func() { // a read cannot be stopped: it ends with the process
		data, err := io.ReadAll(io.LimitReader(a.term.in, maxPrompt+1))
		done <- read{data, err}
	}()
	select {
	case r := <-done:
		if r.err != nil {
			return "", fmt.Errorf("read the prompt from stdin: %w", r.err)
		}
		return strings.TrimSuffix(string(r.data), "\n"), nil
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
}
