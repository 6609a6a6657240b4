package chaos

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/turnlog/turnlog/embedded"
	"github.com/turnlog/turnlog/internal/testing/celltest"
	"github.com/turnlog/turnlog/internal/testing/faultproxy"
	"github.com/turnlog/turnlog/jetstream"
	"github.com/turnlog/turnlog/jetstream/admin"
)

// arena is a cluster on disk whose leaders move and whose servers restart, and the
// history of the operations that one kind of client did on it.
type arena struct {
	*celltest.World
	cluster *embedded.Cluster
	began   time.Time

	mu      sync.Mutex
	history []op
}

const patience = 2 * time.Minute

func newArena(t *testing.T) *arena {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*patience)
	t.Cleanup(cancel)
	cluster, err := embedded.StartCluster(ctx, 3, embedded.WithStore(t.TempDir()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Close)
	w := celltest.On(ctx, t, cluster, admin.Config{
		Replicas: 3, Queues: []admin.QueueConfig{{Name: celltest.Queue, AckWait: 3 * time.Second}},
	})
	return &arena{World: w, cluster: cluster, began: time.Now()}
}

// TestHistoriesAreLinearizable has clients append, claim and approve concurrently on one
// cluster under faults, and checks the history of each.
func TestHistoriesAreLinearizable(t *testing.T) {
	t.Parallel()
	appends := newArena(t)
	claims := &arena{World: appends.World, cluster: appends.cluster, began: appends.began}
	approvals := &arena{World: appends.World, cluster: appends.cluster, began: appends.began}
	wait := approvals.approveAll(t)
	appends.under(7*time.Second, []string{"TURNLOG_INBOX", "TURNLOG_JOURNAL", "TURNLOG_RUN"}, 16,
		func(ctx context.Context, i int, nc *nats.Conn) {
			if i < 8 {
				appends.appendUntil(ctx, i, nc)
			} else {
				claims.claimUntil(ctx, i-8, nc)
			}
		})
	wait()
	if unknowns := appends.linearizable(t, stepAppend, end{}); unknowns == 0 {
		t.Error("the outcome of every append was known, so this run proves little")
	}
	appends.keeps(t)
	claims.linearizable(t, stepClaim, owner{})
	approvals.linearizable(t, stepApprove, verdict{})
}

// deafen withholds the answers from one client after another until ctx ends.
func (a *arena) deafen(ctx context.Context, seed uint64, ways []*faultproxy.Proxy) {
	dice := rand.New(rand.NewPCG(seed, 2)) //nolint:gosec // repeatable, not secret
	for ctx.Err() == nil {
		p := ways[dice.IntN(len(ways))]
		p.Swallow(faultproxy.ToClient, true)
		<-time.After(200 * time.Millisecond)
		p.Swallow(faultproxy.ToClient, false)
		<-time.After(100 * time.Millisecond)
	}
}

// harass moves the leaders of the streams and restarts servers until ctx ends. All
// servers run again when it returns.
func (a *arena) harass(ctx context.Context, seed uint64, streams []string) {
	dice := rand.New(rand.NewPCG(seed, 1)) //nolint:gosec // repeatable, not secret
	nc := a.Connect()
	for n := 1; ; n++ {
		select {
		case <-ctx.Done():
			return
		case <-time.After(250 * time.Millisecond):
		}
		if n%8 == 0 {
			a.restart(dice.IntN(3))
			continue
		}
		what := "$JS.API.STREAM.LEADER.STEPDOWN." + streams[dice.IntN(len(streams))]
		if err := nc.PublishRequest(what, nc.NewInbox(), nil); err != nil {
			a.T.Logf("stepdown: %v", err) // it is reconnecting
		}
	}
}

// restart stops a server for a moment and starts it again on its store.
func (a *arena) restart(i int) {
	a.cluster.Stop(i)
	<-time.After(300 * time.Millisecond)
	if err := a.cluster.Restart(a.Ctx, i); err != nil {
		a.T.Errorf("restart: %v", err)
	}
}

// under runs n clients at once while the servers are harassed and answers are lost.
func (a *arena) under(d time.Duration, streams []string, n int, do func(ctx context.Context, i int, nc *nats.Conn)) {
	ctx, cancel := context.WithTimeout(a.Ctx, d)
	defer cancel()
	var all sync.WaitGroup
	var ways []*faultproxy.Proxy
	for i := range n {
		p := faultproxy.New()
		a.T.Cleanup(p.Close)
		ways = append(ways, p)
		nc, err := a.cluster.Connect(nats.SetCustomDialer(p))
		if err != nil {
			a.T.Fatal(err)
		}
		all.Go(func() { do(ctx, i, nc) })
	}
	all.Go(func() { a.harass(ctx, 1, streams) })
	all.Go(func() { a.deafen(ctx, 1, ways[:n/2]) })
	all.Go(func() { a.deafen(ctx, 2, ways[n/2:]) })
	all.Wait()
}

func (a *arena) open(nc *nats.Conn) *jetstream.Cell {
	cell, err := jetstream.Open(nc, "")
	if err != nil {
		panic(fmt.Sprintf("open a cell that is there: %v", err)) // this is not the test's goroutine
	}
	return cell
}
