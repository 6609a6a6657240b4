package schedule

import (
	"fmt"
	"strings"
	"time"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/internal/wire"
)

// Result is what happened to a firing.
type Result string

// The results.
const (
	Started Result = "started" // a session was opened, or received the input
	Skipped Result = "skipped" // its session was still busy, or the firing was too late
	Failed  Result = "failed"  // its session does not exist, is closed, or refused it
)

// How long the outcome of a one-time schedule is kept.
const (
	keptStarted = time.Hour // its session may still refuse it; afterwards the session is the record
	kept        = 7 * 24 * time.Hour
)

// Outcome is what happened to a schedule's last firing. A node stores it before it acts on the
// firing, and again, with Done, afterwards. A node that finds an outcome without Done acts on the
// firing.
type Outcome struct {
	Created time.Time // when the schedule was created
	Due     time.Time
	Fired   uint64 // the firing's sequence in its stream
	Result  Result
	Detail  string            // why, unless it started
	Session content.SessionID // the last session that it started
	Done    bool
}

// Sent reports whether the firing sent the command with an ID. The key is the schedule's.
func (o Outcome) Sent(key, command string) bool {
	return o.Result == Started && strings.HasPrefix(command, causeOf(key, o.Created, o.Due))
}

// Expired reports whether the outcome is too old to be kept once its schedule is over.
func (o Outcome) Expired(now time.Time) bool {
	if o.Result == Started {
		return now.Sub(o.Due) >= keptStarted
	}
	return now.Sub(o.Due) >= kept
}

type storedOutcome struct {
	Created int64  `msgpack:"t"`
	Due     int64  `msgpack:"d"`
	Fired   uint64 `msgpack:"f"`
	Result  string `msgpack:"r"`
	Detail  string `msgpack:"w,omitempty"`
	Session string `msgpack:"s,omitempty"`
	Done    bool   `msgpack:"ok,omitempty"`
}

// Encode returns the stored form of o.
func (o Outcome) Encode() ([]byte, error) {
	w := storedOutcome{
		Created: o.Created.UnixMilli(), Due: o.Due.Unix(), Fired: o.Fired,
		Result: string(o.Result), Detail: o.Detail, Session: string(o.Session), Done: o.Done,
	}
	b, err := wire.Marshal(w, wire.Command)
	if err != nil {
		return nil, fmt.Errorf("encode outcome: %w", err)
	}
	return b, nil
}

// DecodeOutcome decodes what Encode returned.
func DecodeOutcome(b []byte) (Outcome, error) {
	var w storedOutcome
	if err := wire.Unmarshal(b, wire.Command, &w); err != nil {
		return Outcome{}, fmt.Errorf("outcome of a schedule: %w", err)
	}
	return Outcome{
		Created: time.UnixMilli(w.Created).UTC(), Due: time.Unix(w.Due, 0).UTC(), Fired: w.Fired,
		Result: Result(w.Result), Detail: w.Detail, Session: content.SessionID(w.Session), Done: w.Done,
	}, nil
}
