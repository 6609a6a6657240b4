package quiet

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/jetstream"
)

// cell is what a node sees of the streams.
type cell struct {
	mu     sync.Mutex // guards the rest
	last   uint64
	tokens map[content.SessionID]bool
	err    error
	listed int
}

func (c *cell) ends(context.Context) (jetstream.Ends, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	ends := make(jetstream.Ends)
	end := ends["INBOX"]
	end.Last = c.last
	ends["INBOX"] = end
	return ends, c.err
}

func (c *cell) list(context.Context) (map[content.SessionID]bool, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.listed++
	return maps.Clone(c.tokens), c.err
}

// set changes what is seen.
func (c *cell) set(change func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	change()
}

// woken counts how often a driver looks and proves in a time.
func woken(w *Driver, d time.Duration) (looks, proofs int) {
	for end := time.After(d); ; {
		select {
		case <-w.Woken():
			if w.Looks() {
				looks++
			}
			if w.Proves() {
				proofs++
			}
			w.Done()
		case <-end:
			return looks, proofs
		}
	}
}

// watched runs a test with drivers whose tokens are all listed.
func watched(t *testing.T, drivers int, test func(d *Drivers, c *cell, w *Driver)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		d, c := New(), &cell{tokens: make(map[content.SessionID]bool)}
		ctx, cancel := context.WithCancel(t.Context())
		var first *Driver
		var others sync.WaitGroup
		for i := range drivers {
			s := content.SessionID(fmt.Sprint("s", i))
			c.tokens[s] = true
			w, leave := d.Wait(s)
			defer leave()
			if i == 0 {
				first = w
				continue
			}
			others.Go(func() {
				for ctx.Err() == nil {
					woken(w, time.Minute)
				}
			})
		}
		ended := make(chan error, 1)
		go func() { ended <- d.Watch(ctx, c.ends, c.list) }()
		test(d, c, first)
		cancel()
		others.Wait()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("Watch = %v", err)
		}
	})
}

func TestADriverSleepsUntilAStreamGrows(t *testing.T) {
	t.Parallel()
	watched(t, 200, func(_ *Drivers, c *cell, w *Driver) {
		if looks, proofs := woken(w, time.Minute); looks != 1 || proofs != 0 {
			t.Errorf("it looked %d times and proved %d times", looks, proofs)
		}
		c.set(func() { c.last++ })
		if looks, _ := woken(w, 10*time.Second); looks != 1 {
			t.Errorf("it looked %d times after a stream grew", looks)
		}
		w.LookAgain()
		if looks, _ := woken(w, 10*time.Second); looks != 1 {
			t.Errorf("it looked %d times after it was busy", looks)
		}
		c.set(func() { c.err = errors.New("no leader") })
		if looks, proofs := woken(w, time.Minute); looks < 8 || proofs < 3 {
			t.Errorf("it looked %d times and proved %d times in a minute without answers", looks, proofs)
		}
	})
}

func TestADriverProvesATokenThatIsNotListed(t *testing.T) {
	t.Parallel()
	watched(t, 200, func(_ *Drivers, c *cell, w *Driver) {
		c.set(func() { delete(c.tokens, "s0") })
		if _, proofs := woken(w, 18*time.Second); proofs != 1 {
			t.Errorf("%d proofs in 20 s", proofs)
		}
	})
}

// The tokens of other nodes would make the list long.
func TestFewDriversProveTheirOwnTokens(t *testing.T) {
	t.Parallel()
	watched(t, 100, func(_ *Drivers, c *cell, w *Driver) {
		if _, proofs := woken(w, time.Minute+time.Second); proofs < 3 || c.listed > 0 {
			t.Errorf("%d proofs in a minute, and %d lists", proofs, c.listed)
		}
	})
}

// Thousands of drivers must not query a slow server at once.
func TestDriversAreWokenAsFastAsTheyAreDone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d, c := New(), &cell{}
		ctx, cancel := context.WithCancel(t.Context())
		var busy, most atomic.Int64
		var all sync.WaitGroup
		for i := range 4000 {
			w, leave := d.Wait(content.SessionID(fmt.Sprint("s", i)))
			all.Go(func() {
				defer leave()
				for {
					select {
					case <-w.Woken():
						w.Looks()
						w.Proves()
						if now := busy.Add(1); now > most.Load() {
							most.Store(now)
						}
						<-time.After(300 * time.Millisecond)
						busy.Add(-1)
						w.Done()
					case <-ctx.Done():
						return
					}
				}
			})
		}
		all.Go(func() { _ = d.Watch(ctx, c.ends, c.list) })
		<-time.After(time.Minute)
		cancel()
		all.Wait()
		if got := most.Load(); got == 0 || got > 300 {
			t.Errorf("%d of 4000 drivers were busy at once", got)
		}
	})
}

// TestADriverThatLeftIsNotBusy has drivers stop before and after they are woken. Drivers that count as busy delay the
// others.
func TestADriverThatLeftIsNotBusy(t *testing.T) {
	t.Parallel()
	d := New()
	w, leave := d.Wait("s-1")
	d.wake(w)
	d.wake(w)
	leave()
	d.wake(w)
	if n := d.busy.Load(); n != 0 {
		t.Errorf("%d drivers are busy", n)
	}
}
