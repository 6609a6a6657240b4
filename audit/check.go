package audit

import (
	"fmt"
	"iter"
	"slices"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/events/journal"
)

// Violation is a broken invariant, with the entry that breaks it.
type Violation struct {
	Invariant string `json:"invariant"`
	Seq       uint64 `json:"seq"`
	Message   string `json:"message"`
}

// String renders the violation in one line.
func (v Violation) String() string {
	return fmt.Sprintf("entry %d: %s: %s", v.Seq, v.Invariant, v.Message)
}

// Report is the result of checking a journal.
type Report struct {
	Session content.SessionID `json:"session"`
	Entries int               `json:"entries"`
	Events  int               `json:"events"`
	Turns   int               `json:"turns"` // started

	// The head of the journal. A journal whose end was cut off still looks intact: compare
	// the head with one that is stored elsewhere.
	Seq  uint64      `json:"seq"`
	Hash events.Hash `json:"hash"`

	// Deleted is the tombstone of a deleted session, or nil. A deletion removes the entries
	// before it one by one, from the first.
	Deleted *events.Deletion `json:"deleted,omitempty"`

	Violations []Violation `json:"violations"`         // in the order found
	Warnings   []Violation `json:"warnings,omitempty"` // suspicious, but not violations

	// UnjudgedFrom is the first entry whose events were not checked, only the chain, because
	// the entry or an earlier one cannot be interpreted. Zero: everything was checked.
	UnjudgedFrom uint64 `json:"unjudged_from,omitempty"`
}

// OK reports whether every invariant holds.
func (r Report) OK() bool { return len(r.Violations) == 0 }

// First returns the first violation, if there is one.
func (r Report) First() (Violation, bool) {
	if r.OK() {
		return Violation{}, false
	}
	return r.Violations[0], true
}

// Verify checks a journal while reading it, and the anchors of its session. An error comes from
// the reader; the report covers the records before it.
func Verify(records iter.Seq2[journal.Record, error], anchors ...Anchor) (Report, error) {
	c := NewChecker()
	c.Anchored(anchors...)
	for r, err := range records {
		if err != nil {
			return c.Report(), err
		}
		c.Add(r)
	}
	return c.Report(), nil
}

// Checker checks one journal entry by entry. It is not safe for concurrent use.
type Checker struct {
	report   Report
	links    links
	rules    []checkedRule
	ledger   ledger
	script   transcript
	replay   replayer
	causes   map[string]bool
	accepted []string
	anchors  []anchored
}

type checkedRule struct {
	name string
	rule rule
}

// NewChecker returns a Checker that expects the first entry of a journal.
func NewChecker() *Checker {
	c := &Checker{causes: map[string]bool{}, ledger: newLedger()}
	for _, inv := range invariants() {
		if inv.rule != nil {
			c.rules = append(c.rules, checkedRule{inv.name, inv.rule()})
		}
	}
	return c
}

// Accepted adds accepted commands, by the IDs of their envelopes. By the time of the Report each
// must have caused an entry.
func (c *Checker) Accepted(ids ...string) { c.accepted = append(c.accepted, ids...) }

// Add checks the next record. After a record that does not fit, it continues from there, so each
// fault is reported once.
func (c *Checker) Add(r journal.Record) {
	e, linked := c.chain(r)
	c.pass(r.Seq)
	c.report.Entries++
	c.report.Events += len(e.Events)
	c.causes[e.Cause] = true
	if !linked && c.report.UnjudgedFrom == 0 {
		c.report.UnjudgedFrom = r.Seq
	}
	if c.report.UnjudgedFrom == 0 {
		c.judge(e)
	}
}

// judge applies every rule to every event of the entry.
func (c *Checker) judge(e events.Entry) {
	for i, ev := range e.Events {
		for _, r := range c.rules {
			r.rule(fact{checker: c, invariant: r.name, entry: &e, index: i, event: ev, ledger: &c.ledger, transcript: &c.script})
		}
		if _, ok := ev.(events.TurnStarted); ok {
			c.report.Turns++
		}
		c.ledger.apply(ev)
		c.script.apply(ev, e.At)
	}
	if problem := c.replay.fold(e, c.script.items); problem != "" {
		c.fault(e.Seq, replayable, "%s", problem)
	}
}

// fault records a violation.
func (c *Checker) fault(seq uint64, invariant, format string, args ...any) {
	c.report.Violations = append(c.report.Violations, Violation{invariant, seq, fmt.Sprintf(format, args...)})
}

// Report returns the findings so far, including those that only the end of a journal shows. It
// may be called again later.
func (c *Checker) Report() Report {
	r := c.report
	r.Warnings = slices.Clone(r.Warnings)
	r.Violations = slices.DeleteFunc(slices.Clone(r.Violations), func(v Violation) bool {
		return r.Deleted != nil && slices.Contains(c.links.gaps, v) // a deletion is removing the entries
	})
	for _, id := range c.accepted {
		if !c.causes[id] {
			r.Violations = append(r.Violations, Violation{noLostCommand, r.Seq, fmt.Sprintf("command %s was accepted, but caused no entry", id)})
		}
	}
	r.Violations = append(r.Violations, c.adrift(r)...)
	if r.UnjudgedFrom == 0 {
		if problem := c.replay.differs(c.script.items); problem != "" {
			r.Violations = append(r.Violations, Violation{replayable, r.Seq, problem})
		}
	}
	return r
}
