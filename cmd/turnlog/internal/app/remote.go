package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/turnlog/turnlog/client"
	"github.com/turnlog/turnlog/client/report"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/internal/cli"
	"github.com/turnlog/turnlog/jetstream/admin"
	"github.com/turnlog/turnlog/loop"
	"github.com/turnlog/turnlog/session"
)

// Remote connects a command to the deployment that its flags name.
type Remote struct {
	*cli.Deployment

	App  *App
	Role admin.Role // the role whose permissions suffice

	name string
	logs *cli.Log
}

// Remote adds the flags that say where the deployment is to cmd and the commands
// below it.
func (a *App) Remote(cmd *cobra.Command, role admin.Role) *Remote {
	return a.RemoteAt(cmd, role, zapcore.WarnLevel)
}

// RemoteClient is Remote for a command that talks to sessions.
func (a *App) RemoteClient(cmd *cobra.Command) *Remote { return a.Remote(cmd, admin.RoleClient) }

// ServerOptional adds to the help of a command what it does without a server.
func ServerOptional(cmd *cobra.Command, without string) {
	cmd.PersistentFlags().Lookup("server").Usage = "NATS server `URL`s, separated by commas; default: none, " + without + " [NATS_URL]"
}

// RemoteApprover is Remote for a command that decides for people.
func (a *App) RemoteApprover(cmd *cobra.Command) *Remote { return a.Remote(cmd, admin.RoleApprover) }

// RemoteAt is Remote for a command that logs from another level by default.
func (a *App) RemoteAt(cmd *cobra.Command, role admin.Role, level zapcore.Level) *Remote {
	r := &Remote{
		Deployment: cli.NewDeployment(cmd, a.Getenv), App: a, Role: role,
		name: cmd.Name(), logs: cli.NewLog(cmd, level),
	}
	if role == admin.RoleClient || role == admin.RoleApprover || role == admin.RoleScheduler {
		r.Signs(cmd, "what this command sends")
	}
	return r
}

// As returns the same connection for the permissions of another role.
func (r *Remote) As(role admin.Role) *Remote {
	as := *r
	as.Role = role
	return &as
}

// Logger returns the logger that the flags describe.
func (r *Remote) Logger() *zap.Logger { return r.logs.Logger(r.App.Logs, r.App.Getenv) }

// Program is the command's name, as the server shows it.
func (r *Remote) Program() string { return "turnlog " + r.name }

// Named reports whether the command line or the environment names a server. A context that is
// selected in the nats command does not count: it must not redirect a command that works without a
// server.
func (r *Remote) Named() bool {
	for _, flag := range []string{r.Server, r.Context, r.Creds, r.User, r.Token, r.NKey} {
		if flag != "" {
			return true
		}
	}
	return r.App.Getenv("NATS_URL") != "" || r.App.Getenv("NATS_CONTEXT") != ""
}

// Connect opens the deployment, unless a signal comes first. The caller closes it.
func (r *Remote) Connect(ctx context.Context) (cell *cli.Cell, err error) {
	err = r.App.Interruptible(ctx, func(ctx context.Context) error {
		cell, err = r.Open(ctx, r.Program(), r.Logger(), r.Role)
		return err
	})
	return cell, err
}

// Client returns a client on the connection of a deployment. Journals record its name: the name that the
// server verifies, or else the name from the environment.
func (r *Remote) Client(d *cli.Cell, opts ...client.Option) (*client.Client, error) {
	name := cmp.Or(d.User(), r.App.Person())
	return client.Open(d.Conn, d.Namespace(), append(opts, client.WithLogger(r.Logger()), client.WithName(name), client.WithKey(d.Key()), client.WithSealKeys(d.SealRing()))...)
}

// Do runs something with a client of the deployment, until a signal comes.
func (r *Remote) Do(ctx context.Context, do func(context.Context, *cli.Cell, *client.Client) error) error {
	return r.App.Interruptible(ctx, func(ctx context.Context) error {
		d, err := r.Open(ctx, r.Program(), r.Logger(), r.Role)
		if err != nil {
			return err
		}
		defer d.Close()
		c, err := r.Client(d)
		if err != nil {
			return err
		}
		return d.Advise(do(ctx, d, c))
	})
}

// DoWith runs something with a session of the deployment. It limits the wait for a driver, and
// rewords the session's refusal.
func (r *Remote) DoWith(ctx context.Context, id content.SessionID, do func(context.Context, *client.Client, *session.Session) error) error {
	return r.Do(ctx, func(ctx context.Context, _ *cli.Cell, c *client.Client) error {
		s, err := c.Attach(ctx, id)
		if err != nil {
			return NoSession(id, err)
		}
		defer func() { _ = s.Close(ctx) }()
		ctx, done := context.WithTimeout(ctx, r.App.Patience.Answer)
		defer done()
		err = do(ctx, c, s)
		refused, ok := errors.AsType[*session.InvalidStateError](err)
		switch {
		case ok:
			return fmt.Errorf("session %s: %s", id, refused.Detail)
		case errors.Is(err, session.ErrNoAnswer) && errors.Is(err, context.DeadlineExceeded):
			return fmt.Errorf("session %s: %w within %v: it stays queued until a driver-node takes it", id, session.ErrNoAnswer, r.App.Patience.Answer)
		}
		return err
	})
}

// ReadSession reads a session that was not deleted.
func ReadSession(ctx context.Context, c *client.Client, id content.SessionID) (*loop.State, error) {
	state, _, err := report.Read(ctx, c, id)
	return state, NoSession(id, err)
}

// NoSession rewords the error for a session that does not exist.
func NoSession(id content.SessionID, err error) error {
	if errors.Is(err, session.ErrNotFound) {
		return fmt.Errorf("session %s: %w: \"turnlog sessions ls\" lists all sessions", id, session.ErrNotFound)
	}
	return err
}

// ParseCall parses a call's ID from the command line.
func ParseCall(text string) (content.CallID, error) {
	if !content.IsToken(text) {
		return "", cli.Usage("call %q: use the ID that \"turnlog calls\" shows", text)
	}
	return content.CallID(text), nil
}
