package move

import (
	"strings"
	"testing"

	"github.com/turnlog/turnlog/jetstream/admin"
)

// A move removes all data of its session at the source. A forgotten stream would be lost.
func TestEveryStreamOfASessionIsMovedOrNotNeeded(t *testing.T) {
	t.Parallel()
	known := map[string]string{
		"JOURNAL": "copied", "SEALS": "copied",
		"DEAD": "noted again", "APPROVALS": "a session at rest has no open question",
		"INBOX": "a session at rest has handled its commands", "NAMED": "likewise",
		"TASKS": "a session at rest has no call", "FENCES": "likewise",
		"TIMERS": "rebuilt", "RUN": "rebuilt", "SNAPSHOTS": "rebuilt",
	}
	seen := map[string]bool{}
	for _, row := range admin.Subjects("") {
		if row.Kept == "" || !strings.Contains(row.Subject, "<session>") {
			continue
		}
		seen[row.Kept] = true
		if known[row.Kept] == "" {
			t.Errorf("%s has data of sessions, which a move removes at the source: copy it, or say in this test why no session at rest needs it", row.Kept)
		}
	}
	for stream := range known {
		if !seen[stream] {
			t.Errorf("%s has no data of sessions", stream)
		}
	}
}
