package content

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// Effects says what may happen when a call is run twice. It decides what is done
// when a worker is lost in the middle of one.
type Effects string

// The effects of tools. The zero value is [Once].
const (
	Once       Effects = ""           // running it twice may do harm; a lost call ends as unknown
	ReadOnly   Effects = "read_only"  // changes nothing; retried
	Idempotent Effects = "idempotent" // running it twice is running it once; retried
)

// Retryable reports whether a lost call may be run again.
func (e Effects) Retryable() bool { return e == ReadOnly || e == Idempotent }

// Route says how the loop waits for a call.
type Route string

// The routes. The zero value is [Foreground].
const (
	Foreground Route = ""           // the round waits for the result
	Background Route = "background" // answered at once by a placeholder; the outcome arrives as a notification
	DetachSoon Route = "detach"     // foreground, then background after a while
)

// ParseRoute reads a route as people write it: foreground, background, or
// detach:DURATION with a positive duration.
func ParseRoute(text string) (Route, time.Duration, error) {
	word, after, timed := strings.Cut(text, ":")
	switch {
	case text == "foreground":
		return Foreground, 0, nil
	case text == string(Background):
		return Background, 0, nil
	case word != string(DetachSoon) || !timed:
		return "", 0, errors.New("use foreground, background or detach:DURATION, for example detach:30s")
	}
	d, err := time.ParseDuration(after)
	if err != nil || d <= 0 {
		return "", 0, fmt.Errorf("%q: use a positive duration like 30s", after)
	}
	return DetachSoon, d, nil
}

// Routing is what the edge found when it looked up a called tool: where the call
// goes and what may be done with it. It is recorded with the call, so that a
// replay needs no catalog.
type Routing struct {
	Known       bool          `msgpack:"k,omitempty" json:"known"` // the tool was on offer
	Source      string        `msgpack:"s,omitempty" json:"source,omitempty"`
	Queue       string        `msgpack:"q,omitempty" json:"queue,omitempty"`
	Effects     Effects       `msgpack:"e,omitempty" json:"effects,omitempty"`
	Route       Route         `msgpack:"r,omitempty" json:"route,omitempty"`
	DetachAfter time.Duration `msgpack:"da,omitempty" json:"detach_after_ns,omitempty"`
	Quiet       bool          `msgpack:"qt,omitempty" json:"quiet,omitempty"`    // an outcome that comes later does not start a turn
	Manual      bool          `msgpack:"ma,omitempty" json:"manual,omitempty"`   // an outcome that comes later goes to the host, not to the model
	Exclusive   bool          `msgpack:"x,omitempty" json:"exclusive,omitempty"` // never beside another call of its round
	Writes      bool          `msgpack:"w,omitempty" json:"writes,omitempty"`    // its changed paths count as files changed
	Timeout     time.Duration `msgpack:"to,omitempty" json:"timeout_ns,omitempty"`
	MaxOutput   int           `msgpack:"mo,omitempty" json:"max_output,omitempty"`  // bytes of output that the result holds; zero: what there is room for where it runs
	Digest      string        `msgpack:"d,omitempty" json:"input_digest,omitempty"` // SHA-256 of the canonical input
}
