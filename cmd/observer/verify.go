package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/turnlog/turnlog/audit"
	"github.com/turnlog/turnlog/audit/render"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/internal/cli"
	"github.com/turnlog/turnlog/internal/textfile"
)

func newVerifyCommand(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "verify [SESSION]",
		Short: "Verify a session's journal, or an exported one",
		Long: `Verifies that the entries of a journal form one unbroken chain, and that they keep every guarantee
of Turnlog: each call has one result, no budget is exceeded, nothing ran before it was approved, and
so on. With --file it needs no server.

An intact journal gets a summary and exit code 0. Otherwise every fault is listed, the first one is
reported on standard error, and the exit code is 1.

A deleted or expired session consists of its tombstone: when, by whom and why it was deleted, how
many entries it had and the hash of the last one. The exit code is 0.

No chain can show that a journal was truncated, or replaced from some entry on. To detect that, keep
the output of "observer heads" out of reach of users who can change journals, and pass it as
--anchor. Without SESSION all sessions in that file are verified.`,
		Example: `  observer verify s-42
  observer verify --file s-42.jsonl
  observer verify --file s-42.jsonl -o json
  observer verify --anchor heads.jsonl
  zstdcat s-42.jsonl.zst | observer verify --file -`,
	}
	file := cmd.Flags().String("file", "", "verify an exported `file`; - is standard input")
	output := cli.OutputFlag(cmd, asText, asJSON)
	anchor := cmd.Flags().String("anchor", "", "`file` with earlier heads, which must still be in the journals; - is standard input")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if (*file == "") == (len(args) == 0) && (*anchor == "" || *file != "") {
			return cli.Usage("give a SESSION, --file or --anchor")
		}
		v := verifier{app: a, cmd: cmd, file: *file, json: output.String() == asJSON}
		if err := v.readAnchors(*anchor); err != nil {
			return err
		}
		if *file != "" {
			return v.report(v.judgeFile())
		}
		if len(args) == 0 {
			args = v.anchored()
		}
		sessions, err := cli.ParseSessions(args)
		if err != nil {
			return err
		}
		return a.with(cmd, func(cell *cli.Cell) error {
			var failed []error
			for _, s := range sessions {
				failed = append(failed, v.report(v.judge(cell, s)))
			}
			return errors.Join(failed...)
		})
	}
	return cmd
}

// verifier verifies journals one by one.
type verifier struct {
	app     *app
	cmd     *cobra.Command
	file    string // "": sessions
	json    bool
	anchors []audit.Anchor
}

