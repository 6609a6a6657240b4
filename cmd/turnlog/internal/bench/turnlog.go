package bench

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
	"github.com/turnlog/turnlog/internal/testing/cell"
	"github.com/turnlog/turnlog/jetstream"
	"github.com/turnlog/turnlog/jetstream/admin"
	"github.com/turnlog/turnlog/model"
	"github.com/turnlog/turnlog/session"
	"github.com/turnlog/turnlog/tool"
	"github.com/turnlog/turnlog/worker"
)

const queueName = "bench"

// turnlog runs the sessions on a node and a worker, each with its own connection.
func (b bench) turnlog(ctx context.Context, connect dial) (m measured, stored sample, err error) {
	w, err := newProcess("worker", connect)
	if err != nil {
		return m, stored, err
	}
	if err := admin.Of(w.Cell).Provision(ctx, b.config()); err != nil {
		return m, stored, err
	}
	if err := b.startWorker(ctx, w); err != nil {
		return m, stored, err
	}
	n, err := newProcess("node", connect)
	if err != nil {
		return m, stored, err
	}
	timing := &benchModel{rounds: b.rounds, open: b.sessions, began: make(map[content.SessionID]time.Time), done: make(chan struct{})}
	node, err := n.Node(actor.Config{
		Capacity: b.sessions, Idle: time.Minute, Logger: zap.NewNop(),
		Models: func(string, []byte) (model.Model, error) { return timing, nil },
	})
	if err != nil {
		return m, stored, err
	}
	n.Run(ctx, node.Run)
	if m.took, err = b.drive(ctx, connect, timing); err != nil {
		return m, stored, err
	}
	if stored, err = sampleOf(ctx, w.Cell, "bench-0"); err != nil {
		return m, stored, err
	}
	m.trips, m.times = b.sessions*b.rounds, timing.times
	return m, stored, errors.Join(n.Close(ctx), w.Close(ctx))
}

func (b bench) config() admin.Config {
	return admin.Config{Queues: []admin.QueueConfig{{Name: queueName, Concurrency: 2 * max(b.sessions, 500)}}}
}

func newProcess(name string, connect dial) (*cell.Process, error) {
	nc, err := connect()
	if err != nil {
		return nil, err
	}
	c, err := jetstream.Open(nc, "")
	if err != nil {
		return nil, err
	}
	return cell.NewProcess(name, nc, c, nil), nil
}

// startWorker starts the worker, with its tool on offer.
func (b bench) startWorker(ctx context.Context, p *cell.Process) error {
	noop, err := tool.Func("noop", "Does nothing.", func(context.Context, struct{}) (string, error) { return "ok", nil })
	if err != nil {
		return err
	}
	w, err := p.Worker(ctx, queueName, worker.Config{Slots: max(b.sessions, 4)}, noop)
	if err != nil {
		return err
	}
	p.Run(ctx, w.Run)
	return p.Cell.Catalog().Advertise(ctx, jetstream.Offer{Worker: p.Name, Queue: queueName, Tools: []tool.Spec{noop.Spec()}})
}

// drive starts the sessions, then measures from their first inputs to their last
// replies. It does not follow them: reading journals is not part of a round trip.
func (b bench) drive(ctx context.Context, connect dial, m *benchModel) (time.Duration, error) {
	nc, err := connect()
	if err != nil {
		return 0, err
	}
	c, err := client.Open(nc, "")
	if err != nil {
		return 0, err
	}
	sessions := make([]*session.Session, b.sessions)
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
		_ = s.Close(ctx)
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

// benchModel requests one tool call per round and measures the time from a reply to the
// next call, which is a round trip.
type benchModel struct {
	rounds int

	done chan struct{} // closed after the last call of the last session

	mu    sync.Mutex
	open  int // unfinished sessions
	began map[content.SessionID]time.Time
	times []time.Duration
}

// Name is bench.
func (m *benchModel) Name() string { return "bench" }

// Capabilities are those of a model that calls tools.
func (m *benchModel) Capabilities() model.Capabilities { return model.Capabilities{Tools: true} }

// Call requests the tool until the rounds are over.
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
