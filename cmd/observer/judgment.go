package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/turnlog/turnlog/audit/render"
	"github.com/turnlog/turnlog/audit/verdict"
	"github.com/turnlog/turnlog/internal/cli"
)

// judgment is the verdict on one journal.
type judgment struct {
	*verdict.Verdict

	subject  string // its name in output
	anchored bool   // an earlier head of it was given
	err      error  // why it could not be read to its end
}

// report prints a verdict, and returns the error with its exit code.
func (v *verifier) report(j judgment) error {
	if j.err != nil && (j.Verdict == nil || j.Entries == 0 && j.OK()) {
		return j.err
	}
	print := j.text
	if v.json {
		print = j.json
	}
	if err := print(v.cmd.OutOrStdout(), v.app.style(v.cmd, false)); err != nil {
		return errors.Join(j.outcome(v), fmt.Errorf("write: %w", err))
	}
	return j.outcome(v)
}

// outcome returns the first fault, or another reason why the verdict does not reach what was required, as an error
// with an exit code.
func (j judgment) outcome(v *verifier) error {
	code := j.Exit(v.require)
	first, bad := j.First()
	unanchored := len(v.anchors) > 0 && !j.anchored
	switch {
	case bad:
		more := ""
		if n := len(j.Faults) - 1; n > 0 {
			more = fmt.Sprintf(" (and %d more)", n)
		}
		return &cli.ExitError{Code: code, Err: fmt.Errorf("%s: %s%s", j.subject, first, more)}
	case j.err != nil:
		return j.err
	case code == cli.CodeGone:
		return &cli.ExitError{Code: code, Err: fmt.Errorf("%s %s", j.subject, j.gone())}
	case code == cli.CodeBelow && j.Level >= v.require:
		return &cli.ExitError{Code: code, Err: fmt.Errorf("%s: no fault, and the level is %s, but no signature was checked: give --keys-root", j.subject, j.Level)}
	case code == cli.CodeBelow:
		return &cli.ExitError{Code: code, Err: fmt.Errorf("%s: no fault, but the level is %s, not %s", j.subject, j.Level, v.require)}
	case unanchored:
		return &cli.ExitError{
			Code: cli.CodeBelow, Err: fmt.Errorf("%s: no anchor or proof has one of its heads, so it may have been truncated", j.subject),
		}
	}
	return nil
}

// gone says how the content of the journal ended.
func (j judgment) gone() string {
	if j.Tombstone != nil {
		return j.Tombstone.String()
	}
	return "was " + string(j.State)
}

// headline says what the level is.
func (j judgment) headline(style render.Style) string {
	subject := render.Safe(j.subject)
	switch {
	case j.Exit(verdict.None) == cli.CodeFailed:
		return style.Bad("broken") + " " + subject + " is not whole."
	case !j.OK() && j.Level > verdict.None && !j.Has(verdict.Sealed):
		return style.Bad("restored") + " " + subject + " is whole except for entries that were lost in a restore."
	case j.Entries == 0 && j.Has(verdict.Restored):
		return style.Bad("restored") + " " + subject + " was lost in a restore."
	case !j.OK():
		return style.Bad("unjudged") + " " + subject + " cannot be judged."
	case j.State != "":
		return style.Good("gone") + " " + subject + " " + render.Safe(j.gone()) + "."
	case j.err != nil:
		return style.Bad("unread") + " " + subject + " was not read to its end."
	}
	return style.Good("ok") + " " + subject + " is whole: its chain is unbroken, and no invariant is broken."
}

// text prints the verdict for people.
func (j judgment) text(w io.Writer, style render.Style) error {
	var b strings.Builder
	line := func(format string, args ...any) {
		fmt.Fprintf(&b, "   %s\n", render.Safe(fmt.Sprintf(format, args...)))
	}
	b.WriteString(j.headline(style) + "\n")
	switch {
	case j.State == verdict.Erased && j.OK():
		line("%s, sealed for good", render.Plural(j.Entries-1, "entry stays", "entries stay"))
	case j.State == verdict.Moved && j.Entries > 1:
		line("%s still there: run \"turnlog sessions move\" again to remove them", render.Plural(j.Entries-1, "entry is", "entries are"))
	case j.State != "" && j.OK() && j.Entries > 1:
		line("%s still there: run \"turnlog sessions rm\" again to remove them", render.Plural(j.Entries-1, "entry is", "entries are"))
	}
	var kinds []verdict.Kind
	for _, f := range j.Faults {
		line("%s", f)
		if !slices.Contains(kinds, f.Kind) {
			kinds = append(kinds, f.Kind)
		}
	}
	for _, k := range kinds {
		line("%s means: %s", k, k.Means())
	}
	if j.err != nil {
		line("%v", j.err)
	}
	for _, f := range j.Warnings {
		line("only a warning: %s", f)
	}
	if j.UnjudgedFrom > 0 {
		line("from entry %d on, only the chain was checked: this release cannot interpret these entries", j.UnjudgedFrom)
	}
	line("session  %s", j.Session)
	line("read     %s, %s, %s", render.Plural(j.Entries, "entry", "entries"), render.Plural(j.Events, "event", "events"), render.Plural(j.Turns, "turn", "turns"))
	line("head     %d %s", j.Head.Seq, j.Head.Hash)
	for _, r := range j.Restores {
		line("restored at %s from backup %s, which began at %s", r.At, r.Backup, r.Taken)
	}
	for _, m := range j.Moves {
		line("moved here at %s from %s, after entry %d", m.At, m.MovedFrom, m.Seq-1)
	}
	line("level    %s", j.scope())
	if j.Anchors > 0 {
		line("anchors  %s held; %s after the last", render.Plural(j.Anchors, "earlier head is", "earlier heads are"), render.Plural(int(j.BeyondAnchor), "entry", "entries"))
	}
	for _, s := range j.Signers {
		line("who      %s", s)
	}
	if j.OpenTurn != "" {
		line("open     %s is not finished", j.OpenTurn)
	}
	for _, a := range j.OpenApprovals {
		line("open     approval %s is undecided", a)
	}
	if j.Level > verdict.None {
		for _, what := range j.NotProved {
			line("not proved: %s", what)
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// scope says what the level covers.
func (j judgment) scope() string {
	if j.Level == verdict.None {
		return j.Level.String()
	}
	text := fmt.Sprintf("%s, through entry %d, by %s", j.Level, j.Through.Seq, j.Through.At)
	if len(j.Witnesses) > 0 {
		text += ", cosigned by " + strings.Join(j.Witnesses, ", ")
	}
	return text
}

// json prints the verdict as JSON.
func (j judgment) json(w io.Writer, _ render.Style) error {
	out := struct {
		*verdict.Verdict
		Error string `json:"error,omitempty"` // the reason why it was not read to its end
	}{Verdict: j.Verdict}
	if j.err != nil {
		out.Error = j.err.Error()
	}
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	return enc.Encode(out)
}
