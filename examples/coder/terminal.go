package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"unicode"

	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/extension"
)

// terminal shows a person what the agent does and asks for approval. The agent calls it from
// one goroutine.
type terminal struct {
	out   io.Writer
	lines <-chan string // the input; closed at its end
	yes   bool
}

// newTerminal reads lines in the background, so that an interrupt also ends a question.
func newTerminal(ctx context.Context, in io.Reader, out io.Writer, yes bool) *terminal {
	lines := make(chan string)
	go func() {
		defer close(lines)
		for s := bufio.NewScanner(in); s.Scan(); {
			select {
			case lines <- s.Text():
			case <-ctx.Done():
				return
			}
		}
	}()
	return &terminal{out: out, lines: lines, yes: yes}
}

func (t *terminal) say(format string, args ...any) { _, _ = fmt.Fprintf(t.out, format, args...) }

// Approve asks about one call. Any answer but yes or no is a denial with that reason.
func (t *terminal) Approve(ctx context.Context, a events.Approval) (approve bool, reason string, err error) {
	t.say("? %s\n%s", printable(a.Summary), readable(a.Input))
	if t.yes {
		t.say("  approved by --yes\n")
		return true, "", nil
	}
	t.say("  y, n, or why not: ")
	select {
	case line, ok := <-t.lines:
		if !ok {
			return false, "", errors.New("no answer at the terminal: --yes approves everything")
		}
		t.say("\n")
		switch line = strings.TrimSpace(line); line {
		case "y", "yes":
			return true, "", nil
		case "", "n", "no":
			return false, "", nil
		}
		return false, line, nil
	case <-ctx.Done():
		return false, "", context.Cause(ctx)
	}
}

// HandleEvent prints the events that a person wants to see.
func (t *terminal) HandleEvent(o extension.Observed) {
	switch ev := any(o.Event).(type) {
	case events.StateChanged:
		t.say("== %s\n", ev.Phase)
	case events.ReplyRecorded:
		for _, it := range ev.Items {
			if text := it.Text(); text != "" {
				t.say("%s\n", printable(text))
			}
		}
	case events.ToolCallRequested:
		t.say("→ %s %s\n", printable(ev.Call.Name), firstLine(string(ev.Call.Input)))
	case events.ToolResultReceived:
		if ev.Result.IsError {
			t.say("✗ %s: %s\n", printable(ev.Result.Name), firstLine(ev.Result.Text()))
		}
	case events.VerifyFinished:
		t.say("gate %s\n%s\n", ev.Status, strings.TrimSpace(printable(ev.Output)))
	case events.MutationFinished:
		if ev.Dirty {
			t.say("%s: %d tokens became %d\n", ev.Mutator, ev.OldTokens, ev.NewTokens)
		}
	case events.ModelCallFailed:
		t.say("✗ the model: %s\n", printable(ev.Message))
	}
}

// readable shows a call's arguments in full, with line breaks, for a person to decide.
func readable(input json.RawMessage) string {
	var fields map[string]any
	if err := json.Unmarshal(input, &fields); err != nil {
		return "  " + printable(string(input)) + "\n"
	}
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		text, ok := fields[name].(string)
		if !ok {
			raw, _ := json.Marshal(fields[name]) // it was JSON before
			text = string(raw)
		}
		text = strings.ReplaceAll(strings.TrimSuffix(text, "\n"), "\n", "\n    ")
		_, _ = fmt.Fprintf(&b, "  %s: %s\n", printable(name), printable(text))
	}
	return b.String()
}

// printable returns a text without control characters.
func printable(text string) string {
	return strings.Map(func(r rune) rune {
		if r == '\n' || r == '\t' || unicode.IsPrint(r) {
			return r
		}
		return -1
	}, text)
}

// firstLine returns the first line of a text.
func firstLine(text string) string {
	const most = 100
	line, _, more := strings.Cut(printable(text), "\n")
	if r := []rune(line); len(r) > most {
		line, more = string(r[:most]), true
	}
	if more {
		line += " …"
	}
	return line
}
