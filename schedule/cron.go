package schedule

import (
	"errors"
	"fmt"
	"math/bits"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/robfig/cron/v3"
)

// crontab is a crontab expression in a time zone. The NATS server's own parser has the
// same origin, so both find the same times.
type crontab struct{ *cron.SpecSchedule }

// parseCron parses five fields, or a name such as @daily.
func parseCron(expr string, zone *time.Location) (crontab, error) {
	text := strings.ToLower(strings.TrimSpace(expr))
	if strings.ContainsAny(text, "?=") { // the parser's extensions: a second star, and time zones
		return crontab{}, fmt.Errorf("cron %q: use *, numbers, names, lists, ranges and steps", expr)
	}
	fields := strings.Fields(text)
	if len(fields) == 5 {
		fields[4] = withoutSeven(fields[4])
	}
	p := cron.NewParser(cron.Minute | cron.Hour | cron.Dom | cron.Month | cron.Dow | cron.Descriptor)
	parsed, err := p.Parse(strings.Join(fields, " "))
	if err != nil {
		return crontab{}, fmt.Errorf("cron %q: %w", expr, err)
	}
	spec, ok := parsed.(*cron.SpecSchedule)
	if !ok {
		return crontab{}, fmt.Errorf("cron %q: use @hourly, @daily, @weekly, @monthly or @yearly", expr)
	}
	spec.Location = zone
	return crontab{spec}, nil
}

// withoutSeven replaces 7, the other number of Sunday, which the parser does not know.
func withoutSeven(weekdays string) string {
	parts := strings.Split(weekdays, ",")
	for i, part := range parts {
		m := regexp.MustCompile(`^(?:([0-6])-)?7(?:/([1-9][0-9]*))?$`).FindStringSubmatch(part)
		if m == nil {
			continue
		}
		first, _ := strconv.Atoi(m[1])
		step, _ := strconv.Atoi(m[2])
		switch {
		case m[1] == "":
			parts[i] = "0"
		case step <= 1:
			parts[i] = m[1] + "-6,0"
		case (7-first)%step == 0:
			parts[i] = fmt.Sprintf("%d-6/%d,0", first, step)
		default:
			parts[i] = fmt.Sprintf("%d-6/%d", first, step)
		}
	}
	return strings.Join(parts, ",")
}

// String returns the expression in the server's form, which begins with seconds.
func (c crontab) String() string {
	days, weekdays := values(c.Dom), values(c.Dow)
	if c.Dom>>63 == 1 {
		days = "*" // then only the weekdays count
	}
	if c.Dow>>63 == 1 {
		weekdays = "*"
	}
	return strings.Join([]string{"0", values(c.Minute), values(c.Hour), days, values(c.Month), weekdays}, " ")
}

// values lists the values of a field, which has a bit for each. The highest bit stands
// for a star.
func values(field uint64) string {
	var out []string
	for rest := field &^ (1 << 63); rest != 0; rest &= rest - 1 {
		out = append(out, strconv.Itoa(bits.TrailingZeros64(rest)))
	}
	return strings.Join(out, ",")
}

// errNever says that an expression names no future time.
var errNever = errors.New("never comes")

// next returns the first time after t; zero if there is none within five years.
func (c crontab) next(t time.Time) time.Time { return c.Next(t.In(c.Location)) }

// last returns the latest time that is not after t; zero if there is none in the last
// nine years.
func (c crontab) last(t time.Time) time.Time {
	const day = 24 * time.Hour
	for _, back := range []time.Duration{2 * time.Minute, 2 * time.Hour, 2 * day, 32 * day, 366 * day, 9 * 366 * day} {
		var found time.Time
		for n := c.next(t.Add(-back)); !n.IsZero() && !n.After(t); n = c.next(n) {
			found = n
		}
		if !found.IsZero() {
			return found
		}
	}
	return time.Time{}
}
