// Package keys has the turnlog commands for the keys with which nodes, workers and people sign.
//
// A folder holds the newest directory of keys and its root key. Every command that changes the directory
// signs a new version in the folder. Publishing it, or giving it to others, is a separate step.
package keys

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/turnlog/turnlog/audit/keys"
	"github.com/turnlog/turnlog/cmd/turnlog/internal/app"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/internal/cli"
	"github.com/turnlog/turnlog/jetstream"
	"github.com/turnlog/turnlog/jetstream/admin"
	"github.com/turnlog/turnlog/jetstream/signers"
)

// Command returns the command about keys with its subcommands.
func Command(a *app.App) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "keys",
		Short: "Manage the signing keys of nodes, workers and people",
		Long: `Nodes, workers and people sign their entries, results and commands with signing keys (--sign-key), which are
separate from the keys of their NATS connections. A directory of keys lists the owner of each key and what it
may sign. The root key signs the directory, and anyone who has the root's public key can verify it.

These commands keep the directory in a folder: root.nk is the root's private key, root.pub its public key,
"directory" the newest version, and NAME.nk the private key of a node, a worker or a person. Keep the folder
off the machines of the deployment: each needs only its own NAME.nk, and the text in root.pub. "publish" gives
the nodes of a deployment the newest version.`,
		Example: `  turnlog keys init
  turnlog keys add driver:node-1
  turnlog keys add client+approver:bob
  turnlog keys require driver approver
  turnlog keys publish --server nats://nats.example.com:4222
  turnlog keys revoke bob --stolen --reason "lost laptop"
  turnlog keys ls`,
	}
	cmd.AddCommand(initialize(a), add(a), revoke(a), require(a), list(a), publish(a))
	return cmd
}

func initialize(a *app.App) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "init",
		Short: "Create a root key, and a directory without keys",
		Long: `Creates a root key and the first version of the directory, without keys, and prints the root's public key.
Verifiers need that public key, and should not get it from the deployment.`,
		Example: `  turnlog keys init
  turnlog keys init --dir /media/offline/keys --namespace team-a`,
	}
	f := newFolder(cmd)
	namespace := cmd.Flags().String("namespace", "", "`namespace` of the deployment; default: "+jetstream.DefaultNamespace)
	cmd.RunE = func(*cobra.Command, []string) error {
		cell, err := jetstream.ParseNamespace(*namespace)
		if err != nil {
			return cli.Usage("--%w", err)
		}
		root, err := f.create(cell, now())
		if err != nil {
			return err
		}
		_, err = fmt.Fprintln(a.Out, root)
		return err
	}
	return cmd
}

func add(a *app.App) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "add ROLES:NAME",
		Short: "Create a key and add it to the directory",
		Long: `Creates a key for a node, a worker or a person and adds it to the directory. ROLES determine what it may
sign: driver, worker, client or approver, or several joined with +. The private key is written to a file
that only you can read. For a key that was created elsewhere, give its public key with --public; then no
private key is written.

To replace a key, add another one under the same name, give it to its owner, and revoke the first one.`,
		Example: `  turnlog keys add driver:node-1
  turnlog keys add client+approver:bob --out bob-2027.nk
  turnlog keys add worker:gpu --public UDXU4RCSJNZOIQHZNWXHXORDPRTGNJAHAHFRGZNEEJCPQTT2M7NLCNF4`,
	}
	f := newFolder(cmd)
	out := cmd.Flags().String("out", "", "`file` for the private key; default: NAME.nk in the folder")
	public := cmd.Flags().String("public", "", "public `key` of a key that was created elsewhere")
	cmd.RunE = func(_ *cobra.Command, args []string) error {
		names, name, ok := strings.Cut(args[0], ":")
		roles, err := keys.ParseRoles(names)
		switch {
		case !ok || !content.IsToken(name):
			return cli.Usage("%q: use ROLES:NAME, such as client+approver:bob; a name has letters, digits, '-' or '_'", args[0])
		case err != nil:
			return cli.Usage("%q: %w", args[0], err)
		case *public != "" && *out != "":
			return cli.Usage("--out is for a private key, and with --public there is none")
		}
		k := keys.Key{Public: *public, Roles: roles, Name: name, From: now()}
		file := f.keyFile(name, *out)
		err = f.change(func(d *keys.Directory) error {
			if k.Public == "" {
				if k.Public, err = makeKey(file); err != nil {
					return err
				}
			}
			d.Keys = append(d.Keys, k)
			return nil
		})
		if err != nil {
			return err
		}
		if *public == "" {
			a.Hint("%s is the private key: give it to %s and to no one else", file, name)
		}
		_, err = fmt.Fprintln(a.Out, k.Public)
		return err
	}
	return cmd
}

