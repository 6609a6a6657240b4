package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/turnlog/turnlog/audit"
	"github.com/turnlog/turnlog/audit/render"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/internal/cli"
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
		switch {
		case *file != "":
			return v.verify("")
		case len(args) == 0:
			args = v.anchored()
		}
		var failed []error
		for _, name := range args {
			failed = append(failed, v.verify(name))
		}
		return errors.Join(failed...)
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
		return io.NopCloser(v.cmd.InOrStdin()), "standard input", nil
	}
	f, err := os.Open(file)
	if p, ok := errors.AsType[*fs.PathError](err); ok {
		err = fmt.Errorf("%s: %w", file, p.Err)
	}
	return f, file, err
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
func (v *verifier) anchored() []string {
	var out []string
	for _, a := range v.anchors {
		if name := string(a.Session); !slices.Contains(out, name) {
			out = append(out, name)
		}
	}
	return out
}

// of returns the anchors of a session.
func (v *verifier) of(s content.SessionID) []audit.Anchor {
	return slices.DeleteFunc(slices.Clone(v.anchors), func(a audit.Anchor) bool { return a.Session != s })
}

// verify verifies a session, or the file, and prints the result.
func (v *verifier) verify(session string) error {
	subject, report, err := v.judge(session)
	if err != nil && report.Entries == 0 && report.OK() {
		return err
	}
	out := v.cmd.OutOrStdout()
	if v.json {
		err = errors.Join(err, showJSON(out, report, len(v.of(report.Session)), err))
	} else {
		err = errors.Join(err, show(out, v.app.style(v.cmd, false), subject, report, len(v.of(report.Session)), err))
	}
	return errors.Join(fault(subject, report, err), v.unanchored(subject, report))
}

// unanchored returns an error if anchors were given, but none for this journal.
func (v *verifier) unanchored(subject string, r audit.Report) error {
	if len(v.anchors) == 0 || r.Session == "" || len(v.of(r.Session)) > 0 {
		return nil
	}
	return fmt.Errorf("%s: --anchor has no head of it: it is unknown whether it was truncated", subject)
}

// judge verifies a session, or the file. subject names it in output.
func (v *verifier) judge(session string) (subject string, r audit.Report, err error) {
	if v.file != "" {
		in, name, err := v.open(v.file)
		if err != nil {
			return name, r, err
		}
		defer func() { _ = in.Close() }() // only read
		if r, err = audit.Verify(audit.Import(in), v.anchors...); err != nil {
			err = fmt.Errorf("%s: %w", name, err)
		}
		return name, r, err
	}
	s, err := cli.ParseSession(session)
	if err != nil {
		return "", r, err
	}
	err = v.app.with(v.cmd, func(cell *cli.Cell) (err error) {
		r, err = audit.Verify(read(v.cmd.Context(), cell, s, 1), v.of(s)...)
		r.Session = s // even if there is no entry
		return err
	})
	return "session " + string(s), r, err
}

// fault returns the first fault of a journal as an error.
func fault(subject string, r audit.Report, err error) error {
	v, bad := r.First()
	switch {
	case !bad && err == nil:
		return nil
	case !bad:
		return err
	}
	more := ""
	if n := len(r.Violations) - 1; n > 0 {
		more = fmt.Sprintf(" (and %d more)", n)
	}
	return fmt.Errorf("%s: entry %d breaks %s: %s%s", subject, v.Seq, v.Invariant, v.Message, more)
}

// show prints whether the journal is intact, its faults, and its head. It was compared
// with so many anchors.
func show(w io.Writer, style render.Style, subject string, r audit.Report, anchors int, err error) error {
	var b strings.Builder
	switch whole := r.OK() && err == nil; {
	case whole && r.Deleted != nil:
		fmt.Fprintf(&b, "%s %s %s.\n", style.Good("ok"), render.Safe(subject), render.Safe(r.Deleted.String()))
		if r.Entries > 1 {
			fmt.Fprintf(&b, "   %s still there: \"turnlog sessions rm\" once more removes them\n", render.Plural(r.Entries-1, "entry is", "entries are"))
		}
	case whole:
		fmt.Fprintf(&b, "%s %s is whole: its chain is unbroken, and no invariant is broken.\n", style.Good("ok"), render.Safe(subject))
	default:
		fmt.Fprintf(&b, "%s %s is not whole.\n", style.Bad("broken"), render.Safe(subject))
	}
	for _, v := range r.Violations {
		fmt.Fprintf(&b, "   %s\n", render.Safe(v.String()))
	}
	if err != nil {
		fmt.Fprintf(&b, "   %s\n", render.Safe(err.Error()))
	}
	for _, v := range r.Warnings {
		fmt.Fprintf(&b, "   only a warning: %s\n", render.Safe(v.String()))
	}
	if r.UnjudgedFrom > 0 {
		fmt.Fprintf(&b, "   from entry %d on only the chain was checked: what these entries mean cannot be known\n", r.UnjudgedFrom)
	}
	fmt.Fprintf(&b, "   session  %s\n", render.Safe(string(r.Session)))
	fmt.Fprintf(&b, "   read     %s, %s, %s\n", render.Plural(r.Entries, "entry", "entries"), render.Plural(r.Events, "event", "events"), render.Plural(r.Turns, "turn", "turns"))
	fmt.Fprintf(&b, "   head     %d %s\n", r.Seq, r.Hash)
	if anchors > 0 && r.OK() && err == nil {
		fmt.Fprintf(&b, "   anchors  %s held\n", render.Plural(anchors, "earlier head is", "earlier heads are"))
	}
	if _, err := io.WriteString(w, b.String()); err != nil {
		return fmt.Errorf("write: %w", err)
	}
	return nil
}

// showJSON prints the report as JSON.
func showJSON(w io.Writer, r audit.Report, anchors int, err error) error {
	out := struct {
		OK bool `json:"ok"`
		audit.Report
		Anchors int    `json:"anchors,omitempty"` // compared with
		Error   string `json:"error,omitempty"`   // why the journal could not be read to its end
	}{OK: r.OK() && err == nil, Report: r, Anchors: anchors}
	if err != nil {
		out.Error = err.Error()
	}
	if out.Violations == nil {
		out.Violations = []audit.Violation{}
	}
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	if err := enc.Encode(out); err != nil {
		return fmt.Errorf("write: %w", err)
	}
	return nil
}
