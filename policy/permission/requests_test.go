package permission_test

import (
	"strings"
	"testing"

	"github.com/turnlog/turnlog/policy/permission"
)

func TestKindsThatMatchNoRequestAreReported(t *testing.T) {
	t.Parallel()
	for _, entry := range append(permission.RequestKinds(), "filesystem", "mcp.", "mail", "mail.send", "pay.small") {
		if err := permission.CheckKind(entry); err != nil {
			t.Errorf("CheckKind(%q) = %v", entry, err)
		}
	}
	for entry, want := range map[string]string{
		"filesystem.*":    "filesystem matches all below it",
		"filesystem.reed": "did you mean filesystem.read?",
		"shell.script":    "use one of filesystem.delete, filesystem.edit",
		"filesytem":       "did you mean filesystem?",
		"Shell":           "did you mean shell?",
		"filesytem.read":  "did you mean filesystem.read?",
		"exec run":        "write a kind like",
	} {
		if err := permission.CheckKind(entry); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("CheckKind(%q) = %v, want %q", entry, err, want)
		}
	}
}
