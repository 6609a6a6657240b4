package torture

import (
	"context"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"go.uber.org/zap"

	"github.com/turnlog/turnlog/actor"
	"github.com/turnlog/turnlog/internal/testing/faultproxy"
	"github.com/turnlog/turnlog/jetstream"
	"github.com/turnlog/turnlog/model"
	"github.com/turnlog/turnlog/model/scripted"
	"github.com/turnlog/turnlog/tool"
	"github.com/turnlog/turnlog/worker"
)

// party is a node, a worker, a client or an observer: whoever has a way of its own to
// the servers.
type party struct {
	name  string
	proxy *faultproxy.Proxy
	conn  *nats.Conn
	cell  *jetstream.Cell
	dead  chan struct{} // closed when it is killed

	stop  context.CancelFunc // nil: nothing runs
	ended chan struct{}      // closed when what runs has ended
	err   error              // with which; read behind ended
}

// newParty connects somebody. Servers that come and go are tried until ctx ends.
func (g *ground) newParty(ctx context.Context, name string) (*party, error) {
	p := &party{name: name, proxy: faultproxy.New(), dead: make(chan struct{}), ended: make(chan struct{})}
	for {
		var err error
		p.conn, p.cell, err = g.connect(ctx, name, p.proxy)
		if err == nil {
			return p, nil
		}
		if !pause(ctx, 100*time.Millisecond) {
			p.proxy.Close()
			return nil, fmt.Errorf("%s: %w", name, context.Cause(ctx))
		}
	}
}

// run has the party do something until it is stopped or killed.
func (p *party) run(ctx context.Context, do func(context.Context) error) {
	ctx, p.stop = context.WithCancel(context.WithoutCancel(ctx))
	go func() { // close and kill wait for it
		defer close(p.ended)
		p.err = do(ctx)
	}()
}

// kill cuts the party off for good, in the middle of whatever it does, and returns
// when. Nothing that it does reaches anybody any more. It does not wait for it to end.
func (p *party) kill() time.Time {
	close(p.dead)
	p.proxy.Sever()
	now := time.Now()
	go p.conn.Close() // it may wait for what no longer comes
	if p.stop != nil {
		p.stop()
	}
	return now
}

// close ends the party as SIGTERM does, within the context.
func (p *party) close(ctx context.Context) error {
	defer p.proxy.Close()
	defer p.conn.Close()
	if p.stop == nil {
		return nil
	}
	p.stop()
	return p.gone(ctx)
}

// gone waits until what the party runs has ended.
func (p *party) gone(ctx context.Context) error {
	select {
	case <-p.ended:
		return p.err
	case <-ctx.Done():
		return fmt.Errorf("%s does not end: %w", p.name, context.Cause(ctx))
	}
}

// newNode starts a node, and starts it again if it ends by itself, as whoever runs the
// process would.
func (g *ground) newNode(ctx context.Context, name string, f *findings, log *zap.Logger) (*party, error) {
	p, err := g.newParty(ctx, name)
	if err != nil {
		return nil, err
	}
	p.run(ctx, func(ctx context.Context) error {
		for {
			err := p.drive(ctx, log)
			if err == nil || closed(p.dead) || ctx.Err() != nil {
				return nil //nolint:nilerr // who is killed does not end well
			}
			f.note("%s ended and is started again: %v", name, err)
			pause(ctx, 200*time.Millisecond)
		}
	})
	return p, nil
}

func (p *party) drive(ctx context.Context, log *zap.Logger) error {
	n, err := actor.NewNode(p.cell, actor.Config{
		Name: p.name, Idle: time.Second, Sweep: 2 * time.Second, Snapshot: 20, Logger: log,
		Models: func(name string, data []byte) (model.Model, error) { return scripted.Parse(name, data) },
	})
	if err != nil {
		return err
	}
	return n.Run(ctx)
}

// newWorker starts a worker whose tools write to the ledger.
func (g *ground) newWorker(ctx context.Context, name string, l *ledger, log *zap.Logger) (*party, error) {
	p, err := g.newParty(ctx, name)
	if err != nil {
		return nil, err
	}
	var queue *jetstream.Queue
	for {
		if queue, err = p.cell.Queue(ctx, queueName); err == nil {
			break
		}
		if !pause(ctx, 100*time.Millisecond) {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
	}
	tools, err := l.tools(p.dead)
	if err != nil {
		return nil, err
	}
	registry, err := tool.NewRegistry("torture", tools...)
	if err != nil {
		return nil, err
	}
	w, err := worker.New(worker.Config{
		Queue: queue, Tools: []tool.Source{registry}, Offers: p.cell.Offers(name, queueName), Slots: 16, DrainTimeout: 3 * time.Second, Logger: log,
	})
	if err != nil {
		return nil, err
	}
	p.run(ctx, w.Run)
	return p, nil
}

// pause waits and reports whether ctx still holds.
func pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
