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

// Replay folds a session's records into its driver's State. For records that the core cannot
// fold it returns [journal.ErrDamaged] and the State before the first such record; [Verify]
// says what is wrong with them.
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

// replayer folds the checked entries with the core.
type replayer struct {
	state *loop.State
	off   bool // it failed, and the failure was reported
}

// fold folds the entry, and returns what is wrong if the core panics or its transcript
// differs.
func (r *replayer) fold(e events.Entry, items []content.Item) string {
	if r.off {
		return ""
	}
	if r.state == nil {
		r.state = loop.New(e.Session)
	}
	problem := r.safely(e)
	if problem == "" && len(r.state.Transcript) != len(items) {
		problem = fmt.Sprintf("the core's transcript has %d items, the facts add up to %d", len(r.state.Transcript), len(items))
	}
	r.off = problem != ""
	return problem
}

// safely folds an entry. The core panics on an impossible event, which is a finding here.
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
			return fmt.Sprintf("item %d of the core's transcript is not what the facts add up to", i+1)
		}
	}
	return ""
}
