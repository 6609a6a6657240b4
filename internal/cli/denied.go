package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/nats-io/nats.go"

	"github.com/turnlog/turnlog/jetstream"
	"github.com/turnlog/turnlog/jetstream/admin"
)

// Permitted runs do, which sends requests, and stops it as soon as the server denies a request.
// Nothing else may use the connection meanwhile. The error says what to do.
func (c *Cell) Permitted(ctx context.Context, do func(context.Context) error) error {
	ctx, stop := untilDenied(ctx, c.Conn)
	defer stop()
	return c.explain(do(ctx), nil)
}

// untilDenied returns a context that also ends when the server denies something: it never
// answers a denied request, so the sender would wait and retry. Nothing else may use the
// connection until stop is called.
func untilDenied(ctx context.Context, nc *nats.Conn) (_ context.Context, stop func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	restore := OnDenied(nc, func(d *jetstream.DeniedError) { cancel(d) })
	return ctx, func() {
		restore()
		cancel(nil)
	}
}

// OnDenied calls do for every denial by the server, instead of the connection's error
// handler. restore ends that.
func OnDenied(nc *nats.Conn, do func(*jetstream.DeniedError)) (restore func()) {
	before := nc.ErrorHandler()
	nc.SetErrorHandler(func(nc *nats.Conn, sub *nats.Subscription, err error) {
		d, denied := jetstream.Denied(err)
		switch {
		case denied:
			do(d)
		case before != nil:
			before(nc, sub, err)
		}
	})
	return func() { nc.SetErrorHandler(before) }
}

// Advise adds what to do about an error, if that is known: connect as a permitted user, or
// create what is missing, for example in a cell of an earlier release.
func (c *Cell) Advise(err error) error {
	if d, denied := jetstream.Denied(err); denied {
		return c.refused(err, d, nil)
	}
	if errors.Is(err, jetstream.ErrNotProvisioned) {
		return fmt.Errorf("%w (\"turnlog provision\" creates what is missing, or explains why it cannot)", err)
	}
	return err
}

// refused says what to do about a denial. The user needs the permissions of all the roles, or if none are given,
// of any permitted role.
func (c *Cell) refused(err error, d *jetstream.DeniedError, as []admin.Role) error {
	if d.Hearing && strings.HasPrefix(d.Subject, strings.TrimSuffix(cmp.Or(c.Conn.Opts.InboxPrefix, nats.InboxPrefix), ".")+".") {
		return fmt.Errorf(`%w: it cannot receive replies there: give the --inbox-prefix that "turnlog permissions" prints with the user's role or name`, err)
	}
	command := permissionsOf(as...)
	between := " and "
	if len(as) == 0 {
		as, between = admin.Of(c.Cell).Allowed(d), " or "
		command = "turnlog permissions ROLE"
	}
	var roles []string
	for _, r := range as {
		roles = append(roles, string(r))
	}
	if len(roles) == 0 {
		return fmt.Errorf("%w (%q prints the permissions of a role)", err, command)
	}
	return fmt.Errorf("this needs the role %s (%q prints the permissions of a role): %w", strings.Join(roles, between), command, err)
}

// permissionsOf returns the command that prints the permissions of roles.
func permissionsOf(roles ...admin.Role) string {
	words := []string{"turnlog permissions"}
	for _, r := range roles {
		words = append(words, string(r))
	}
	if slices.Contains(roles, admin.RoleWorker) {
		words = append(words, "--queue NAME")
	}
	return strings.Join(words, " ")
}
