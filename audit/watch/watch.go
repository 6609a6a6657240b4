// Package watch verifies journals while they are written, and raises alerts.
//
// A [Watcher] gets the entries of all sessions in the order in which they were stored, and has a checker of package
// audit for each active session. Its memory is bounded: the checkers of idle sessions are dropped, after a final
// check. When such a session continues, its journal is read from the start and verified again, up to the current
// entry.
//
// Each fault is reported at least once. A watcher that starts again does not know what was reported, so the faults
// of a session may be reported again when that session continues. Nothing is reported about sessions that do not
// continue: verify them once with package audit.
//
// A Watcher reads no clock and starts no goroutines. It is not safe for concurrent use.
package watch

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"

	"github.com/turnlog/turnlog/audit"
	"github.com/turnlog/turnlog/audit/keys"
	"github.com/turnlog/turnlog/audit/signed"
	"github.com/turnlog/turnlog/audit/verdict"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/events/journal"
	"github.com/turnlog/turnlog/internal/recent"
)

// Kind is the kind of an alert.
type Kind string

// The kinds of alerts.
const (
	Fault    Kind = "fault"    // the journal is not what Turnlog wrote
	Unsigned Kind = "unsigned" // a driver writes entries without a signature
	Widened  Kind = "widened"  // the policy allows what it did not allow before
	Restored Kind = "restored" // the cell was restored from a backup, which may lack entries
)

// Kinds lists every kind.
func Kinds() []Kind { return []Kind{Fault, Unsigned, Widened, Restored} }

// Alert is one thing that an auditor should look at.
type Alert struct {
	Kind     Kind              `json:"alert"`
	Session  content.SessionID `json:"session"`
	Seq      uint64            `json:"seq"`             // sequence of the entry
	At       content.Time      `json:"at"`              // time of the entry, by its driver's clock
	Position uint64            `json:"position"`        // position of the entry at which it was found
	Fault    *verdict.Fault    `json:"fault,omitempty"` // set if Kind is Fault
	Policy   string            `json:"policy,omitempty"`
	What     string            `json:"what"`
}

// Config bounds a Watcher.
type Config struct {
	// Read returns the journal of a session from its first entry on. It is required.
	Read func(context.Context, content.SessionID) iter.Seq2[journal.Record, error]

	// Keys returns the directory of keys by which signatures are checked. Nil: they are not checked.
	Keys func() *keys.Directory

	// Restores returns the restores that the cell records. Nil: the restores in journals are not compared with them.
	Restores func(context.Context) ([]verdict.Restore, error)

	Bytes int64 // limit on the bytes of entries that the checkers have seen, plus sessionBytes for each checker; bounds their memory; 0: 256 MiB
	Heads int   // number of idle sessions whose heads are remembered, to notice a replaced one; 0: 100,000
}

const (
	defaultBytes = 256 << 20
	defaultHeads = 100_000
	maxFaults    = 20 // faults of a session; then it is not judged until it is verified again
)

// sessionBytes is the memory of a checker for a session of a few entries. Only memory bounds the number of checkers. A
// fixed number would mean that one session more than that, active in turns, reads a journal again for every entry.
const sessionBytes = 16 << 10

// Watcher verifies the entries of all sessions.
type Watcher struct {
	cfg   Config
	open  recent.Map[content.SessionID, *session]
	bytes int64
	heads recent.Map[content.SessionID, seen] // of sessions without a checker

	restored string // the backup of the last reported restore
	since    uint64 // the position of the first entry that it wrote
}

// seen is the last entry of a session that was seen.
type seen struct {
	journal.Head

	at content.Time
}

// session is a session in use.
type session struct {
	id      content.SessionID
	checker *audit.Checker
	signed  signed.Entries
	head    journal.Head
	at      content.Time
	bytes   int64
	told    []verdict.Fault
	given   bool // too many faults, or the journal cannot be read: later entries cannot be judged
	policy  *events.Policy

	unsigned uint64 // the last epoch with an entry that is not signed
	first    uint64 // the position of its first entry
	before   uint64 // the position of its last entry before its journal was read again for the current entry; 0: not read again
	restored string // the backup of the last restore that it records
}

