package torture

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/nats-io/nats.go"
	"go.uber.org/zap"

	"github.com/turnlog/turnlog/embedded"
	"github.com/turnlog/turnlog/internal/natscli"
	"github.com/turnlog/turnlog/internal/pause"
	"github.com/turnlog/turnlog/internal/testing/cluster"
	"github.com/turnlog/turnlog/internal/testing/faultproxy"
	"github.com/turnlog/turnlog/jetstream"
	"github.com/turnlog/turnlog/jetstream/admin"
)

// Queue is the task queue of every run.
const Queue = "torture"

const (
	// How long a silent worker keeps a call. Short, so that the calls of a killed worker are
	// redelivered during the run.
	queueLease = 3 * time.Second
)

// site is the servers of a run and its cell on them.
type site struct {
	namespace string
	servers   *natscli.Flags   // nil: the caller's server in this process
	local     *embedded.Server // that server
	cluster   *cluster.Cluster // nil: the caller's servers
	log       *zap.Logger

	layout admin.Config
	direct *nats.Conn // without a proxy: to provision, to control servers and to check
	cell   *jetstream.Cell

	mu      sync.Mutex // guards the next group, and is held while a server starts
	down    int        // the stopped server; -1: none
	rolling bool       // a stream is being rolled back

	lost      sync.Mutex // guards rollbacks
	rollbacks []rollback
}

// newSite sets up a cell. The cluster keeps its files in dir.
func newSite(ctx context.Context, c Config, dir string) (g *site, err error) {
	g = &site{namespace: jetstream.DefaultNamespace, servers: c.Servers, local: c.Server, log: c.Logger, down: -1}
	g.layout = admin.Config{Replicas: c.Replicas, Queues: []admin.QueueConfig{{Name: Queue, AckWait: queueLease}}}
	switch {
	case c.Server != nil:
		g.layout.Memory = c.Server.InMemory()
	case c.Servers == nil:
		g.cluster, err = cluster.Start(ctx, filepath.Join(dir, "nats"))
		if err != nil {
			return nil, err
		}
		g.servers, g.layout.Replicas = &natscli.Flags{Server: g.cluster.ClientURL()}, cluster.Size
	default:
		g.namespace = "torture_" + strconv.FormatUint(c.Seed, 36) + "_" + strconv.FormatInt(time.Now().UnixMilli(), 36)
	}
	if err = g.settle(ctx); err != nil {
		// Clean up even if ctx has ended.
		end, cancel := context.WithTimeout(context.WithoutCancel(ctx), endTimeout)
		defer cancel()
		return nil, errors.Join(err, g.close(end))
	}
	return g, nil
}

// settle connects to the servers and creates the cell.
func (g *site) settle(ctx context.Context) (err error) {
	if g.direct, err = g.dial(ctx, "turnlog-torture", nil); err != nil {
		return err
	}
	if g.cell, err = jetstream.Open(g.direct, g.namespace); err != nil {
		return err
	}
	// If ctx ends, a stream that is being created would appear after the others were removed.
	whole, cancel := context.WithTimeout(context.WithoutCancel(ctx), setUpTimeout)
	defer cancel()
	if err = admin.Of(g.cell).Provision(whole, g.layout); err != nil {
		return fmt.Errorf("set up namespace %s: %w", g.namespace, err)
	}
	return context.Cause(ctx)
}

// processPrefix begins the names of the processes' connections.
const processPrefix = "turnlog-torture-"

// connect opens a connection through a proxy.
func (g *site) connect(ctx context.Context, name string, p *faultproxy.Proxy) (*nats.Conn, *jetstream.Cell, error) {
	nc, err := g.dial(ctx, processPrefix+name, p)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", name, err)
	}
	cell, err := jetstream.Open(nc, g.namespace)
	if err != nil {
		nc.Close()
		return nil, nil, fmt.Errorf("%s: %w", name, err)
	}
	return nc, cell, nil
}

