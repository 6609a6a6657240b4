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
