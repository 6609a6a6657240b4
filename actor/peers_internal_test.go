package actor

import (
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/turnlog/turnlog/content"
)

// TestATimeIsPutOnTasksOnlyByAClockThatIsRight: with one that is ahead a task that comes
// late would pass for one that does not.
func TestATimeIsPutOnTasksOnlyByAClockThatIsRight(t *testing.T) {
	t.Parallel()
	for name, x := range map[string]struct {
		compared []time.Duration
		ago      time.Duration // the last one was
		entry    time.Duration // ahead of now
		vouched  bool
	}{
		"never compared":                       {nil, 0, 0, false},
		"right":                                {[]time.Duration{-2 * time.Millisecond}, time.Second, -time.Second, true},
		"ahead":                                {[]time.Duration{6 * time.Second}, 0, 0, false},
		"behind":                               {[]time.Duration{-6 * time.Second}, 0, 0, false},
		"of a release that does not say":       {[]time.Duration{math.MaxInt64}, 0, 0, false},
		"right, then set":                      {[]time.Duration{0, time.Second}, 0, 0, false},
		"set right":                            {[]time.Duration{time.Second, 0}, 0, 0, true},
		"right, a while ago":                   {[]time.Duration{0}, time.Minute, 0, false},
		"right, but the entry's was one ahead": {[]time.Duration{0}, 0, time.Second, false},
	} {
		synctest.Test(t, func(t *testing.T) {
			var c clock
			for _, ahead := range x.compared {
				c.compared(ahead)
			}
			<-time.After(x.ago)
			at := content.TimeOf(time.Now().Add(x.entry))
			want := content.Time(0)
			if x.vouched {
				want = at
			}
			if got := c.comparable(at); got != want {
				t.Errorf("%s: vouches for %v as %v, want %v", name, at, got, want)
			}
		})
	}
}
