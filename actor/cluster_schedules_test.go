package actor_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/turnlog/turnlog/commands/schedule"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/internal/testing/cluster"
	"github.com/turnlog/turnlog/jetstream/admin"
	"github.com/turnlog/turnlog/jetstream/schedules"
	"github.com/turnlog/turnlog/turnlogtest"
)

// The leader of the schedules moves while some fire, on three replicas with two nodes. Each
// firing starts exactly one session.
func TestSchedulesFireOnceWhileLeadersChange(t *testing.T) {
	t.Parallel()
	const plans, perSecond = 12, 4
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	servers, err := cluster.Start(ctx, "")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(servers.Close)
	w := &world{turnlogtest.On(ctx, t, servers, admin.Config{Memory: true, Replicas: 3})}
	nodes := []*turnlogtest.Process{w.node("n1"), w.node("n2")}
	var want []content.SessionID
	begin := time.Now().Truncate(time.Second).Add(3 * time.Second)
	for i := range plans {
		p := plan(fmt.Sprint("p", i), schedule.Timing{At: begin.Add(time.Duration(i/perSecond) * time.Second)}, oneReply)
		w.add(p)
		want = append(want, p.SessionAt(p.Timing.At))
	}
	moving, still := context.WithCancel(ctx)
	defer still()
	var movers sync.WaitGroup
	movers.Go(func() { w.moveLeader(moving, "TURNLOG_SCHEDULES") })
	for _, id := range want {
		w.Until(id, events.KindTurnFinished)
	}
	w.settled(ctx)
	still()
	movers.Wait()
	slices.Sort(want)
	if got := w.sessions(); !slices.Equal(got, want) {
		t.Errorf("sessions %v, want %v", got, want)
	}
	t.Logf("all started %v after the last one was due", time.Since(begin.Add((plans/perSecond-1)*time.Second)).Round(time.Millisecond))
	for _, n := range nodes {
		n.Drain(t)
	}
}

// settled waits until the last firing of each schedule was handled.
func (w *world) settled(ctx context.Context) {
	w.T.Helper()
	for {
		left, err := schedules.Of(w.Cell).List(ctx)
		working := slices.ContainsFunc(left, func(s schedules.Standing) bool { return !s.Over || !s.Last.Done })
		if err == nil && !working {
			return
		}
		select {
		case <-ctx.Done():
			w.T.Fatalf("schedules are not handled: %v, %v", left, err)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// moveLeader repeatedly makes a stream's leader step down.
func (w *world) moveLeader(ctx context.Context, stream string) {
	nc := w.Connect()
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(200 * time.Millisecond):
		}
		if err := nc.PublishRequest("$JS.API.STREAM.LEADER.STEPDOWN."+stream, nc.NewInbox(), nil); err != nil {
			return
		}
	}
}
