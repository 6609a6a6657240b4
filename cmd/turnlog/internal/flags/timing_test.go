package flags

import (
	"testing"
	"time"
)

func TestTimesOfDayAreTheNextOnes(t *testing.T) {
	t.Parallel()
	zone := time.FixedZone("here", 2*3600)
	now := time.Date(2030, 1, 31, 12, 0, 0, 0, zone)
	for text, want := range map[string]string{
		"13:30":                "2030-01-31T13:30:00+02:00",
		"12:00":                "2030-02-01T12:00:00+02:00",
		"07:00:05":             "2030-02-01T07:00:05+02:00",
		"2030-03-01 07:00":     "2030-03-01T07:00:00+02:00",
		"2030-03-01T07:00":     "2030-03-01T07:00:00+02:00",
		"2030-03-01T07:00:00Z": "2030-03-01T07:00:00Z",
	} {
		if at, ok := parseTime(text, now); !ok || at.Format(time.RFC3339) != want {
			t.Errorf("%q is %s, %t; want %s", text, at.Format(time.RFC3339), ok, want)
		}
	}
}
