package content

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// Effects is what happens if a call runs twice. It decides whether a call is retried
// when its worker is lost.
type Effects string

// The effects of tools. The zero value is [Once].
const (
	Once       Effects = ""           // unsafe to repeat; the outcome of a lost call is unknown
	ReadOnly   Effects = "read_only"  // has no effects; retried
	Idempotent Effects = "idempotent" // safe to repeat; retried
)

// ParseEffects parses the effects in a description of a tool: read_only, idempotent or none. Empty text means none.
func ParseEffects(text string) (Effects, error) {
	switch e := Effects(text); e {
	case Once, ReadOnly, Idempotent:
		return e, nil
	case "none":
		return Once, nil
	}
	return Once, fmt.Errorf("%q: use read_only, idempotent or none", text)
}

// Retryable reports whether a lost call may run again.
func (e Effects) Retryable() bool { return e == ReadOnly || e == Idempotent }

// Or returns the effects of a tool that may have either. A tool that only reads is also safe to repeat.
func (e Effects) Or(other Effects) Effects {
	switch {
	case e == other || other == ReadOnly:
		return e
	case e == ReadOnly:
		return other
	}
	return Once
}

// Route is how the loop waits for a call.
type Route string

// The routes. The zero value is [Foreground].
const (
	Foreground Route = ""           // the round waits for the result
	Background Route = "background" // a placeholder is the result; the outcome arrives as a notification
	DetachSoon Route = "detach"     // foreground, then background after a while
)

// ParseRoute parses foreground, background or detach:DURATION with a positive
// duration.
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

// Routing is what the host found when it looked up the tool of a call: where the call
// goes and how to handle it. It is recorded with the call, so a replay needs no
// catalog.
type Routing struct {
	Known       bool          `msgpack:"k,omitempty" json:"known"` // the tool was offered
	Source      string        `msgpack:"s,omitempty" json:"source,omitempty"`
	Queue       string        `msgpack:"q,omitempty" json:"queue,omitempty"`
	Effects     Effects       `msgpack:"e,omitempty" json:"effects,omitempty"`
	Declared    *Effects      `msgpack:"ed,omitempty" json:"declared,omitempty"` // by the tool itself; nil: same as Effects, which the agent's terms may set
	Route       Route         `msgpack:"r,omitempty" json:"route,omitempty"`
	DetachAfter time.Duration `msgpack:"da,omitempty" json:"detach_after_ns,omitempty"`
	Quiet       bool          `msgpack:"qt,omitempty" json:"quiet,omitempty"`    // a later outcome does not start a turn
	Manual      bool          `msgpack:"ma,omitempty" json:"manual,omitempty"`   // a later outcome goes to the host instead of the model
	Exclusive   bool          `msgpack:"x,omitempty" json:"exclusive,omitempty"` // not concurrent with other calls of the round
	Writes      bool          `msgpack:"w,omitempty" json:"writes,omitempty"`    // its changed paths count as files changed
	Timeout     time.Duration `msgpack:"to,omitempty" json:"timeout_ns,omitempty"`
	MaxOutput   int           `msgpack:"mo,omitempty" json:"max_output,omitempty"`  // limit of the result's output in bytes; zero: the worker's limit
	Digest      string        `msgpack:"d,omitempty" json:"input_digest,omitempty"` // SHA-256 of the canonical input
}

// DeclaredEffects returns the effects that the tool itself declares. Policies judge by them.
func (r Routing) DeclaredEffects() Effects {
	if r.Declared != nil {
		return *r.Declared
	}
	return r.Effects
}
