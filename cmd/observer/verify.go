package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/turnlog/turnlog/audit"
	"github.com/turnlog/turnlog/internal/cli"
	"github.com/turnlog/turnlog/internal/render"
)

func newVerifyCommand(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "verify [SESSION]",
		Short: "Verify a session's journal, or an exported one",
		Long: `Verifies that the entries of a journal form one unbroken chain, and that what they say keeps
every promise that Turnlog makes: each call has one result, no budget is exceeded, nothing ran
before it was approved, and so on. With --file it needs no server.

A journal that is whole gets a summary, and exit code 0. Otherwise every fault is listed, the
first one is named on standard error, and the exit code is 1.`,
		Example: `  observer verify s-42
  observer verify --file s-42.jsonl
  observer verify --file s-42.jsonl -o json
  zstdcat s-42.jsonl.zst | observer verify --file -`,
	}
	file := cmd.Flags().String("file", "", "verify an exported `file`; - is standard input")
	output := cli.OutputFlag(cmd, asText, asJSON)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if (*file == "") == (len(args) == 0) {
			return cli.Usage("give a SESSION or --file")
		}
		subject, report, err := a.judge(cmd, args, *file)
		if err != nil && report.Entries == 0 {
			return err
		}
		if output.String() == asJSON {
			err = errors.Join(err, showJSON(cmd.OutOrStdout(), report, err))
		} else {
			err = errors.Join(err, show(cmd.OutOrStdout(), a.style(cmd, false), subject, report, err))
		}
		return fault(subject, report, err)
	}
	return cmd
}

// judge verifies a session or a file. subject is what it is called.
func (a *app) judge(cmd *cobra.Command, args []string, file string) (subject string, r audit.Report, err error) {
	switch {
	case file == "-":
		r, err = judgeFile("standard input", cmd.InOrStdin())
		return "standard input", r, err
	case file != "":
		f, err := os.Open(file)
		if p, ok := errors.AsType[*fs.PathError](err); ok {
			err = fmt.Errorf("%s: %w", file, p.Err)
		}
		if err != nil {
			return file, r, err
		}
		defer func() { _ = f.Close() }() // nothing was written
		r, err = judgeFile(file, f)
		return file, r, err
	}
	s, err := parseSession(args[0])
	if err != nil {
		return "", r, err
	}
	cell, err := a.open(cmd)
	if err != nil {
		return "", r, err
	}
	defer cell.Close()
	r, err = audit.Verify(read(cmd.Context(), cell, s, 1))
	return "session " + string(s), r, err
}

func judgeFile(name string, in io.Reader) (audit.Report, error) {
	r, err := audit.Verify(audit.Import(in))
	if err != nil {
		return r, fmt.Errorf("%s: %w", name, err)
	}
	return r, nil
}

// fault is the error for a journal that is not whole: the first thing that is wrong
// with it.
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

// show writes whether the journal is whole, what is wrong with it, and how far it
// goes.
func show(w io.Writer, style render.Style, subject string, r audit.Report, err error) error {
	var b strings.Builder
	if r.OK() && err == nil {
		fmt.Fprintf(&b, "%s %s is whole: its chain is unbroken, and no invariant is broken.\n", style.Good("ok"), render.Safe(subject))
	} else {
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
	fmt.Fprintf(&b, "   read     %s, %s, %s\n", plural(r.Entries, "entry", "entries"), plural(r.Events, "event", "events"), plural(r.Turns, "turn", "turns"))
	fmt.Fprintf(&b, "   head     %d %s\n", r.Seq, r.Hash)
	if _, err := io.WriteString(w, b.String()); err != nil {
		return fmt.Errorf("write: %w", err)
	}
	return nil
}

func plural(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

// showJSON writes the report for programs.
func showJSON(w io.Writer, r audit.Report, err error) error {
	out := struct {
		OK bool `json:"ok"`
		audit.Report
		Error string `json:"error,omitempty"` // why the journal could not be read to its end
	}{OK: r.OK() && err == nil, Report: r}
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
