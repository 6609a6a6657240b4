package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/nats-io/nats.go"

	"github.com/turnlog/turnlog/jetstream"
	"github.com/turnlog/turnlog/jetstream/admin"
)

// Permitted runs do, which sends requests, and stops it as soon as the server denies one.
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
		return fmt.Errorf("%w: %s", err, c.deniedHint(d, nil))
	}
	if errors.Is(err, jetstream.ErrNotProvisioned) {
		return fmt.Errorf("%w (\"turnlog provision\" creates what is missing, or says what prevents that)", err)
	}
	return err
}

// deniedHint says what to do about a denial. The user needs the permissions of all the
// roles, or without roles those of any role that is permitted.
func (c *Cell) deniedHint(d *jetstream.DeniedError, as []admin.Role) string {
	if d.Hearing && strings.HasPrefix(d.Subject, strings.TrimSuffix(cmp.Or(c.Conn.Opts.InboxPrefix, nats.InboxPrefix), ".")+".") {
		return `it cannot receive replies there: give the --inbox-prefix that "turnlog permissions" prints with the user's role or name`
	}
	if len(as) == 0 {
		return "connect as a user with the permission (" + anyOf(admin.Of(c.Cell).Allowed(d)) + ")"
	}
	return fmt.Sprintf("connect as a user with what %q prints", permissionsOf(as...))
}

func anyOf(roles []admin.Role) string {
	if len(roles) == 0 {
		return `"turnlog permissions ROLE" prints what a role needs`
	}
	var all []string
	for _, r := range roles {
		all = append(all, strconv.Quote(permissionsOf(r)))
	}
	return strings.Join(all, " or ") + " prints what is needed"
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
