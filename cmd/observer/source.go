package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"

	"github.com/spf13/cobra"

	"github.com/turnlog/turnlog/audit"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events/journal"
	"github.com/turnlog/turnlog/internal/cli"
	"github.com/turnlog/turnlog/internal/textfile"
)

// fileFlag adds the flag that names an export to read instead of a session.
func fileFlag(cmd *cobra.Command) *string {
	file := cmd.Flags().String("file", "", "read an exported `file` instead of a session; - is standard input")
	_ = cmd.MarkFlagFilename("file") // the flag exists
	return file
}

// input is the journal that a command reads.
type input struct {
	name    string    // for errors
	cell    *cli.Cell // nil: it is from a file
	records iter.Seq2[journal.Record, error]
	args    []string // the arguments after the session
}

// onJournal runs do with the journal of the session that the first argument names, or of an exported file.
func (a *app) onJournal(cmd *cobra.Command, file string, args []string, do func(input) error) error {
	if file != "" {
		in, name, err := openFile(cmd, "--file", file)
		if err != nil {
			return err
		}
		defer func() { _ = in.Close() }() // only read
		return do(input{name: name, records: named(name, audit.Import(in)), args: args})
	}
	s, err := cli.ParseSession(args[0])
	if err != nil {
		return err
	}
	return a.with(cmd, func(cell *cli.Cell) error {
		return do(input{"session " + string(s), cell, read(cmd.Context(), cell, s, 1), args[1:]})
	})
}

// named adds the name of a file to the error of reading it.
func named(name string, records iter.Seq2[journal.Record, error]) iter.Seq2[journal.Record, error] {
	return func(yield func(journal.Record, error) bool) {
		for rec, err := range records {
			if err != nil {
				err = fmt.Errorf("%s: %w", name, err)
			}
			if !yield(rec, err) {
				return
			}
		}
	}
}

// openFile opens the file that a flag names, or standard input for "-". name is what to call it.
func openFile(cmd *cobra.Command, flag, file string) (in io.ReadCloser, name string, err error) {
	if file == "-" {
		return interruptible(cmd.Context(), cmd.InOrStdin()), "standard input", nil
	}
	f, err := textfile.Open(file)
	if err != nil {
		return nil, file, unusable(flag, file, err)
	}
	return f, file, nil
}

// readFile returns the content of the file that a flag names.
func readFile(flag, file string, limit int64) ([]byte, error) {
	raw, err := textfile.ReadFile(file, limit)
	if err != nil {
		return nil, unusable(flag, file, err)
	}
	return raw, nil
}

// unusable is the error of a file that a flag names.
func unusable(flag, file string, err error) error {
	if p, ok := errors.AsType[*fs.PathError](err); ok {
		err = p.Err
	}
	return cli.Usage("%s %s: %w", flag, file, err)
}

// interruptible reads in until it or ctx ends. A read of standard input cannot be stopped: it
// ends with the process.
func interruptible(ctx context.Context, in io.Reader) io.ReadCloser {
	r, w := io.Pipe()
	go func() {
		_, err := io.Copy(w, in)
		_ = w.CloseWithError(err) // it returns nil
	}()
	context.AfterFunc(ctx, func() { _ = w.CloseWithError(context.Cause(ctx)) })
	return r
}

// readAll reads a journal to its end.
func readAll(name string, records iter.Seq2[journal.Record, error], add func(journal.Record) error) error {
	for rec, err := range records {
		if err != nil {
			return err
		}
		if err := add(rec); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

// last returns the last entry of a session, or an error that says where it looked.
func last(ctx context.Context, cell *cli.Cell, s content.SessionID) (journal.Record, error) {
	rec, err := cell.Journal().Last(ctx, s)
	if errors.Is(err, journal.ErrNotFound) {
		return rec, fmt.Errorf("session %s: %w in namespace %s at %s", s, journal.ErrNotFound, cell.Namespace(), cell.Conn.ConnectedUrlRedacted())
	}
	return rec, err
}

// read yields a session's entries from a sequence on, up to its current end.
func read(ctx context.Context, cell *cli.Cell, s content.SessionID, from uint64) iter.Seq2[journal.Record, error] {
	return func(yield func(journal.Record, error) bool) {
		if _, err := last(ctx, cell, s); err != nil && !errors.Is(err, journal.ErrDamaged) {
			yield(journal.Record{}, err)
			return
		}
		for rec, err := range cell.Journal().Read(ctx, s, max(from, 1)-1) {
			if !yield(rec, err) || err != nil {
				return
			}
		}
	}
}