// dial connects to the servers, through a proxy if there is one.
func (g *site) dial(ctx context.Context, name string, p *faultproxy.Proxy) (*nats.Conn, error) {
	inbox := inboxOf(name)
	if g.local == nil {
		servers := *g.servers
		servers.InboxPrefix = cmp.Or(servers.InboxPrefix, inbox)
		if p != nil {
			servers.Dial = p.Dial
		}
		return servers.Connect(ctx, name, g.log)
	}
	opts := []nats.Option{nats.Name(name), func(o *nats.Options) error {
		o.InboxPrefix = cmp.Or(inbox, o.InboxPrefix)
		return nil
	}}
	if p != nil {
		opts = append(opts, p.Option())
	}
	return g.local.Connect(opts...)
}

// inboxOf returns the inbox prefix of a connection, or "" for the default: every other client is a user with
// a name.
func inboxOf(connection string) string {
	name := strings.TrimPrefix(connection, processPrefix)
	if n, err := strconv.Atoi(strings.TrimPrefix(name, "client")); err != nil || n%2 != 0 {
		return ""
	}
	return "_USER_" + name
}

// close ends the cluster, or removes the cell from the caller's servers.
func (g *site) close(ctx context.Context) error {
	if g.cluster != nil {
		if g.direct != nil {
			g.direct.Close()
		}
		g.cluster.Close()
		return nil
	}
	if g.direct == nil {
		return nil
	}
	defer g.direct.Close()
	if g.local != nil {
		return nil
	}
	return g.remove(ctx)
}

// remove deletes the streams of the namespace, which belongs only to this run.
func (g *site) remove(ctx context.Context) error {
	var failed []error
	for _, row := range admin.Topology(g.namespace, admin.Config{}) {
		if err := g.ask(ctx, "STREAM.DELETE."+row.Stream); err != nil {
			failed = append(failed, fmt.Errorf("delete stream %s: %w", row.Stream, err))
		}
	}
	return errors.Join(failed...)
}

const codeNoStream = 10059

// ask sends a request to the JetStream API. A missing stream is not an error.
func (g *site) ask(ctx context.Context, what string) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	msg, err := g.direct.RequestWithContext(ctx, "$JS.API."+what, nil)
	if err != nil {
		return fmt.Errorf("ask %s: %w", what, err)
	}
	var answer struct {
		Error *struct {
			Code int    `json:"err_code"`
			Text string `json:"description"`
		} `json:"error"`
	}
	if err := json.Unmarshal(msg.Data, &answer); err != nil {
		return fmt.Errorf("ask %s: %w", what, err)
	}
	if answer.Error != nil && answer.Error.Code != codeNoStream {
		return fmt.Errorf("ask %s: %s", what, answer.Error.Text)
	}
	return nil
}

// stepdowns lists the requests that make a leader step down.
func (g *site) stepdowns() []string {
	var out []string
	for _, row := range admin.Topology(g.namespace, admin.Config{}) {
		switch row.Name {
		case "JOURNAL", "INBOX", "NAMED", "RUN", "TASKS", "TIMERS":
			out = append(out, "STREAM.LEADER.STEPDOWN."+row.Stream)
		}
		if consumer := map[string]string{"RUN": "drivers", "TASKS": "q_" + Queue}[row.Name]; consumer != "" {
			out = append(out, "CONSUMER.LEADER.STEPDOWN."+row.Stream+"."+consumer)
		}
	}
	return out
}

// stopServer stops one of the servers and returns which, unless one is stopped already: two of
// three are needed, and all for a rollback.
func (g *site) stopServer(pick uint64) (int, bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.down >= 0 || g.rolling {
		return 0, false
	}
	g.down = int(pick % cluster.Size) //nolint:gosec // less than three
	g.cluster.Stop(g.down)
	return g.down, true
}

// startServer starts the stopped server, if there is one. A process that a test starts at the
// same time may hold the server's ports for a moment, so it retries.
func (g *site) startServer(ctx context.Context) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.down < 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, endTimeout)
	defer cancel()
	err := g.cluster.Restart(ctx, g.down)
	for errors.Is(err, syscall.EADDRINUSE) && pause.For(ctx, 50*time.Millisecond) {
		err = g.cluster.Restart(ctx, g.down)
	}
	if err == nil {
		g.down = -1
	}
	return err
}
