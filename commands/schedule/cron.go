package schedule

import (
	"cmp"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/robfig/cron/v3"
)

// crontab is a crontab expression in a time zone. The NATS server's parser has the same origin, so
// both find the same times. The zero value never fires.
type crontab struct {
	*cron.SpecSchedule

	server string // the expression in the server's form: seconds come first
}

// parseCron parses five fields, or a name such as @daily.
func parseCron(expr string, zone *time.Location) (crontab, error) {
	text := strings.ToLower(strings.TrimSpace(expr))
	if strings.ContainsAny(text, "?=") { // the parser's extensions: a second star, and time zones
		return crontab{}, fmt.Errorf("cron %q: use *, numbers, names, lists, ranges and steps", expr)
	}
	server := text
	if fields := strings.Fields(text); len(fields) == 5 {
		fields[4] = withoutSeven(fields[4])
		text = strings.Join(fields, " ")
		server = "0 " + text
	}
	p := cron.NewParser(cron.Minute | cron.Hour | cron.Dom | cron.Month | cron.Dow | cron.Descriptor)
	parsed, err := p.Parse(text)
	if err != nil {
		return crontab{}, fmt.Errorf("cron %q: %w", expr, err)
	}
	spec, ok := parsed.(*cron.SpecSchedule)
	if !ok {
		return crontab{}, fmt.Errorf("cron %q: use @hourly, @daily, @weekly, @monthly or @yearly", expr)
	}
	spec.Location = zone
	return crontab{spec, server}, nil
}

// withoutSeven replaces 7, the other number for Sunday, which neither parser accepts.
func withoutSeven(weekdays string) string {
	parts := strings.Split(weekdays, ",")
	for i, part := range parts {
		m := regexp.MustCompile(`^(?:([0-6])-)?7(?:/([1-9][0-9]*))?$`).FindStringSubmatch(part)
		if m == nil {
			continue
		}
		first, _ := strconv.Atoi(m[1])
		step, _ := strconv.Atoi(cmp.Or(m[2], "1"))
		switch parts[i] = fmt.Sprintf("%d-6/%d", first, step); {
		case m[1] == "":
			parts[i] = "0"
		case (7-first)%step == 0:
			parts[i] += ",0"
		}
	}
	return strings.Join(parts, ",")
}

// next returns the first time after t, or zero if there is none within five years.
func (c crontab) next(t time.Time) time.Time {
	if c.SpecSchedule == nil {
		return time.Time{}
	}
	return c.Next(t.In(c.Location))
}

// last returns the latest time that is not after t, or zero if there is none in the last nine
// years.
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
