package torture

import (
	"slices"
	"time"

	"github.com/turnlog/turnlog/content"
)

// Result is the outcome of a run. Its JSON is stable, for programs.
type Result struct {
	Seed             uint64         `json:"seed"`
	Faults           map[Kind]int   `json:"faults"`            // faults that happened
	Commands         int            `json:"commands"`          // acknowledged commands
	Repeated         int            `json:"commands_repeated"` // commands repeated because a rollback may have lost them
	SessionsFinished int            `json:"sessions_finished"` // sessions that came to rest
	SessionsTotal    int            `json:"sessions_total"`
	SetAside         int            `json:"sessions_set_aside"` // sessions set aside and retried, because nodes were killed while they claimed them
	Entries          int            `json:"entries"`
	Calls            int            `json:"calls"`
	Violations       map[string]int `json:"violations"` // by invariant
	Recovery         Recovery       `json:"recovery_ms"`

	Sessions []content.SessionID `json:"-"`

	Found  []Violation `json:"-"` // each of them
	Kept   string      `json:"-"` // the folder with the evidence of violations; "": none
	Losses int         `json:"-"` // how often a session lost its node
}

// Recovery is the time in milliseconds from the loss of a session's driver to the claim
// of the next one. Zero means that no session lost its driver.
type Recovery struct {
	P50 int64 `json:"p50"`
	P99 int64 `json:"p99"`
	Max int64 `json:"max"`
}

// OK reports whether every invariant held.
func (r Result) OK() bool { return len(r.Found) == 0 }

func recoveryOf(times []time.Duration) Recovery {
	if len(times) == 0 {
		return Recovery{}
	}
	slices.Sort(times)
	at := func(percent int) int64 { return times[(len(times)-1)*percent/100].Milliseconds() }
	return Recovery{P50: at(50), P99: at(99), Max: times[len(times)-1].Milliseconds()}
}
