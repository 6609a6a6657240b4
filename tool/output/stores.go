package output

import (
	"context"
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

func digest(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// isDigest reports whether a name can be one: what a model makes up is no path.
func isDigest(id string) bool {
	raw, err := hex.DecodeString(id)
	return err == nil && len(raw) == sha256.Size && hex.EncodeToString(raw) == id
}

// Memory is a store in the memory of this process, where the oldest makes room.
type Memory struct {
	room int

	mu    sync.Mutex
	size  int
	order []string
	data  map[string][]byte
}

const defaultRoom = 64 << 20

// NewMemory returns a store for room bytes; zero: 64 MiB.
func NewMemory(room int) *Memory {
	if room <= 0 {
		room = defaultRoom
	}
	return &Memory{room: room, data: make(map[string][]byte)}
}

// Put keeps data. It returns an error if there is never room for it.
func (m *Memory) Put(_ context.Context, data []byte) (string, error) {
	if len(data) > m.room {
		return "", fmt.Errorf("there is room for %d bytes", m.room)
	}
	id := digest(data)
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, ok := m.data[id]; ok {
		return id, nil
	}
	for m.size+len(data) > m.room {
		m.size -= len(m.data[m.order[0]])
		delete(m.data, m.order[0])
		m.order = slices.Delete(m.order, 0, 1)
	}
	m.data[id], m.order, m.size = slices.Clone(data), append(m.order, id), m.size+len(data)
	return id, nil
}

// Get returns what is kept.
func (m *Memory) Get(_ context.Context, id string) ([]byte, bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	data, ok := m.data[id]
	return slices.Clone(data), ok, nil
}

// CopyTo writes what is kept to w.
func (m *Memory) CopyTo(ctx context.Context, id string, w io.Writer) (bool, error) {
	return copyTo(ctx, m, id, w)
}

// copyTo writes what a store keeps under a name to w.
func copyTo(ctx context.Context, s Store, id string, w io.Writer) (bool, error) {
	data, ok, err := s.Get(ctx, id)
	if err != nil || !ok {
		return false, err
	}
	if _, err := w.Write(data); err != nil {
		return false, fmt.Errorf("copy %s: %w", id, err)
	}
	return true, nil
}

// Dir is a store in a folder, in a file for each output. It removes nothing: whoever
// owns the folder does.
type Dir struct {
	root *os.Root
}

// OpenDir returns the store in a folder, which it makes if it is not there.
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

// Put keeps data: under another name first, so that nobody reads a part of it.
func (d *Dir) Put(_ context.Context, data []byte) (string, error) {
	id := digest(data)
	if _, err := d.root.Stat(id); err == nil {
		return id, nil
	}
	temp := id + ".tmp"
	if err := d.root.WriteFile(temp, data, 0o600); err != nil {
		return "", fmt.Errorf("keep output %s: %w", id, err)
	}
	if err := d.root.Rename(temp, id); err != nil {
		return "", fmt.Errorf("keep output %s: %w", id, err)
	}
	return id, nil
}

// Get returns what is kept. It returns an error for what is not what was kept.
func (d *Dir) Get(_ context.Context, id string) ([]byte, bool, error) {
	if !isDigest(id) {
		return nil, false, nil
	}
	data, err := d.root.ReadFile(id)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, false, nil
	case err != nil:
		return nil, false, fmt.Errorf("read output: %w", err)
	case digest(data) != id:
		return nil, false, fmt.Errorf("read output %s: %s holds other bytes", id, filepath.Join(d.root.Name(), id))
	}
	return data, true, nil
}

// CopyTo writes what is kept to w. It returns an error for what is not what was kept.
func (d *Dir) CopyTo(ctx context.Context, id string, w io.Writer) (bool, error) {
	return copyTo(ctx, d, id, w)
}
