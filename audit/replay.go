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
	state *loop.State
	off   bool // it failed, and the problem was reported
}

// fold folds the entry. It returns a problem if the core panics or its transcript has another length.
func (r *replayer) fold(e events.Entry, items []content.Item) string {
	if r.off {
		return ""
	}
	if r.state == nil {
		r.state = loop.New(e.Session)
	}
	problem := r.safely(e)
	if problem == "" && len(r.state.Transcript) != len(items) {
		problem = fmt.Sprintf("the core's transcript has %d items, but the facts add up to %d", len(r.state.Transcript), len(items))
	}
	r.off = problem != ""
	return problem
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

// differs compares the two transcripts, item by item.
func (r *replayer) differs(items []content.Item) string {
	if r.off || r.state == nil {
		return ""
	}
	for i, it := range r.state.Transcript {
		if it.Kind != items[i].Kind || it.FinishReason != items[i].FinishReason || !reflect.DeepEqual(it.Parts, items[i].Parts) {
			return fmt.Sprintf("item %d of the core's transcript differs from the facts", i+1)
		}
	}
	return ""
}
