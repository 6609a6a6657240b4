package jetstream

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/turnlog/turnlog/embedded"
	"github.com/turnlog/turnlog/events/journal"
	"github.com/turnlog/turnlog/internal/testing/journaltest"
	"github.com/turnlog/turnlog/internal/testing/memorytest"
	"github.com/turnlog/turnlog/internal/testing/tasktest"
	"github.com/turnlog/turnlog/policy/notes"
)

// What every implementation of a contract must do also holds with three replicas on
// disk, where reads may lag behind what was acknowledged, and each side may talk to
// another server.
func TestContractsHoldWithThreeReplicas(t *testing.T) {
	t.Parallel()
	r := &replicated{}
	var err error
	r.cluster, err = embedded.StartCluster(t.Context(), 3, embedded.WithStore(t.TempDir()))
	must(t, err)
	t.Cleanup(r.cluster.Close)

	t.Run("journal", func(t *testing.T) {
		journaltest.Run(t, journaltest.Features{}, func(t *testing.T) journal.Journal {
			return r.open(t, r.provision(t)).Journal()
		})
	})
	t.Run("memory", func(t *testing.T) {
		memorytest.Run(t, func(t testing.TB) notes.Store { return r.open(t, r.provision(t)).Memory() })
	})
	t.Run("task", func(t *testing.T) {
		shared := r.provision(t)
		tasktest.RunLive(t, func(t *testing.T, lease time.Duration) tasktest.Env {
			return tasksOf(r.open(t, shared), lease, func(t *testing.T) *Cell { return r.open(t, shared) })
		})
	})
}

// replicated is a cluster on which each case has a cell of its own.
type replicated struct {
	cluster *embedded.Cluster
	cells   atomic.Int64
	making  sync.Mutex // one cell after the other: its servers share this machine
	conns   atomic.Int64
}

func (r *replicated) provision(t testing.TB) (namespace string) {
	t.Helper()
	namespace = fmt.Sprint("cell", r.cells.Add(1))
	r.making.Lock()
	defer r.making.Unlock()
	create(t, r.open(t, namespace), jetstream.FileStorage, 3)
	return namespace
}

// open sees a cell through the next server.
func (r *replicated) open(t testing.TB, namespace string) *Cell {
	t.Helper()
	servers := r.cluster.Servers()
	nc, err := nats.Connect(servers[int(r.conns.Add(1))%len(servers)].ClientURL())
	must(t, err)
	t.Cleanup(nc.Close)
	c, err := Open(nc, namespace)
	must(t, err)
	return c
}
