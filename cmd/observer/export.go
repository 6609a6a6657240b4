package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/turnlog/turnlog/audit"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/internal/cli"
)

func newExportCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "export SESSION",
		Short: "Write a session's journal in a form that verifies without a server",
		Long: `Writes a session's journal to standard output as lines of JSON: one that names the format, then
one per entry, with its events and the exact stored bytes. "observer verify --file" verifies such
a file without a server.

A file cannot show whether the journal continues after its end: to be sure, also keep the hash of
the last entry elsewhere.`,
		Example: `  observer export s-42 > s-42.jsonl
  observer export s-42 | zstd > s-42.jsonl.zst`,
		RunE: a.onSession(func(cmd *cobra.Command, cell *cli.Cell, s content.SessionID) error {
			if err := audit.Export(cmd.OutOrStdout(), read(cmd.Context(), cell, s, 1)); err != nil {
				return fmt.Errorf("export %s: %w", s, err)
			}
			return nil
		}),
	}
}
