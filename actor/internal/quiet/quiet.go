// Package quiet checks for drivers that wait whether anything changed, so that thousands of them can sleep.
//
// Two things may change without a message to a driver. Commands may arrive without live copies, which can be
// lost when a stream's leader changes. And a stream may lose the driver's token. The node checks both for all
// drivers at once, and wakes only the drivers that have to check for themselves.
package quiet

import (
	"context"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/internal/pause"
	"github.com/turnlog/turnlog/jetstream"
)

const (
	lookEvery  = 4 * time.Second
	proveEvery = 12 * time.Second // a lease
	steps      = 40               // in which drivers are woken, since each may query the server
	step       = 50 * time.Millisecond
	maxWait    = time.Second // how long a step waits for the drivers of earlier steps

	// manyHeld is how many sessions a node must hold before it lists all tokens, most of which other nodes may
	// hold.
	manyHeld = 128
)

// Drivers are the drivers of a node. It is safe for concurrent use.
type Drivers struct {
	busy atomic.Int64 // drivers that were woken and are not done

	mu  sync.Mutex
	all map[*Driver]bool
}

// Driver is a driver that waits.
type Driver struct {
	of         *Drivers
	session    content.SessionID
	woken      chan struct{}
	look, seek atomic.Bool
}

// New returns no drivers.
func New() *Drivers { return &Drivers{all: make(map[*Driver]bool)} }

// Wait adds the driver of a session, until leave is called. It wakes the driver to look once, since a command
// may have arrived after the driver read them.
func (d *Drivers) Wait(s content.SessionID) (w *Driver, leave func()) {
	w = &Driver{of: d, session: s, woken: make(chan struct{}, 1)}
	w.LookAgain()
	d.mu.Lock()
	defer d.mu.Unlock()
	d.all[w] = true
	return w, func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		delete(d.all, w)
		select {
		case <-w.woken:
			w.Done()
		default:
		}
	}
}

// Woken receives when the driver has something to do: see Looks and Proves. Then call Done.
func (w *Driver) Woken() <-chan struct{} { return w.woken }

// Looks reports whether commands may have arrived since it was last called.
func (w *Driver) Looks() bool { return w.look.Swap(false) }

// Proves reports, once for each wake, whether the driver must prove that it has its token.
func (w *Driver) Proves() bool { return w.seek.Swap(false) }

// LookAgain makes the next check wake the driver, too, because it was busy.
func (w *Driver) LookAgain() { w.look.Store(true) }

// Done ends the work that the driver was woken for, so that others can be woken.
func (w *Driver) Done() { w.of.busy.Add(-1) }

// wake wakes a driver unless it has left: a driver that left would count as busy forever.
func (d *Drivers) wake(w *Driver) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.all[w] {
		return
	}
	select {
	case w.woken <- struct{}{}:
		d.busy.Add(1)
	default: // already woken
	}
}

func (d *Drivers) list() []*Driver {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Collect(maps.Keys(d.all))
}

// Watch wakes the drivers until ctx ends. ends returns the ends of the streams of commands, and tokens
// returns all tokens.
func (d *Drivers) Watch(ctx context.Context, ends func(context.Context) (jetstream.Ends, error), tokens func(context.Context) (map[content.SessionID]bool, error)) error {
	var last jetstream.Ends
	proved := time.Now()
	for pause.For(ctx, lookEvery) {
		all := d.list()
		if len(all) == 0 {
			continue
		}
		now, err := ends(ctx)
		grown := err != nil || !maps.Equal(now, last)
		last = now
		if time.Since(proved) >= proveEvery {
			proved = time.Now()
			findUnlisted(ctx, all, tokens)
		}
		for some := range slices.Chunk(all, len(all)/steps+1) {
			woken := false
			for _, w := range some {
				if grown {
					w.look.Store(true)
				}
				if w.look.Load() || w.seek.Load() {
					d.wake(w)
					woken = true
				}
			}
			for waited := time.Duration(0); woken && waited < maxWait; waited += step {
				pause.For(ctx, step)
				woken = d.busy.Load() > int64(len(some))
			}
		}
	}
	return context.Cause(ctx)
}

// findUnlisted finds the drivers whose tokens are not in the list of tokens. Without a list, those are all drivers.
func findUnlisted(ctx context.Context, all []*Driver, tokens func(context.Context) (map[content.SessionID]bool, error)) {
	var listed map[content.SessionID]bool
	if len(all) >= manyHeld {
		if answer, err := tokens(ctx); err == nil {
			listed = answer
		}
	}
	for _, w := range all {
		if !listed[w.session] {
			w.seek.Store(true)
		}
	}
}
