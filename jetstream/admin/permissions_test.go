package admin

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/turnlog/turnlog/jetstream"
	"github.com/turnlog/turnlog/jetstream/internal/layout"
)

func TestAllowedNamesTheRolesWithAPermission(t *testing.T) {
	t.Parallel()
	c := &Cell{names: names{layout.New("turnlog")}}
	for subject, want := range map[string][]Role{
		"turnlog.cmd.s-1.decide":                        {RoleApprover, RoleDriver},
		"turnlog.cmd.s-1.decide.ada":                    {RoleApprover, RoleDriver},
		"$JS.API.STREAM.PURGE.TURNLOG_SCHEDULES":        {RoleDriver, RoleScheduler, RoleProvisioner},
		"turnlog.task.q.s.c":                            {RoleDriver},
		"$JS.API.CONSUMER.MSG.NEXT.TURNLOG_TASKS.q_gpu": {RoleWorker},
		"somewhere.else":                                {},
	} {
		if diff := cmp.Diff(want, c.Allowed(&jetstream.DeniedError{Subject: subject})); diff != "" {
			t.Errorf("roles that may publish to %s (-want +got):\n%s", subject, diff)
		}
	}
	if got := c.Allowed(&jetstream.DeniedError{Subject: "turnlog.delta.s", Hearing: true}); len(got) == 0 {
		t.Error("no role may hear deltas")
	}
}

// A misspelled stream would be a permission for nothing.
func TestRequestsAreAboutStreamsOfTheCell(t *testing.T) {
	t.Parallel()
	n := names{layout.New("turnlog")}
	for _, r := range streamRequests() {
		for stream := range strings.FieldsSeq(r.streams) {
			if n.stream(stream) == "" {
				t.Errorf("streamRequests in permissions.go: the cell has no stream %s, which %s requests", stream, r.role)
			}
		}
	}
}

// A role that reads stored subjects according to the table needs a request for their stream.
func TestReadersMayRequestTheirStreams(t *testing.T) {
	t.Parallel()
	n := names{layout.New("turnlog")}
	for _, row := range Subjects("turnlog") {
		for _, role := range row.Readers {
			if row.Kept == "" || role == RoleServer {
				continue
			}
			publish, _ := n.grant(role, "q", "")
			if !slices.ContainsFunc(publish, func(s string) bool {
				return strings.HasPrefix(s, "$JS.API.") && strings.Contains(s+".", "."+n.stream(row.Kept)+".")
			}) {
				t.Errorf("the table of subjects has %s read %s, but permissions.go lets it request nothing of %s", role, row.Subject, row.Kept)
			}
		}
	}
}

func TestServicesHaveNoPartInTheCell(t *testing.T) {
	t.Parallel()
	worker := Grant{Roles: []Role{RoleWorker}, Queue: "office", Services: []string{"billing"}, Inbox: "_INBOX_w"}
	service := Grant{Roles: []Role{RoleService}, Queue: "office", Services: []string{"billing"}, Inbox: "_INBOX_s"}
	p, err := PermissionsOf(service)
	want := Permissions{
		Publish: []string{"billing.>"},
		Subscribe: []string{
			"$SRV.INFO", "$SRV.INFO.billing", "$SRV.INFO.billing.*", "$SRV.PING", "$SRV.PING.billing", "$SRV.PING.billing.*",
			"$SRV.STATS", "$SRV.STATS.billing", "$SRV.STATS.billing.*", "_INBOX_s.>", "billing.>",
		},
		Responses: 10_000,
	}
	if diff := cmp.Diff(want, p); err != nil || diff != "" {
		t.Errorf("permissions of a service: %v (-want +got):\n%s", err, diff)
	}
	if p, err = PermissionsOf(worker); err != nil || !slices.Contains(p.Publish, "$SRV.INFO.billing") || !slices.Contains(p.Publish, "billing.>") {
		t.Errorf("permissions of a worker with a service: %v, %v", p.Publish, err)
	}
	accounts, err := Accounts([]User{{"w", worker}, {"s", service}})
	if err != nil || len(accounts) != 2 || len(accounts[1].Users) != 2 {
		t.Fatalf("accounts = %+v, %v", accounts, err)
	}
	for _, i := range accounts[1].Imports {
		if strings.Contains(i.Subject, "billing") || strings.HasPrefix(i.Subject, "$SRV") {
			t.Errorf("the account imports %s from the cell", i.Subject)
		}
	}
	for want, g := range map[string]Grant{
		"cannot have another role": {Roles: []Role{RoleService, RoleDriver}, Services: []string{"a"}, Inbox: "i"},
		"the name that workers":    {Roles: []Role{RoleService}, Inbox: "i"},
		"only a worker can call":   {Roles: []Role{RoleClient}, Services: []string{"a"}, Inbox: "i"},
		`service "turnlog"`:        {Roles: []Role{RoleService}, Services: []string{"turnlog"}, Inbox: "i"},
		`service "_INBOX"`:         {Roles: []Role{RoleWorker}, Queue: "q", Services: []string{"_INBOX"}, Inbox: "i"},
		`service "a.b"`:            {Roles: []Role{RoleWorker}, Queue: "q", Services: []string{"a.b"}, Inbox: "i"},
	} {
		if _, err := PermissionsOf(g); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %q", g, err, want)
		}
	}
}
