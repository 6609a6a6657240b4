package quiet

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/jetstream"
)

// cell is what a node sees of the streams.
type cell struct {
	last   uint64
	tokens map[content.SessionID]bool
	err    error
	listed int
}

func (c *cell) ends(context.Context) (jetstream.Ends, error) {
	ends := make(jetstream.Ends)
	end := ends["INBOX"]
	end.Last = c.last
	ends["INBOX"] = end
	return ends, c.err
}

func (c *cell) list(context.Context) (map[content.SessionID]bool, error) {
	c.listed++
	return c.tokens, c.err
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
		case <-end:
			return looks, proofs
		}
	}
}

// watched runs a test with so many drivers, whose tokens are all listed.
func watched(t *testing.T, drivers int, test func(d *Drivers, c *cell, w *Driver)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		d, c := New(), &cell{tokens: make(map[content.SessionID]bool)}
		var first *Driver
		for i := range drivers {
			s := content.SessionID(fmt.Sprint("s", i))
			c.tokens[s] = true
			w, leave := d.Wait(s)
			defer leave()
			if i == 0 {
				first = w
			}
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- d.Watch(ctx, c.ends, c.list) }()
		test(d, c, first)
		cancel()
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
		c.last++
		if looks, _ := woken(w, 10*time.Second); looks != 1 {
			t.Errorf("it looked %d times after a stream grew", looks)
		}
		w.LookAgain()
		if looks, _ := woken(w, 10*time.Second); looks != 1 {
			t.Errorf("it looked %d times after it was busy", looks)
		}
		c.err = errors.New("no leader")
		if looks, proofs := woken(w, time.Minute); looks < 8 || proofs < 3 {
			t.Errorf("it looked %d times and proved %d times in a minute without answers", looks, proofs)
		}
	})
}

func TestADriverProvesATokenThatIsNotListed(t *testing.T) {
	t.Parallel()
	watched(t, 200, func(_ *Drivers, c *cell, w *Driver) {
		delete(c.tokens, "s0")
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
