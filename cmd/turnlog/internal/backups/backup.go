// Package backups has the commands that copy a deployment into a directory, and make a deployment from the copy.
package backups

import (
	"context"
	"fmt"
	"io"
	"path/filepath"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"

	"github.com/turnlog/turnlog/audit/render"
	"github.com/turnlog/turnlog/cmd/turnlog/internal/app"
	"github.com/turnlog/turnlog/internal/cli"
	"github.com/turnlog/turnlog/jetstream/admin"
	"github.com/turnlog/turnlog/jetstream/backup"
)

// Backup returns the command that makes and checks backups.
func Backup(a *app.App) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "backup DIR",
		Short: "Copy a deployment into a directory while it runs",
		Long: `Copies the streams of a deployment into a new directory: journals, commands that are not handled yet,
blobs, keys, agents, schedules, notes, and the log of heads. The deployment keeps running. The backup has
everything that the deployment had accepted when the backup began, part of what it accepted later, and
everything that its journals refer to. It leaves out run tokens, queued calls and timers, which a restored
deployment derives from the journals.

A backup contains conversations and the key of tickets, so protect it like the servers' disks. It has the keys
of sealed sessions only as encrypted with the seal key. Back up the seal key file, the configuration of NATS and
the keys of nodes elsewhere.

An interrupted backup has no backup.json, and "turnlog restore" rejects it. See docs/backup.md.`,
		Example: `  turnlog backup /backups/2026-11-27
  turnlog backup check /backups/2026-11-27`,
	}
	r := a.Remote(cmd, admin.RoleProvisioner)
	output := a.Output(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return a.Interruptible(cmd.Context(), func(ctx context.Context) error {
			cell, err := r.Dial(ctx, r.Program(), r.Logger())
			if err != nil {
				return err
			}
			defer cell.Close()
			m, err := backup.Create(ctx, cell.Cell, args[0], cli.Version())
			if err != nil {
				return cell.Advise(err)
			}
			return output.Print(m, func(w io.Writer) error { return printManifest(w, m, args[0]) })
		})
	}
	cmd.AddCommand(check(a))
	return cmd
}

func printManifest(w io.Writer, m *backup.Manifest, dir string) error {
	var messages uint64
	var size int64
	for _, s := range m.Streams {
		messages, size = messages+s.Messages, size+s.Size
	}
	_, err := fmt.Fprintf(w, "%s: backup %s of %s, %s in %s, began %s, took %v\n", filepath.Clean(dir), m.ID, m.Namespace,
		render.Plural(int(messages), "message", "messages"), humanize.IBytes(uint64(size)), m.Began.Format(time.RFC3339), m.Ended.Sub(m.Began).Round(time.Millisecond))
	return err
}

// check returns the command that checks a backup without a server.
func check(a *app.App) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "check DIR",
		Short: "Read all of a backup, and compare it with its manifest",
		Long: `Reads all files of a backup, without a server. It checks their SHA-256 and their messages against the
manifest, and that the payloads of all entries are there. "turnlog restore" does the same first. It does
not verify journals: use "observer verify --all" after the restore.

The exit code is 1 if the backup is damaged.`,
		Example: "  turnlog backup check /backups/2026-11-27",
	}
	output := a.Output(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return a.Interruptible(cmd.Context(), func(ctx context.Context) error {
			c, err := backup.Check(ctx, args[0])
			if err != nil {
				return err
			}
			err = output.Print(c, func(w io.Writer) error {
				if err := printManifest(w, c.Manifest, args[0]); err != nil {
					return err
				}
				_, err := fmt.Fprintf(w, "%s with %s\n", render.Plural(c.Sessions, "session", "sessions"), render.Plural(c.Entries, "entry", "entries"))
				return err
			})
			if err == nil && len(c.Missing) > 0 {
				err = fmt.Errorf("%w: %s not in it, such as %s of session %s", backup.ErrDamaged,
					render.Plural(len(c.Missing), "payload is", "payloads are"), c.Missing[0].Blob, c.Missing[0].Session)
			}
			return err
		})
	}
	return cmd
}
