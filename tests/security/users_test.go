package security

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/nats-io/nats.go"

	"github.com/turnlog/turnlog/embedded"
	"github.com/turnlog/turnlog/internal/testing/parallel"
	"github.com/turnlog/turnlog/internal/testing/ramdisk"
	"github.com/turnlog/turnlog/jetstream"
	"github.com/turnlog/turnlog/jetstream/admin"
	"github.com/turnlog/turnlog/turnlogtest"
)

func TestMain(m *testing.M) {
	if role := os.Getenv(smallRole); role != "" {
		if err := runSmall(role); err != nil {
			fmt.Println(role+":", err)
			os.Exit(1)
		}
		return
	}
	ramdisk.Use()
	parallel.Tests(4) // one test waits for programs most of the time
	turnlogtest.Main(m)
}

// password is the password of users, which is not secret.
const password = "p"

// other is a second queue, in addition to that of worlds.
const other = "other"

// users returns the users of a cell by name, with their roles.
func users() map[string]admin.Grant {
	all := map[string]admin.Grant{
		"worker_other": {Roles: []admin.Role{admin.RoleWorker}, Queue: other},
		// A worker that offers sub-agents is a client of the cell, and approves for them.
		"delegate": {Roles: []admin.Role{admin.RoleWorker, admin.RoleClient, admin.RoleApprover}, Queue: turnlogtest.Queue},
	}
	for _, r := range admin.Grantable() {
		g := admin.Grant{Roles: []admin.Role{r}}
		if r == admin.RoleWorker {
			g.Queue = turnlogtest.Queue
		}
		all[string(r)] = g
	}
	for name, g := range all {
		g.Inbox = "_INBOX_" + name
		all[name] = g
	}
	for _, name := range []string{"ada", "bob"} {
		all[name] = admin.Grant{Roles: []admin.Role{admin.RoleClient, admin.RoleApprover, admin.RoleScheduler}, User: name}
	}
	for _, name := range []string{"kim", "lee"} {
		all[name] = admin.Grant{Roles: []admin.Role{admin.RoleKeeper}, User: name}
	}
	return all
}

// apart returns the users in accounts.
func apart(t testing.TB) []admin.Account {
	t.Helper()
	var list []admin.User
	for name, g := range users() {
		list = append(list, admin.User{Name: name, Grant: g})
	}
	all, err := admin.Accounts(list)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// accounts returns the configuration of a server with the users in accounts.
func accounts(t testing.TB, v2 bool) string {
	t.Helper()
	all := apart(t)
	conf, err := admin.AccountsConf(all, func(u admin.User) string { return fmt.Sprintf("user: %s, password: %q", u.Name, password) })
	if err != nil {
		t.Fatal(err)
	}
	conf = strings.Replace(conf, "users: [", fmt.Sprintf("users: [ { user: spy, password: %q }", password), 1) // of the cell
	return fmt.Sprintf("feature_flags { js_ack_fc_v2: %t }\n", v2) + conf
}

// settings returns the configuration of a server with the users in one account, all with one password.
func settings(t testing.TB, v2 bool, password string) string {
	t.Helper()
	var b strings.Builder
	fmt.Fprintf(&b, "feature_flags { js_ack_fc_v2: %t }\nauthorization { users: [\n{ user: spy, password: %q }\n", v2, password)
	for name, g := range users() {
		p, err := admin.PermissionsOf(g)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&b, "{ user: %s, password: %q\n%s}\n", name, password, p.Conf())
	}
	b.WriteString("] }\n")
	return b.String()
}

// cell is a deployment whose server knows the users.
type cell struct {
	t   testing.TB
	ctx context.Context //nolint:containedctx // the test's
	srv *embedded.Server
	as  func(user string) nats.Option // its credentials

	mu        sync.Mutex
	forbidden map[string][]string // by user: permission errors
}

// layouts returns how a cell with the users can be started.
func layouts() map[string]func(t testing.TB, v2 bool) *cell {
	return map[string]func(testing.TB, bool) *cell{"one account": newCell, "accounts": newApart, "JWTs": newSigned}
}

// inEachLayout runs a test in virtual time, with all users in one account and in accounts of their roles,
// which the server has from its configuration and as JWTs. With JWTs, deliveries are acknowledged on the older form of
// subjects, and with the same accounts of a configuration on the newer one.
func inEachLayout(t *testing.T, test func(t *testing.T, c *cell)) {
	t.Helper()
	t.Parallel()
	for name, start := range layouts() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { test(t, start(t, name == "accounts")) })
		})
	}
}

// newCell returns a cell with all users in one account.
func newCell(t testing.TB, v2 bool) *cell {
	t.Helper()
	return start(t, settings(t, v2, password), withPassword)
}

// newApart returns a cell with an account for each role.
func newApart(t testing.TB, v2 bool) *cell {
	t.Helper()
	return start(t, accounts(t, v2), withPassword)
}

// withPassword returns the credentials of a user of a server's configuration.
func withPassword(user string) nats.Option { return nats.UserInfo(user, password) }

// start starts a server, in the bubble that the test runs in, and provisions it.
func start(t testing.TB, settings string, as func(user string) nats.Option) *cell {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	srv, err := embedded.Start(ctx, embedded.WithSettings(settings))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if _, bench := t.(*testing.B); !bench { // a test is in a bubble
			synctest.Wait()
		}
		srv.Close()
	})
	c := &cell{t: t, ctx: ctx, srv: srv, as: as, forbidden: make(map[string][]string)}
	cfg := admin.Config{Memory: true, Queues: []admin.QueueConfig{{Name: turnlogtest.Queue}, {Name: other}}}
	if err := admin.Of(c.open("provisioner")).Provision(ctx, cfg); err != nil {
		t.Fatal(err)
	}
	return c
}

// connect connects as a user.
func (c *cell) connect(name string) *nats.Conn {
	c.t.Helper()
	nc, err := user{c, name}.Connect()
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(nc.Close)
	return nc
}

func (c *cell) open(name string) *jetstream.Cell {
	c.t.Helper()
	cell, err := jetstream.Open(c.connect(name), "")
	if err != nil {
		c.t.Fatal(err)
	}
	return cell
}

// world returns the cell as a user sees it.
func (c *cell) world(name string) *turnlogtest.Deployment {
	w := &turnlogtest.Deployment{T: c.t, Ctx: c.ctx, Server: user{c, name}}
	w.Conn = w.Connect()
	w.Cell = w.Open(w.Conn)
	return w
}

// user connects to the server as one user.
type user struct {
	cell *cell
	name string
}

// Connect implements turnlogtest.Connector.
func (u user) Connect(opts ...nats.Option) (*nats.Conn, error) {
	opts = append(opts, u.cell.as(u.name), nats.CustomInboxPrefix(users()[u.name].Prefix()),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
			if !errors.Is(err, nats.ErrPermissionViolation) {
				return
			}
			u.cell.mu.Lock()
			defer u.cell.mu.Unlock()
			u.cell.forbidden[u.name] = append(u.cell.forbidden[u.name], err.Error())
		}))
	return u.cell.srv.Connect(opts...)
}

// violations returns and clears a user's permission errors, each once.
func (c *cell) violations(name string) []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := c.forbidden[name]
	delete(c.forbidden, name)
	slices.Sort(out)
	return slices.Compact(out)
}

// clean fails the test if there is any permission error.
func (c *cell) clean() {
	c.t.Helper()
	for name := range users() {
		if v := c.violations(name); len(v) > 0 {
			c.t.Errorf("%s needs what it is not permitted:\n%s", name, strings.Join(v, "\n"))
		}
	}
}
