package session

import (
	"strings"
	"testing"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/events/journal"
)

// A worker may send any number of live events while the consumer is slow. Entries are never dropped.
func TestUpdatesThatWaitTakeLittleMemory(t *testing.T) {
	t.Parallel()
	box := newMailbox()
	large := Update{Event: events.ContentDelta{Delta: content.Delta{Text: strings.Repeat("x", 1<<20)}}}
	for range 1000 {
		box.put(large)
	}
	for range 10 {
		box.put(Update{Record: &journal.Record{}, Event: events.TurnStarted{}})
	}
	live, recorded := 0, 0
	count := func(u Update, _ error) bool {
		if u.Record == nil {
			live++
		} else {
			recorded++
		}
		return true
	}
	if box.drain(count); live != maxLive>>20-1 || recorded != 10 {
		t.Errorf("%d live events of 1 MiB and %d of entries are kept", live, recorded)
	}
	box.put(large)
	if box.drain(count); live != maxLive>>20 {
		t.Error("after a look nothing live arrives")
	}
}
