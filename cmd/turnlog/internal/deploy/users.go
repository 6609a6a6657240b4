package deploy

import (
	"cmp"
	"fmt"
	"io"
	"net"
	"net/url"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/nats-io/nats.go"
	"golang.org/x/crypto/bcrypt"

	"github.com/turnlog/turnlog/internal/cli"
	"github.com/turnlog/turnlog/internal/natscli"
	"github.com/turnlog/turnlog/jetstream"
	"github.com/turnlog/turnlog/jetstream/admin"
)

// roleUsers has the users of a server with roles. nil: none.
type roleUsers struct {
	users    []admin.User
	logins   []natscli.Login // of the users
	self     natscli.Login   // the server's own user, which provisions the deployment
	settings string          // the server's settings, with all users in their accounts
	lasting  bool            // the next start has the same address and keeps the passwords
}

// parseUsers parses users like usersOf. They keep their earlier passwords.
func (f *serverFlags) parseUsers(words []string) (*roleUsers, error) {
	_, port, err := net.SplitHostPort(f.listen)
	if err != nil {
		return nil, cli.Usage("--listen %s: write it like 127.0.0.1:4222", f.listen)
	}
	c := &roleUsers{users: usersOf(f.namespace, words), lasting: port != "0"}
	self := admin.User{Name: "turnlog.server", Grant: admin.Grant{Namespace: f.namespace, Roles: []admin.Role{admin.RoleProvisioner}, Inbox: "_INBOX_server"}}
	c.self = natscli.Login{User: self.Name, Password: natscli.NewSecret(), InboxPrefix: self.Inbox}
	accounts, err := admin.Accounts(append(slices.Clone(c.users), self))
	if err != nil {
		return nil, cli.Usage("%w", err)
	}
	for _, u := range c.users {
		login := natscli.Login{User: u.Name, InboxPrefix: u.Prefix()}
		if c.lasting {
			if login.Password, err = natscli.KeptPassword(f.getenv, port, u.Name); err != nil {
				return nil, err
			}
		}
		login.Password = cmp.Or(login.Password, natscli.NewSecret())
		c.logins = append(c.logins, login)
	}
	if c.settings, err = admin.AccountsConf(accounts, c.entry); err != nil {
		return nil, cli.Usage("%w", err)
	}
	return c, nil
}

// entry returns the credentials of a user in the server's settings. The cheapest hash is enough for a
// password that cannot be guessed; without one, the server warns about passwords in its settings.
func (c *roleUsers) entry(u admin.User) string {
	login := c.self
	if i := slices.IndexFunc(c.logins, func(l natscli.Login) bool { return l.User == u.Name }); i >= 0 {
		login = c.logins[i]
	}
	hash, err := bcrypt.GenerateFromPassword([]byte(login.Password), bcrypt.MinCost)
	if err != nil { // only for passwords of more than 72 bytes
		hash = []byte(login.Password)
	}
	return fmt.Sprintf("user: %q, password: %q", u.Name, hash)
}

// options returns how the server itself connects.
func (c *roleUsers) options() []nats.Option {
	if c == nil {
		return nil
	}
	return []nats.Option{nats.UserInfo(c.self.User, c.self.Password), nats.CustomInboxPrefix(c.self.InboxPrefix)}
}

// queues returns the queues of the workers, who may not create them.
func (c *roleUsers) queues() (out []admin.QueueConfig) {
	if c == nil {
		return nil
	}
	for _, u := range c.users {
		if q := (admin.QueueConfig{Name: u.Queue}); u.Queue != "" && !slices.Contains(out, q) {
			out = append(out, q)
		}
	}
	return out
}

// printPrograms prints which programs connect as which user to a server at a URL.
func (c *roleUsers) printPrograms(w io.Writer, at string) {
	u, err := url.Parse(at)
	if c == nil || err != nil {
		return
	}
	_, _ = fmt.Fprintf(w, "Each user has a context that only you can read. Its programs:\n\n")
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, user := range c.users {
		at := " --context " + natscli.LocalName(u.Port(), user.Name)
		if user.Namespace != jetstream.DefaultNamespace {
			at += " --namespace " + user.Namespace
		}
		for _, r := range user.Roles {
			_, _ = fmt.Fprintf(table, "  %s\t%s\n", r, program(r, at, user.Grant))
		}
	}
	_ = table.Flush()
	_, _ = fmt.Fprintf(w, "\nCtrl-C ends it.\n")
}

// program returns a command of a role that connects with the flags at.
func program(r admin.Role, at string, g admin.Grant) string {
	switch r {
	case admin.RoleDriver:
		return "driver-node" + at
	case admin.RoleWorker:
		words := []string{"tool-worker" + at, "--queue", g.Queue, "--provision=false"}
		for _, s := range g.Services {
			words = append(words, "--nats-service", s)
		}
		return strings.Join(words, " ")
	case admin.RoleService:
		return "nats" + at + " micro serve " + g.Services[0] + "  # or a program of yours that is the service"
	case admin.RoleClient:
		return "turnlog run" + at + ` "What is in this directory?"`
	case admin.RoleApprover:
		return "turnlog approvals ls" + at
	case admin.RoleObserver:
		return "observer tail" + at
	case admin.RoleScheduler:
		return "turnlog schedule ls" + at
	case admin.RoleKeeper:
		return "turnlog gc" + at + " --older-than 90d"
	case admin.RoleDoctor:
		return "turnlog doctor" + at
	case admin.RoleNotary:
		return "turnlog notary" + at + " --sign-key FILE"
	case admin.RoleMessenger:
		return "turnlog webhooks" + at + " --endpoints FILE"
	case admin.RoleProvisioner, admin.RoleServer:
		return "turnlog provision" + at
	}
	return ""
}