func revoke(a *app.App) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "revoke NAME|KEY",
		Short: "Revoke a key",
		Long: `Retires a key, or declares it stolen. Earlier signatures stay valid. NAME means all of the owner's keys that
are not revoked, so name the KEY itself if the owner already has a new one.

A key is retired at a time in the future (--in), so that what its owner signs until then stays valid. Publish the
directory before that time: "publish" rejects it afterwards, and then you must retire the key again. A node stops
some seconds before its key is retired.

A stolen key (--stolen) is revoked as of now, or of an earlier time (--at). Everything signed with it since then,
including by its owner, is no longer valid.

A thief can backdate signatures. If the deployment has a log of heads, also give the log's name and its size when the
key was stolen (--log, --log-size): then what the log had by then is valid and what was added later is not, whatever
the dates are. "observer log audit" prints both.`,
		Example: `  turnlog keys revoke UDXU4RCSJNZOIQHZNWXHXORDPRTGNJAHAHFRGZNEEJCPQTT2M7NLCNF4 --in 1h --reason rotated
  turnlog keys revoke bob --stolen --at 2026-11-20T08:00:00Z --reason "lost laptop"`,
	}
	f := newFolder(cmd)
	var r keys.Revocation
	cmd.Flags().StringVar(&r.Reason, "reason", "", "`reason`, for people who verify signatures")
	in := cmd.Flags().Duration("in", 10*time.Minute, "`time` until the key is retired, at least a minute")
	cmd.Flags().BoolVar(&r.Stolen, "stolen", false, "the key was stolen: its signatures are invalid as of now, or of --at")
	cmd.Flags().Int64Var(&r.Size, "log-size", 0, "`size` of the log of heads when the key was stolen: only signatures that it had by then are valid, whatever their dates")
	cmd.Flags().StringVar(&r.Log, "log", "", "with --log-size, the `name` of the log")
	at := timeFlag(cmd, "at", "with --stolen, the `time` from which signatures are invalid; default: now")
	cmd.RunE = func(cmd *cobra.Command, args []string) (err error) {
		switch r.At, err = at(); {
		case err != nil:
			return err
		case r.Stolen && cmd.Flags().Changed("in"), !r.Stolen && cmd.Flags().Changed("at"):
			return cli.Usage("use --at with --stolen, and --in without it")
		case r.Size < 0 || (r.Size > 0) != (r.Log != "") || strings.ContainsAny(r.Log, " \t\r\n"):
			return cli.Usage("--log-size %d --log %q: give both, the size of a checkpoint of the log and its name", r.Size, r.Log)
		case !r.Stolen && *in < minIn:
			return cli.Usage("--in %v: use at least %v, so that its owner can learn of it, or give --stolen", *in, minIn)
		case !r.Stolen:
			r.At = now().Add(*in)
		case r.At > now():
			return cli.Usage("--at %s is in the future", r.At)
		}
		before, _, err := f.read()
		if err != nil {
			return err
		}
		return changed(a, f.change(func(d *keys.Directory) error {
			n := 0
			for i, k := range d.Keys {
				if k.Public == args[0] || k.Name == args[0] && k.Revoked == nil {
					d.Keys[i].Revoked, n = &r, n+1
				}
			}
			if n == 0 {
				return fmt.Errorf("%s: every key of this name is revoked, or there is none: \"turnlog keys ls\" lists all keys", args[0])
			}
			return d.Follows(before)
		}))
	}
	return cmd
}

// changed says what is left to do after a change of the directory, unless it failed.
func changed(a *app.App, err error) error {
	if err == nil {
		a.Hint("nodes and workers apply it once it is published: \"turnlog keys publish\"")
	}
	return err
}

// minIn is the least time until a key is retired.
const minIn = time.Minute

func require(a *app.App) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "require ROLE...",
		Short: "Require signatures from a given time on",
		Long: `Sets the time from which a role must sign: nodes reject unsigned entries, results or commands of that
role, and an audit reports them. Until then, only the signatures that exist are verified. First give all
nodes, workers or people of the role their keys.`,
		Example: `  turnlog keys require driver worker
  turnlog keys require approver --from 2026-12-01T00:00:00Z
  turnlog keys require client --never`,
	}
	f := newFolder(cmd)
	from := timeFlag(cmd, "from", "`time` from which they are required; default: now")
	never := cmd.Flags().Bool("never", false, "remove the requirement")
	cmd.RunE = func(_ *cobra.Command, args []string) error {
		at, err := from()
		if err != nil {
			return err
		}
		if *never {
			at = 0
		}
		return changed(a, f.change(func(d *keys.Directory) error {
			for _, name := range args {
				roles, err := keys.ParseRoles(name)
				if err != nil {
					return cli.Usage("%w", err)
				}
				for _, r := range roles {
					d.Require(r, at)
				}
			}
			return nil
		}))
	}
	return cmd
}

