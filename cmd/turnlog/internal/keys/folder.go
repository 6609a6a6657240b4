package keys

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/google/renameio/v2/maybe"
	"github.com/spf13/cobra"

	"github.com/turnlog/turnlog/audit/keys"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/internal/cli"
	"github.com/turnlog/turnlog/internal/textfile"
)

// folder is where a directory of keys is kept.
type folder struct {
	dir  string
	root string // the file with the root's key; "": root.nk in dir
}

func newFolder(cmd *cobra.Command) *folder {
	f := &folder{}
	cmd.Flags().StringVar(&f.dir, "dir", "turnlog-keys", "`folder` of the directory and its keys")
	if cmd.Name() != "ls" && cmd.Name() != "publish" {
		cmd.Flags().StringVar(&f.root, "root-key", "", "`file` with the root's private key; default: root.nk in the folder")
	}
	return f
}

func (f *folder) file(name string) string { return filepath.Join(f.dir, name) }

func (f *folder) rootFile() string { return cmp.Or(f.root, f.file("root.nk")) }

// keyFile returns the file for the private key of a name: the named file, or else the default.
func (f *folder) keyFile(name, named string) string { return cmp.Or(named, f.file(name+".nk")) }

// create makes a root and the first version of a directory, and returns the root's public key.
func (f *folder) create(cell string, at content.Time) (string, error) {
	if err := os.MkdirAll(f.dir, 0o700); err != nil {
		return "", err
	}
	root, err := keys.NewRoot()
	if err != nil {
		return "", err
	}
	if err := root.Write(f.rootFile()); err != nil {
		if errors.Is(err, fs.ErrExist) {
			return "", cli.Usage("%s exists, and a root cannot be replaced: add keys with \"turnlog keys add\"", f.rootFile())
		}
		return "", err
	}
	if err := maybe.WriteFile(f.file("root.pub"), []byte(root.Public()+"\n"), 0o644); err != nil {
		return "", err
	}
	return root.Public(), f.write(&keys.Directory{Cell: cell, Version: 1, At: at}, root)
}

// public returns the root's public key.
func (f *folder) public() (string, error) {
	raw, err := textfile.ReadFile(f.file("root.pub"), 1<<10)
	return strings.TrimSpace(string(raw)), err
}

// read returns the newest version of the directory, and its text.
func (f *folder) read() (d *keys.Directory, signed []byte, err error) {
	public, err := f.public()
	if err == nil {
		signed, err = textfile.ReadFile(f.file("directory"), keys.MaxDirectory)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil, cli.Usage("--dir %s: there is no directory of keys: create one with \"turnlog keys init\"", f.dir)
	}
	if err != nil {
		return nil, nil, err
	}
	d, err = keys.Open(signed, public)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", f.file("directory"), err)
	}
	return d, signed, nil
}

// change signs the next version of the directory, with a change.
func (f *folder) change(do func(*keys.Directory) error) error {
	next, _, err := f.read()
	if err != nil {
		return err
	}
	root, err := keys.ReadRoot(f.rootFile())
	if err != nil {
		return fmt.Errorf("changing the directory needs the root's key: %w (--root-key names its file)", err)
	}
	if public, err := f.public(); err != nil || root.Public() != public {
		return errors.Join(err, cli.Usage("%s is not the key of the root %s in %s", f.rootFile(), public, f.dir))
	}
	next.Version, next.At = next.Version+1, now()
	if err := do(next); err != nil {
		return err
	}
	return f.write(next, root)
}

func (f *folder) write(d *keys.Directory, root *keys.Signer) error {
	signed, err := d.Sign(root)
	if err != nil {
		return err
	}
	return maybe.WriteFile(f.file("directory"), signed, 0o644)
}

// makeKey writes a new private key to a file and returns the public one.
func makeKey(file string) (string, error) {
	k, err := keys.New()
	if err != nil {
		return "", err
	}
	if err := k.Write(file); err != nil {
		if errors.Is(err, fs.ErrExist) {
			return "", cli.Usage("%s exists: name another file with --out", file)
		}
		return "", err
	}
	return k.Public(), nil
}