// open opens a file, or standard input for "-". name is what to call it.
func (v *verifier) open(file string) (in io.ReadCloser, name string, err error) {
	if file == "-" {
		return interruptible(v.cmd.Context(), v.cmd.InOrStdin()), "standard input", nil
	}
	f, err := textfile.Open(file)
	if p, ok := errors.AsType[*fs.PathError](err); ok {
		err = p.Err
	}
	if err != nil {
		return nil, file, cli.Usage("%s: %w", file, err)
	}
	return f, file, nil
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

// readAnchors reads earlier heads.
func (v *verifier) readAnchors(file string) error {
	switch file {
	case "":
		return nil
	case "-":
		if v.file == "-" {
			return cli.Usage("--file and --anchor cannot both be standard input")
		}
	}
	in, _, err := v.open(file)
	if err != nil {
		return err
	}
	defer func() { _ = in.Close() }() // only read
	if v.anchors, err = audit.ReadAnchors(in); err == nil && len(v.anchors) == 0 {
		err = fmt.Errorf("%w: it is empty", audit.ErrBadAnchor)
	}
	if err != nil {
		return fmt.Errorf("--anchor %s: %w", file, err)
	}
	return nil
}

// anchored returns the sessions of the anchors.
func (v *verifier) anchored() (out []string) {
	for _, a := range v.anchors {
		if name := string(a.Session); !slices.Contains(out, name) {
			out = append(out, name)
		}
	}
	return out
}

// judgment is the result for one journal.
type judgment struct {
	audit.Report

	subject string // its name in output
	anchors int    // how many earlier heads it was compared with
	err     error  // why it could not be read to its end
}

func (j judgment) whole() bool { return j.OK() && j.err == nil }

// report prints a result, and returns the first fault.
func (v *verifier) report(j judgment) error {
	if j.err != nil && j.Entries == 0 && j.OK() {
		return j.err
	}
	print := j.text
	if v.json {
		print = j.json
	}
	if err := print(v.cmd.OutOrStdout(), v.app.style(v.cmd, false)); err != nil {
		return errors.Join(j.fault(), fmt.Errorf("write: %w", err))
	}
	if len(v.anchors) > 0 && j.Session != "" && j.anchors == 0 {
		return errors.Join(j.fault(), fmt.Errorf("%s: --anchor has no head of it: it is unknown whether it was truncated", j.subject))
	}
	return j.fault()
}

// judgeFile verifies the file.
func (v *verifier) judgeFile() (j judgment) {
	var in io.ReadCloser
	if in, j.subject, j.err = v.open(v.file); j.err != nil {
		return j
	}
	defer func() { _ = in.Close() }() // only read
	if j.Report, j.err = audit.Verify(audit.Import(in), v.anchors...); j.err != nil {
		j.err = fmt.Errorf("%s: %w", j.subject, j.err)
	}
	j.anchors = len(v.of(j.Session))
	return j
}

// judge verifies a session.
func (v *verifier) judge(cell *cli.Cell, s content.SessionID) (j judgment) {
	anchors := v.of(s)
	j.Report, j.err = audit.Verify(read(v.cmd.Context(), cell, s, 1), anchors...)
	j.subject, j.anchors, j.Session = "session "+string(s), len(anchors), s // even if there is no entry
	return j
}

// of returns the anchors of a session.
func (v *verifier) of(s content.SessionID) []audit.Anchor {
	return slices.DeleteFunc(slices.Clone(v.anchors), func(a audit.Anchor) bool { return a.Session != s })
}

// fault returns the first fault of the journal as an error.
func (j judgment) fault() error {
	v, bad := j.First()
	if !bad {
		return j.err
	}
	more := ""
	if n := len(j.Violations) - 1; n > 0 {
		more = fmt.Sprintf(" (and %d more)", n)
	}
	return fmt.Errorf("%s: entry %d breaks %s: %s%s", j.subject, v.Seq, v.Invariant, v.Message, more)
}

// text prints whether the journal is intact, its faults, and its head.
func (j judgment) text(w io.Writer, style render.Style) error {
	var b strings.Builder
	line := func(format string, args ...any) {
		fmt.Fprintf(&b, "   %s\n", render.Safe(fmt.Sprintf(format, args...)))
	}
	switch subject := render.Safe(j.subject); {
	case j.whole() && j.Deleted != nil:
		fmt.Fprintf(&b, "%s %s %s.\n", style.Good("ok"), subject, render.Safe(j.Deleted.String()))
		if j.Entries > 1 {
			line("%s still there: \"turnlog sessions rm\" once more removes them", render.Plural(j.Entries-1, "entry is", "entries are"))
		}
	case j.whole():
		fmt.Fprintf(&b, "%s %s is whole: its chain is unbroken, and no invariant is broken.\n", style.Good("ok"), subject)
	default:
		fmt.Fprintf(&b, "%s %s is not whole.\n", style.Bad("broken"), subject)
	}
	for _, v := range j.Violations {
		line("%s", v)
	}
	if j.err != nil {
		line("%v", j.err)
	}
	for _, v := range j.Warnings {
		line("only a warning: %s", v)
	}
	if j.UnjudgedFrom > 0 {
		line("from entry %d on only the chain was checked: what these entries mean cannot be known", j.UnjudgedFrom)
	}
	line("session  %s", j.Session)
	line("read     %s, %s, %s", render.Plural(j.Entries, "entry", "entries"), render.Plural(j.Events, "event", "events"), render.Plural(j.Turns, "turn", "turns"))
	line("head     %d %s", j.Seq, j.Hash)
	if j.anchors > 0 && j.whole() {
		line("anchors  %s held", render.Plural(j.anchors, "earlier head is", "earlier heads are"))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// json prints the report as JSON.
func (j judgment) json(w io.Writer, _ render.Style) error {
	out := struct {
		OK bool `json:"ok"`
		audit.Report
		Anchors int    `json:"anchors,omitempty"`
		Error   string `json:"error,omitempty"`
	}{OK: j.whole(), Report: j.Report, Anchors: j.anchors}
	if j.err != nil {
		out.Error = j.err.Error()
	}
	if out.Violations == nil {
		out.Violations = []audit.Violation{}
	}
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	return enc.Encode(out)
}
