package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/turnlog/turnlog/audit"
	"github.com/turnlog/turnlog/audit/render"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/internal/cli"
)

func newTranscriptCommand(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "transcript SESSION",
		Short: "Show the conversation as a model would see it now",
		Long: `Shows the transcript of a session, as a model would see it now. Items that were compacted or
withheld are only in the journal (see "observer events"). Below a call is what its approver put in place of
its arguments, which the model does not see.`,
		Example: `  observer transcript s-42
  observer transcript s-42 --full | less
  observer transcript s-42 -o json | jq '.[] | select(.kind == "assistant")'`,
	}
	full := fullFlag(cmd)
	output := cli.OutputFlag(cmd, asText, asJSON, asLines)
	cmd.RunE = a.onSession(func(cmd *cobra.Command, cell *cli.Cell, s content.SessionID) error {
		items, patched, err := transcript(cmd.Context(), cell, s)
		if err != nil {
			return err
		}
		out := newSink(cmd, output.String(), a.style(cmd, *full), false)
		if output.String() == asText {
			return errors.Join(render.Transcript(out.out, a.style(cmd, *full), items, patched), out.flush())
		}
		for _, it := range items {
			if err := out.value(json.Marshal(it)); err != nil {
				return err
			}
		}
		return out.end()
	})
	return cmd
}

// transcript folds a session's journal. It also returns the arguments with which approvers replaced
// the model's, which the transcript does not show.
func transcript(ctx context.Context, cell *cli.Cell, s content.SessionID) ([]content.Item, map[content.CallID]json.RawMessage, error) {
	patched := make(map[content.CallID]json.RawMessage)
	var entries []events.Entry
	for rec, err := range read(ctx, cell, s, 1) {
		if err == nil {
			err = rec.Err
		}
		if err != nil {
			return nil, nil, fmt.Errorf("transcript of %s: %w", s, err)
		}
		if d, ok := events.DeletionOf(rec.Entry); ok {
			return nil, nil, fmt.Errorf("session %s %s", s, d)
		}
		entries = append(entries, rec.Entry)
		for _, ev := range rec.Entry.Events {
			if r, ok := ev.(events.ApprovalResolved); ok && len(r.Input) > 0 {
				patched[r.Call] = r.Input
			}
		}
	}
	return audit.Transcript(entries), patched, nil
}
