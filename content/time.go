package content

import (
	"fmt"
	"time"
)

// Time is an instant in nanoseconds since the Unix epoch, UTC. The zero Time
// means "never" or "not known". It is an integer so that it survives every
// encoding unchanged and compares with <.
type Time int64

// Duration is time.Duration, named here for packages that may not see a clock.
type Duration = time.Duration

// TimeOf converts t.
func TimeOf(t time.Time) Time {
	if t.IsZero() {
		return 0
	}
	return Time(t.UnixNano())
}

// Std converts back to a time.Time in UTC; the zero Time gives the zero time.Time.
func (t Time) Std() time.Time {
	if t == 0 {
		return time.Time{}
	}
	return time.Unix(0, int64(t)).UTC()
}

// Add returns t+d.
func (t Time) Add(d time.Duration) Time { return t + Time(d) }

// Sub returns t-u.
func (t Time) Sub(u Time) time.Duration { return time.Duration(t - u) }

// String renders t as RFC 3339 with nanoseconds, and the zero Time as "never".
func (t Time) String() string {
	if t == 0 {
		return "never"
	}
	return t.Std().Format(time.RFC3339Nano)
}

// MarshalJSON renders t for people: RFC 3339, an empty string for the zero Time.
// There is no MarshalText on purpose: binary encodings would prefer it to the
// integer.
func (t Time) MarshalJSON() ([]byte, error) {
	if t == 0 {
		return []byte(`""`), nil
	}
	return []byte(`"` + t.Std().Format(time.RFC3339Nano) + `"`), nil
}

// UnmarshalJSON reads what MarshalJSON wrote.
func (t *Time) UnmarshalJSON(b []byte) error {
	switch string(b) {
	case "null":
		return nil
	case `""`:
		*t = 0
		return nil
	}
	v, err := time.Parse(`"`+time.RFC3339Nano+`"`, string(b))
	if err != nil {
		return fmt.Errorf("time %s: %w", b, err)
	}
	*t = TimeOf(v)
	return nil
}
