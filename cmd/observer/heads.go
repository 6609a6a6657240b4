package main

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/turnlog/turnlog/audit"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events/journal"
)

func newHeadsCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "heads [SESSION...]",
		Short: "Show where journals end, to be compared later",
		Long: `Writes one line of JSON for each session, or for each that is named: the sequence and the hash
of its last entry. Each hash stands for its whole journal.

Kept where whoever may change journals cannot reach, such a file shows later that a journal was cut
off at its end or replaced, which no journal can show by itself: "observer verify --anchor FILE".`,
		Example: `  observer heads > heads-2026-11-21.jsonl
  observer heads s-42 | ssh vault "cat >> heads.jsonl"`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			var sessions []content.SessionID
			for _, arg := range args {
				s, err := parseSession(arg)
				if err != nil {
					return err
				}
				sessions = append(sessions, s)
			}
			cell, err := a.open(cmd)
			if err != nil {
				return err
			}
			defer cell.Close()
			if len(sessions) == 0 {
				if sessions, err = cell.Journal().Sessions(cmd.Context()); err != nil {
					return err
				}
			}
			out := json.NewEncoder(cmd.OutOrStdout())
			for _, s := range sessions {
				rec, err := last(cmd.Context(), cell, s)
				if errors.Is(err, journal.ErrNotFound) && len(args) == 0 {
					continue // it was deleted meanwhile
				}
				if err != nil {
					return err
				}
				if err := out.Encode(head{audit.Anchor{Session: s, Seq: rec.Seq, Hash: rec.Hash}, rec.Entry.At}); err != nil {
					return fmt.Errorf("write: %w", err)
				}
			}
			return nil
		},
	}
}

// head is where a journal ends.
type head struct {
	audit.Anchor
	At content.Time `json:"at"`
}
