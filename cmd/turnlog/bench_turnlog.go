package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"github.com/turnlog/turnlog/actor"
	"github.com/turnlog/turnlog/client"
	"github.com/turnlog/turnlog/commands"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/jetstream"
	"github.com/turnlog/turnlog/model"
	"github.com/turnlog/turnlog/tool"
	"github.com/turnlog/turnlog/worker"
)

const benchQueue = "bench"

// benchTurnlog runs the sessions on a node and a worker, each on a connection of
// its own.
func benchTurnlog(ctx context.Context, f benchFlags, connect dial) (measured, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	driving, err := openCell(connect)
	if err != nil {
		return measured{}, err
	}
	if err := driving.Provision(ctx, benchConfig(f)); err != nil {
		return measured{}, err
	}
	stopWorker, err := startBenchWorker(ctx, f, connect)
	if err != nil {
		return measured{}, err
	}
	m := &benchModel{rounds: f.rounds, open: f.sessions, began: make(map[content.SessionID]time.Time), done: make(chan struct{})}
	node, err := actor.NewNode(driving, actor.Config{
		Capacity: f.sessions, Idle: time.Minute, Logger: zap.NewNop(),
		Models: func(string, []byte) (model.Model, error) { return m, nil },
	})
	if err != nil {
		return measured{}, err
	}
	ended := make(chan error, 1)
	go func() { ended <- node.Run(ctx) }()
	took, err := driveBench(ctx, f, connect, m)
	if err != nil {
		return measured{}, err
	}
	cancel()
	if err := errors.Join(<-ended, stopWorker()); err != nil {
		return measured{}, err
	}
	return measured{took: took, trips: f.sessions * f.rounds, times: m.times}, nil
}

func benchConfig(f benchFlags) jetstream.Config {
	return jetstream.Config{Queues: []jetstream.QueueConfig{{Name: benchQueue, Concurrency: 2 * max(f.sessions, 500)}}}
}

func openCell(connect dial) (*jetstream.Cell, error) {
	nc, err := connect()
	if err != nil {
		return nil, err
	}
	return jetstream.Open(nc, "")
}

func startBenchWorker(ctx context.Context, f benchFlags, connect dial) (stop func() error, err error) {
	cell, err := openCell(connect)
	if err != nil {
		return nil, err
	}
	queue, err := cell.Queue(ctx, benchQueue)
	if err != nil {
		return nil, err
	}
	noop, err := tool.Func("noop", "Does nothing.", func(context.Context, struct{}) (string, error) { return "ok", nil })
	if err != nil {
		return nil, err
	}
	offer := jetstream.Offer{Worker: "bench", Queue: benchQueue, Tools: []tool.Spec{noop.Spec()}}
	if err := cell.Catalog().Advertise(ctx, offer); err != nil {
		return nil, err
	}
	registry, err := tool.NewRegistry("bench", noop)
	if err != nil {
		return nil, err
	}
	w, err := worker.New(worker.Config{Queue: queue, Tools: []tool.Source{registry}, Slots: max(f.sessions, 4), Logger: zap.NewNop()})
	if err != nil {
		return nil, err
	}
	wctx, cancel := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- w.Run(wctx) }()
	return func() error { cancel(); return <-ended }, nil
}

// driveBench starts the sessions, then measures from their first inputs to their
// last replies. The sessions are not followed: reading along is not part of a
// round trip.
func driveBench(ctx context.Context, f benchFlags, connect dial, m *benchModel) (time.Duration, error) {
	nc, err := connect()
	if err != nil {
		return 0, err
	}
	c, err := client.Open(nc, "")
	if err != nil {
		return 0, err
	}
	sessions := make([]*client.Session, f.sessions)
	var starting errgroup.Group
	for i := range sessions {
		starting.Go(func() error {
			sessions[i], err = c.Start(ctx, client.Options{
				ID: content.SessionID(fmt.Sprintf("bench-%d", i)), Config: events.Config{Model: "bench"},
			})
			return err
		})
	}
	if err := starting.Wait(); err != nil {
		return 0, err
	}
	for _, s := range sessions {
		s.Close()
	}
	began := time.Now()
	for _, s := range sessions {
		input := commands.SubmitInput{Items: []content.Item{content.UserText("go")}}
		if err := c.Send(ctx, s.ID(), "go", input); err != nil {
			return 0, err
		}
	}
	select {
	case <-m.done:
		return time.Since(began), nil
	case <-ctx.Done():
		return 0, context.Cause(ctx)
	}
}

// benchModel asks for one tool call a round and takes the time from a reply to the
// next call, which is a round trip.
type benchModel struct {
	rounds int

	done chan struct{} // closed with the last session's last call

	mu    sync.Mutex
	open  int // sessions that are not done
	began map[content.SessionID]time.Time
	times []time.Duration
}

// Name is bench.
func (m *benchModel) Name() string { return "bench" }

// Capabilities are those of a model that calls tools.
func (m *benchModel) Capabilities() model.Capabilities { return model.Capabilities{Tools: true} }

// Call asks for the tool until the rounds are over.
func (m *benchModel) Call(_ context.Context, r model.Request, _ func(content.Delta)) (model.Reply, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if start, ok := m.began[r.Session]; ok {
		m.times = append(m.times, time.Since(start))
	}
	if r.Round > m.rounds {
		if m.open--; m.open == 0 {
			close(m.done)
		}
		return model.Reply{Items: []content.Item{content.AssistantText("done")}}, nil
	}
	m.began[r.Session] = time.Now()
	call := content.ToolCall{Name: "noop", Input: json.RawMessage(`{}`)}
	return model.Reply{Items: []content.Item{content.NewItem(content.Assistant, content.CallPart(call))}}, nil
}
