package main

import (
	"errors"

	"github.com/spf13/cobra"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/internal/cli"
)

func newEventsCommand(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "events SESSION",
		Short: "Show the events of a session's journal",
		Long: `Shows a session's journal: sequence and time of each entry, and one line for each of its events.
Entries of a later release are shown raw.`,
		Example: `  observer events s-42
  observer events s-42 --from 100 --full
  observer events s-42 -o jsonl | jq 'select(.kinds[] == "tool_result_received")'`,
	}
	from := cmd.Flags().Uint64("from", 1, "first `sequence` to show")
	full := fullFlag(cmd)
	output := cli.OutputFlag(cmd, asText, asJSON, asLines)
	cmd.RunE = a.onSession(func(cmd *cobra.Command, cell *cli.Cell, s content.SessionID) error {
		out := newSink(cmd, output.String(), a.style(cmd, *full), false)
		for rec, err := range read(cmd.Context(), cell, s, *from) {
			if err == nil {
				err = out.entry(rec)
			}
			if err != nil {
				return errors.Join(err, out.flush())
			}
		}
		return out.end()
	})
	return cmd
}
