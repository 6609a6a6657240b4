package audit

import (
	"fmt"
	"iter"
	"reflect"
	"slices"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/events/journal"
	"github.com/turnlog/turnlog/loop"
	"github.com/turnlog/turnlog/loop/snapshot"
)

// Replay folds a session's records into the State that its driver had. For a record that the core
// cannot fold it returns [journal.ErrDamaged] and the State before that record; [Verify] returns the
// reason.
func Replay(s content.SessionID, records iter.Seq2[journal.Record, error]) (*loop.State, error) {
	r := replayer{state: loop.New(s)}
	for rec, err := range records {
		switch {
		case err != nil:
			return r.state, err
		case rec.Err != nil:
			return r.state, fmt.Errorf("replay %s/%d: %w", s, rec.Seq, rec.Err)
		}
		if problem := r.safely(rec.Entry); problem != "" {
			return r.state, fmt.Errorf("%w: replay %s/%d: %s", journal.ErrDamaged, s, rec.Seq, problem)
		}
	}
	return r.state, nil
}

// replayer folds the entries with the core.
type replayer struct {
	state    *loop.State
	off      bool // it failed, and the problem was reported
	compared int  // items that are equal
	rewrites int  // of the transcript, when they were compared
	shed     shed
}

// fold folds the entry. It returns a problem if the core panics or its transcript differs.
func (r *replayer) fold(e events.Entry, script *transcript) string {
	if r.off {
		return ""
	}
	if r.state == nil {
		r.state = loop.New(e.Session)
	}
	problem := r.safely(e)
	if problem == "" {
		problem = r.compare(script)
	}
	r.off = problem != ""
	return problem
}

// compare compares what is new in the two transcripts.
func (r *replayer) compare(script *transcript) string {
	if len(r.state.Transcript) != script.len() {
		return fmt.Sprintf("the core's transcript has %d items, but the facts add up to %d", len(r.state.Transcript), script.len())
	}
	if r.rewrites != script.rewrites {
		r.compared, r.rewrites = 0, script.rewrites
	}
	for ; r.compared < script.len(); r.compared++ {
		a, b := &r.state.Transcript[r.compared], &script.items[r.compared-script.before]
		if a.Kind != b.Kind || a.FinishReason != b.FinishReason || !equalParts(a.Parts, b.Parts) {
			return fmt.Sprintf("item %d of the core's transcript differs from the facts", r.compared+1)
		}
	}
	return r.shed.contents(r.state, script)
}

// equalParts compares parts. Those of an event are the same in both transcripts.
func equalParts(a, b []content.Part) bool {
	return len(a) == len(b) && len(a) > 0 && &a[0] == &b[0] || reflect.DeepEqual(a, b)
}

// safely folds an entry. The core panics on an impossible event; here that is a problem to report.
func (r *replayer) safely(e events.Entry) (problem string) {
	defer func() {
		if v := recover(); v != nil {
			problem = fmt.Sprintf("the core cannot fold it: %v", v)
		}
	}()
	r.state.Fold(e)
	return ""
}

// shed drops the content of compared items from the core's transcript, and the items of the facts, so that a long journal
// needs little memory. The chunks of its encoder then have what digests of snapshots need.
type shed struct {
	encoder   snapshot.Encoder
	rewritten int            // of the state's transcript
	sealed    int            // items whose chunks are encoded
	dropped   int            // items without content
	mark      *content.Usage // of an item without content
	partial   bool           // content is missing that was not encoded as it is now
	unjudged  int            // digests that could not be computed
}

// shedAfter is how many items collect before their content is dropped.
const shedAfter = 512

// contents drops content that is no longer needed. It returns a problem if the state cannot be encoded.
func (d *shed) contents(s *loop.State, facts *transcript) string {
	if d.mark == nil {
		d.mark = new(content.Usage)
	}
	if s.Rewritten != d.rewritten {
		d.rewritten, d.sealed, d.dropped = s.Rewritten, 0, 0
		d.partial = slices.ContainsFunc(s.Transcript, func(it content.Item) bool { return it.Usage == d.mark })
	}
	if len(s.Transcript)-d.sealed < shedAfter {
		return ""
	}
	before := d.sealed // the last chunk stays: a hook may withhold the last reply
	if d.partial {
		before, d.sealed = len(s.Transcript), len(s.Transcript)
	} else if err := d.encoder.Seal(s, discard); err != nil {
		return fmt.Sprintf("its state cannot be encoded: %v", err)
	} else {
		d.sealed = d.encoder.Sealed()
	}
	for ; d.dropped < before; d.dropped++ {
		a := &s.Transcript[d.dropped]
		*a = content.Item{Kind: a.Kind, FinishReason: a.FinishReason, Usage: d.mark}
	}
	facts.forget(min(d.dropped, facts.len()-1)) // rules look at the last one
	return ""
}

// confirm compares the digest of a snapshot with that of the state. It returns a problem if they differ.
func (d *shed) confirm(s *loop.State, ev events.SnapshotTaken) string {
	if ev.Format != snapshot.Version || d.partial || s == nil {
		d.unjudged++
		return ""
	}
	index, err := d.encoder.Encode(s, discard)
	if err != nil {
		return fmt.Sprintf("the state before it cannot be encoded: %v", err)
	}
	if digest := events.HashOf(index); digest != ev.Digest {
		return fmt.Sprintf("it confirms a snapshot with the digest %s, but the entries before it fold to a state with %s", ev.Digest, digest)
	}
	return ""
}

func discard(events.Hash, []byte) error { return nil }
