package sim

import (
	"context"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/turnlog/turnlog/commands"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/events/journal"
	"github.com/turnlog/turnlog/internal/pause"
	"github.com/turnlog/turnlog/internal/testing/journaltest"
	"github.com/turnlog/turnlog/internal/testing/looptest"
	"github.com/turnlog/turnlog/tool"
)

// world is shared by the sessions of a run.
type world struct {
	t       testing.TB
	seed    uint64
	begun   time.Time
	store   journal.Journal
	journal *journaltest.Faulty
	tools   []tool.Tool
	calm    chan struct{} // closed when nothing may fail any more

	mu       sync.Mutex
	lines    []string
	seen     tally
	done     map[string]int               // what really ran, by identity
	appends  map[content.SessionID]uint64 // how often it was tried
	deployed bool                         // sessions live in a cell
	sent     map[string][]commands.Envelope
}

// tally counts how often each path was taken.
type tally map[string]int

// newWorld returns a world that starts at the epoch of scripts.
func newWorld(t testing.TB, seed uint64, stored func(journal.Journal) journal.Journal) *world {
	<-time.After(time.Until(looptest.Epoch.Std()))
	w := &world{
		t: t, seed: seed, begun: time.Now(), store: journal.NewMemory(), calm: make(chan struct{}),
		seen: tally{}, done: map[string]int{}, appends: map[content.SessionID]uint64{}, sent: map[string][]commands.Envelope{},
	}
	w.journal = journaltest.NewFaulty(stored(w.store), w.fault)
	for _, s := range w.stubs() {
		compiled, err := tool.Compile(s)
		if err != nil {
			t.Fatal(err)
		}
		w.tools = append(w.tools, compiled)
	}
	return w
}

// dice returns the random numbers of a place, independent of those of other places.
func (w *world) dice(place ...any) dice {
	h := fnv.New64a()
	_, _ = fmt.Fprintln(h, place...) // a hash never fails
	return dice{rand.New(rand.NewPCG(w.seed, h.Sum64()))}
}

// dice is a source of random decisions.
type dice struct{ *rand.Rand }

// one returns true with a probability of 1/n.
func (d dice) one(n int) bool { return d.IntN(n) == 0 }

// upTo returns a random duration, unlikely to equal another one.
func (d dice) upTo(limit time.Duration) time.Duration {
	return time.Duration(d.Int64N(int64(limit))) + 1
}

// choice is a value with a weight.
type choice[T any] struct {
	weight int
	what   T
}

// pick chooses by weight.
func pick[T any](d dice, from ...choice[T]) T {
	sum := 0
	for _, c := range from {
		sum += c.weight
	}
	n := d.IntN(sum)
	for _, c := range from {
		if n -= c.weight; n < 0 {
			return c.what
		}
	}
	panic("unreachable: the weights add up")
}

// among chooses one of several values.
func among[T any](d dice, from ...T) T { return from[d.IntN(len(from))] }

func (w *world) calmed() bool {
	select {
	case <-w.calm:
		return true
	default:
		return false
	}
}

// fault decides the fate of an append.
func (w *world) fault(_ journal.Head, e events.Entry) journaltest.Fault {
	w.mu.Lock()
	w.appends[e.Session]++
	n := w.appends[e.Session]
	w.mu.Unlock()
	d := w.dice("append", e.Session, n)
	if w.calmed() || !d.one(25) {
		return journaltest.None
	}
	f := among(d, journaltest.Conflict, journaltest.LostAck, journaltest.LostSend, journaltest.Late)
	w.saw("fault: " + f.String())
	w.note(e.Session, "append %d: %s %v", n, f, e.Kinds())
	return f
}

// did records something that must happen at most once.
func (w *world) did(place ...any) {
	id := fmt.Sprint(place...)
	w.mu.Lock()
	w.done[id]++
	n := w.done[id]
	w.mu.Unlock()
	if n > 1 {
		w.wrong("%s was done %d times", id, n)
	}
}

func (w *world) saw(what string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.seen[what]++
}

// note adds a line to the trace.
func (w *world) note(s content.SessionID, format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lines = append(w.lines, fmt.Sprintf("%14s %s ", time.Since(w.begun), s)+fmt.Sprintf(format, args...))
}

func (w *world) wrong(format string, args ...any) {
	w.t.Errorf("seed %d: %s", w.seed, fmt.Sprintf(format, args...))
}

// nap sleeps unless ctx ends first.
func nap(ctx context.Context, d time.Duration) error {
	if !pause.For(ctx, d) {
		return context.Cause(ctx)
	}
	return nil
}

// hang waits until ctx ends or the world calms down.
func (w *world) hang(ctx context.Context) error {
	select {
	case <-w.calm:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
