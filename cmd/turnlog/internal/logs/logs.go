// Package logs has the turnlog commands for the log of heads: a notary, which writes the log, and a witness.
//
// Both run for a long time and need little. A notary needs a connection and a key. A witness needs a directory
// and a key. Neither needs the other's key, so different organizations can run them.
package logs

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"unicode"

	"github.com/spf13/cobra"

	"github.com/turnlog/turnlog/audit/keys"
	"github.com/turnlog/turnlog/cmd/turnlog/internal/app"
	"github.com/turnlog/turnlog/internal/cli"
)

// identity is the key of a log or of a witness, and its name.
type identity struct {
	file string
	name string
}

func newIdentity(cmd *cobra.Command) *identity {
	i := &identity{}
	cmd.Flags().StringVar(&i.file, "sign-key", "", "`file` with the private key that signs")
	i.named(cmd)
	return i
}

func (i *identity) named(cmd *cobra.Command) {
	cmd.Flags().StringVar(&i.name, "name", "", "`name` in signatures, such as example.com/log, which must never change; default: the public key")
}

// read returns the key, its verifier key and its name.
func (i *identity) read() (s *keys.Signer, key, name string, err error) {
	if i.file == "" {
		return nil, "", "", cli.Usage("give --sign-key FILE: the subcommand \"key FILE\" creates one")
	}
	if s, err = keys.Read(i.file); err != nil {
		return nil, "", "", cli.Usage("--sign-key: %w", err)
	}
	name = cmp.Or(i.name, s.Public())
	for _, r := range name {
		if unicode.IsSpace(r) || r == '+' || unicode.IsControl(r) {
			return nil, "", "", cli.Usage("--name %q: use no spaces and no +", i.name)
		}
	}
	key, err = s.VerifierKey(name)
	return s, key, name, err
}

// keyCommand returns the command that prints a verifier key, and makes the private one if there is none.
func keyCommand(a *app.App, of, line string, print func(key string) (string, error)) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "key FILE",
		Short: "Print the verifier key, after creating the private key if necessary",
		Long: `Prints the verifier key of ` + of + ` for policies: its name, a hash and the public key. If FILE does not
exist, it first writes a new private key to it, which only you can read.`,
		Example: "  turnlog " + line + " key " + line + ".nk --name example.com/" + line,
	}
	i := &identity{}
	i.named(cmd)
	cmd.RunE = func(_ *cobra.Command, args []string) error {
		i.file = args[0]
		fresh, err := keys.New()
		if err == nil {
			err = fresh.Write(i.file)
		}
		if err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
		_, key, _, err := i.read()
		if err != nil {
			return err
		}
		if key, err = print(key); err != nil {
			return err
		}
		_, err = fmt.Fprintln(a.Out, key)
		return err
	}
	return cmd
}
