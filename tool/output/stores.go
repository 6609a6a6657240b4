package output

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
)

// isDigest reports whether an ID can be a digest. A model could pass a path.
func isDigest(id string) bool {
	raw, err := hex.DecodeString(id)
	return err == nil && len(raw) == sha256.Size && hex.EncodeToString(raw) == id
}

// Memory is a store in memory that evicts its oldest entries.
type Memory struct {
	room int

	mu    sync.Mutex
	size  int
	order []string
	data  map[string][]byte // never modified
}

const defaultRoom = 64 << 20

// NewMemory returns a store for room bytes. Zero: 64 MiB.
func NewMemory(room int) *Memory {
	if room <= 0 {
		room = defaultRoom
	}
	return &Memory{room: room, data: make(map[string][]byte)}
}

// PutFrom stores src from its start. It returns an error if src is larger than the
// store.
func (m *Memory) PutFrom(_ context.Context, src io.ReadSeeker) (id string, size int64, err error) {
	data, err := m.read(src)
	if err != nil {
		return "", 0, fmt.Errorf("store output: %w", err)
	}
	sum := sha256.Sum256(data)
	id = hex.EncodeToString(sum[:])
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, ok := m.data[id]; ok {
		return id, int64(len(data)), nil
	}
	for m.size+len(data) > m.room {
		m.size -= len(m.data[m.order[0]])
		delete(m.data, m.order[0])
		m.order = slices.Delete(m.order, 0, 1)
	}
	m.data[id], m.order, m.size = data, append(m.order, id), m.size+len(data)
	return id, int64(len(data)), nil
}

// read reads src twice, first to learn its size, so that it allocates only once.
func (m *Memory) read(src io.ReadSeeker) ([]byte, error) {
	_, err := src.Seek(0, io.SeekStart)
	if err != nil {
		return nil, err //nolint:wrapcheck // PutFrom wraps it
	}
	size, err := io.Copy(io.Discard, io.LimitReader(src, int64(m.room)+1))
	if err == nil && size > int64(m.room) {
		err = fmt.Errorf("there is room for %d bytes", m.room)
	}
	if err == nil {
		_, err = src.Seek(0, io.SeekStart)
	}
	if err != nil {
		return nil, err //nolint:wrapcheck // PutFrom wraps it
	}
	data := make([]byte, size)
	_, err = io.ReadFull(src, data)
	return data, err //nolint:wrapcheck // PutFrom wraps it
}

// CopyTo writes a stored output to w.
func (m *Memory) CopyTo(_ context.Context, id string, w io.Writer) (bool, error) {
	m.mu.Lock()
	data, ok := m.data[id]
	m.mu.Unlock()
	if !ok {
		return false, nil
	}
	if _, err := w.Write(data); err != nil {
		return false, fmt.Errorf("copy %s: %w", id, err)
	}
	return true, nil
}

// Dir is a store in a folder, with one file per output. It deletes nothing: that is up to
// the owner of the folder.
type Dir struct {
	root *os.Root
}

// OpenDir returns the store in a folder and creates the folder if necessary.
func OpenDir(name string) (*Dir, error) {
	if err := os.MkdirAll(name, 0o700); err != nil {
		return nil, fmt.Errorf("store of outputs: %w", err)
	}
	root, err := os.OpenRoot(name)
	if err != nil {
		return nil, fmt.Errorf("store of outputs: %w", err)
	}
	return &Dir{root}, nil
}

// PutFrom stores src from its start. It renames a temporary file, so that a reader never
// sees part of an output.
func (d *Dir) PutFrom(_ context.Context, src io.ReadSeeker) (id string, size int64, err error) {
	if _, err := src.Seek(0, io.SeekStart); err != nil {
		return "", 0, fmt.Errorf("store output: %w", err)
	}
	temp := rand.Text() + ".tmp"
	if id, size, err = d.write(temp, src); err == nil {
		err = d.root.Rename(temp, id)
	}
	if err != nil {
		_ = d.root.Remove(temp) // it may not exist
		return "", 0, fmt.Errorf("store output: %w", err)
	}
	return id, size, nil
}

func (d *Dir) write(name string, src io.Reader) (id string, size int64, err error) {
	f, err := d.root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return "", 0, err //nolint:wrapcheck // PutFrom wraps it
	}
	sum := sha256.New()
	size, err = io.Copy(io.MultiWriter(f, sum), src)
	if closeErr := f.Close(); err == nil {
		err = closeErr
	}
	return hex.EncodeToString(sum.Sum(nil)), size, err
}

// CopyTo writes a stored output to w piece by piece. It returns an error if the file does
// not match its digest.
func (d *Dir) CopyTo(_ context.Context, id string, w io.Writer) (bool, error) {
	if !isDigest(id) {
		return false, nil
	}
	f, err := d.root.Open(id)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("read output: %w", err)
	}
	defer func() { _ = f.Close() }() // nothing was written
	sum := sha256.New()
	if _, err := io.Copy(io.MultiWriter(sum, w), f); err != nil {
		return false, fmt.Errorf("read output %s: %w", id, err)
	}
	if hex.EncodeToString(sum.Sum(nil)) != id {
		return false, fmt.Errorf("read output %s: %s does not match its digest", id, filepath.Join(d.root.Name(), id))
	}
	return true, nil
}
