package main

import (
	"errors"
	"fmt"

	"github.com/google/renameio/v2/maybe"
	"github.com/spf13/cobra"

	"github.com/turnlog/turnlog/audit"
	"github.com/turnlog/turnlog/audit/attached"
	"github.com/turnlog/turnlog/audit/bundle"
	"github.com/turnlog/turnlog/audit/headlog"
	"github.com/turnlog/turnlog/audit/render"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/internal/cli"
	"github.com/turnlog/turnlog/jetstream/heads"
)

func newExportCommand(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "export SESSION",
		Short: "Export a session's journal to a file that can be verified without a server",
		Long: `Writes a session's journal to standard output as lines of JSON: one that names the format, then
one per entry, with its events and the exact stored bytes. "observer verify --file" verifies such
a file without a server.

A file cannot show that the journal ends where the file ends. To check that later, also keep the hash of
the last entry elsewhere.

With --proof it also writes a second file: a proof that the log of heads has an entry of the session, with
the newest checkpoint that witnesses cosigned. The proof can be verified without a server. It does not cover
entries that are newer than that checkpoint, which can be a minute old. If the directory of keys is logged,
the file also has the versions that list the owners and revocations of the session's keys, with proofs that
they were logged.

With --blobs it also writes the files that the journal refers to: attachments, and results of tools that were
too large for the journal. In the folder, the name of each file is the hash of its bytes, as in the journal.`,
		Example: `  observer export s-42 > s-42.jsonl
  observer export s-42 --proof s-42.tlog-proof > s-42.jsonl
  observer export s-42 --blobs s-42-files > s-42.jsonl
  observer export s-42 | zstd > s-42.jsonl.zst`,
	}
	var blobs string
	blobsFlag(cmd, &blobs, "`folder` to write with the files that the journal refers to")
	proof := cmd.Flags().String("proof", "", "write a proof that the log of heads has the session to this `file`")
	cmd.RunE = a.onSession(func(cmd *cobra.Command, cell *cli.Cell, s content.SessionID) error {
		var head headlog.Proof
		if *proof != "" { // before the journal, which then has all that the proof covers
			var err error
			head, err = heads.Of(cell.Cell).Prove(cmd.Context(), s)
			if errors.Is(err, heads.ErrNoLog) {
				err = fmt.Errorf("%w: \"turnlog notary\" writes one", err)
			}
			if err != nil {
				return fmt.Errorf("--proof: %w", err)
			}
		}
		var files attached.Files
		by := bundle.Signers{}
		if err := audit.Export(cmd.OutOrStdout(), by.Watch(files.Watch(read(cmd.Context(), cell, s, 1)))); err != nil {
			return fmt.Errorf("export %s: %w", s, err)
		}
		if *proof != "" {
			all, err := bundle.Of(cmd.Context(), cell.Cell, head, by)
			if err == nil {
				err = maybe.WriteFile(*proof, all.Text(), 0o600)
			}
			if err != nil {
				return fmt.Errorf("--proof: %w", err)
			}
		}
		if blobs == "" {
			return nil
		}
		missing, err := attached.Folder(blobs).Save(cmd.Context(), files.All(), cell.Blobs())
		if err == nil && len(missing) > 0 {
			err = fmt.Errorf("%s: entry %d refers to the file %q (%s), which the deployment does not have; the others are written",
				render.Plural(len(missing), "file is missing", "files are missing"), missing[0].Seq, missing[0].Name, missing[0].ID)
		}
		if err != nil {
			return fmt.Errorf("--blobs: %w", err)
		}
		return nil
	})
	return cmd
}
