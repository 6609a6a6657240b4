package output

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"slices"
	"sync"
)

// Memory is a store in memory that evicts its oldest entries.
type Memory struct {
	room int

	mu    sync.Mutex
	size  int
	order []string
	data  map[string][]byte // never modified
}

// NewMemory returns a store for room bytes. Zero: 64 MiB.
func NewMemory(room int) *Memory {
	return &Memory{room: cmp.Or(max(room, 0), 64<<20), data: make(map[string][]byte)}
}

// PutFrom stores src from its start. It returns an error if src is larger than the
// store.
func (m *Memory) PutFrom(_ context.Context, src io.ReadSeeker) (id string, size int64, err error) {
	var data []byte
	if _, err = src.Seek(0, io.SeekStart); err == nil {
		data, err = io.ReadAll(io.LimitReader(src, int64(m.room)+1))
	}
	if err == nil && len(data) > m.room {
		err = fmt.Errorf("only %d bytes are free", m.room)
	}
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
