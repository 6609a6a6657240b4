package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/turnlog/turnlog/audit"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/events/journal"
	"github.com/turnlog/turnlog/internal/cli"
)

func newHeadsCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "heads [SESSION...]",
		Short: "Print the heads of journals, for later comparison",
		Long: `Writes one line of JSON for each session, or each named session: the sequence and the hash of its last
entry. The hash covers the whole journal. For a journal whose last entry is damaged, it prints a line on standard
error instead, and the exit code is 1. For a deleted or erased session it writes the tombstone, so that "turnlog
restore" deletes the session again if the backup is older.

Keep the file where users who can change journals cannot change it. Later, "observer verify --anchor FILE" detects
with it that a journal was truncated or replaced, which no journal can show by itself.`,
		Example: `  observer heads > heads-2026-11-21.jsonl
  observer heads s-42 | ssh vault "cat >> heads.jsonl"`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			sessions, err := cli.ParseSessions(args)
			if err != nil {
				return err
			}
			return a.with(cmd, func(cell *cli.Cell) error { return printHeads(cmd, cell, sessions) })
		},
	}
}

// printHeads prints the heads of the named sessions, or of all if there are none.
func printHeads(cmd *cobra.Command, cell *cli.Cell, sessions []content.SessionID) (err error) {
	all := len(sessions) == 0
	if all {
		there, err := cell.Journal().Lengths(cmd.Context()) // deleted sessions, too
		if err != nil {
			return err
		}
		sessions = slices.Sorted(maps.Keys(there))
	}
	out := json.NewEncoder(cmd.OutOrStdout())
	var damaged headErrors
	for _, s := range sessions {
		rec, err := last(cmd.Context(), cell, s)
		switch {
		case all && errors.Is(err, journal.ErrNotFound): // it has just been deleted
			continue
		case errors.Is(err, journal.ErrDamaged), !all && errors.Is(err, journal.ErrNotFound):
			damaged = append(damaged, err)
			continue
		case err != nil:
			return errors.Join(append(damaged, err)...)
		}
		if err := out.Encode(headOf(s, rec)); err != nil {
			return fmt.Errorf("write: %w", err)
		}
	}
	if len(damaged) > 0 {
		return damaged
	}
	return nil
}

// headErrors are the sessions without a readable head, one line each.
type headErrors []error

// Error joins the lines.
func (e headErrors) Error() string { return strings.Join(e.Lines(), "; ") }

// Lines returns a line for each session.
func (e headErrors) Lines() (lines []string) {
	for _, err := range e {
		lines = append(lines, err.Error())
	}
	return lines
}

// Unwrap returns the errors.
func (e headErrors) Unwrap() []error { return e }

// headOf returns the end of a journal.
func headOf(s content.SessionID, rec journal.Record) audit.Anchor {
	a := audit.Anchor{Session: s, Seq: rec.Seq, Hash: rec.Hash, At: rec.Entry.At}
	if d, deleted := events.DeletionOf(rec.Entry); deleted {
		a.Deletion = &d
	}
	return a
}
