package attached

import (
	"context"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/turnlog/turnlog/internal/textfile"
)

// digest hashes and counts bytes.
type digest struct {
	hash.Hash

	n int
}

func (d *digest) Write(b []byte) (int, error) {
	d.n += len(b)
	return d.Hash.Write(b) //nolint:wrapcheck // it returns no error
}

// Folder is a Store in a folder. The name of each file is its ID.
type Folder string

// CopyTo writes a file to w.
func (d Folder) CopyTo(_ context.Context, id string, w io.Writer) (ok bool, err error) {
	f, err := textfile.Open(filepath.Join(string(d), id))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer func() { _ = f.Close() }() // only read
	if _, err := io.Copy(w, f); err != nil {
		return false, fmt.Errorf("read %s: %w", f.Name(), err)
	}
	return true, nil
}

// Save creates the folder and copies files from a store into it. It returns the files that the store does not have; the
// others are in the folder.
func (d Folder) Save(ctx context.Context, files []File, from Store) (missing []File, err error) {
	if err := os.MkdirAll(string(d), 0o700); err != nil {
		return nil, fmt.Errorf("save files: %w", err)
	}
	for _, f := range files {
		ok, err := d.save(ctx, f.ID, from)
		if err != nil {
			return missing, fmt.Errorf("save file %s: %w", f.ID, err)
		}
		if !ok {
			missing = append(missing, f)
		}
	}
	return missing, nil
}

func (d Folder) save(ctx context.Context, id string, from Store) (ok bool, err error) {
	out, err := os.CreateTemp(string(d), "new-*")
	if err != nil {
		return false, fmt.Errorf("write: %w", err)
	}
	defer func() { _ = os.Remove(out.Name()) }() // fails once the file was renamed
	ok, err = from.CopyTo(ctx, id, out)
	if err = errors.Join(err, out.Close()); err != nil || !ok {
		return false, err
	}
	if err := os.Rename(out.Name(), filepath.Join(string(d), id)); err != nil {
		return false, fmt.Errorf("write: %w", err)
	}
	return true, nil
}
