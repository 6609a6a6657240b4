package audit

import (
	"fmt"
	"iter"
	"reflect"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/events/journal"
	"github.com/turnlog/turnlog/loop"
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

// compare compares what is new in the two transcripts, and then drops its content from both, so that the memory
// of a long journal is that of its shape.
func (r *replayer) compare(script *transcript) string {
	if len(r.state.Transcript) != len(script.items) {
		return fmt.Sprintf("the core's transcript has %d items, but the facts add up to %d", len(r.state.Transcript), len(script.items))
	}
	if r.rewrites != script.rewrites {
		r.compared, r.rewrites = 0, script.rewrites
	}
	for ; r.compared < len(script.items); r.compared++ {
		a, b := &r.state.Transcript[r.compared], &script.items[r.compared]
		if a.Kind != b.Kind || a.FinishReason != b.FinishReason || !reflect.DeepEqual(a.Parts, b.Parts) {
			return fmt.Sprintf("item %d of the core's transcript differs from the facts", r.compared+1)
		}
		*a = content.Item{ID: a.ID, Kind: a.Kind, FinishReason: a.FinishReason}
		*b = content.Item{Kind: b.Kind, FinishReason: b.FinishReason}
	}
	return ""
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
