package main

import (
	"strings"
	"testing"

	"github.com/turnlog/turnlog/embedded"
	"github.com/turnlog/turnlog/internal/cli"
	"github.com/turnlog/turnlog/internal/testing/clitest"
	"github.com/turnlog/turnlog/internal/testing/cluster"
	"github.com/turnlog/turnlog/jetstream"
	"github.com/turnlog/turnlog/jetstream/admin"
)

// refused runs the program and returns why it does not start.
func refused(t *testing.T, code int, args ...string) string {
	t.Helper()
	p := start(t, append(args, "--log-level", "error")...)
	if got := p.end(t); got != code {
		t.Fatalf("driver-node %q exits with %d, want %d:\n%s", args, got, code, p.err)
	}
	return p.err.String()
}

// starts runs the program until it drives sessions.
func starts(t *testing.T, args ...string) string {
	t.Helper()
	p := start(t, args...)
	p.err.AwaitMatch(t, "node (started)")
	p.stop(nil)
	p.end(t)
	return p.err.String()
}

func TestTheNodeRefusesAWeakerDeployment(t *testing.T) {
	t.Parallel()
	s, err := embedded.Start(t.Context(), embedded.WithListener("127.0.0.1:0"), embedded.WithStore(t.TempDir()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	cell, _ := clitest.Open(t, s.ClientURL())
	if err := admin.Of(cell).Provision(t.Context(), admin.Config{}); err != nil {
		t.Fatal(err)
	}
	if why := refused(t, cli.CodeFailed, "--server", s.ClientURL(), "--profile", "standard"); !strings.HasPrefix(why,
		"driver-node: the deployment is weaker than its profile standard; TURNLOG_JOURNAL: num_replicas is 1, must be 3: nats stream edit TURNLOG_JOURNAL --replicas 3 --force; ") {
		t.Errorf("standard: %s", why)
	}
	if log := starts(t, "--server", s.ClientURL(), "--profile", "dev"); !strings.Contains(log, `"profile": "dev"`) {
		t.Errorf("dev: %s", log)
	}
	starts(t, "--server", s.ClientURL())
	refused(t, cli.CodeUsage, "--server", s.ClientURL(), "--profile", "best")
	refused(t, cli.CodeUsage, "--server", s.ClientURL(), "--profile", "audit", "--replicas", "1")
	if why := refused(t, cli.CodeUsage, "--server", s.ClientURL(), "--namespace", "none", "--profile", "dev", "--monitor", "n1"); !strings.Contains(why, "--monitor: ") {
		t.Errorf("a monitoring port that is none: %s", why)
	}
	if why := refused(t, cli.CodeFailed, "--server", s.ClientURL(), "--namespace", "new", "--profile", "standard"); !strings.Contains(why, "replicas > 1 not supported") {
		t.Errorf("streams that it would create: %s", why)
	}
}

func TestTheNodeRefusesServersThatMaySyncLate(t *testing.T) {
	t.Parallel()
	c, err := cluster.Start(t.Context(), t.TempDir(), embedded.WithSync())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	audit := []string{"--server", c.ClientURL(), "--profile", "audit"} // it creates the streams
	why := refused(t, cli.CodeFailed, audit...)
	if !strings.Contains(why, "no client can read the sync_interval of "+c.Servers()[0].Name()) || !strings.Contains(why, "--assume-sync always") {
		t.Errorf("without a word of the servers: %s", why)
	}
	if log := starts(t, append(audit, "--assume-sync", "always")...); !strings.Contains(log, `"sync_assumed_of": ["`+c.Servers()[0].Name()+`"`) {
		t.Errorf("with an assumption: %s", log)
	}
}

func TestADriverCanCheckItsProfile(t *testing.T) {
	t.Parallel()
	may, err := admin.PermissionsOf(admin.Grant{Roles: []admin.Role{admin.RoleDriver}, Inbox: "_INBOX_node"})
	if err != nil {
		t.Fatal(err)
	}
	users := "authorization { users: [ { user: admin, password: a }\n{ user: node, password: n\n" + may.Conf() + "} ] }"
	s, err := embedded.Start(t.Context(), embedded.WithListener("127.0.0.1:0"), embedded.WithStore(t.TempDir()), embedded.WithSettings(users))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	as := func(user string) string { return strings.Replace(s.ClientURL(), "//", "//"+user+"@", 1) }
	cell, err := jetstream.Open(clitest.Dial(t, as("admin:a")), "")
	if err != nil {
		t.Fatal(err)
	}
	if err := admin.Of(cell).Provision(t.Context(), admin.Config{}); err != nil {
		t.Fatal(err)
	}
	log := starts(t, "--server", as("node:n"), "--inbox-prefix", "_INBOX_node", "--provision=false", "--profile", "dev")
	if strings.Contains(strings.ToLower(log), "permissions violation") {
		t.Errorf("the node does what it may not:\n%s", log)
	}
}
