package torture

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/turnlog/turnlog/audit"
	"github.com/turnlog/turnlog/content"
)

// What is checked beside the invariants of package audit.
const (
	// NoStuckSession: behind the faults every session comes to rest.
	NoStuckSession = "no-stuck-session"
	// AtMostOnce: a call that must not be run twice was not.
	AtMostOnce = "at-most-once"
	// LedgerAgrees: what a journal says of a call, that it was run or was not, is what
	// those say who count the runs.
	LedgerAgrees = "ledger-agrees"
	// AckedIsKept: each append that was acknowledged is in the stream.
	AckedIsKept = "acked-is-kept"
	// FollowExact: who follows sees each entry of the stream once and in order.
	FollowExact = "follow-exact"
	// EndsInTime: whoever is told to end does.
	EndsInTime = "ends-in-time"
)

// Invariants lists all that a run checks, by name.
func Invariants() []string {
	names := []string{NoStuckSession, AtMostOnce, LedgerAgrees, AckedIsKept, FollowExact, EndsInTime}
	for _, i := range audit.Invariants() {
		names = append(names, i.Name)
	}
	return names
}

// Violation is one broken promise.
type Violation struct {
	Session   content.SessionID // "": none in particular
	Invariant string
	Detail    string
}

// String renders the violation in one line.
func (v Violation) String() string {
	if v.Session == "" {
		return v.Invariant + ": " + v.Detail
	}
	return fmt.Sprintf("%s: %s: %s", v.Session, v.Invariant, v.Detail)
}

// findings are what went wrong. They are safe for concurrent use.
type findings struct {
	began time.Time

	mu         sync.Mutex
	violations []Violation
	notes      []string // what happened that may, for whoever looks into a violation
}

func newFindings() *findings { return &findings{began: time.Now()} }

func (f *findings) violation(s content.SessionID, invariant, detail string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.violations = append(f.violations, Violation{s, invariant, detail})
}

// maxNotes bounds what is kept of a run that goes wrong all the time.
const maxNotes = 20_000

func (f *findings) note(format string, args ...any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.notes) < maxNotes {
		f.notes = append(f.notes, fmt.Sprintf("%6.2fs ", time.Since(f.began).Seconds())+fmt.Sprintf(format, args...))
	}
}

func (f *findings) all() (violations []Violation, notes []string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.violations), slices.Clone(f.notes)
}
