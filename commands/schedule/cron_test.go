package schedule

import (
	"strings"
	"testing"
	"time"
)

func mustParse(t *testing.T, expr, zone string) crontab {
	t.Helper()
	loc, err := time.LoadLocation(zone)
	if err != nil {
		t.Fatal(err)
	}
	c, err := parseCron(expr, loc)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestCrontabExpressionsHaveTheServersForm(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ expr, server string }{
		{"*/20 8-18/5 1,15 JAN-mar,12 *", "0 */20 8-18/5 1,15 jan-mar,12 *"},
		{" 0  0 31 12 7 ", "0 0 0 31 12 0"},
		{"0 0 1-3 1 5-7", "0 0 0 1-3 1 5-6/1,0"},
		{"0 0 1 1 1-7/3,2-7/3", "0 0 0 1 1 1-6/3,0,2-6/3"},
		{"0 0 * * 0-7/7", "0 0 0 * * 0-6/7,0"},
		{"@Weekly", "@weekly"},
	} {
		if got := mustParse(t, tt.expr, "UTC").server; got != tt.server {
			t.Errorf("%q is %q for the server, want %q", tt.expr, got, tt.server)
		}
	}
}

func TestBadCrontabExpressionsAreRefused(t *testing.T) {
	t.Parallel()
	for expr, want := range map[string]string{
		"":                 "empty",
		"* * * *":          "expected exactly 5 fields",
		"0 * * * * *":      "expected exactly 5 fields",
		"@noon":            "@noon",
		"@every 5m":        "use @hourly",
		"60 * * * *":       "above maximum (59)",
		"-1 * * * *":       "failed to parse",
		"* 24 * * *":       "above maximum (23)",
		"* * 0 * *":        "below minimum (1)",
		"* * * foo *":      "foo",
		"* * * * 8":        "above maximum (6)",
		"* * * * 7-9":      "above maximum (6)",
		"* * * * mon-":     "failed to parse",
		"10-5 * * * *":     "beyond end of range",
		"*/0 * * * *":      "step",
		"*/x * * * *":      "failed to parse",
		"1-2-3 * * * *":    "too many hyphens",
		"? * * * *":        "use *, numbers",
		"TZ=UTC * * * * *": "use *, numbers",
		"1e1 * * * *":      "failed to parse",
		"* * * * mon,fr*":  "failed to parse",
	} {
		if _, err := parseCron(expr, time.UTC); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("parse %q = %v, want an error with %q", expr, err, want)
		}
	}
}

func TestNextFollowsTheClocksOfTheZone(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		expr, zone, after string
		want              []string
	}{
		{"*/15 * * * *", "UTC", "2026-01-01T00:00:00Z", []string{"2026-01-01T00:15:00Z", "2026-01-01T00:30:00Z"}},
		{"0 0 29 2 *", "UTC", "2026-01-01T00:00:00Z", []string{"2028-02-29T00:00:00Z", "2032-02-29T00:00:00Z"}},
		{"0 12 13 * fri", "UTC", "2026-02-07T00:00:00Z", []string{"2026-02-13T12:00:00Z", "2026-02-20T12:00:00Z"}},
		{"30 23 * * *", "Asia/Kolkata", "2026-01-01T00:00:00Z", []string{"2026-01-01T23:30:00+05:30"}},
		// Clocks go forward from 2:00 to 3:00, and back from 3:00 to 2:00.
		{"30 2 * * *", "Europe/Berlin", "2026-03-28T12:00:00Z", []string{"2026-03-30T02:30:00+02:00"}},
		{"30 2 * * *", "Europe/Berlin", "2026-10-24T12:00:00Z", []string{"2026-10-25T02:30:00+02:00", "2026-10-25T02:30:00+01:00", "2026-10-26T02:30:00+01:00"}},
		// Clocks go forward at midnight, so the day begins at 1:00.
		{"0 0 * * *", "America/Sao_Paulo", "2018-11-03T12:00:00Z", []string{"2018-11-05T00:00:00-02:00"}},
		{"0 1 4 11 *", "America/Sao_Paulo", "2018-11-03T12:00:00Z", []string{"2018-11-04T01:00:00-02:00"}},
		// December 30, 2011 did not exist.
		{"0 6 * * *", "Pacific/Apia", "2011-12-29T12:00:00-10:00", []string{"2011-12-31T06:00:00+14:00"}},
		{"0 0 30 2 *", "UTC", "2026-01-01T00:00:00Z", []string{"0001-01-01T00:00:00Z"}},
	} {
		c := mustParse(t, tt.expr, tt.zone)
		at, err := time.Parse(time.RFC3339, tt.after)
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range tt.want {
			at = c.next(at)
			if got := at.Format(time.RFC3339); got != want {
				t.Errorf("%q in %s: next is %s, want %s", tt.expr, tt.zone, got, want)
			}
		}
	}
}

func TestLastIsTheInverseOfNext(t *testing.T) {
	t.Parallel()
	for _, expr := range []string{"* * * * *", "7 */5 * * *", "@daily", "0 9 * * mon", "0 0 31 * *", "0 0 29 2 *"} {
		c := mustParse(t, expr, "Europe/Berlin")
		at := c.next(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
		for range 5 {
			next := c.next(at)
			for _, now := range []time.Time{at, at.Add(time.Second), next.Add(-time.Nanosecond)} {
				if got := c.last(now); !got.Equal(at) {
					t.Errorf("%q: last before %v is %v, want %v", expr, now, got, at)
				}
			}
			at = next
		}
	}
}

func FuzzCrontab(f *testing.F) {
	for _, seed := range []string{"* * * * *", "*/5 1-3,7 1 jan-mar/2 0-7", "@daily", "0 0 30 2 *", "99999999999999999999 * * * *"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, expr string) {
		zone, err := time.LoadLocation("Europe/Berlin")
		if err != nil {
			t.Fatal(err)
		}
		c, err := parseCron(expr, zone)
		if err != nil {
			return
		}
		now := time.Date(2026, 10, 24, 12, 0, 0, 0, time.UTC)
		next := c.next(now)
		if next.IsZero() {
			return
		}
		if !next.After(now) || c.Minute>>next.Minute()&1 == 0 || c.Hour>>next.Hour()&1 == 0 || c.Month>>int(next.Month())&1 == 0 {
			t.Errorf("%q: next is %v", expr, next)
		}
		if back := c.last(next); !back.Equal(next) {
			t.Errorf("%q: last at %v is %v", expr, next, back)
		}
	})
}
