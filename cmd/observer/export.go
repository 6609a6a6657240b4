package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/turnlog/turnlog/audit"
)

func newExportCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "export SESSION",
		Short: "Write a session's journal in a form that verifies without a server",
		Long: `Writes a session's journal to standard output as lines of JSON: one that names the format, then
one for each entry, with its events for people and programs and with the exact bytes that are
stored. "observer verify --file" verifies such a file with nothing else.

A file cannot show that the journal goes on behind its end: to be sure of that, keep the hash
of the last entry elsewhere too.`,
		Example: `  observer export s-42 > s-42.jsonl
  observer export s-42 | zstd > s-42.jsonl.zst`,
		RunE: func(cmd *cobra.Command, args []string) error {
			s, err := parseSession(args[0])
			if err != nil {
				return err
			}
			cell, err := a.open(cmd)
			if err != nil {
				return err
			}
			defer cell.Close()
			if err := audit.Export(cmd.OutOrStdout(), read(cmd.Context(), cell, s, 1)); err != nil {
				return fmt.Errorf("export %s: %w", s, err)
			}
			return nil
		},
	}
}
