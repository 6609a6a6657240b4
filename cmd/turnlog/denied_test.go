package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/turnlog/turnlog/embedded"
	"github.com/turnlog/turnlog/engine"
	"github.com/turnlog/turnlog/internal/cli"
	"github.com/turnlog/turnlog/internal/testing/clitest"
	"github.com/turnlog/turnlog/jetstream"
	"github.com/turnlog/turnlog/jetstream/admin"
)

// restricted starts a deployment with a user for each role. It returns a function that returns
// the flags to connect as one.
func restricted(t *testing.T) (as func(role admin.Role) []string, cell *jetstream.Cell) {
	t.Helper()
	var users strings.Builder
	users.WriteString("{ user: all, password: p }\n")
	for _, role := range admin.Grantable() {
		g := admin.Grant{Roles: []admin.Role{role}, Inbox: "_INBOX_" + string(role)}
		if role == admin.RoleWorker {
			g.Queue = defaultQueue
		}
		p, err := admin.PermissionsOf(g)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&users, "{ user: %s, password: p\n%s }\n", role, p.Conf())
	}
	s, err := embedded.Start(t.Context(), embedded.WithListener("127.0.0.1:0"), embedded.WithSettings("authorization { users: [\n"+users.String()+"] }"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	url := func(user string) string { return strings.Replace(s.ClientURL(), "://", "://"+user+":p@", 1) }
	if cell, err = jetstream.Open(clitest.Dial(t, url("all")), ""); err != nil {
		t.Fatal(err)
	}
	if err := admin.Of(cell).Provision(t.Context(), admin.Config{Memory: true, Queues: []admin.QueueConfig{{Name: defaultQueue}}}); err != nil {
		t.Fatal(err)
	}
	return func(role admin.Role) []string {
		return []string{"--server", url(string(role)), "--inbox-prefix", "_INBOX_" + string(role)}
	}, cell
}

// names reports whether an error names a role that has the permission.
func names(printed, role string) bool {
	_, roles, _ := strings.Cut(printed, "this needs the role ")
	roles, _, _ = strings.Cut(roles, " (")
	return slices.Contains(strings.Split(roles, " or "), role)
}

// A server never answers a denied request. The command fails at once and names the role.
func TestADeniedCommandFailsAtOnceAndNamesTheRole(t *testing.T) {
	t.Parallel()
	as, cell := restricted(t)
	agent := filepath.Join(t.TempDir(), "agent.yaml")
	if err := os.WriteFile(agent, []byte("model: demo\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), clitest.Patience)
	defer cancel()
	if _, err := cell.DeadLetters().Note(ctx, "s"); err != nil {
		t.Fatal(err)
	}
	for _, x := range []struct {
		role admin.Role
		args []string
		want string // that has the permission
	}{
		{admin.RoleClient, []string{"agents", "publish", agent}, "provisioner"},
		{admin.RoleClient, []string{"schedule", "ls"}, "scheduler"},
		{admin.RoleClient, []string{"schedule", "add", "x", "--in", "1h", "hi"}, "scheduler"},
		{admin.RoleClient, []string{"sessions", "rm", "s"}, "keeper"},
		{admin.RoleClient, []string{"gc"}, "keeper"},
		{admin.RoleClient, []string{"provision"}, "provisioner"},
		{admin.RoleObserver, []string{"send", "s", "hi"}, "client"},
		{admin.RoleObserver, []string{"run", "--model", "demo", "hi"}, "client"},
		{admin.RoleObserver, []string{"dead", "ls"}, "approver"},
		{admin.RoleObserver, []string{"approvals", "ls"}, "approver"},
		{admin.RoleScheduler, []string{"sessions", "ls"}, "client"},
		{admin.RoleKeeper, []string{"agents", "ls"}, "client"},
	} {
		began := time.Now()
		p := prepare(t, strings.NewReader(""), nil).start(t, append(x.args, as(x.role)...)...)
		code, printed := p.end(t), p.err.String()
		if took := time.Since(began); took > clitest.Patience/2 {
			t.Errorf("turnlog %q as %s took %v to fail", x.args, x.role, took)
		}
		if code != cli.CodeFailed || strings.Count(printed, "\n") != 1 || !strings.Contains(printed, "this user may not publish to ") ||
			!names(printed, x.want) {
			t.Errorf("turnlog %q as %s = %d %q, want that it needs the role %s", x.args, x.role, code, printed, x.want)
		}
	}
}

// A command that starts with permitted requests may need one that is denied.
func TestAClientLearnsWhichRoleACommandNeeds(t *testing.T) {
	t.Parallel()
	as, cell := restricted(t)
	hostOn(t, &cli.Cell{Cell: cell}, node())
	client := func(args ...string) (code int, printed string) {
		t.Helper()
		p := prepare(t, strings.NewReader(""), nil).start(t, append(args, as(admin.RoleClient)...)...)
		code = p.end(t)
		return code, p.err.String()
	}
	if code, printed := client("run", "--session", "s", "--model", "demo", "hi"); code != cli.CodeOK {
		t.Fatal(printed)
	}
	for _, x := range []struct {
		args []string
		want string
	}{
		{[]string{"send", "s", "--in", "1h", "later"}, "scheduler"},
		{[]string{"send", "s", "--allow", "fs_*", "more"}, "approver"},
		{[]string{"run", "--session", "s", "--allow", "fs_*", "more"}, "approver"},
	} {
		code, printed := client(x.args...)
		if code != cli.CodeFailed || !strings.Contains(printed, "this user may not publish to ") || !names(printed, x.want) {
			t.Errorf("turnlog %q = %d %q, want that it needs the role %s", x.args, code, printed, x.want)
		}
	}
}

// A client that is no approver may be asked at its terminal. Its decision is denied, and the call still waits.
func TestAClientLearnsThatAnApproverMustDecide(t *testing.T) {
	t.Parallel()
	as, cell := restricted(t)
	cfg := node()
	cfg.Effects = engine.Config{Permissions: askFirst{}}
	hostOn(t, &cli.Cell{Cell: cell}, cfg, greet(t))
	p := prepare(t, strings.NewReader(""), nil)
	p.start(t, append([]string{"run", "--yes", "-o", "json", "--session", "s", "--model", scripted(t, greeting), "hi"}, as(admin.RoleClient)...)...)
	if code := p.end(t); code != cli.CodeApproval || !strings.Contains(p.err.String(), `this user cannot approve: an approver decides with "turnlog approve s call_1_1"`) ||
		!strings.Contains(p.out.String(), `"finish_reason":"needs_approval"`) {
		t.Errorf("code %d, out %s, err %s", code, p.out, p.err)
	}
}

// A client may send input and read journals, but it cannot read what is pending in an inbox.
func TestAClientWaitsWithoutReadingTheInbox(t *testing.T) {
	t.Parallel()
	as, cell := restricted(t)
	client := func(args ...string) *program {
		t.Helper()
		return prepare(t, strings.NewReader(""), nil).start(t, append(args, as(admin.RoleClient)...)...)
	}
	says := func(p *program, want string) {
		t.Helper()
		if code := p.end(t); code != cli.CodeOK || p.out.String() != want {
			t.Errorf("code %d, out %q, want %q, err:\n%s", code, p.out, want, p.err)
		}
	}
	stop := hostOn(t, &cli.Cell{Cell: cell}, node())
	says(client("run", "--session", "s", "--model", scripted(t, echo), "one"), "You said one.\n")
	says(client("wait", "s"), "You said one.\n") // at rest, and a moment later parked

	stop()
	if p := client("send", "s", "two"); p.end(t) != cli.CodeOK {
		t.Fatal(p.err)
	}
	p := client("wait", "s", "--timeout", "10ms")
	if code := p.end(t); code != cli.CodeCancelled || !strings.Contains(p.err.String(), "no driver node has answered whether session s has pending input") {
		t.Errorf("without a node: code %d, out %q, err %s", code, p.out, p.err)
	}
	p = client("wait", "s")
	hostOn(t, &cli.Cell{Cell: cell}, node())
	says(p, "You said two.\n")
}
