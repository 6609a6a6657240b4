package commands_test

import (
	"testing"

	"github.com/turnlog/turnlog/commands"
)

func TestRejectionErrorHasReasonAndDetail(t *testing.T) {
	t.Parallel()
	if got := (&commands.Rejection{Reason: "busy"}).Error(); got != "busy" {
		t.Errorf("Error() = %q", got)
	}
	if got := (&commands.Rejection{Reason: "busy", Detail: "a turn is open"}).Error(); got != "busy: a turn is open" {
		t.Errorf("Error() = %q", got)
	}
}
