package deploy

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/google/renameio/v2/maybe"
	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nkeys"

	"github.com/turnlog/turnlog/cmd/turnlog/internal/app"
	"github.com/turnlog/turnlog/internal/textfile"
	"github.com/turnlog/turnlog/jetstream/admin"
)

// keyring is a directory of keys and the JWTs that they sign, in files that only this user can read: NAME.nk and
// NAME.jwt, or for users NAME.creds, with both.
type keyring string

// maxKey is the size limit of a file with a key.
const maxKey = 64 << 10

// file returns the file of a key.
func (k keyring) file(kind nkeys.PrefixByte, name string) string {
	ending := ".nk"
	if kind == nkeys.PrefixByteUser {
		ending = ".creds"
	}
	return filepath.Join(string(k), filepath.FromSlash(name)+ending)
}

// write writes a file below the directory.
func (k keyring) write(file string, data []byte) error {
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return err
	}
	return maybe.WriteFile(file, data, 0o600)
}

// key is an admin.KeyFunc: it returns the key in a file, or a new one. A user's key is written with its
// credentials.
func (k keyring) key(kind nkeys.PrefixByte, name string) (nkeys.KeyPair, error) {
	file := k.file(kind, name)
	raw, err := textfile.ReadFile(file, maxKey)
	if errors.Is(err, fs.ErrNotExist) {
		return k.create(kind, file)
	}
	if err != nil {
		return nil, err
	}
	pair, err := nkeys.ParseDecoratedNKey(raw)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	if public, err := pair.PublicKey(); err != nil || nkeys.Prefix(public) != kind {
		return nil, fmt.Errorf("%s: it has no key of the kind %s", file, kind)
	}
	return pair, nil
}

func (k keyring) create(kind nkeys.PrefixByte, file string) (nkeys.KeyPair, error) {
	pair, err := nkeys.CreatePair(kind)
	if err != nil || kind == nkeys.PrefixByteUser {
		return pair, err
	}
	seed, err := pair.Seed()
	if err != nil {
		return nil, err
	}
	return pair, k.write(file, append(seed, '\n'))
}

// save writes JWTs, and the credentials of users.
func (k keyring) save(c *admin.Claims, keys map[string]nkeys.KeyPair) error {
	files := map[string]string{"operator": c.Operator.JWT, "system": c.System.JWT}
	for _, a := range c.Accounts {
		files["accounts/"+a.Name] = a.JWT
		for _, u := range a.Users {
			seed, err := keys["users/"+u.Name].Seed()
			if err != nil {
				return err
			}
			creds, err := jwt.FormatUserConfig(u.JWT, seed)
			if err != nil {
				return err
			}
			if err := k.write(k.file(nkeys.PrefixByteUser, "users/"+u.Name), creds); err != nil {
				return err
			}
		}
	}
	for name, token := range files {
		if err := k.write(filepath.Join(string(k), filepath.FromSlash(name)+".jwt"), []byte(token+"\n")); err != nil {
			return err
		}
	}
	return nil
}

// printClaims signs accounts, writes them to the directory of their keys, and prints the configuration of a
// server that has them in memory.
func printClaims(output app.Output, accounts []admin.Account, k keyring) error {
	keys := make(map[string]nkeys.KeyPair)
	claims, err := admin.Sign(accounts, func(kind nkeys.PrefixByte, name string) (pair nkeys.KeyPair, err error) {
		if keys[name] == nil {
			keys[name], err = k.key(kind, name)
		}
		return keys[name], err
	})
	if err == nil {
		err = k.save(claims, keys)
	}
	if err != nil {
		return fmt.Errorf("--jwt %s: %w", string(k), err)
	}
	report := accountsReport(accounts)
	for i, a := range claims.Accounts {
		report[i].Account, report[i].Key = a.Name, a.Key
		for j, u := range a.Users {
			report[i].Users[j].Password, report[i].Users[j].Creds = "", k.file(nkeys.PrefixByteUser, "users/"+u.Name)
		}
	}
	return output.Print(report, func(w io.Writer) error {
		for _, a := range report {
			for _, u := range a.Users {
				_, _ = fmt.Fprintf(w, "# %s connects with --creds %s --inbox-prefix %s\n", u.Name, u.Creds, u.InboxPrefix)
			}
		}
		_, err := io.WriteString(w, claims.Conf())
		return err
	})
}
