package session

import "sync"

// mailbox holds what the consumer of a turn's updates has not taken yet, so that a slow
// one never holds up the session.
type mailbox struct {
	news chan struct{}

	mu    sync.Mutex
	items []Update
}

func newMailbox() *mailbox { return &mailbox{news: make(chan struct{}, 1)} }

func (b *mailbox) put(u Update) {
	b.mu.Lock()
	b.items = append(b.items, u)
	b.mu.Unlock()
	select {
	case b.news <- struct{}{}:
	default:
	}
}

// drain yields what has come, and reports whether the consumer wants more.
func (b *mailbox) drain(yield func(Update, error) bool) bool {
	b.mu.Lock()
	items := b.items
	b.items = nil
	b.mu.Unlock()
	for _, it := range items {
		if !yield(it, nil) {
			return false
		}
	}
	return true
}
