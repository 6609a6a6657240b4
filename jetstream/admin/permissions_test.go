package admin

import (
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
