package schedule

import (
	"errors"
	"fmt"
	"math/bits"
	"strconv"
	"strings"
	"time"
)

// field is one of the five fields of a crontab expression, a bit for each value.
type field uint64

func (f field) has(n int) bool { return f>>n&1 == 1 }

// String lists the values, as the server reads them.
func (f field) String() string {
	var out []string
	for rest := uint64(f); rest != 0; rest &= rest - 1 {
		out = append(out, strconv.Itoa(bits.TrailingZeros64(rest)))
	}
	return strings.Join(out, ",")
}

// form is what a field may hold.
type form struct {
	name     string
	min, max int
	words    []string // for min and what follows; nil: none
}

func forms() []form {
	return []form{
		{name: "minute", max: 59},
		{name: "hour", max: 23},
		{name: "day of the month", min: 1, max: 31},
		{name: "month", min: 1, max: 12, words: []string{"jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"}},
		{name: "day of the week", max: 7, words: []string{"sun", "mon", "tue", "wed", "thu", "fri", "sat"}},
	}
}

// cron is a crontab expression that was understood.
type cron struct {
	minute, hour, day, month, weekday field

	anyDay, anyWeekday bool // said by a star: then the other one alone counts
	zone               *time.Location
}

// named are the expressions that have a name.
func named(expr string) string {
	switch expr {
	case "@yearly", "@annually":
		return "0 0 1 1 *"
	case "@monthly":
		return "0 0 1 * *"
	case "@weekly":
		return "0 0 * * 0"
	case "@daily", "@midnight":
		return "0 0 * * *"
	case "@hourly":
		return "0 * * * *"
	}
	return expr
}

// parseCron understands five fields, or a name such as @daily.
func parseCron(expr string, zone *time.Location) (cron, error) {
	words := strings.Fields(named(strings.ToLower(strings.TrimSpace(expr))))
	all := forms()
	if len(words) != len(all) {
		if len(words) == 1 && strings.HasPrefix(words[0], "@") {
			return cron{}, fmt.Errorf("cron %q: use @hourly, @daily, @weekly, @monthly or @yearly", expr)
		}
		return cron{}, fmt.Errorf("cron %q has %d fields: use 5, minute, hour, day of the month, month, day of the week", expr, len(words))
	}
	var fields [5]field
	for i, f := range all {
		var err error
		if fields[i], err = f.parse(words[i]); err != nil {
			return cron{}, fmt.Errorf("cron %q: %s: %w", expr, f.name, err)
		}
	}
	if fields[4].has(7) { // Sunday, by its other number
		fields[4] = fields[4]&^(1<<7) | 1
	}
	return cron{
		minute: fields[0], hour: fields[1], day: fields[2], month: fields[3], weekday: fields[4],
		anyDay: words[2] == "*", anyWeekday: words[4] == "*", zone: zone,
	}, nil
}

// parse understands a list of values, ranges and steps.
func (f form) parse(text string) (field, error) {
	var out field
	for part := range strings.SplitSeq(text, ",") {
		span, every, stepped := strings.Cut(part, "/")
		step := 1
		if stepped {
			n, err := strconv.Atoi(every)
			if err != nil || n < 1 {
				return 0, fmt.Errorf("%q: the step behind the slash must be a number from 1", part)
			}
			step = n
		}
		low, high, err := f.span(span, stepped)
		if err != nil {
			return 0, err
		}
		for n := low; n <= high; n += step {
			out |= 1 << n
		}
	}
	return out, nil
}

// span understands a star, a value, or two with a dash between. A value with a step
// goes on to the largest.
func (f form) span(text string, stepped bool) (low, high int, err error) {
	if text == "*" {
		return f.min, f.largest(), nil
	}
	from, to, ranged := strings.Cut(text, "-")
	if low, err = f.value(from); err != nil {
		return 0, 0, err
	}
	switch {
	case ranged:
		high, err = f.value(to)
	case stepped:
		high = f.largest()
	default:
		high = low
	}
	if err == nil && low > high {
		err = fmt.Errorf("%q goes backwards", text)
	}
	return low, high, err
}

// largest is the largest value that stands for something of its own.
func (f form) largest() int {
	if len(f.words) == 7 {
		return 6
	}
	return f.max
}

func (f form) value(text string) (int, error) {
	for i, w := range f.words {
		if text == w {
			return f.min + i, nil
		}
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < f.min || n > f.max {
		return 0, fmt.Errorf("%q: use %d to %d", text, f.min, f.max)
	}
	return n, nil
}

// String is the expression in the server's form, which begins with seconds.
func (c cron) String() string {
	star := func(f field, any bool) string {
		if any {
			return "*"
		}
		return f.String()
	}
	return strings.Join([]string{
		"0", c.minute.String(), c.hour.String(), star(c.day, c.anyDay), c.month.String(), star(c.weekday, c.anyWeekday),
	}, " ")
}

// fits reports whether the day is one of those that are meant: if both fields name
// days, one of them suffices.
func (c cron) fits(t time.Time) bool {
	day, weekday := c.day.has(t.Day()), c.weekday.has(int(t.Weekday()))
	if c.anyDay || c.anyWeekday {
		return day && weekday
	}
	return day || weekday
}

// errNever says that an expression names no time that comes.
var errNever = errors.New("never comes")

// yearsAhead is how far into the future the server looks for a time.
const yearsAhead = 5

// next is the first time after t; it is zero if there is none.
func (c cron) next(t time.Time) time.Time {
	t = t.In(c.zone).Truncate(time.Minute).Add(time.Minute)
	for end := t.Year() + yearsAhead; t.Year() <= end; {
		switch {
		case !c.month.has(int(t.Month())):
			t = later(t, time.Date(t.Year(), t.Month()+1, 1, 0, 0, 0, 0, c.zone))
		case !c.fits(t):
			t = later(t, time.Date(t.Year(), t.Month(), t.Day()+1, 0, 0, 0, 0, c.zone))
		case !c.hour.has(t.Hour()):
			t = t.Add(time.Duration(60-t.Minute()) * time.Minute)
		case !c.minute.has(t.Minute()):
			t = t.Add(time.Minute)
		default:
			return t
		}
	}
	return time.Time{}
}

// later is u, or an hour from t where clocks that are put forward leave out u.
func later(t, u time.Time) time.Time {
	if u.After(t) {
		return u
	}
	return t.Add(time.Hour)
}

// last is the latest time that is not after t; it is zero if there is none in the
// last years.
func (c cron) last(t time.Time) time.Time {
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
