package events

import (
	"testing"

	"github.com/turnlog/turnlog/internal/testing/wiretest"
)

func TestEventsHaveTheBytesOfTheLibrary(t *testing.T) {
	t.Parallel()
	for _, ev := range samples() {
		wiretest.Same(t, ev)
	}
	wiretest.Same(t, []Cursor{{Lane: LaneAsk, Seq: 1, At: 2}, {}})
}
