package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
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
	"github.com/turnlog/turnlog/tool"
	"github.com/turnlog/turnlog/worker"
	"github.com/turnlog/turnlog/worker/task"
)

const queueName = "bench"

// turnlog runs the sessions on a node and a worker, each with its own connection.
func (b bench) turnlog(ctx context.Context, m *meter) (stored sample, err error) {
	var parts [2]*cell.Process
	for i, name := range []string{"worker", "node"} {
		c, err := jetstream.Open(m.conns[i], "")
		if err != nil {
			return stored, err
		}
		parts[i] = cell.NewProcess(name, m.conns[i], c, nil)
	}
	w, n := parts[0], parts[1]
	if err := admin.Of(w.Cell).Provision(ctx, b.config()); err != nil {
		return stored, err
	}
	local, err := b.startWorker(ctx, w)
	if err != nil {
		return stored, err
	}
	timing := &benchModel{meter: m, rounds: b.Rounds, open: b.Sessions, began: make(map[content.SessionID]time.Time), done: make(chan error, 1)}
	node, err := n.Node(actor.Config{
		Capacity: b.Sessions, Idle: time.Minute, Logger: zap.NewNop(), Local: local,
		Models: func(string, []byte) (model.Model, error) { return timing, nil },
	})
	if err != nil {
		return stored, err
	}
	n.Run(ctx, node.Run)
	if err := b.drive(ctx, timing); err != nil {
		return stored, err
	}
	if stored, err = sampleOf(ctx, w.Cell, sessionName(0)); err != nil {
		return stored, err
	}
	return stored, errors.Join(n.Close(ctx), w.Close(ctx))
}

func sessionName(i int) content.SessionID { return content.SessionID("bench-" + strconv.Itoa(i)) }

func (b bench) config() admin.Config {
	return admin.Config{Queues: []admin.QueueConfig{{Name: queueName, Concurrency: 2 * max(b.Sessions, 500)}}}
}

// startWorker starts the worker, with its tool on offer. It returns the worker's queue if that is local.
func (b bench) startWorker(ctx context.Context, p *cell.Process) (local *task.Local, err error) {
	noop, err := tool.Func("noop", "Does nothing.", func(context.Context, struct{}) (string, error) { return "ok", nil }, tool.ReadOnly())
	if err != nil {
		return nil, err
	}
	cfg := worker.Config{Slots: max(b.Sessions, 4)}
	if b.Local {
		local = task.NewLocal()
		cfg.Queue, cfg.Offers = local, local
	}
	w, err := p.Worker(ctx, queueName, cfg, noop)
	if err != nil {
		return nil, err
	}
	p.Run(ctx, w.Run)
	if b.Local {
		return local, local.Advertise(ctx, task.Offer{Tools: []tool.Spec{noop.Spec()}})
	}
	return nil, p.Cell.Catalog().Advertise(ctx, jetstream.Offer{Worker: p.Name, Queue: queueName, Tools: []tool.Spec{noop.Spec()}})
}

// drive starts the sessions, then measures from their first inputs to their last
// replies. It does not follow them: reading journals is not part of a round trip.
func (b bench) drive(ctx context.Context, m *benchModel) error {
	c, err := client.Open(m.conns[2], "")
	if err != nil {
		return err
	}
	var starting errgroup.Group
	for i := range b.Sessions {
		starting.Go(func() error {
			s, err := c.Start(ctx, client.Options{ID: sessionName(i), Config: events.Config{Model: "bench"}})
			if err != nil {
				return err
			}
			return s.Close(ctx)
		})
	}
	if err := starting.Wait(); err != nil {
		return err
	}
	if err := m.start(); err != nil {
		return err
	}
	for i := range b.Sessions {
		input := commands.SubmitInput{Items: []content.Item{content.UserText("go")}}
		if err := c.Send(ctx, sessionName(i), "go", input); err != nil {
			return err
		}
	}
	select {
	case err := <-m.done:
		if err != nil {
			return err
		}
		return m.stop()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// benchModel requests one tool call per round and measures the time from a reply to the
// next call, which is a round trip.
type benchModel struct {
	*meter

	rounds int
	done   chan error // receives the end of the last session, or a failed call; holds one

	mu    sync.Mutex
	open  int // unfinished sessions
	began map[content.SessionID]time.Time
}

// Name is bench.
func (m *benchModel) Name() string { return "bench" }

// Capabilities says that the model calls tools.
func (m *benchModel) Capabilities() model.Capabilities { return model.Capabilities{Tools: true} }

// Call requests the tool until the rounds are over.
func (m *benchModel) Call(_ context.Context, r model.Request, _ func(content.Delta)) (model.Reply, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if start, ok := m.began[r.Session]; ok {
		m.trip(start)
		for _, res := range r.Transcript[len(r.Transcript)-1].Results() {
			if res.Status != content.StatusOK {
				m.end(fmt.Errorf("a call of session %s ended with status %s: %s", r.Session, res.Status, res.Text()))
			}
		}
	}
	if r.Round > m.rounds {
		if m.open--; m.open == 0 {
			m.end(nil)
		}
		return model.Reply{Items: []content.Item{content.AssistantText("done")}}, nil
	}
	m.began[r.Session] = time.Now()
	call := content.ToolCall{Name: "noop", Input: json.RawMessage(`{}`)}
	return model.Reply{Items: []content.Item{content.NewItem(content.Assistant, content.CallPart(call))}}, nil
}

func (m *benchModel) end(err error) {
	select {
	case m.done <- err:
	default: // it has ended
	}
}
