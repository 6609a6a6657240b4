package backup

import (
	"slices"
	"testing"

	"github.com/turnlog/turnlog/jetstream/internal/layout"
)

// A forgotten stream would be missing after a restore.
func TestEveryStreamIsCopiedOrRebuilt(t *testing.T) {
	t.Parallel()
	rebuilt := []string{"TIMERS", "RUN", "TASKS", "CATALOG", "NODES", "FENCES"}
	var copied []string
	for _, s := range order() {
		copied = append(copied, s.name)
	}
	var all []string
	for _, s := range layout.New("turnlog").Streams() {
		all = append(all, s.Name)
		if slices.Contains(copied, s.Name) == slices.Contains(rebuilt, s.Name) {
			t.Errorf("order in backup.go has the stream %s: %t. Add it there and to docs/backup.md, or, if nodes rebuild it from the journals, to the list in this test",
				s.Name, slices.Contains(copied, s.Name))
		}
	}
	for _, name := range slices.Concat(copied, rebuilt) {
		if !slices.Contains(all, name) {
			t.Errorf("a cell has no stream %s", name)
		}
	}
}
