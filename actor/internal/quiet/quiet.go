// Package quiet looks for drivers that wait, so that thousands of them can sleep.
//
// Two things may change without a message to a driver. Commands arrive without live copies, which may be lost when a
// stream's leader changes; and a stream loses the driver's token. The node looks for both at once, and wakes only the
// drivers that have to look themselves.
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
	steps      = 40               // in which drivers are woken, since each may ask the server
	step       = 50 * time.Millisecond
	maxWait    = time.Second // of a step for drivers of earlier ones

	// manyHeld is how many sessions of a node are worth a list of all tokens, of which most may be with other nodes.
	manyHeld = 128
)

// Drivers are those of a node. It is safe for concurrent use.
type Drivers struct {
	busy atomic.Int64 // were woken and are not done

	mu  sync.Mutex
	all map[*Driver]bool
}

// Driver is one that waits.
type Driver struct {
	of         *Drivers
	session    content.SessionID
	woken      chan struct{}
	look, seek atomic.Bool
}

// New returns no drivers.
func New() *Drivers { return &Drivers{all: make(map[*Driver]bool)} }

// Wait adds the driver of a session, until leave. It looks once, since a command may have arrived after it read them.
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

// Woken receives when the driver is to do something: see Looks and Proves. Then call Done.
func (w *Driver) Woken() <-chan struct{} { return w.woken }

// Looks reports, once, whether commands may have arrived.
func (w *Driver) Looks() bool { return w.look.Swap(false) }

// Proves reports, once, whether the driver is to prove that it has its token.
func (w *Driver) Proves() bool { return w.seek.Swap(false) }

// LookAgain wakes the driver at the next look, too: it was busy.
func (w *Driver) LookAgain() { w.look.Store(true) }

// Done lets others be woken.
func (w *Driver) Done() { w.of.busy.Add(-1) }

// wake wakes a driver unless it has left: then nothing would take it from those that are busy.
func (d *Drivers) wake(w *Driver) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.all[w] {
		return
	}
	select {
	case w.woken <- struct{}{}:
		d.busy.Add(1)
	default: // it wakes
	}
}

func (d *Drivers) list() []*Driver {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Collect(maps.Keys(d.all))
}

// Watch wakes the drivers until ctx ends. It gets the ends of the streams of commands and all tokens from the functions.
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
			doubt(ctx, all, tokens)
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

// doubt finds the drivers whose tokens no list shows. Without a list that is all of them.
func doubt(ctx context.Context, all []*Driver, tokens func(context.Context) (map[content.SessionID]bool, error)) {
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
