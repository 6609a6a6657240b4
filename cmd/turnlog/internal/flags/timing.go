package flags

import (
	"time"

	"github.com/spf13/cobra"

	"github.com/turnlog/turnlog/internal/cli"
)

// Timing says when something happens once.
type Timing struct {
	at    string
	in    time.Duration
	given func(flag string) bool
}

// Register adds the flags to cmd.
func (f *Timing) Register(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.at, "at", "", "run once at this `time`: 2030-01-31T07:00:00Z, or in this machine's time zone \"2030-01-31 07:00\" or 07:00")
	cmd.Flags().DurationVar(&f.in, "in", 0, "run once after this `time`: 90s, 2h30m")
	cmd.MarkFlagsMutuallyExclusive("at", "in")
	f.given = cmd.Flags().Changed
}

// maxYears bounds how far ahead something can be planned. A later time is a mistake.
const maxYears = 100

// When returns the time that the flags name, or the zero time.
func (f *Timing) When(now time.Time) (at time.Time, err error) {
	in, flag := f.given("in"), "--at "+f.at
	switch {
	case in && f.in < 0:
		return at, cli.Usage("--in %v is in the past", f.in)
	case in && f.in < time.Second:
		return at, cli.Usage("--in %v: use 1s or more", f.in)
	case in:
		at, flag = now.Add(f.in), "--in "+f.in.String()
	case !f.given("at"):
		return at, nil
	default:
		var ok bool
		if at, ok = parseTime(f.at, now); !ok {
			return at, cli.Usage("--at %q: use 2030-01-31T07:00:00Z, \"2030-01-31 07:00\" or 07:00", f.at)
		}
	}
	switch {
	case at.Before(now):
		return at, cli.Usage("--at %s is in the past", at.Format(time.RFC3339))
	case at.After(now.AddDate(maxYears, 0, 0)):
		return at, cli.Usage("%s is more than %d years ahead", flag, maxYears)
	}
	return at, nil
}

// parseTime parses a time. Without a date, it is the next such time.
func parseTime(text string, now time.Time) (time.Time, bool) {
	for _, layout := range []string{
		time.RFC3339, "2006-01-02 15:04", "2006-01-02 15:04:05", "2006-01-02T15:04", "2006-01-02T15:04:05", "15:04", "15:04:05",
	} {
		at, err := time.ParseInLocation(layout, text, now.Location())
		if err != nil {
			continue
		}
		if at.Year() == 0 { // it has no date
			at = time.Date(now.Year(), now.Month(), now.Day(), at.Hour(), at.Minute(), at.Second(), 0, now.Location())
			if !at.After(now) {
				at = at.AddDate(0, 0, 1)
			}
		}
		return at, true
	}
	return time.Time{}, false
}