// New returns a watcher.
func New(cfg Config) *Watcher {
	if cfg.Bytes <= 0 {
		cfg.Bytes = defaultBytes
	}
	if cfg.Heads <= 0 {
		cfg.Heads = defaultHeads
	}
	return &Watcher{cfg: cfg}
}

// Open returns how many sessions have a checker.
func (w *Watcher) Open() int { return w.open.Len() }

// Add verifies the next entry of the cell and returns the alerts that it raises. It returns an error if reading a
// journal again fails; then add the entry again.
func (w *Watcher) Add(ctx context.Context, r journal.Record) ([]Alert, error) {
	if errors.Is(r.Err, journal.ErrArriving) {
		return nil, nil // no entry
	}
	by, false, err := w.restore(ctx, r)
	if err != nil {
		return nil, err
	}
	lost := w.lost(r, by)
	s, alerts, err := w.session(ctx, r)
	if errors.Is(err, journal.ErrArriving) {
		return lost, nil // it is read once it has arrived
	}
	if err != nil {
		return nil, err
	}
	alerts = append(append(lost, alerts...), w.tell(s, r.Guard, false...)...)
	_, deleted := events.DeletionOf(r.Entry)
	deleted = deleted && r.Err == nil
	if deleted && s.head.Seq+1 < r.Seq {
		s.checker = audit.NewChecker() // the entries in between were deleted with the session before the watcher saw them
	}
	alerts = append(alerts, w.judge(s, r, r.Guard)...)
	if deleted {
		w.drop(s)
		return alerts, nil
	}
	w.open.Put(s.id, s)
	for w.bytes > w.cfg.Bytes && w.open.Len() > 1 {
		alerts = append(alerts, w.evict(ctx, w.least(s))...)
	}
	s.before = 0
	return alerts, nil
}

// least returns the session whose checker to drop: the one that was idle longest, unless the current session was idle even
// longer before its journal was read again. So if more sessions take turns than there is room for, only the sessions without
// room are read repeatedly.
func (w *Watcher) least(s *session) *session {
	_, oldest := w.open.Oldest()
	if s.before > 0 && s.before < oldest.head.Guard {
		return s
	}
	return oldest
}

// Close does a final check of the active sessions.
func (w *Watcher) Close(ctx context.Context) (alerts []Alert) {
	for w.open.Len() > 0 {
		_, oldest := w.open.Oldest()
		alerts = append(alerts, w.evict(ctx, oldest)...)
	}
	return alerts
}

// restore returns the restore of the cell that the entry names, or a fault if the cell does not record it. An entry that was
// moved here is about another cell.
func (w *Watcher) restore(ctx context.Context, r journal.Record) (*events.Restored, []verdict.Fault, error) {
	by := events.RestoredOf(r.Entry)
	if by == nil || r.Moved {
		return nil, nil, nil
	}
	if w.cfg.Restores == nil {
		return by, nil, nil
	}
	all, err := w.cfg.Restores(ctx)
	if err != nil {
		return nil, nil, fmt.Errorf("restores of the cell: %w", err)
	}
	if slices.ContainsFunc(all, func(is verdict.Restore) bool { return is.Restored == *by }) {
		return by, nil, nil
	}
	return nil, []verdict.Fault{{Kind: verdict.Forged, Seq: r.Seq, What: fmt.Sprintf(
		"it says that the deployment was restored from backup %s of %s, but the deployment does not", by.Backup, by.Taken)}}, nil
}

// lost finds out what the entry's session lost in a restore. It forgets seen entries that the backup need not have, since
// their loss is not a fault. It reports each restore once, and the loss of each session.
func (w *Watcher) lost(r journal.Record, by *events.Restored) (alerts []Alert) {
	if by == nil {
		return nil
	}
	id := r.Entry.Session
	alert := Alert{Kind: Restored, Session: id, Seq: r.Seq, At: r.Entry.At, Position: r.Guard}
	alert.What = fmt.Sprintf("the deployment was restored from backup %s, which began at %s: what was recorded later may be lost", by.Backup, by.Taken)
	last, known := w.heads.Get(id)
	if s, open := w.open.Get(id); open {
		last, known = seen{s.head, s.at}, true
	}
	again := known && last.Seq >= r.Seq
	if again {
		was := audit.Anchor{Session: id, Seq: last.Seq, Hash: last.Hash, At: last.at}
		_, explained := was.LostIn([]verdict.Restore{{Seq: r.Seq, At: r.Entry.At, Restored: *by}})
		w.forget(id)
		if again = explained; !explained {
			w.heads.Put(id, last)
		}
	}
	switch {
	case again:
		alert.What = fmt.Sprintf("entries %d to %d were lost: %s", r.Seq, last.Seq, alert.What)
	case by.Backup == w.restored:
		return nil
	}
	if by.Backup != w.restored {
		w.restored, w.since = by.Backup, r.Guard
	}
	return []Alert{alert}
}

