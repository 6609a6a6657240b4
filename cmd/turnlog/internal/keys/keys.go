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
		Short: "Make the keys with which nodes, workers and people sign, and say whose they are",
		Long: `Nodes, workers and people sign what they do with keys of their own (--sign-key), never with those of
their connections to NATS. A directory says whose each key is and what it may sign. The key of its root
signs the directory, and anyone who knows the root's public key can check it.

These commands keep the directory in a folder: root.nk is the root's key, root.pub its public key,
"directory" the newest version, and NAME.nk the key of a node, a worker or a person. Keep the folder off
the machines of the deployment: they need only their own NAME.nk, and the text in root.pub. "publish"
gives the nodes of a deployment the newest version.`,
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
		Short: "Make a root, and a directory without keys",
		Long: `Makes the key of a root and the first version of the directory, without keys, and prints the root's
public key. Verifiers need that key, and should not get it from the deployment.`,
		Example: `  turnlog keys init
  turnlog keys init --dir /media/offline/keys --namespace team-a`,
		Args: cobra.NoArgs,
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
		Short: "Make a key and add it to the directory",
		Long: `Makes a key for a node, a worker or a person and adds it to the directory. Roles say what it may
sign: driver, worker, client or approver, or several with + between them. The key is in a file that
only you can read. For a key that was made elsewhere, --public gives its public key; then no private key
is written.

To replace a key, add another one under the same name, give it to its owner, and revoke the first one.`,
		Example: `  turnlog keys add driver:node-1
  turnlog keys add client+approver:bob --out bob-2027.nk
  turnlog keys add worker:gpu --public UDXU4RCSJNZOIQHZNWXHXORDPRTGNJAHAHFRGZNEEJCPQTT2M7NLCNF4`,
		Args: cobra.ExactArgs(1),
	}
	f := newFolder(cmd)
	out := cmd.Flags().String("out", "", "`file` for the private key; default: NAME.nk in the folder")
	public := cmd.Flags().String("public", "", "public `key` that was made elsewhere")
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
		Long: `Retires a key, or says that it was stolen. What it signed before stays valid. A name stands for all of its keys
that are not revoked, so name the key itself if the owner has a new one.

A key is retired at a later time (--in), since what its owner signs meanwhile must count. Publish the directory before
that time: "publish" refuses one that comes too late, and then retire the key again. A node stops some seconds
before its key is retired.

A stolen key (--stolen) is revoked from now on, or from an earlier time (--at). What was signed with it since, the
owner's work included, does not count any more.

A thief can date signatures back. If the deployment has a log of heads, also say at which size of it the key was stolen
(--log-size, --log): then what the log had before counts, and what it got later does not, whatever dates say. "observer log audit"
prints both.`,
		Example: `  turnlog keys revoke UDXU4RCSJNZOIQHZNWXHXORDPRTGNJAHAHFRGZNEEJCPQTT2M7NLCNF4 --in 1h --reason rotated
  turnlog keys revoke bob --stolen --at 2026-11-20T08:00:00Z --reason "lost laptop"`,
		Args: cobra.ExactArgs(1),
	}
	f := newFolder(cmd)
	var r keys.Revocation
	cmd.Flags().StringVar(&r.Reason, "reason", "", "`why`, for those who check signatures")
	in := cmd.Flags().Duration("in", 10*time.Minute, "`time` until the key is retired, at least a minute")
	cmd.Flags().BoolVar(&r.Stolen, "stolen", false, "the key was stolen: signatures do not count from now on, or from --at on")
	cmd.Flags().Int64Var(&r.Size, "log-size", 0, "`size` of the log of heads at which signatures stop to count: what it had before counts, whatever dates say")
	cmd.Flags().StringVar(&r.Log, "log", "", "with --log-size, the `name` of the log")
	at := timeFlag(cmd, "at", "with --stolen, the `time` from which on signatures do not count; default: now")
	cmd.RunE = func(cmd *cobra.Command, args []string) (err error) {
		switch r.At, err = at(); {
		case err != nil:
			return err
		case r.Stolen && cmd.Flags().Changed("in"), !r.Stolen && cmd.Flags().Changed("at"):
			return cli.Usage("a stolen key is revoked --at a time, and another one --in some time")
		case r.Size < 0 || (r.Size > 0) != (r.Log != "") || strings.ContainsAny(r.Log, " \t\r\n"):
			return cli.Usage("--log-size %d --log %q: give both, the size of a checkpoint of the log and its name", r.Size, r.Log)
		case !r.Stolen && *in < minIn:
			return cli.Usage("--in %v: use at least %v, so that its owner can learn of it, or say --stolen", *in, minIn)
		case !r.Stolen:
			r.At = now().Add(*in)
		case r.At > now():
			return cli.Usage("--at %s: it is later than now", r.At)
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
				return fmt.Errorf("%s: no key that is not revoked has this name: \"turnlog keys ls\" lists all", args[0])
			}
			return d.Follows(before)
		}))
	}
	return cmd
}

// changed says what is left to do after a change of the directory, unless it failed.
func changed(a *app.App, err error) error {
	if err == nil {
		a.Hint("nodes and workers go by it once it is published: \"turnlog keys publish\"")
	}
	return err
}

// minIn is the least time until a key is retired.
const minIn = time.Minute

func require(a *app.App) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "require ROLE...",
		Short: "Say from when on signatures are required",
		Long: `Says from when on everything must be signed that keys of a role sign. Nodes then refuse what is not,
and an audit reports it. Before that, signatures are checked where there are some. Give all nodes,
workers or people of the role their keys first.`,
		Example: `  turnlog keys require driver worker
  turnlog keys require approver --from 2026-12-01T00:00:00Z
  turnlog keys require client --never`,
		Args: cobra.MinimumNArgs(1),
	}
	f := newFolder(cmd)
	from := timeFlag(cmd, "from", "`time` from which on they are required; default: now")
	never := cmd.Flags().Bool("never", false, "take the requirement back")
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
		Args:    cobra.NoArgs,
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
		Long: `Stores the newest version of the directory in the deployment, whose nodes follow it within seconds. It
needs the permissions of a provisioner. A version that contradicts one that is there is refused.`,
		Example: `  turnlog keys publish --server nats://nats.example.com:4222`,
		Args:    cobra.NoArgs,
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
		return fmt.Errorf("%w: run \"turnlog keys revoke KEY --in 10m\" again and publish within that time, or say --stolen", err)
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
