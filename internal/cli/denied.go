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

// Permitted does something that sends requests, and gives it up as soon as the server
// says that this user may not send one. Nothing else uses the connection meanwhile.
// The error says what to do.
func (c *Cell) Permitted(ctx context.Context, do func(context.Context) error) error {
	ctx, stop := untilDenied(ctx, c.Conn)
	defer stop()
	return c.explain(do(ctx), nil)
}

// untilDenied returns a context that also ends when the server tells the connection
// that it may not do something, and why: a request that is not permitted is never
// answered, and its sender would wait and try again. It is for as long as nothing
// else uses the connection; stop ends that.
func untilDenied(ctx context.Context, nc *nats.Conn) (_ context.Context, stop func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	before := nc.ErrorHandler()
	nc.SetErrorHandler(func(nc *nats.Conn, sub *nats.Subscription, err error) {
		d, denied := jetstream.Denied(err)
		switch {
		case denied:
			cancel(d)
		case before != nil:
			before(nc, sub, err)
		}
	})
	return ctx, func() {
		nc.SetErrorHandler(before)
		cancel(nil)
	}
}

// hushed has a connection log nothing of what its user is denied: a request that is
// denied fails, and says so.
func hushed(nc *nats.Conn) {
	before := nc.ErrorHandler()
	nc.SetErrorHandler(func(nc *nats.Conn, sub *nats.Subscription, err error) {
		if _, denied := jetstream.Denied(err); !denied && before != nil {
			before(nc, sub, err)
		}
	})
}

// Advise adds to an error what to do about it, if that is known: to connect as somebody
// who may, or to create what is missing, as when the cell is of an earlier release.
func (c *Cell) Advise(err error) error {
	if d, denied := jetstream.Denied(err); denied {
		return fmt.Errorf("%w: %s", err, c.deniedHint(d, nil))
	}
	if errors.Is(err, jetstream.ErrNotProvisioned) {
		return fmt.Errorf("%w (\"turnlog provision\" creates what is missing, or says what stands in its way)", err)
	}
	return err
}

// deniedHint says what to do about something that the server does not let the user do,
// who needs the permissions of all the roles, or else of any that may.
func (c *Cell) deniedHint(d *jetstream.DeniedError, as []admin.Role) string {
	if d.Hearing && strings.HasPrefix(d.Subject, strings.TrimSuffix(cmp.Or(c.Conn.Opts.InboxPrefix, nats.InboxPrefix), ".")+".") {
		return `it hears no replies there: give the --inbox-prefix that "turnlog permissions" prints with the user's role`
	}
	if len(as) == 0 {
		return "connect as a user who may (" + anyOf(admin.Of(c.Cell).Allowed(d)) + ")"
	}
	return fmt.Sprintf("connect as a user with what %q prints", permissionsOf(as...))
}

func anyOf(roles []admin.Role) string {
	if len(roles) == 0 {
		return `"turnlog permissions ROLE" prints what a role does`
	}
	var all []string
	for _, r := range roles {
		all = append(all, strconv.Quote(permissionsOf(r)))
	}
	return strings.Join(all, " or ") + " prints what it takes"
}

// permissionsOf is the command that prints the permissions of roles.
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
