package content

import (
	"fmt"
	"time"
)

// Time is nanoseconds since the Unix epoch. Zero means never or unknown. As an integer
// it survives every encoding unchanged and compares with <.
type Time int64

// Duration is time.Duration, for packages that may not import time.
type Duration = time.Duration

// TimeOf converts t.
func TimeOf(t time.Time) Time {
	if t.IsZero() {
		return 0
	}
	return Time(t.UnixNano())
}

// Std returns t as a time.Time in UTC. Zero becomes the zero time.Time.
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

// String returns t in RFC 3339 with nanoseconds, or "never" for zero.
func (t Time) String() string {
	if t == 0 {
		return "never"
	}
	return t.Std().Format(time.RFC3339Nano)
}

// MarshalJSON returns t in RFC 3339, or an empty string for zero. There is no
// MarshalText, because binary encodings would use it instead of the integer.
func (t Time) MarshalJSON() ([]byte, error) { return t.AppendJSON(nil), nil }

// AppendJSON appends what MarshalJSON returns.
func (t Time) AppendJSON(b []byte) []byte {
	if b = append(b, '"'); t != 0 {
		b = t.Std().AppendFormat(b, time.RFC3339Nano)
	}
	return append(b, '"')
}

// UnmarshalJSON decodes the result of MarshalJSON.
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
