package audit

import (
	"cmp"
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

	// The head of the journal. A journal whose end was cut off is intact in itself: compare
	// the head with one that is stored elsewhere.
	Seq  uint64      `json:"seq"`
	Hash events.Hash `json:"hash"`

	// Deleted is the tombstone of a deleted session, or nil. A deletion removes the entries
	// before it one by one, from the first.
	Deleted *events.Deletion `json:"deleted,omitempty"`

	Violations []Violation `json:"violations"`         // in the order found
	Warnings   []Violation `json:"warnings,omitempty"` // suspicious, but no violation

	// UnjudgedFrom is the first entry of which only the chain was checked, because it or an
	// earlier one cannot be read. Zero means that everything was checked.
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

// Check checks a whole journal and returns every violation.
func Check(records []journal.Record) []Violation {
	c := NewChecker()
	for _, r := range records {
		c.Add(r)
	}
	return c.Report().Violations
}

// Verify checks a journal while it is read, and the anchors of its session. An error is the
// reader's; the report covers the records before it.
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
	chain    chain
	rules    []named
	ledger   ledger
	script   transcript
	replay   replayer
	report   Report
	seq      uint64 // of the current entry
	causes   map[string]bool
	accepted []string
	anchors  []anchored
	gaps     []Violation // those about missing entries
}

type named struct {
	rule       rule
	fail, warn func(format string, args ...any)
}

// NewChecker returns a Checker that expects the first entry of a journal.
func NewChecker() *Checker {
	c := &Checker{causes: map[string]bool{}, ledger: newLedger()}
	for _, inv := range Invariants() {
		if inv.rule != nil {
			c.rules = append(c.rules, named{inv.rule(), c.adding(inv.Name, &c.report.Violations), c.adding(inv.Name, &c.report.Warnings)})
		}
	}
	return c
}

// Accepted adds accepted commands by their envelopes' IDs. Each must have caused an entry
// by the time of the Report.
func (c *Checker) Accepted(ids ...string) { c.accepted = append(c.accepted, ids...) }

// Add checks the next record.
func (c *Checker) Add(r journal.Record) {
	e := c.chain.add(r)
	c.pass(r.Seq, c.chain.head.Hash)
	c.report.Violations = append(c.report.Violations, c.chain.found...)
	c.report.Warnings = append(c.report.Warnings, c.chain.warned...)
	c.gaps = append(c.gaps, c.chain.gap...)
	c.report.Deleted = c.chain.deleted
	c.report.Entries++
	c.report.Events += len(e.Events)
	c.causes[e.Cause] = true
	c.report.Session = cmp.Or(c.report.Session, e.Session)
	if !c.chain.linked && c.report.UnjudgedFrom == 0 {
		c.report.UnjudgedFrom = r.Seq
	}
	if c.report.UnjudgedFrom == 0 {
		c.judge(e)
	}
}

// judge applies every rule to every event of the entry.
func (c *Checker) judge(e events.Entry) {
	c.seq = e.Seq
	for i, ev := range e.Events {
		f := fact{entry: &e, index: i, event: ev, ledger: &c.ledger, transcript: &c.script}
		for _, r := range c.rules {
			f.fail, f.warn = r.fail, r.warn
			r.rule(f)
		}
		if _, ok := ev.(events.TurnStarted); ok {
			c.report.Turns++
		}
		c.ledger.apply(ev)
		c.script.apply(ev, e.At)
	}
	if problem := c.replay.fold(e, c.script.items); problem != "" {
		c.adding(replayable, &c.report.Violations)("%s", problem)
	}
}

func (c *Checker) adding(name string, to *[]Violation) func(string, ...any) {
	return func(format string, args ...any) {
		*to = append(*to, Violation{Invariant: name, Seq: c.seq, Message: fmt.Sprintf(format, args...)})
	}
}

// Report returns what was found so far, including what only the end of a journal shows. It
// may be called again later.
func (c *Checker) Report() Report {
	r := c.report
	r.Seq, r.Hash = c.chain.head.Seq, c.chain.head.Hash
	r.Violations, r.Warnings = slices.Clone(r.Violations), slices.Clone(r.Warnings)
	if r.Deleted != nil { // a deletion is removing the entries
		r.Violations = slices.DeleteFunc(r.Violations, func(v Violation) bool { return slices.Contains(c.gaps, v) })
	}
	for _, id := range c.accepted {
		if !c.causes[id] {
			r.Violations = append(r.Violations, Violation{noLostCommand, r.Seq, fmt.Sprintf("command %s was accepted, but no entry has it as its cause", id)})
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
