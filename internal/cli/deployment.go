package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/spf13/cobra"
	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"github.com/turnlog/turnlog/audit/keys"
	"github.com/turnlog/turnlog/internal/natscli"
	"github.com/turnlog/turnlog/internal/pause"
	"github.com/turnlog/turnlog/jetstream"
	"github.com/turnlog/turnlog/jetstream/admin"
)

const envNamespace = "TURNLOG_NAMESPACE"

// Deployment names a cell, and its server.
type Deployment struct {
	natscli.Flags

	namespace string
	provision bool
	replicas  int
	patience  time.Duration // how long to wait for the server
	signKey   string        // the file; "": nothing is signed
	seals     SealKey
	lasting   bool // the program runs until it is stopped
	getenv    func(string) string
}

// NewDeployment adds the flags that say where to connect to cmd and its subcommands.
func NewDeployment(cmd *cobra.Command, getenv func(string) string) *Deployment {
	d := &Deployment{getenv: getenv}
	fs := cmd.PersistentFlags()
	Group(fs, connectionFlags, func() {
		d.Register(fs, getenv)
		usage := "`name` of the deployment on its server, default " + jetstream.DefaultNamespace + " [" + envNamespace + "]"
		fs.StringVar(&d.namespace, "namespace", "", usage)
		d.seals.Register(cmd, getenv)
	})
	return d
}

// Provisions adds the flags of a program that creates missing parts of the cell.
func (d *Deployment) Provisions(cmd *cobra.Command) {
	d.lasting = true
	fs := cmd.PersistentFlags()
	fs.BoolVar(&d.provision, "provision", true, "create the deployment's streams if they are missing")
	fs.IntVar(&d.replicas, "replicas", 1, "`copies` of each stream that is created")
	fs.DurationVar(&d.patience, "connect-timeout", 5*time.Second, "`time` to wait for a server that is not up")
}

// Signs adds the flag of a program that signs what it writes.
func (d *Deployment) Signs(cmd *cobra.Command, what string) {
	cmd.PersistentFlags().StringVar(&d.signKey, "sign-key", "", "`file` with the private key that signs "+what+" (see \"turnlog keys\"); default: nothing is signed")
	_ = cmd.MarkPersistentFlagFilename("sign-key") // the flag exists
}

// Namespace returns the namespace of the cell.
func (d *Deployment) Namespace() string {
	return cmp.Or(d.namespace, d.getenv(envNamespace), jetstream.DefaultNamespace)
}

// At returns the deployment of the same name at another place, see natscli.Flags.
func (d *Deployment) At(place string) *Deployment {
	at := *d
	at.Flags = d.Flags.At(place)
	return &at
}

// Repeat returns the flags on the command line that name the deployment, without credentials.
func (d *Deployment) Repeat() string {
	flags := d.Flags.Repeat()
	if d.namespace != "" {
		flags += " --namespace " + d.namespace
	}
	if d.seals.file != "" {
		flags += " --seal-key " + d.seals.file
	}
	return flags
}

// Cell is a cell and its connection.
type Cell struct {
	*jetstream.Cell
	Conn *nats.Conn
}

// Close closes the connection.
func (c *Cell) Close() { c.Conn.Close() }

// Open connects and returns the cell if it is complete. The server shows the connection
// under the name of the program. The error says what is missing, and what to do. A
// program that creates nothing checks only what its roles can read.
func (d *Deployment) Open(ctx context.Context, program string, log *zap.Logger, as ...admin.Role) (*Cell, error) {
	cell, err := d.Dial(ctx, program, log)
	if err != nil {
		return nil, err
	}
	if err := d.complete(ctx, cell, log, as); err != nil {
		cell.Close()
		return nil, err
	}
	return cell, nil
}

// Dial connects and returns the cell, complete or not. Invalid settings are usage errors.
func (d *Deployment) Dial(ctx context.Context, program string, log *zap.Logger) (*Cell, error) {
	if _, err := jetstream.ParseNamespace(d.Namespace()); err != nil {
		return nil, Usage("--%w", err)
	}
	var key *keys.Signer
	if d.signKey != "" {
		var err error
		if key, err = keys.Read(d.signKey); err != nil {
			return nil, Usage("--sign-key: %w", err)
		}
	}
	ring, err := d.seals.Ring()
	if err != nil {
		return nil, err
	}
	nc, err := d.connect(ctx, program, log)
	if errors.Is(err, natscli.ErrSettings) {
		return nil, Usage("%w", err)
	}
	if err != nil {
		return nil, err
	}
	if !d.lasting {
		OnDenied(nc, func(*jetstream.DeniedError) {}) // the denied request fails and says so
	}
	cell, err := jetstream.Open(nc, d.Namespace())
	if err != nil {
		nc.Close()
		return nil, err
	}
	return &Cell{Cell: cell.Signing(key).Sealing(ring), Conn: nc}, nil
}

