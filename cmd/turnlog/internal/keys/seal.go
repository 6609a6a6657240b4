package keys

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"

	"github.com/spf13/cobra"

	"github.com/turnlog/turnlog/audit/render"
	"github.com/turnlog/turnlog/client"
	"github.com/turnlog/turnlog/cmd/turnlog/internal/app"
	"github.com/turnlog/turnlog/events/seal"
	"github.com/turnlog/turnlog/internal/cli"
	"github.com/turnlog/turnlog/jetstream/admin"
	"github.com/turnlog/turnlog/jetstream/seals"
)

// Seal returns the command about the keys of sealed sessions with its subcommands.
func Seal(a *app.App) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "seal",
		Short: "Manage seal keys, which make the content of sessions erasable",
		Long: `The content of a session that was started with --seal is encrypted with the session's own key. The deployment
stores that key only encrypted with a seal key, which is in a file that never reaches NATS. Every node, worker,
client and auditor that needs to read sealed sessions needs the file (--seal-key FILE, or TURNLOG_SEAL_KEY).
"turnlog sessions erase" destroys the key of a session.

Backups may contain copies of destroyed keys. To make the copies useless: rotate the seal key, give the new file
to all programs and restart them, run "turnlog seal rewrap", and then destroy every copy of the old key. Its line
is the last one of the file.`,
		Example: `  turnlog seal init seal.key
  turnlog run --server nats://127.0.0.1:4222 --seal-key seal.key --seal --session plan-7 "What is here?"
  turnlog sessions erase plan-7 --seal-key seal.key
  turnlog seal rotate seal.key
  turnlog seal rewrap --seal-key seal.key`,
	}
	cmd.AddCommand(sealInit(a), sealRotate(a), sealRewrap(a))
	return cmd
}

func sealInit(a *app.App) *cobra.Command {
	return sealFile(a, "init", "Make a file with a new seal key", `Writes a new seal key to a new file that only you can read, and prints the name of the key. Keep a copy in a
safe place: without it, the sealed sessions cannot be read.`, seal.Create)
}

func sealRotate(a *app.App) *cobra.Command {
	return sealFile(a, "rotate", "Add a new seal key to a file, for what is sealed from now on", `Adds a new seal key as the first one of the file, and prints its name. New sessions use it. The old
keys are still needed for existing sessions, until "turnlog seal rewrap" has run.`, seal.Rotate)
}

func sealFile(a *app.App, name, short, long string, do func(file string) (string, error)) *cobra.Command {
	return &cobra.Command{
		Use: name + " FILE", Short: short, Long: long,
		Example: "  turnlog seal " + name + " seal.key",
		RunE: func(_ *cobra.Command, args []string) error {
			id, err := do(args[0])
			switch {
			case errors.Is(err, fs.ErrExist):
				return cli.Usage("%s exists already: \"turnlog seal rotate\" adds a key to it", args[0])
			case err != nil:
				return err
			}
			_, err = fmt.Fprintln(a.Out, id)
			return err
		},
	}
}

func sealRewrap(a *app.App) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "rewrap",
		Short: "Wrap the keys of all sealed sessions with the newest seal key",
		Long: `Encrypts the keys of all sealed sessions with the first seal key of the file, and removes the old copies. If
it is interrupted, run it again. It needs the permissions of a keeper and a client.`,
		Example: "  turnlog seal rewrap --seal-key seal.key --server nats://127.0.0.1:4222",
	}
	output := a.Output(cmd)
	r := a.Remote(cmd, admin.RoleKeeper)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		return r.Do(cmd.Context(), func(ctx context.Context, cell *cli.Cell, _ *client.Client) error {
			if len(cell.SealRing()) == 0 {
				return cli.Usage("give --seal-key FILE: its first key wraps, the others unwrap")
			}
			out, err := seals.Of(cell.Cell).Rewrap(ctx)
			if printErr := output.Print(out, func(w io.Writer) error {
				_, err := fmt.Fprintf(w, "%s, %d wrapped again with %s\n", render.Plural(out.Sessions, "sealed session", "sealed sessions"), out.Done, cell.SealRing().IDs()[0])
				return err
			}); err == nil {
				err = printErr
			}
			return err
		})
	}
	return cmd
}
