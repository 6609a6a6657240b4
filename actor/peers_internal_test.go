package actor

import (
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/turnlog/turnlog/content"
)

// With a clock that is ahead, a late task would seem to be in time.
func TestOnlyACorrectClockPutsATimeOnTasks(t *testing.T) {
	t.Parallel()
	for name, x := range map[string]struct {
		compared []time.Duration
		ago      time.Duration // of the last comparison
		entry    time.Duration // ahead of now
		vouched  bool
	}{
		"never compared":                       {nil, 0, 0, false},
		"right":                                {[]time.Duration{-2 * time.Millisecond}, time.Second, -time.Second, true},
		"ahead":                                {[]time.Duration{6 * time.Second}, 0, 0, false},
		"behind":                               {[]time.Duration{-6 * time.Second}, 0, 0, false},
		"of a release without clocks":          {[]time.Duration{math.MaxInt64}, 0, 0, false},
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
				t.Errorf("%s: comparable(%v) = %v, want %v", name, at, got, want)
			}
		})
	}
}
