package audit

import (
	"errors"
	"fmt"
	"iter"
	"slices"

	"github.com/turnlog/turnlog/audit/verdict"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/events/journal"
)

// Verify checks a journal while reading it, and the anchors of its session. A fault that ends the
// reading is in the verdict, as are [journal.ErrDamaged] and [ErrBadExport]. Any other error comes
// from the reader; then the verdict covers only the records before it and does not count.
func Verify(records iter.Seq2[journal.Record, error], anchors ...Anchor) (*verdict.Verdict, error) {
	return NewChecker().verify(records, anchors)
}

func (c *Checker) verify(records iter.Seq2[journal.Record, error], anchors []Anchor) (*verdict.Verdict, error) {
	c.Anchored(anchors...)
	for r, err := range records {
		if err != nil {
			err = c.stop(err)
			v := c.Verdict()
			if err != nil {
				v.Level = verdict.None
			}
			return v, err
		}
		c.Add(r)
	}
	if c.links.moved { // no reader sees a session before it has arrived
		c.fault(verdict.Forged, c.verdict.Head.Seq, singleWriter, "it is marked as moved here, and no claim of a move follows")
	}
	return c.Verdict(), nil
}

// VerifyImported is a faster [Verify] for the records of [Import]: it does not decode again what Import has decoded.
func VerifyImported(records iter.Seq2[journal.Record, error], anchors ...Anchor) (*verdict.Verdict, error) {
	c := NewChecker()
	c.decoded = true
	return c.verify(records, anchors)
}

// Checker checks one journal entry by entry. It is not safe for concurrent use.
type Checker struct {
	verdict  verdict.Verdict // without findings that only the end of the journal shows
	line     int             // line of the record
	stopped  bool            // a fault ended the reading
	decoded  bool            // records are decoded from their payloads
	links    links
	rules    []checkedRule
	entry    events.Entry // the entry that the rules judge
	fact     fact         // the current event of it
	ledger   ledger
	script   transcript
	replay   replayer
	causes   causers
	accepted []string
	anchors  map[uint64][]anchored // by sequence
}

type checkedRule struct {
	name string
	rule rule
}

// NewChecker returns a Checker that expects the first entry of a journal.
func NewChecker() *Checker {
	c := &Checker{causes: newCausers(), ledger: newLedger()}
	for _, inv := range invariants() {
		if inv.rule != nil {
			c.rules = append(c.rules, checkedRule{inv.name, inv.rule()})
		}
	}
	return c
}

// Accepted adds accepted commands, by the IDs of their envelopes. By the time of the Verdict each
// must have caused an entry.
func (c *Checker) Accepted(ids ...string) { c.accepted = append(c.accepted, ids...) }

// Add checks the next record. After a record that does not fit, it continues from there, so each
// fault is reported once.
func (c *Checker) Add(r journal.Record) {
	c.line = r.Line
	e, linked := c.chain(r)
	c.pass(r.Seq, e.At)
	for i := range c.verdict.Restores { // entries after a restore are later, whatever times they have
		c.verdict.Restores[i].At = min(c.verdict.Restores[i].At, e.At)
	}
	if by := events.RestoredOf(e); by != nil {
		c.verdict.Restores = append(c.verdict.Restores, verdict.Restore{Seq: r.Seq, At: e.At, Restored: *by})
	}
	c.moved(r, e)
	c.verdict.Entries++
	c.verdict.Events += len(e.Events)
	if !linked && c.verdict.UnjudgedFrom == 0 {
		c.verdict.UnjudgedFrom = r.Seq
	}
	if c.verdict.UnjudgedFrom == 0 {
		c.judge(e)
	}
	c.causes.add(e.Cause, e.Seq)
}

