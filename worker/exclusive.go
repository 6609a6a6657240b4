package worker

import (
	"context"
	"sync"

	"github.com/turnlog/turnlog/tool"
)

// exclusive lets one call at a time into each tool that cannot bear two. The core
// keeps such calls apart within a round; a worker serves many sessions.
type exclusive struct {
	mu    sync.Mutex
	doors map[string]chan struct{} // by the tool's name, each with room for one
}

// enter waits until no other call is in the tool, or ctx ends; it reports which.
// leave must be called in either case.
func (x *exclusive) enter(ctx context.Context, s tool.Spec) (leave func(), entered bool) {
	if !s.Exclusive {
		return func() {}, true
	}
	door := x.door(s.Name)
	select {
	case door <- struct{}{}:
		return func() { <-door }, true
	case <-ctx.Done():
		return func() {}, false
	}
}

func (x *exclusive) door(name string) chan struct{} {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.doors == nil {
		x.doors = make(map[string]chan struct{})
	}
	if x.doors[name] == nil {
		x.doors[name] = make(chan struct{}, 1)
	}
	return x.doors[name]
}
