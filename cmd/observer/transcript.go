package main

import (
	"bufio"
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
		Long: `Shows the transcript of a session: what a model would see now. Items that were compacted away or
withheld are only in the journal (see "observer events").`,
		Example: `  observer transcript s-42
  observer transcript s-42 --full | less
  observer transcript s-42 -o json | jq '.[] | select(.kind == "assistant")'`,
	}
	full := fullFlag(cmd)
	output := cli.OutputFlag(cmd, asText, asJSON, asLines)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		s, err := cli.ParseSession(args[0])
		if err != nil {
			return err
		}
		items, err := a.transcript(cmd, s)
		if err != nil {
			return err
		}
		if output.String() != asText {
			return writeItems(newSink(cmd, output.String(), render.Style{}, false), items)
		}
		out := bufio.NewWriter(cmd.OutOrStdout())
		err = render.Transcript(out, a.style(cmd, *full), items)
		return errors.Join(err, out.Flush())
	}
	return cmd
}

// transcript folds a session's journal.
func (a *app) transcript(cmd *cobra.Command, s content.SessionID) ([]content.Item, error) {
	cell, err := a.open(cmd)
	if err != nil {
		return nil, err
	}
	defer cell.Close()
	var entries []events.Entry
	for rec, err := range read(cmd.Context(), cell, s, 1) {
		if err == nil {
			err = rec.Err
		}
		if err != nil {
			return nil, fmt.Errorf("transcript of %s: %w", s, err)
		}
		if d, ok := events.DeletionOf(rec.Entry); ok {
			return nil, fmt.Errorf("session %s %s", s, d)
		}
		entries = append(entries, rec.Entry)
	}
	return audit.Transcript(entries), nil
}

func writeItems(out *sink, items []content.Item) error {
	for i, it := range items {
		raw, err := json.Marshal(it)
		if err != nil {
			return fmt.Errorf("show item %d: %w", i+1, err)
		}
		if err := out.value(raw); err != nil {
			return err
		}
	}
	return out.end()
}
