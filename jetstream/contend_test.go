package jetstream

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events/journal"
	"github.com/turnlog/turnlog/internal/testing/cluster"
	"github.com/turnlog/turnlog/internal/testing/journaltest"
	"github.com/turnlog/turnlog/jetstream/internal/api"
)

// contest lets writers on separate connections append to the same sessions.
type contest struct {
	cells    []*Cell
	sessions []content.SessionID
	entries  uint64 // per session

	mu    sync.Mutex
	acked map[content.SessionID][]journal.Head
}

// run returns when every session is long enough.
func (c *contest) run(ctx context.Context, t *testing.T) {
	var wg sync.WaitGroup
	for w, cell := range c.cells {
		for _, s := range c.sessions {
			wg.Go(func() {
				for n := 0; ; n++ {
					if done, err := c.step(ctx, cell.Journal(), s, 1000*w+n); done || err != nil {
						if err != nil {
							t.Error(err)
						}
						return
					}
				}
			})
		}
	}
	wg.Wait()
}

// step appends after the last entry, unless another writer does.
func (c *contest) step(ctx context.Context, j *Journal, s content.SessionID, n int) (done bool, _ error) {
	var head journal.Head
	last, err := j.Last(ctx, s)
	switch {
	case err == nil:
		head = last.Head
	case !errors.Is(err, journal.ErrNotFound):
		return false, err
	}
	if head.Seq >= c.entries {
		return true, nil
	}
	next, err := j.Append(ctx, head, journaltest.Entry(s, n))
	if errors.Is(err, journal.ErrConflict) || errors.Is(err, journal.ErrUnknown) || api.IsTransient(err) {
		return false, nil
	}
	if err == nil {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.acked[s] = append(c.acked[s], next)
	}
	return false, err
}

// TestManyWritersFormOneChainWhileLeadersChange checks the invariant single-writer with three
// replicas, contending writers and a leader that moves during writes. All acknowledged entries are
// in one chain, and a follower receives them.
func TestManyWritersFormOneChainWhileLeadersChange(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	servers, err := cluster.Start(ctx, "")
	must(t, err)
	t.Cleanup(servers.Close)
	c := contest{sessions: []content.SessionID{"a", "b"}, entries: 100, acked: map[content.SessionID][]journal.Head{}}
	for range 3 {
		nc, err := servers.Connect()
		must(t, err)
		c.cells = append(c.cells, openCell(t, nc))
	}
	create(t, c.cells[0], jetstream.MemoryStorage, 3)

	moving, stop := context.WithCancel(ctx)
	var mover sync.WaitGroup
	mover.Go(func() {
		for tick := time.Tick(200 * time.Millisecond); moving.Err() == nil; {
			<-tick
			_, _ = c.cells[0].api.Ask(ctx, "$JS.API.STREAM.LEADER.STEPDOWN."+c.cells[0].names.JournalStream(), nil)
		}
	})
	live := map[content.SessionID]chan []journal.Record{}
	for _, s := range c.sessions {
		records := make(chan []journal.Record, 1)
		live[s] = records
		go func() { records <- first(ctx, c.cells[1].Journal(), s, c.entries) }()
	}
	c.run(ctx, t)
	stop()
	mover.Wait()
	for _, s := range c.sessions {
		later := first(ctx, c.cells[2].Journal(), s, c.entries)
		if got := <-live[s]; len(got) != int(c.entries) || len(later) != int(c.entries) {
			t.Fatalf("%s: followed to %d live and to %d later, want %d", s, len(got), len(later), c.entries)
		}
		for _, ack := range c.acked[s] {
			if later[ack.Seq-1].Head != ack {
				t.Errorf("%s: %+v was acknowledged, %+v is stored", s, ack, later[ack.Seq-1].Head)
			}
		}
	}
}

// first returns the first n records of a session. Follow verifies that they are one chain.
func first(ctx context.Context, j *Journal, s content.SessionID, n uint64) (out []journal.Record) {
	for rec, err := range j.Follow(ctx, s, 0) {
		if err != nil {
			return out
		}
		if out = append(out, rec); rec.Seq == n {
			return out
		}
	}
	return out
}
