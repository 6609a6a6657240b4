package main

import (
	"bufio"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/turnlog/turnlog/audit"
	"github.com/turnlog/turnlog/audit/render"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/events/journal"
	"github.com/turnlog/turnlog/internal/cli"
)

// Output formats.
const (
	asText  = "text"
	asJSON  = "json"  // one value
	asLines = "jsonl" // one value a line
)

// sink writes entries in one of the formats.
type sink struct {
	out    *bufio.Writer
	screen bool // out is a terminal
	format string
	text   *render.Printer
	values int // written so far
}

// newSink returns a sink for the command's output. With sessions each line of text names
// its session.
func newSink(cmd *cobra.Command, format string, style render.Style, sessions bool) *sink {
	out := bufio.NewWriter(cmd.OutOrStdout())
	return &sink{out: out, screen: cli.IsTerminal(cmd.OutOrStdout()), format: format, text: render.NewPrinter(out, style, sessions)}
}

// update writes and flushes an update.
func (k *sink) update(n update) error {
	var err error
	if n.live != nil {
		err = k.live(n.session, n.live)
	} else {
		err = k.entry(n.rec)
	}
	return errors.Join(err, k.flush())
}

func (k *sink) entry(rec journal.Record) error {
	if k.format == asText {
		return k.text.Entry(rec)
	}
	return k.value(audit.EntryJSON(rec))
}

func (k *sink) live(s content.SessionID, ev events.Event) error {
	if k.format == asText {
		return k.text.Live(s, ev)
	}
	return k.value(render.LiveJSON(s, ev))
}

// value writes one JSON value, unless there was an error.
func (k *sink) value(raw []byte, err error) error {
	if err != nil {
		return err
	}
	before, after := "", "\n"
	if k.format == asJSON {
		before, after = ",\n", ""
		if k.values == 0 {
			before = "[\n"
		}
	}
	k.values++
	text := string(raw)
	if k.screen {
		text = render.Safe(text)
	}
	if _, err := fmt.Fprintf(k.out, "%s%s%s", before, text, after); err != nil {
		return fmt.Errorf("write: %w", err)
	}
	return nil
}

// end completes the output.
func (k *sink) end() error {
	if k.format == asJSON {
		text := "\n]\n"
		if k.values == 0 {
			text = "[]\n"
		}
		_, _ = k.out.WriteString(text) // flush reports it
	}
	return k.flush()
}

// flush writes buffered output.
func (k *sink) flush() error {
	if err := k.out.Flush(); err != nil {
		return fmt.Errorf("write: %w", err)
	}
	return nil
}
