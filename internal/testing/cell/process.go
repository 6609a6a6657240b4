package cell

import (
	"context"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"github.com/turnlog/turnlog/actor"
	"github.com/turnlog/turnlog/internal/testing/faultproxy"
	"github.com/turnlog/turnlog/jetstream"
	"github.com/turnlog/turnlog/model"
	"github.com/turnlog/turnlog/model/scripted"
	"github.com/turnlog/turnlog/policy/permission"
	"github.com/turnlog/turnlog/tool"
	"github.com/turnlog/turnlog/worker"
	"github.com/turnlog/turnlog/worker/task"
)

// Process is one part of a deployment. It runs at most one function.
type Process struct {
	Name  string
	Proxy *faultproxy.Proxy // nil: it connects directly
	Conn  *nats.Conn
	Cell  *jetstream.Cell // over Conn

	dead chan struct{}      // closed by Kill
	stop context.CancelFunc // nil: nothing runs
	done chan struct{}      // closed when the function has returned
	err  error              // what it returned; valid once done is closed
}

// NewProcess returns a process that runs nothing yet, over a connection that goes through
// the proxy, if there is one.
func NewProcess(name string, conn *nats.Conn, c *jetstream.Cell, p *faultproxy.Proxy) *Process {
	return &Process{Name: name, Proxy: p, Conn: conn, Cell: c, dead: make(chan struct{}), done: make(chan struct{})}
}

// Run starts do in the background, with a context that Stop, Kill and Close cancel.
func (p *Process) Run(ctx context.Context, do func(context.Context) error) {
	ctx, p.stop = context.WithCancel(ctx)
	go func() {
		defer close(p.done)
		p.err = do(ctx)
	}()
}

// Stop cancels the process's function and does not wait for it.
func (p *Process) Stop() {
	if p.stop != nil {
		p.stop()
	}
}

// Kill cuts the process off permanently and returns the time. It does not wait for the end.
func (p *Process) Kill() time.Time {
	close(p.dead)
	now := time.Now()
	if p.Proxy == nil {
		p.Conn.Close()
	} else {
		p.Proxy.Sever()
		go p.Conn.Close() // it may wait for answers that no longer come
	}
	p.Stop()
	return now
}

// Dead returns a channel that Kill closes.
func (p *Process) Dead() <-chan struct{} { return p.dead }

// Done returns a channel that closes when the process's function has returned.
func (p *Process) Done() <-chan struct{} { return p.done }

// Err returns the error of the process's function. It is valid once Done is closed.
func (p *Process) Err() error { return p.err }

// Wait waits for the process's function and returns its error.
func (p *Process) Wait(ctx context.Context) error {
	select {
	case <-p.done:
		return p.err
	case <-ctx.Done():
		return fmt.Errorf("%s does not end: %w", p.Name, context.Cause(ctx))
	}
}

// Close ends the process as SIGTERM does, and closes its connection.
func (p *Process) Close(ctx context.Context) error {
	if p.Proxy != nil {
		defer p.Proxy.Close()
	}
	defer p.Conn.Close()
	if p.stop == nil {
		return nil
	}
	p.Stop()
	return p.Wait(ctx)
}

// Node returns a node on the process's connection. Its models follow scripts and its policy
// allows every call, unless the configuration says otherwise.
func (p *Process) Node(cfg actor.Config) (*actor.Node, error) {
	cfg.Name = p.Name
	if cfg.Models == nil {
		cfg.Models = func(name string, data []byte) (model.Model, error) { return scripted.Parse(name, data) }
	}
	if cfg.Policy == nil {
		cfg.Policy = permission.AllowAll()
	}
	return actor.NewNode(p.Cell, cfg)
}

// Worker returns a worker on the process's connection. It claims from one queue and offers its
// tools there, unless the configuration has its own queue and offers.
func (p *Process) Worker(ctx context.Context, queue string, cfg worker.Config, tools ...tool.Tool) (*worker.Worker, error) {
	if cfg.Queue == nil {
		q, err := p.Cell.Queue(ctx, queue)
		if err != nil {
			return nil, err
		}
		cfg.Queue, cfg.Offers = q, p.Cell.Offers(p.Name, queue)
	}
	own, err := tool.NewRegistry("own", tools...)
	if err != nil {
		return nil, err
	}
	cfg.Tools = []tool.Source{own}
	if cfg.Logger == nil {
		cfg.Logger = zap.NewNop()
	}
	return worker.New(cfg)
}

// NodeWithTools returns a node like Node, and a function that runs it together with a worker for the tools
// in this process.
func (p *Process) NodeWithTools(
	ctx context.Context, cfg actor.Config, beside worker.Config, tools ...tool.Tool,
) (n *actor.Node, run func(context.Context) error, err error) {
	cfg.Local, cfg.Drain = task.NewLocal(), beside.DrainTimeout
	beside.Queue, beside.Offers = cfg.Local, cfg.Local
	w, err := p.Worker(ctx, "", beside, tools...)
	if err != nil {
		return nil, nil, err
	}
	if n, err = p.Node(cfg); err != nil {
		return nil, nil, err
	}
	return n, func(ctx context.Context) error {
		both, ctx := errgroup.WithContext(ctx)
		both.Go(func() error { return w.Run(ctx) })
		both.Go(func() error { return n.Run(ctx) })
		return both.Wait()
	}, nil
}
