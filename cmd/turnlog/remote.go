package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	"go.uber.org/zap/zapcore"

	"github.com/turnlog/turnlog/client"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/internal/cli"
	"github.com/turnlog/turnlog/jetstream"
)

// remote is a command's way to a deployment.
type remote struct {
	app        *app
	name       string         // of the command
	role       jetstream.Role // whose permissions suffice
	deployment *cli.Deployment
	logs       *cli.Log
}

// newRemote adds the flags that say where the deployment is to cmd and the commands
// below it.
func newRemote(a *app, cmd *cobra.Command) *remote {
	return &remote{
		app: a, name: cmd.Name(), role: jetstream.RoleClient,
		deployment: cli.NewDeployment(cmd, a.getenv), logs: cli.NewLog(cmd, zapcore.WarnLevel),
	}
}

// forApprovers says that the command is for approvers, too, who may look at less than
// clients. It returns r.
func (r *remote) forApprovers() *remote {
	r.role = jetstream.RoleApprover
	return r
}

// do runs something with a client of the deployment, until somebody interrupts.
func (r *remote) do(ctx context.Context, do func(context.Context, *cli.Cell, *client.Client) error) error {
	return r.app.interruptible(ctx, func(ctx context.Context) error {
		log := r.logs.Logger(r.app.term.err, r.app.getenv)
		d, err := r.deployment.Open(ctx, "turnlog "+r.name, log, r.role)
		if err != nil {
			return err
		}
		defer d.Close()
		c, err := client.Open(d.Conn, d.Namespace(), client.WithLogger(log), client.WithName(r.app.person()))
		if err != nil {
			return err
		}
		return d.Advise(do(ctx, d, c))
	})
}

// ask asks a session for something and waits for the answer, but not for ever.
func (r *remote) ask(ctx context.Context, c *client.Client, id content.SessionID, ask func(context.Context, *client.Session) error) error {
	s, err := c.Attach(ctx, id)
	if err != nil {
		return noSession(id, err)
	}
	defer s.Close()
	ctx, done := context.WithTimeout(ctx, r.app.patience.answer)
	defer done()
	err = ask(ctx, s)
	refused, ok := errors.AsType[*client.RefusedError](err)
	switch {
	case ok:
		return fmt.Errorf("session %s: %s", id, refused.Detail)
	case errors.Is(err, client.ErrNoAnswer) && errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("session %s: %w within %v: it stays queued until a driver-node takes it", id, client.ErrNoAnswer, r.app.patience.answer)
	}
	return err
}

// parseCall checks a call's id from the command line.
func parseCall(text string) (content.CallID, error) {
	if !content.IsToken(text) {
		return "", usageError("call %q: use the id that \"turnlog calls\" shows", text)
	}
	return content.CallID(text), nil
}
