package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/turnlog/turnlog/audit/render"
	"github.com/turnlog/turnlog/internal/cli"
)

func newChatCommand(a *app) *cobra.Command {
	var f talkFlags
	var files fileFlag
	cmd := &cobra.Command{
		Use:   "chat",
		Short: "Talk with a session, turn after turn",
		Long: `Reads a line, runs a turn with it, and so on, on one session. /quit or the end of the
input (Ctrl-D) leaves; an interrupt cancels the turn, a second one leaves. /file PATH attaches a
file to the next line, as --file does to the first one.

Where it runs, and which calls want a person's approval, is as for "turnlog run": you are asked
at a terminal; otherwise the chat ends there. What fails is shown, and the chat goes on; it exits
with the code of its last turn if the input does not come from a terminal.`,
		Example: `  turnlog chat
  turnlog chat --tools fs,shell --root ./site
  turnlog chat --server nats://127.0.0.1:4222 --session plan-7
  printf 'What is here?\nWhich file is the longest?\n' | turnlog chat`,
	}
	f.register(cmd, a)
	f.session.registerBusy(cmd)
	files.register(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		with, err := files.look()
		if err != nil {
			return err
		}
		return ended(a.talk(cmd, f, func(ctx context.Context, v *conversation, in input) error {
			return a.chat(ctx, v, in, with)
		}))
	}
	return cmd
}

// chat runs a turn for each line until there are no more. The files come with the first.
func (a *app) chat(ctx context.Context, v *conversation, in input, files []attached) error {
	lines := a.readLines()
	if a.term.isIn {
		v.people.lines = func() <-chan typed { return lines }
		a.hint("session %s; /quit or Ctrl-D leaves", v.id)
	}
	var last error
	for {
		line, err := a.ask(ctx, lines)
		if err != nil || line == "/quit" {
			if errors.Is(err, io.EOF) {
				err = nil
			}
			if e, failed := errors.AsType[*cli.ExitError](last); failed && err == nil && !a.term.isIn {
				err = &cli.ExitError{Code: e.Code} // it was told
			}
			return err
		}
		if strings.TrimSpace(line) == "" {
			continue
		}
		if !utf8.ValidString(line) {
			a.complain(usageError("that line is not valid UTF-8"))
			continue
		}
		if path, is := strings.CutPrefix(line, "/file "); is {
			if files, err = a.addFile(files, strings.TrimSpace(path)); err != nil {
				a.complain(err)
			}
			continue
		}
		if in.files, err = a.enclose(ctx, v.cell, files); err != nil {
			return err
		}
		in.text, files = line, nil
		last = a.turn(ctx, v, in, "text")
		if fatal(last) {
			return last
		}
		if last != nil {
			a.complain(last)
		}
	}
}

// addFile has one more file come with the next line.
func (a *app) addFile(files []attached, path string) ([]attached, error) {
	if len(files) == maxFiles {
		return files, fmt.Errorf("an input takes %d files at most", maxFiles)
	}
	file, err := examine(path)
	if err != nil {
		return files, fmt.Errorf("%s: %w", path, err)
	}
	a.hint("%s (%s, %s) comes with the next line", path, file.mime, inBytes(uint64(file.size)))
	return append(files, file), nil
}

// fatal reports whether the chat cannot go on after a turn's error. Behind a turn that
// waits for somebody elsewhere, all that is said would wait, too.
func fatal(err error) bool {
	e, verdict := errors.AsType[*cli.ExitError](err)
	return err != nil && (!verdict || e.Code == cli.CodeApproval)
}

func (a *app) hint(format string, args ...any) {
	_, _ = fmt.Fprintln(a.term.err, a.term.style.Dim(fmt.Sprintf(format, args...)))
}

func (a *app) complain(err error) {
	_, _ = fmt.Fprintln(a.term.err, a.term.style.Bad(render.Safe(err.Error())))
}

// typed is a line from stdin.
type typed struct {
	line string
	err  error
}

// readLines reads stdin line by line, one ahead. A read cannot be stopped: it ends
// with the process.
func (a *app) readLines() <-chan typed {
	out := make(chan typed)
	go func() {
		r := bufio.NewReader(a.term.in)
		for {
			line, err := r.ReadString('\n')
			if line != "" {
				out <- typed{line: strings.TrimRight(line, "\r\n")}
			}
			if err != nil {
				out <- typed{err: err}
				return
			}
		}
	}()
	return out
}

// ask prompts for a line and waits for it.
func (a *app) ask(ctx context.Context, lines <-chan typed) (string, error) {
	for {
		if a.term.isIn {
			_, _ = io.WriteString(a.term.err, "> ")
		}
		select {
		case t := <-lines:
			if t.err != nil && a.term.isIn {
				_, _ = io.WriteString(a.term.err, "\n")
			}
			return t.line, t.err
		case s := <-a.signals:
			if s != os.Interrupt {
				return "", &cli.Interrupted{Signal: s}
			}
			_, _ = io.WriteString(a.term.err, "\n")
			a.hint("nothing to cancel; /quit or Ctrl-D leaves")
		case <-ctx.Done():
			return "", context.Cause(ctx)
		}
	}
}
