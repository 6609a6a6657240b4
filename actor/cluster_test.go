package actor_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/turnlog/turnlog/actor"
	"github.com/turnlog/turnlog/client"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/internal/testing/cluster"
	"github.com/turnlog/turnlog/jetstream"
	"github.com/turnlog/turnlog/jetstream/admin"
	"github.com/turnlog/turnlog/model"
	"github.com/turnlog/turnlog/session"
	"github.com/turnlog/turnlog/tool"
	"github.com/turnlog/turnlog/turnlogtest"
	"github.com/turnlog/turnlog/worker/task"
)

// The leaders of all streams move while sessions run on three replicas. Clusters use sockets, so
// the test runs in real time.
func TestSessionsOutliveTheirLeaders(t *testing.T) {
	t.Parallel()
	const sessions, calls = 20, 30
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	servers, err := cluster.Start(ctx, "")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(servers.Close)
	w := &world{turnlogtest.On(ctx, t, servers, admin.Config{
		Memory: true, Replicas: 3, Queues: []admin.QueueConfig{{Name: turnlogtest.Queue, AckWait: 2 * time.Second}},
	})}
	moving, still := context.WithCancel(ctx)
	defer still()
	var movers sync.WaitGroup
	var ran atomic.Int64
	for range 8 {
		w.workerOf(tool.Spec{Name: "noop", Effects: content.ReadOnly}, func(x task.Task) tool.Result {
			ran.Add(1)
			return echoed(x)
		})
	}
	movers.Go(func() {
		w.keepOffer(moving, jetstream.Offer{Worker: "w", Queue: "q", Tools: []tool.Spec{{Name: "noop", Effects: content.ReadOnly}}})
	})
	counting := func(c *actor.Config) {
		c.Models = func(string, []byte) (model.Model, error) { return rounds(calls), nil }
	}
	nodes := []*turnlogtest.Process{w.node("n1", counting), w.node("n2", counting)}
	movers.Go(func() { w.moveLeaders(moving) })

	var running sync.WaitGroup
	for i := range sessions {
		running.Go(func() {
			cl, err := client.Open(w.Connect(), "")
			if err != nil {
				t.Error(err)
				return
			}
			s, err := cl.Start(ctx, client.Options{ID: content.SessionID(fmt.Sprint("s", i)), Config: events.Config{Model: "rounds"}})
			if err != nil {
				t.Error(err)
				return
			}
			defer func() { _ = s.Close(t.Context()) }()
			if err := s.Send(ctx, "", content.UserText("go")); err != nil {
				t.Error(err)
				return
			}
			step, err := s.Next(ctx)
			if _, ok := step.(*session.Finished); !ok {
				t.Errorf("s%d: Next = %T, %v", i, step, err)
			}
		})
	}
	began := time.Now()
	running.Wait()
	still()
	movers.Wait()
	took, claims := time.Since(began), 0
	for i := range sessions {
		claims += len(turnlogtest.Facts[events.DriverClaimed](w.Deployment, content.SessionID(fmt.Sprint("s", i))))
	}
	t.Logf("%v for %d calls, %d claims", took, ran.Load(), claims)
	for _, n := range nodes {
		n.Drain(t)
	}
}

// keepOffer renews the workers' offer before it expires.
func (w *world) keepOffer(ctx context.Context, o jetstream.Offer) {
	for {
		_ = w.Cell.Catalog().Advertise(ctx, o) // during an election the next one is enough
		select {
		case <-ctx.Done():
			return
		case <-time.After(2 * time.Second):
		}
	}
}

// moveLeaders makes one leader after the other step down.
func (w *world) moveLeaders(ctx context.Context) {
	nc := w.Connect()
	for {
		for _, what := range []string{
			"STREAM.LEADER.STEPDOWN.TURNLOG_INBOX", "STREAM.LEADER.STEPDOWN.TURNLOG_JOURNAL", "CONSUMER.LEADER.STEPDOWN.TURNLOG_RUN.drivers",
			"STREAM.LEADER.STEPDOWN.TURNLOG_TASKS", "CONSUMER.LEADER.STEPDOWN.TURNLOG_TASKS.q_q", "STREAM.LEADER.STEPDOWN.TURNLOG_RUN",
		} {
			select {
			case <-ctx.Done():
				return
			case <-time.After(300 * time.Millisecond):
			}
			if err := nc.PublishRequest("$JS.API."+what, nc.NewInbox(), nil); err != nil {
				return
			}
		}
	}
}