// forget removes what is known of a session.
func (w *Watcher) forget(id content.SessionID) {
	if s, open := w.open.Get(id); open {
		w.drop(s)
	}
	w.heads.Remove(id)
}

// unmarked reports a fault if a session has no entry of the last restore: each older session must have one.
func (w *Watcher) unmarked(s *session, r journal.Record) (faults []verdict.Fault) {
	if by := events.RestoredOf(r.Entry); by != nil && !r.Moved {
		s.restored = by.Backup
	}
	if s.first == 0 {
		s.first = r.Guard
	}
	if _, deleted := events.DeletionOf(r.Entry); deleted || s.first >= w.since || r.Guard < w.since || s.restored == w.restored {
		return nil
	}
	s.restored = w.restored // once is enough
	return []verdict.Fault{{Kind: verdict.Forged, Seq: r.Seq, What: fmt.Sprintf(
		"other sessions say that the deployment was restored from backup %s, but this one, which is older, does not", w.restored)}}
}

// session returns the state of the entry's session, up to the entry. It reads the journal if there is none.
func (w *Watcher) session(ctx context.Context, r journal.Record) (*session, []Alert, error) {
	id := r.Entry.Session
	if s, ok := w.open.Get(id); ok {
		return s, nil, nil
	}
	last, known := w.heads.Get(id)
	s := &session{id: id, checker: audit.NewChecker(), bytes: sessionBytes, before: last.Guard}
	w.bytes += s.bytes
	var alerts []Alert
	if known && r.Seq <= last.Seq {
		alerts = append(alerts, w.tell(s, r.Guard, verdict.Fault{
			Kind: verdict.RolledBack, Seq: r.Seq, What: fmt.Sprintf("entry %d was there before, and is written again", last.Seq),
		})...)
	}
	if r.Seq != 1 {
		again, err := w.again(ctx, s, r, last.Head)
		if err != nil {
			w.bytes -= s.bytes
			return nil, nil, err
		}
		alerts = append(alerts, again...)
	}
	w.heads.Remove(id)
	return s, alerts, nil
}

// again verifies the entries before the current one. seen is the last of them that the watcher saw earlier.
func (w *Watcher) again(ctx context.Context, s *session, r journal.Record, seen journal.Head) (alerts []Alert, err error) {
	for old, err := range w.cfg.Read(ctx, s.id) {
		switch {
		case errors.Is(err, journal.ErrDamaged) && !errors.Is(err, journal.ErrArriving):
			s.given = true
			return append(alerts, w.tell(s, r.Guard, verdict.Fault{Kind: audit.DamageOf(err), Seq: s.head.Seq + 1, What: err.Error()})...), nil
		case err != nil:
			return nil, fmt.Errorf("verify %s again: %w", s.id, err)
		case old.Guard >= r.Guard:
			return alerts, nil
		}
		alerts = append(alerts, w.judge(s, old, r.Guard)...)
		if old.Seq == seen.Seq && old.Hash != seen.Hash {
			alerts = append(alerts, w.tell(s, r.Guard, verdict.Fault{
				Kind: verdict.Replaced, Seq: old.Seq, What: fmt.Sprintf("its hash was %s when it was written, and is now %s", seen.Hash, old.Hash),
			})...)
		}
	}
	return alerts, nil
}

