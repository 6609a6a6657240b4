package torture

import (
	"slices"
	"time"
)

// Result is what came of a run. Its JSON is what programs read.
type Result struct {
	Seed             uint64         `json:"seed"`
	Faults           map[Kind]int   `json:"faults"`            // that were done
	Commands         int            `json:"commands"`          // that were acknowledged
	SessionsFinished int            `json:"sessions_finished"` // that came to rest
	SessionsTotal    int            `json:"sessions_total"`
	Entries          int            `json:"entries"`
	Calls            int            `json:"calls"`
	Violations       map[string]int `json:"violations"` // by invariant
	Recovery         Recovery       `json:"recovery_ms"`

	Found  []Violation `json:"-"` // each of them
	Kept   string      `json:"-"` // the folder with what is kept of a run with violations; "": there were none
	Losses int         `json:"-"` // how many times a session was taken from its node
}

// Recovery is how long it took, in milliseconds, from a fault that took a session's
// driver away to the claim of the next one. Zero: no session lost its driver.
type Recovery struct {
	P50 int64 `json:"p50"`
	P99 int64 `json:"p99"`
	Max int64 `json:"max"`
}

// OK reports whether every promise was kept.
func (r Result) OK() bool { return len(r.Found) == 0 }

func recoveryOf(times []time.Duration) Recovery {
	if len(times) == 0 {
		return Recovery{}
	}
	slices.Sort(times)
	at := func(percent int) int64 { return times[(len(times)-1)*percent/100].Milliseconds() }
	return Recovery{P50: at(50), P99: at(99), Max: times[len(times)-1].Milliseconds()}
}