func list(a *app.App) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "ls",
		Short:   "List the keys of the directory",
		Long:    `Lists the keys of the newest version of the directory in the folder, after checking its signature.`,
		Example: "  turnlog keys ls\n  turnlog keys ls -o json | jq -r '.keys[] | select(.revoked) | .name'",
	}
	f := newFolder(cmd)
	output := a.Output(cmd)
	cmd.RunE = func(*cobra.Command, []string) error {
		d, _, err := f.read()
		if err != nil {
			return err
		}
		return output.Print(d, func(w io.Writer) error {
			for _, q := range d.Required {
				_, _ = fmt.Fprintf(w, "signatures of the role %s are required from %s on\n", q.Role, app.When(q.From)) // the table reports errors
			}
			return app.Table(w, "NAME ROLES FROM REVOKED ID KEY", d.Keys, func(k keys.Key) []any {
				roles := make([]string, len(k.Roles))
				for i, r := range k.Roles {
					roles[i] = string(r)
				}
				revoked := "-"
				if k.Revoked != nil {
					revoked = strings.TrimSpace(k.Revoked.String() + " " + app.When(k.Revoked.At) + " " + k.Revoked.Reason)
					if k.Revoked.Size > 0 {
						revoked += fmt.Sprintf(" (at size %d of %s)", k.Revoked.Size, k.Revoked.Log)
					}
				}
				return []any{k.Name, strings.Join(roles, "+"), app.When(k.From), revoked, k.ID(), k.Public}
			})
		})
	}
	return cmd
}

func publish(a *app.App) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "publish",
		Short: "Give the nodes of a deployment the newest directory",
		Long: `Stores the newest version of the directory in the deployment, whose nodes apply it within seconds. A
version that contradicts a published one is rejected. It needs the permissions of a provisioner.`,
		Example: `  turnlog keys publish --server nats://nats.example.com:4222`,
	}
	f := newFolder(cmd)
	r := a.Remote(cmd, admin.RoleProvisioner)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		d, signed, err := f.read()
		if err != nil {
			return err
		}
		cell, err := r.Connect(cmd.Context())
		if err != nil {
			return err
		}
		defer cell.Close()
		if cell.Namespace() != d.Cell {
			return cli.Usage("the directory is of the namespace %s, and the deployment's is %s", d.Cell, cell.Namespace())
		}
		return a.Interruptible(cmd.Context(), func(ctx context.Context) error {
			if err := publishable(ctx, cell.Cell, f, d); err != nil {
				return err
			}
			if err := signers.Publish(ctx, cell.Cell, d.Version, signed); err != nil {
				return err
			}
			_, err := fmt.Fprintf(a.Out, "version %d of the keys is published\n", d.Version)
			return err
		})
	}
	return cmd
}

// publishable returns an error if a directory does not continue the deployment's directory, or retires a key before the
// deployment can learn about it.
func publishable(ctx context.Context, cell *jetstream.Cell, f *folder, d *keys.Directory) error {
	root, err := f.public()
	if err != nil {
		return err
	}
	published, err := signers.Open(ctx, cell, root)
	if errors.Is(err, signers.ErrNone) {
		return nil
	}
	if err != nil {
		return err
	}
	newest := published.Newest()
	if newest.Version == d.Version { // the same directory or a conflicting one: Publish compares them
		return nil
	}
	if err := d.Follows(newest); err != nil {
		return fmt.Errorf("%w: is the folder an older copy?", err)
	}
	if err := d.CheckNotice(newest, now()); err != nil {
		return fmt.Errorf("%w: run \"turnlog keys revoke KEY --in 10m\" again and publish within that time, or give --stolen", err)
	}
	return nil
}

func now() content.Time { return content.TimeOf(time.Now()) }

// timeFlag adds a flag with a time. The default is now.
func timeFlag(cmd *cobra.Command, name, usage string) func() (content.Time, error) {
	text := cmd.Flags().String(name, "", usage)
	return func() (content.Time, error) {
		if *text == "" {
			return now(), nil
		}
		t, err := time.Parse(time.RFC3339, *text)
		if err != nil {
			return 0, cli.Usage("--%s %q: use a form like 2026-11-25T15:04:05Z", name, *text)
		}
		return content.TimeOf(t), nil
	}
}
