package sim

import (
	"context"
	"flag"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/turnlog/turnlog/events/journal"
)

// defaultRuns is how many seeds are tried unless the flags say otherwise.
const defaultRuns = 100

var (
	oneSeed = flag.Uint64("sim.seed", 0, "the seed to run; 0: those from -sim.from on")
	from    = flag.Uint64("sim.from", 1, "the first seed")
	runs    = flag.Uint64("sim.runs", defaultRuns, "how many seeds to run, or how often the one")
)

func TestSessionsSurviveRandomFaults(t *testing.T) {
	var mu sync.Mutex
	seen := tally{}
	t.Run("seeds", func(t *testing.T) {
		const lanes = 2
		for lane := range uint64(lanes) {
			t.Run(strconv.FormatUint(lane, 10), func(t *testing.T) {
				t.Parallel()
				for n := lane; n < *runs && !t.Failed(); n += lanes {
					seed := *from + n
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
	if t.Failed() || *oneSeed != 0 || *from != 1 || *runs < defaultRuns {
		return
	}
	for _, path := range paths(t) {
		if seen[path] == 0 {
			t.Errorf("no seed took this path: %s", path)
		}
	}
}

// paths lists the paths that the default seeds must take.
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
		w := newWorld(t, seed, func(j journal.Journal) journal.Journal { return j })
		seen = w.seen
		hosts := w.live(context.WithoutCancel(t.Context()))
		if t.Failed() {
			w.dump(t.Context(), hosts)
		}
	})
	return seen
}

// live runs the hosts of a world to the end.
func (w *world) live(ctx context.Context) []*host {
	before, _ := goroutines()
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
	return hosts
}

// each runs do for all hosts at once.
func each(hosts []*host, do func(*host)) {
	var wg sync.WaitGroup
	for _, h := range hosts {
		wg.Go(func() { do(h) })
	}
	wg.Wait()
}

// dump prints what led to a failure. Scripts are printed without indentation, to be pasted.
func (w *world) dump(ctx context.Context, hosts []*host) {
	w.t.Logf("seed %d: what the hosts did:\n%s", w.seed, strings.Join(w.lines, "\n"))
	w.t.Logf("repeat it with: go test ./tests/sim -count 1 -run '^%s$' -sim.seed %d", w.t.Name(), w.seed)
	for _, h := range hosts {
		_, _ = os.Stdout.WriteString(h.script(ctx) + "\n") // best effort
	}
}
