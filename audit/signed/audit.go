package signed

import (
	"fmt"
	"iter"
	"slices"

	"github.com/turnlog/turnlog/audit/keys"
	"github.com/turnlog/turnlog/audit/verdict"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/events/journal"
)

// Audit checks the signatures of one journal while it is verified, and reports who signed what.
type Audit struct {
	places  *places
	entries Entries
	acts    acts
	faults  []*FaultError
	end     verdict.Point // without an unsigned tombstone
	gone    bool          // there is an unsigned tombstone
}

// NewAudit returns an Audit that uses a directory of keys. It checks the signatures of people, and the last
// signature of each epoch of entries. With every, it also checks the signatures of all entries and of workers.
func NewAudit(d *keys.Directory, every bool) *Audit {
	p := &places{keys: d}
	return &Audit{places: p, entries: Entries{Keys: d, Every: every, places: p}, acts: newActs(d, p, every)}
}

// In makes the audit judge signatures by revoked keys by their places in a log of heads. Call it before Watch.
func (a *Audit) In(l *Log) { a.places.log = l }

// Watch yields the records of a journal from its first entry on, unchanged, and checks them.
func (a *Audit) Watch(records iter.Seq2[journal.Record, error]) iter.Seq2[journal.Record, error] {
	return func(yield func(journal.Record, error) bool) {
		for r, err := range records {
			if err == nil {
				a.add(&r)
			}
			if !yield(r, err) {
				return
			}
		}
	}
}

func (a *Audit) add(r *journal.Record) {
	a.faults = append(append(a.faults, a.entries.add(r)...), a.acts.add(r)...)
	if _, tombstone := events.DeletionOf(r.Entry); tombstone && r.Signature.IsZero() {
		a.gone = true
		return
	}
	a.end = verdict.Point{Seq: r.Seq, At: r.Entry.At}
}

// Judge adds what was found to a verdict on the journal, and settles it again.
func (a *Audit) Judge(v *verdict.Verdict) {
	v.Keys = true
	a.faults = slices.Concat(a.faults, a.entries.End(), a.entries.Arrived())
	for _, f := range a.faults {
		v.Add(verdict.Fault{Kind: verdict.Forged, Seq: f.Seq, Line: f.Line, What: f.Err.Error()})
	}
	old := a.entries.Version > a.entries.Keys.Version
	if old {
		v.Add(verdict.Fault{Kind: verdict.Newer, Seq: a.end.Seq, What: fmt.Sprintf(
			"its drivers used version %d of the directory of keys, but this is version %d, which may lack revocations: verify with the newest one", a.entries.Version, a.entries.Keys.Version)})
	}
	if a.entries.Unsigned == 0 && a.end.Seq > 0 && !old {
		v.Prove(verdict.Proof{Level: verdict.Signed, Through: a.end})
	}
	if a.gone {
		v.Doubt("who: the tombstone is unsigned, so who deleted or erased the session, when and why is only the keeper's claim")
	}
	v.Signers = a.signers()
	a.places.judge(v)
	v.Settle()
}

// signers lists who signed, and how much is unsigned.
func (a *Audit) signers() []verdict.Signer {
	return slices.Concat(a.entries.signers.all, a.acts.signers.all)
}

// tally counts what each key signed, in the order of first uses.
type tally struct {
	all []verdict.Signer
	at  map[verdict.Signer]int // by signers without a count
}

func (t *tally) count(what, name, key string) { t.all[t.index(what, name, key)].Count++ }

func (t *tally) index(what, name, key string) int {
	s := verdict.Signer{What: what, Name: name, Key: key}
	i, ok := t.at[s]
	if !ok {
		if t.at == nil {
			t.at = map[verdict.Signer]int{}
		}
		i = len(t.all)
		t.at[s], t.all = i, append(t.all, s)
	}
	return i
}
