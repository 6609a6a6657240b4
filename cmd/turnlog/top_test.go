package main

import (
	"strings"
	"testing"

	"github.com/turnlog/turnlog/internal/cli"
	"github.com/turnlog/turnlog/jetstream/admin"
)

func TestADoctorMayReadTheBacklog(t *testing.T) {
	t.Parallel()
	as, cell := restricted(t)
	if _, err := cell.Approvals().Note(t.Context(), "s-1"); err != nil {
		t.Fatal(err)
	}
	if out := expect(t, cli.CodeOK, append(as(admin.RoleDoctor), "top")...).out.String(); !strings.Contains(out, "Waiting for a person: 1 session,") {
		t.Errorf("it prints\n%s", out)
	}
	if printed := expect(t, cli.CodeFailed, append(as(admin.RoleObserver), "top")...).err.String(); !strings.Contains(printed, "doctor") {
		t.Errorf("as an observer: %s", printed)
	}
}
