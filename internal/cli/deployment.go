package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go"
	"github.com/spf13/cobra"
	"go.uber.org/zap"

	"github.com/turnlog/turnlog/internal/natscli"
	"github.com/turnlog/turnlog/jetstream"
)

const envNamespace = "TURNLOG_NAMESPACE"

// Deployment says which cell is meant, and on which server.
type Deployment struct {
	natscli.Flags

	namespace string
	provision bool
	replicas  int
	getenv    func(string) string
}

// NewDeployment adds the flags that say where to connect to cmd and the commands
// below it.
func NewDeployment(cmd *cobra.Command, getenv func(string) string) *Deployment {
	d := &Deployment{getenv: getenv}
	fs := cmd.PersistentFlags()
	d.Register(fs, getenv)
	usage := "`name` of the deployment on its server, default " + jetstream.DefaultNamespace + " [" + envNamespace + "]"
	fs.StringVar(&d.namespace, "namespace", "", usage)
	return d
}

// Provisions adds the flags of a program that creates what the cell is missing.
func (d *Deployment) Provisions(cmd *cobra.Command) {
	fs := cmd.PersistentFlags()
	fs.BoolVar(&d.provision, "provision", true, "create the deployment's streams if they are missing")
	fs.IntVar(&d.replicas, "replicas", 1, "`copies` of each stream that is created")
}

// Namespace is the cell's.
func (d *Deployment) Namespace() string {
	return cmp.Or(d.namespace, d.getenv(envNamespace), jetstream.DefaultNamespace)
}

// Cell is a cell and the connection that it is reached over.
type Cell struct {
	*jetstream.Cell
	Conn *nats.Conn
}

// Close closes the connection.
func (c *Cell) Close() { c.Conn.Close() }

// Open connects and returns the cell once everything is there. The connection
// shows up as program on the server. The error says what is missing, and what to
// do.
func (d *Deployment) Open(ctx context.Context, program string, log *zap.Logger) (*Cell, error) {
	nc, err := d.Connect(ctx, program, log)
	if err != nil {
		return nil, err
	}
	cell, err := jetstream.Open(nc, d.Namespace())
	if err == nil {
		err = d.complete(ctx, cell, log)
	}
	if err != nil {
		at := nc.ConnectedUrlRedacted()
		nc.Close()
		return nil, explain(at, err)
	}
	return &Cell{Cell: cell, Conn: nc}, nil
}

// complete checks that everything is there, and creates it if it is not and the
// program does so.
func (d *Deployment) complete(ctx context.Context, cell *jetstream.Cell, log *zap.Logger) error {
	err := cell.Check(ctx)
	if !d.provision || !errors.Is(err, jetstream.ErrNotProvisioned) {
		return err
	}
	if err := cell.Provision(ctx, jetstream.Config{Replicas: d.replicas}); err != nil {
		return err
	}
	log.Info("cell provisioned", zap.String("namespace", cell.Namespace()), zap.Int("replicas", d.replicas))
	return nil
}

// explain adds what to do about it.
func explain(at string, err error) error {
	switch {
	case errors.Is(err, jetstream.ErrNoJetStream):
		return fmt.Errorf("%w at %s: start that server with JetStream (nats-server -js), or connect to one that has it", jetstream.ErrNoJetStream, at)
	case errors.Is(err, jetstream.ErrNotProvisioned):
		return fmt.Errorf("%s: %w (\"turnlog provision\" does that, and so do driver-node and tool-worker when they start)", at, err)
	}
	if _, ok := errors.AsType[*jetstream.MismatchError](err); ok {
		return fmt.Errorf("%s: %w: change these settings, or take another --namespace", at, err)
	}
	return fmt.Errorf("%s: %w", at, err)
}

// Lasting returns a context that also ends when the connection is closed for good,
// as the server does when credentials are revoked.
func (c *Cell) Lasting(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	status := c.Conn.StatusChanged(nats.CLOSED)
	go func() {
		select {
		case <-status:
			if ctx.Err() == nil {
				cancel(fmt.Errorf("connection closed for good: %w", cmp.Or(c.Conn.LastError(), nats.ErrConnectionClosed)))
			}
		case <-ctx.Done():
		}
	}()
	return ctx, func() {
		cancel(nil)
		c.Conn.RemoveStatusListener(status)
	}
}
