package sim

import (
	"context"
	"flag"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
)

// defaultRuns is how many seeds are tried unless the flags say otherwise.
const defaultRuns = 100

var (
	oneSeed = flag.Uint64("sim.seed", 0, "the seed to run; 0: those from 1 on")
	runs    = flag.Uint64("sim.runs", defaultRuns, "how many seeds to run, or how often the one")
)

func TestSessionsSurviveWhateverHappens(t *testing.T) {
	var mu sync.Mutex
	seen := tally{}
	t.Run("seeds", func(t *testing.T) {
		const lanes = 2
		for lane := range uint64(lanes) {
			t.Run(strconv.FormatUint(lane, 10), func(t *testing.T) {
				t.Parallel()
				for n := lane; n < *runs && !t.Failed(); n += lanes {
					seed := n + 1
					if *oneSeed != 0 {
						seed = *oneSeed
					}
					got := simulate(t, seed)
					mu.Lock()
					for k, v := range got {
						seen[k] += v
					}
					mu.Unlock()
				}
			})
		}
	})
	t.Logf("what was taken how often:\n%s", seen.table())
	if t.Failed() || *oneSeed != 0 || *runs < defaultRuns {
		return
	}
	for _, path := range paths(t) {
		if seen[path] == 0 {
			t.Errorf("no seed took this path: %s", path)
		}
	}
}

// paths are those that the default seeds must take.
func paths(t *testing.T) []string {
	raw, err := os.ReadFile("testdata/paths.txt")
	if err != nil {
		t.Fatal(err)
	}
	return strings.Split(strings.TrimSpace(string(raw)), "\n")
}

// simulate runs one world to its end.
func simulate(t *testing.T, seed uint64) tally {
	var seen tally
	synctest.Test(t, func(t *testing.T) {
		ctx := context.WithoutCancel(t.Context())
		before, _ := goroutines()
		w := newWorld(t, seed)
		seen = w.seen
		var hosts []*host
		for n := range 1 + w.dice("hosts").IntN(3) {
			hosts = append(hosts, newHost(w, n+1))
		}
		each(hosts, func(h *host) { h.run(ctx, 30) })
		close(w.calm)
		w.journal.Land(ctx)
		each(hosts, func(h *host) { h.rest(ctx) })
		each(hosts, func(h *host) { h.close(ctx) })
		w.noneLeft(ctx, before)
		each(hosts, func(h *host) { h.check(ctx) })
		if t.Failed() {
			w.dump(ctx, hosts)
		}
	})
	return seen
}

// each has the hosts do something at the same time.
func each(hosts []*host, do func(*host)) {
	var wg sync.WaitGroup
	for _, h := range hosts {
		wg.Go(func() { do(h) })
	}
	wg.Wait()
}

// dump shows what led to a failure.
func (w *world) dump(ctx context.Context, hosts []*host) {
	w.t.Logf("seed %d: what the hosts did:\n%s", w.seed, strings.Join(w.lines, "\n"))
	for _, h := range hosts {
		var b strings.Builder
		for rec, err := range w.store.Read(ctx, h.id, 0) {
			if err != nil {
				fmt.Fprintln(&b, err)
				break
			}
			fmt.Fprintf(&b, "%4d %14s %s %v\n", rec.Seq, rec.Entry.At.Std().Sub(w.begun), rec.Entry.Cause, rec.Entry.Kinds())
		}
		w.t.Logf("seed %d: the journal of %s:\n%s", w.seed, h.id, b.String())
	}
}