// connectPause is the time between attempts to connect.
const connectPause = 200 * time.Millisecond

// connect waits for a server that may be starting.
func (d *Deployment) connect(ctx context.Context, program string, log *zap.Logger) (*nats.Conn, error) {
	end := time.Now().Add(d.patience)
	for first := true; ; first = false {
		nc, err := d.Connect(ctx, program, log)
		switch {
		case d.patience <= 0 || !errors.Is(err, natscli.ErrNoServer):
			return nc, err
		case time.Now().After(end):
			return nil, fmt.Errorf("%w (waited %v)", err, d.patience)
		case first:
			log.Warn("no server answers yet", zap.Duration("patience", d.patience), zap.Error(err))
		}
		if !pause.For(ctx, connectPause) {
			return nil, context.Cause(ctx)
		}
	}
}

// complete checks that the cell is complete. It creates missing parts if the program provisions.
func (d *Deployment) complete(ctx context.Context, cell *Cell, log *zap.Logger, as []admin.Role) error {
	if d.provision {
		as = nil // check everything
	}
	within, stop := untilDenied(ctx, cell.Conn)
	err := cell.explain(admin.Of(cell.Cell).Check(within, as...), as)
	stop()
	switch {
	case d.provision && errors.Is(err, nats.ErrPermissionViolation):
		return fmt.Errorf("%w, or give --provision=false if all streams exist", err)
	case !d.provision || !errors.Is(err, jetstream.ErrNotProvisioned):
		return err
	}
	if err := cell.Provision(ctx, admin.Config{Replicas: d.replicas}); err != nil {
		return err
	}
	log.Info("cell provisioned", zap.String("namespace", cell.Namespace()), zap.Int("replicas", d.replicas))
	return nil
}

// Provision creates the missing parts of the cell. The error says what to do.
func (c *Cell) Provision(ctx context.Context, cfg admin.Config) error {
	return c.Permitted(ctx, func(ctx context.Context) error { return admin.Of(c.Cell).Provision(ctx, cfg) })
}

// explain adds the server to an error, and what to do. as has the roles whose permissions suffice, if
// that is known.
func (c *Cell) explain(err error, as []admin.Role) error {
	at := c.Conn.ConnectedUrlRedacted()
	_, differs := errors.AsType[*admin.MismatchError](err)
	denied, isDenied := jetstream.Denied(err)
	_, overlaps := errors.AsType[*admin.OverlapError](err)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, jetstream.ErrNoJetStream):
		return fmt.Errorf("%w at %s: start that server with JetStream (nats-server -js), or connect to one that has it", jetstream.ErrNoJetStream, at)
	case errors.Is(err, jetstream.ErrNotProvisioned):
		return c.Advise(fmt.Errorf("%s: %w", at, err))
	case differs:
		return fmt.Errorf("%s: %w: nothing was created: request the existing settings, change them, or use another --namespace", at, err)
	case overlaps:
		return fmt.Errorf("%s: %w: nothing was created: delete that stream, or use another --namespace", at, err)
	case isDenied:
		return c.refused(fmt.Errorf("%s: %w", at, err), denied, as)
	}
	return fmt.Errorf("%s: %w", at, err)
}

// Lasting returns a context that also ends when the connection is closed permanently, for
// example because credentials were revoked.
func (c *Cell) Lasting(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	status := c.Conn.StatusChanged(nats.CLOSED)
	go func() {
		select {
		case <-status:
			if ctx.Err() == nil {
				cancel(fmt.Errorf("connection closed permanently: %w", cmp.Or(c.Conn.LastError(), nats.ErrConnectionClosed)))
			}
		case <-ctx.Done():
		}
	}()
	return ctx, func() {
		cancel(nil)
		c.Conn.RemoveStatusListener(status)
	}
}

// Work runs the work of a program, and serves its endpoints until the work returns. The work ends
// when ctx ends; a signal is the regular end. It also ends when the connection is lost permanently,
// which is an error.
func (c *Cell) Work(ctx context.Context, serve, work func(context.Context) error) error {
	ctx, stop := c.Lasting(ctx)
	defer stop()
	group, gctx := errgroup.WithContext(ctx)
	serving, done := context.WithCancel(context.WithoutCancel(ctx))
	defer done()
	group.Go(func() error {
		defer done()
		return work(gctx)
	})
	group.Go(func() error { return serve(serving) })
	if err := group.Wait(); err != nil {
		return err //nolint:wrapcheck // of serve or work
	}
	if _, ok := errors.AsType[*Interrupted](context.Cause(ctx)); !ok {
		return context.Cause(ctx)
	}
	return nil
}

// Ready returns a check of the connection, and then of the program.
func (c *Cell) Ready(program func() error) func() error {
	return func() error {
		if !c.Conn.IsConnected() {
			return fmt.Errorf("not connected to NATS: %v", c.Conn.Status())
		}
		return program()
	}
}