// judge applies every rule to every event of the entry.
func (c *Checker) judge(e events.Entry) {
	c.ledger.continues, c.ledger.resumed = false, false // only the entry that opens a session has content from another one
	c.entry = e
	f := &c.fact
	*f = fact{checker: c, entry: &c.entry, ledger: &c.ledger, transcript: &c.script}
	for i, ev := range e.Events {
		f.index, f.event = i, ev
		for _, r := range c.rules {
			f.invariant = r.name
			r.rule(f)
		}
		if _, ok := ev.(events.TurnStarted); ok {
			c.verdict.Turns++
		}
		c.ledger.apply(ev)
		c.script.apply(ev, e.At)
	}
	for _, ev := range e.Events {
		if taken, ok := ev.(events.SnapshotTaken); ok && !c.replay.off {
			if problem := c.replay.shed.confirm(c.replay.state, taken); problem != "" {
				c.fault(verdict.Forged, e.Seq, replayable, "%s", problem)
			}
		}
	}
	if problem := c.replay.fold(e, &c.script); problem != "" {
		c.fault(verdict.Forged, e.Seq, replayable, "%s", problem)
	}
}

// stop records the fault that ended the reading. It returns err if it is not a fault.
func (c *Checker) stop(err error) error {
	next := c.verdict.Head.Seq + 1
	bad, isFault := errors.AsType[*verdict.FaultError](err)
	switch {
	case isFault:
		c.verdict.Add(bad.Fault)
	case errors.Is(err, journal.ErrDamaged):
		c.fault(DamageOf(err), next, singleWriter, "%v", err)
	default:
		c.stopped = !errors.Is(err, journal.ErrNotFound)
		return err
	}
	c.stopped = true
	return nil
}

// DamageOf returns the kind of fault of a [journal.ErrDamaged].
func DamageOf(err error) verdict.Kind {
	for kind, is := range map[verdict.Kind]error{
		verdict.Missing: journal.ErrMissing, verdict.Replaced: journal.ErrReplaced, verdict.Foreign: journal.ErrForeign,
		verdict.Forged: journal.ErrForged, verdict.Unreadable: journal.ErrUnreadable, verdict.Moved: journal.ErrArriving,
	} {
		if errors.Is(err, is) {
			return kind
		}
	}
	return verdict.Tampered
}

// fault records a fault of the record.
func (c *Checker) fault(kind verdict.Kind, seq uint64, invariant, format string, args ...any) {
	c.verdict.Add(c.about(kind, seq, invariant, format, args...))
}

// warn records something that is suspicious, but can happen.
func (c *Checker) warn(kind verdict.Kind, seq uint64, invariant, format string, args ...any) {
	c.verdict.Warnings = append(c.verdict.Warnings, c.about(kind, seq, invariant, format, args...))
}

func (c *Checker) about(kind verdict.Kind, seq uint64, invariant, format string, args ...any) verdict.Fault {
	return verdict.Fault{Kind: kind, Seq: seq, Line: c.line, Invariant: invariant, What: fmt.Sprintf(format, args...)}
}

// Faults returns the faults found so far, without faults that only the end of a journal shows. It does
// not copy, so the caller must not change the result.
func (c *Checker) Faults() []verdict.Fault { return c.verdict.Faults }

// Verdict returns the findings so far, including findings that only the end of a journal shows. It may
// be called again later.
func (c *Checker) Verdict() *verdict.Verdict {
	v := c.verdict.Clone()
	if gap := c.links.removed; gap != nil && v.Tombstone == nil {
		v.Faults = slices.Insert(v.Faults, 0, *gap)
	}
	for _, id := range c.accepted {
		if _, caused := c.causes.last(id); !caused {
			v.Add(verdict.Fault{
				Kind: verdict.Missing, Seq: v.Head.Seq, Invariant: noLostCommand,
				What: fmt.Sprintf("command %s was accepted, but caused no entry", id),
			})
		}
	}
	v.UnjudgedSnapshots = c.replay.shed.unjudged
	c.judgeAnchors(v)
	c.closedContent(v)
	if v.UnjudgedFrom == 0 && v.Tombstone == nil {
		v.OpenTurn, v.OpenApprovals = c.ledger.turn, c.ledger.undecided()
	}
	v.Settle()
	return v
}