// judge checks an entry. position is the position of the current entry.
func (w *Watcher) judge(s *session, r journal.Record, position uint64) (alerts []Alert) {
	s.head, s.at = r.Head, r.Entry.At
	s.bytes += int64(len(r.Payload))
	w.bytes += int64(len(r.Payload))
	if s.given {
		return nil
	}
	s.checker.Add(r)
	alerts = w.tell(s, position, append(slices.Clip(s.checker.Faults()), w.unmarked(s, r)...)...)
	if w.cfg.Keys != nil {
		alerts = append(alerts, w.sign(s, r, position)...)
	}
	if r.Err != nil {
		return alerts
	}
	for _, ev := range r.Entry.Events {
		p, ok := ev.(events.PolicyApplied)
		if !ok {
			continue
		}
		if s.policy != nil && r.Guard == position {
			if what, wider := widened(*s.policy, p.Policy); wider {
				alerts = append(alerts, Alert{
					Kind: Widened, Session: s.id, Seq: r.Seq, At: r.Entry.At, Position: position, Policy: p.Policy.Name,
					What: fmt.Sprintf("the policy %s (digest %s) allows more than %s (digest %s): %s", p.Policy.Name, p.Policy.Digest, s.policy.Name, s.policy.Digest, what),
				})
			}
		}
		s.policy = &p.Policy
	}
	return alerts
}

// sign checks the signature of an entry. For entries before the current one, the last signature of each driver covers the
// others.
func (w *Watcher) sign(s *session, r journal.Record, position uint64) (alerts []Alert) {
	before := s.signed.Unsigned
	s.signed.Keys, s.signed.Every = w.cfg.Keys(), r.Guard == position
	faults := forged(s.signed.Add(r))
	if s.signed.Every { // earlier entries end here
		faults = append(faults, forged(s.signed.End())...)
	}
	if s.signed.Unsigned > before && len(faults) == 0 && s.unsigned != r.Entry.Epoch {
		s.unsigned = r.Entry.Epoch
		if r.Guard == position {
			alerts = append(alerts, Alert{
				Kind: Unsigned, Session: s.id, Seq: r.Seq, At: r.Entry.At, Position: position,
				What: fmt.Sprintf("the entry is not signed; later ones of epoch %d are not reported", r.Entry.Epoch),
			})
		}
	}
	return append(alerts, w.tell(s, position, faults...)...)
}

// forged returns the faults of signatures, except for missing signatures.
func forged(faults []*signed.FaultError) (out []verdict.Fault) {
	for _, f := range faults {
		if !errors.Is(f.Err, signed.ErrUnsigned) {
			out = append(out, verdict.Fault{Kind: verdict.Forged, Seq: f.Seq, What: f.Err.Error()})
		}
	}
	return out
}

// tell returns alerts for the faults that were not reported yet.
func (w *Watcher) tell(s *session, position uint64, faults ...verdict.Fault) (alerts []Alert) {
	for _, f := range faults {
		if s.given && len(s.told) >= maxFaults || slices.Contains(s.told, f) {
			continue
		}
		s.told = append(s.told, f)
		what := f.String()
		if len(s.told) == maxFaults {
			s.given = true
			what += fmt.Sprintf("; this is fault %d, and later ones are not reported: run \"observer verify %s\"", maxFaults, s.id)
		}
		alerts = append(alerts, Alert{Kind: Fault, Session: s.id, Seq: f.Seq, At: s.at, Position: position, Fault: &f, What: what})
	}
	return alerts
}

// evict does a final check of a session, and keeps only its head.
func (w *Watcher) evict(ctx context.Context, s *session) (alerts []Alert) {
	id := s.id
	if !s.given {
		last := append(slices.Clip(s.checker.Verdict().Faults), forged(s.signed.End())...)
		if alerts = w.tell(s, s.head.Guard, last...); len(alerts) > 0 && w.deleted(ctx, id) {
			alerts = nil // the missing entries were deleted with the session
		}
	}
	w.drop(s)
	w.heads.Put(id, seen{s.head, s.at})
	if w.heads.Len() > w.cfg.Heads {
		old, _ := w.heads.Oldest()
		w.heads.Remove(old)
	}
	return alerts
}

// deleted reports whether a session was deleted in an entry that the watcher has not reached yet.
func (w *Watcher) deleted(ctx context.Context, id content.SessionID) bool {
	for r, err := range w.cfg.Read(ctx, id) {
		if _, deleted := events.DeletionOf(r.Entry); err != nil || deleted {
			return err == nil
		}
	}
	return false
}

func (w *Watcher) drop(s *session) {
	w.open.Remove(s.id)
	w.bytes -= s.bytes
}
