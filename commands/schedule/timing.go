package schedule

import (
	"errors"
	"fmt"
	"time"
	_ "time/tzdata" // some machines have no time zone database
)

// Timing says when a schedule fires: at a time, at intervals, or by a crontab
// expression. Exactly one of them is set.
type Timing struct {
	At    time.Time     // once; whole seconds
	Every time.Duration // counted from when the schedule was added; at least a second
	Cron  string        // five fields, or @hourly, @daily, @weekly, @monthly, @yearly
	Zone  string        // IANA name of the zone of Cron; "": UTC
}

// slack is how early the server may fire.
const slack = time.Second

// check returns an error if t is invalid.
func (t Timing) check() error {
	set := 0
	for _, is := range []bool{!t.At.IsZero(), t.Every != 0, t.Cron != ""} {
		if is {
			set++
		}
	}
	switch {
	case set != 1:
		return errors.New("give one of a time, an interval and a crontab expression")
	case t.Zone != "" && t.Cron == "":
		return errors.New("a time zone needs a crontab expression")
	case t.Every != 0 && (t.Every < time.Second || t.Every%time.Second != 0):
		return fmt.Errorf("every %v: use whole seconds, at least 1s", t.Every)
	case t.Cron == "":
		return nil
	}
	c, err := t.cron()
	if err == nil && c.next(time.Unix(0, 0)).IsZero() {
		return fmt.Errorf("cron %q never fires", t.Cron)
	}
	return err
}

func (t Timing) cron() (crontab, error) {
	if t.Zone == "Local" { // which differs between machines
		return crontab{}, fmt.Errorf("time zone %q: use a name such as Europe/Berlin", t.Zone)
	}
	zone, err := time.LoadLocation(t.Zone)
	if err != nil {
		return crontab{}, fmt.Errorf("time zone %q is unknown: use a name such as Europe/Berlin", t.Zone)
	}
	return parseCron(t.Cron, zone)
}

// Pattern returns t in the NATS server's form.
func (t Timing) Pattern() string {
	switch {
	case !t.At.IsZero():
		return "@at " + wholeSecond(t.At).Format(time.RFC3339)
	case t.Every != 0:
		return "@every " + t.Every.String()
	}
	c, _ := t.cron() // Check returns the error
	return c.server
}

// wholeSecond returns the first whole second that is not before t.
func wholeSecond(t time.Time) time.Time {
	s := t.UTC().Truncate(time.Second)
	if s.Before(t) {
		s = s.Add(time.Second)
	}
	return s
}

// Next returns the first time after now at which a schedule fires, or zero if there is none. An
// interval counts from last, when the schedule last fired or else was added.
func (t Timing) Next(last, now time.Time) time.Time {
	switch {
	case !t.At.IsZero():
		if at := wholeSecond(t.At); at.After(now) {
			return at
		}
		return time.Time{}
	case t.Every != 0:
		from := last.UTC().Round(time.Second)
		n := 1 + int(max(now.Sub(from), 0)/t.Every)
		return from.Add(time.Duration(n) * t.Every)
	}
	c, _ := t.cron() // Check returns the error
	return c.next(now)
}

// Due returns the time at which a firing was due, which identifies the firing of a schedule.
func (t Timing) Due(fired time.Time) time.Time {
	switch {
	case !t.At.IsZero():
		return wholeSecond(t.At)
	case t.Every != 0:
		return fired.UTC().Round(time.Second)
	}
	c, _ := t.cron() // Check returns the error
	if last := c.last(fired.Add(slack)); !last.IsZero() {
		return last.UTC()
	}
	return fired.UTC().Truncate(time.Second)
}

// Overdue returns the last time between since and now at which a schedule should have fired, or
// zero if there is none. A server that is killed loses what it did not write to disk. It continues
// with the next time and restarts intervals, so one interval may take almost twice as long.
func (t Timing) Overdue(since, now time.Time) time.Time {
	switch {
	case !t.At.IsZero(): // the server fires it as soon as it can
		return time.Time{}
	case t.Every != 0:
		if n := int(now.Sub(since) / t.Every); n > 1 {
			return since.UTC().Round(time.Second).Add(time.Duration(n) * t.Every)
		}
		return time.Time{}
	}
	c, _ := t.cron() // Check returns the error
	if last := c.last(now); last.After(since) {
		return last.UTC()
	}
	return time.Time{}
}

// Repeats reports whether a firing was handled before, is older than the last one handled, or comes
// before the interval is over: a server that is killed may fire twice.
func (t Timing) Repeats(due, handled time.Time) bool {
	return due.Before(handled.Add(max(t.Every-min(2*slack, t.Every/2), 1)))
}

// String returns t for people to read.
func (t Timing) String() string {
	switch {
	case !t.At.IsZero():
		return "at " + wholeSecond(t.At).Format(time.RFC3339)
	case t.Every != 0:
		return "every " + t.Every.String()
	case t.Zone != "":
		return t.Cron + " " + t.Zone
	}
	return t.Cron + " UTC"
}
