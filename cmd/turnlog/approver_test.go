package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/turnlog/turnlog/embedded"
	"github.com/turnlog/turnlog/internal/testing/clitest"
	"github.com/turnlog/turnlog/jetstream"
	"github.com/turnlog/turnlog/jetstream/admin"
)

// Approvers have fewer permissions than clients.
func TestApproversCommandsNeedNoMoreThanTheirRole(t *testing.T) {
	t.Parallel()
	p, err := admin.PermissionsOf(admin.Grant{Roles: []admin.Role{admin.RoleApprover}, Inbox: "_INBOX_approver"})
	if err != nil {
		t.Fatal(err)
	}
	s, err := embedded.Start(t.Context(), embedded.WithListener("127.0.0.1:0"), embedded.WithSettings(
		"authorization { users: [ { user: all, password: p }, { user: approver, password: p\n"+p.Conf()+"\n} ] }"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	as := func(user string) string { return strings.Replace(s.ClientURL(), "://", "://"+user+":p@", 1) }
	cell, err := jetstream.Open(clitest.Dial(t, as("all")), "")
	if err != nil {
		t.Fatal(err)
	}
	if err := admin.Of(cell).Provision(t.Context(), admin.Config{}); err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{"approvals ls", "approvals ls s-1", "approve s-1 c", "deny s-1 c", "dead ls", "dead show s-1 c", "dead retry s-1 c", "dead drop s-1 c"} {
		args := slices.Concat(strings.Fields(line), []string{"--server", as("approver"), "--inbox-prefix", "_INBOX_approver"})
		p := prepare(t, strings.NewReader(""), nil).start(t, args...)
		code, errs := p.end(t), p.err.String()
		if found := strings.Contains(errs, "session s-1: no such session"); errs != "" && !found || found != strings.Contains(line, "s-1") {
			t.Errorf("turnlog %s = %d %q, want that an approver may look for it", line, code, errs)
		}
	}
}
