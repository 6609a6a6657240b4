package jetstream

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/turnlog/turnlog/events/journal"
	"github.com/turnlog/turnlog/internal/testing/cluster"
	"github.com/turnlog/turnlog/internal/testing/journaltest"
	"github.com/turnlog/turnlog/internal/testing/natstest"
	"github.com/turnlog/turnlog/internal/testing/tasktest"
)

// TestContractsHoldWithThreeReplicas runs the contracts on disk with three replicas, where reads may
// lag behind acknowledged writes and each side may talk to another server. The cases share one cell:
// a cluster takes a second to create one.
func TestContractsHoldWithThreeReplicas(t *testing.T) {
	t.Parallel()
	c, err := cluster.Start(t.Context(), t.TempDir())
	must(t, err)
	t.Cleanup(c.Close)
	var conns atomic.Int64
	open := func(t testing.TB) *Cell { // through the next server
		t.Helper()
		servers := c.Servers()
		return openCell(t, natstest.ConnectTCP(t, servers[int(conns.Add(1))%len(servers)]))
	}
	create(t, open(t), jetstream.FileStorage, 3)

	t.Run("journal", func(t *testing.T) {
		t.Parallel()
		journaltest.Run(t, journaltest.Features{Shared: true}, func(t *testing.T) journal.Journal { return open(t).Journal() })
	})
	t.Run("task", func(t *testing.T) {
		t.Parallel()
		tasktest.RunLive(t, func(t *testing.T, lease time.Duration) tasktest.Env {
			return tasksOf(open(t), lease, func(t *testing.T) *Cell { return open(t) })
		})
	})
}
