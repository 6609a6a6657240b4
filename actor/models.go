package actor

import (
	"crypto/sha256"
	"sync"

	"github.com/turnlog/turnlog/model"
)

// maxModels bounds how many opened models a node remembers.
const maxModels = 256

// models opens each model once for all sessions that name it with the same data.
type models struct {
	opener func(name string, data []byte) (model.Model, error)

	mu    sync.Mutex // guards known
	known map[string]model.Model
}

func (m *models) open(name string, data []byte) (model.Model, error) {
	sum := sha256.Sum256(data)
	key := name + "\x00" + string(sum[:])
	m.mu.Lock()
	defer m.mu.Unlock()
	if found, ok := m.known[key]; ok {
		return found, nil
	}
	opened, err := m.opener(name, data)
	if err != nil {
		return nil, err
	}
	if len(m.known) >= maxModels {
		clear(m.known)
	}
	m.known[key] = opened
	return opened, nil
}
