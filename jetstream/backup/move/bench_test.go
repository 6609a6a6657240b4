package move

import (
	"fmt"
	"strings"
	"testing"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
)

// BenchmarkMove moves a session of 1,000 entries between two servers in this process.
func BenchmarkMove(b *testing.B) {
	from, to := cell(b, "from"), cell(b, "to")
	evs := []events.Event{claim(1), events.RunStarted{}}
	for range 998 {
		evs = append(evs, text(strings.Repeat("x", 300)))
	}
	for n := 0; b.Loop(); n++ {
		b.StopTimer()
		s := content.SessionID(fmt.Sprint("s-", n))
		head := write(b, from, s, evs...)
		b.StartTimer()
		moved(b, from, to, s, head)
	}
}
