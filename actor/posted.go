package actor

import (
	"sync"

	"github.com/turnlog/turnlog/loop"
)

// posted holds the calls that are on their queues, and those that were told to
// stop. Whoever posts one adds it, so its driver need not wake for it. It is safe
// for concurrent use.
type posted struct {
	mu  sync.Mutex
	ids map[string]bool
}

func (p *posted) has(id string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.ids[id]
}

func (p *posted) set(id string, is bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !is {
		delete(p.ids, id)
		return
	}
	if p.ids == nil {
		p.ids = make(map[string]bool)
	}
	p.ids[id] = true
}

// forget keeps only what is still pending, now and then.
func (p *posted) forget(pending []loop.Effect) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.ids) <= len(pending)+2*maxOpenTasks {
		return
	}
	still := make(map[string]bool)
	for _, e := range pending {
		if id := e.Identity(); p.ids[id] {
			still[id] = true
		}
	}
	p.ids = still
}
