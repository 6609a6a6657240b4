package backups

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/spf13/cobra"

	"github.com/turnlog/turnlog/audit"
	"github.com/turnlog/turnlog/audit/render"
	"github.com/turnlog/turnlog/cmd/turnlog/internal/app"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/internal/cli"
	"github.com/turnlog/turnlog/jetstream/admin"
	"github.com/turnlog/turnlog/jetstream/backup"
)

// Restore returns the command that makes a deployment from a backup.
func Restore(a *app.App) *cobra.Command {
	var opts backup.Options
	cmd := &cobra.Command{
		Use:   "restore DIR",
		Short: "Restore a deployment from a backup, on a server without one",
		Long: `Creates the streams of a deployment from a backup of "turnlog backup". Stop all nodes and workers first, and
start them when it is done. It never overwrites data: if the server has streams of the deployment with data, the
command names them and changes nothing. If it fails or is killed, run it again: it deletes what the first run created,
and starts over. Until it succeeds, no program can use the deployment.

Each session gets an entry that says that it was restored, and from which backup. The entry starts a new epoch, so
that drivers from before the restore are rejected. Sessions that were working continue. Calls that were running may
have ended since, so they count as lost.

For --anchor, use the newest file that "observer heads" wrote before the loss. The command then lists the sessions
that lack entries or are missing, and repeats the deletions and erasures that the file records. A session that was
erased after both the backup and the file is readable again: erase it again.

If drivers must sign ("turnlog keys require driver"), give a driver's key with --sign-key.`,
		Example: `  turnlog restore /backups/2026-11-27 --anchor /mnt/worm/heads.jsonl
  turnlog restore /backups/2026-11-27 --server nats://n1:4222 --replicas 3 --sign-key driver.nk`,
	}
	cmd.Flags().IntVar(&opts.Replicas, "replicas", 0, "`copies` of everything, on as many servers; default: as many as there were")
	anchor := cmd.Flags().String("anchor", "", "`file` of \"observer heads\" that was kept elsewhere")
	r := a.Remote(cmd, admin.RoleProvisioner)
	r.Signs(cmd, "the entries that this command adds")
	output := a.Output(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) (err error) {
		if opts.Replicas < 0 {
			return cli.Usage("--replicas: %d copies: use 1 or more", opts.Replicas)
		}
		if opts.Known, err = readHeads(*anchor); err != nil {
			return err
		}
		return a.Interruptible(cmd.Context(), func(ctx context.Context) error {
			cell, err := r.Dial(ctx, r.Program(), r.Logger())
			if err != nil {
				return err
			}
			defer cell.Close()
			out, err := backup.Restore(ctx, cell.Cell, args[0], opts)
			if err != nil {
				return err
			}
			return output.Print(out, func(w io.Writer) error { return printReport(w, out) })
		})
	}
	return cmd
}

// readHeads reads the heads of a file. Without one there are none.
func readHeads(file string) (known []backup.Head, err error) {
	if file == "" {
		return nil, nil
	}
	f, err := os.Open(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, cli.Usage("--anchor: %w", err)
	}
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // it was only read
	all, err := audit.ReadAnchors(f)
	if err != nil {
		return nil, cli.Usage("--anchor: %s: %w", file, err)
	}
	for _, h := range all {
		known = append(known, backup.Head{Session: h.Session, Seq: h.Seq, Deletion: h.Deletion})
	}
	return known, nil
}

func printReport(w io.Writer, r *backup.Report) error {
	line := func(format string, args ...any) error {
		_, err := fmt.Fprintf(w, format+"\n", args...)
		return err
	}
	errs := []error{line("restored backup %s, taken at %s: %s, of which %d are working", r.Backup, content.TimeOf(r.Taken),
		render.Plural(r.Sessions, "session", "sessions"), r.Woken)}
	for _, g := range r.Again {
		errs = append(errs, line("again: session %s %s", g.Session, g.Deletion))
	}
	for _, l := range r.Lost {
		if l.Entries == 0 {
			errs = append(errs, line("lost: session %s, which had %s", l.Session, render.Plural(int(l.Known), "entry", "entries")))
		} else {
			errs = append(errs, line("lost: entries %[2]d to %[3]d of session %[1]s", l.Session, l.Entries+1, l.Known))
		}
	}
	for _, b := range r.LostBlobs {
		errs = append(errs, line("lost: the payload %s of an entry of session %s", b.Blob, b.Session))
	}
	for _, u := range r.Unmarked {
		errs = append(errs, line("not marked: session %s: %s", u.Session, u.Why))
	}
	return errors.Join(errs...)
}
