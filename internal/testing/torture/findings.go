package torture

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/turnlog/turnlog/audit"
	"github.com/turnlog/turnlog/content"
)

// What is checked in addition to the invariants of package audit.
const (
	// NoStuckSession: after the faults every session comes to rest.
	NoStuckSession = "no-stuck-session"
	// AtMostOnce: a call that must not run twice did not.
	AtMostOnce = "at-most-once"
	// LedgerAgrees: a journal's account of each call agrees with the count of its runs.
	LedgerAgrees = "ledger-agrees"
	// AckedIsKept: every acknowledged append is in the stream.
	AckedIsKept = "acked-is-kept"
	// FollowExact: a follower sees each entry of the stream once and in order.
	FollowExact = "follow-exact"
	// NothingForged: what hostile senders send to the sessions of others causes nothing.
	NothingForged = "nothing-forged"
	// EndsInTime: every process that is stopped or killed ends.
	EndsInTime = "ends-in-time"
)

// Invariants lists the names of everything that a run checks.
func Invariants() []string {
	names := []string{NoStuckSession, AtMostOnce, LedgerAgrees, AckedIsKept, FollowExact, NothingForged, EndsInTime}
	return append(names, audit.Invariants()...)
}

// Violation is one broken invariant.
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

// findings collects what went wrong. It is safe for concurrent use.
type findings struct {
	began time.Time

	mu         sync.Mutex
	violations []Violation
	notes      []string // events that help to investigate a violation
}

func newFindings() *findings { return &findings{began: time.Now()} }

func (f *findings) violation(s content.SessionID, invariant, detail string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.violations = append(f.violations, Violation{s, invariant, detail})
}

// maxNotes bounds the notes of a run with constant failures.
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
