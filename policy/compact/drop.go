package compact

import (
	"context"
	"slices"

	"github.com/turnlog/turnlog/content"
)

// DropReasoning drops the reasoning of replies, except in open tool rounds, where providers
// want it back as signed.
type DropReasoning struct{}

// Name returns drop_reasoning.
func (DropReasoning) Name() string { return "drop_reasoning" }

// Compact drops reasoning parts, and items that have no other parts.
func (DropReasoning) Compact(_ context.Context, j *Job) ([]content.Item, error) {
	end := open(j.Items)
	return edit(j.Items, func(i int, p content.Part) bool { return i < end && p.Kind == content.ReasoningKind }), nil
}

// edit drops parts, and items without parts. It returns items itself if nothing changes.
func edit(items []content.Item, drop func(item int, p content.Part) bool) []content.Item {
	out := make([]content.Item, 0, len(items))
	changed := false
	for i, it := range items {
		gone := func(p content.Part) bool { return drop(i, p) }
		if slices.ContainsFunc(it.Parts, gone) {
			changed = true
			it.Parts = slices.DeleteFunc(slices.Clone(it.Parts), gone)
			if len(it.Parts) == 0 {
				continue
			}
		}
		out = append(out, it)
	}
	if !changed {
		return items
	}
	return out
}

// DropFailedResults drops failed calls with their results, except those of the newest reply,
// which the model has not seen yet. It drops a reply that has nothing else.
type DropFailedResults struct {
	// Statuses that count as failed; nil: error, not_executed, limit and terminated.
	// Others say what a model must remember: that a person refused, or that something may
	// have had an effect.
	Statuses []content.Status
}

// Name returns drop_failed_results.
func (DropFailedResults) Name() string { return "drop_failed_results" }

// Compact drops the calls and results.
func (s DropFailedResults) Compact(_ context.Context, j *Job) ([]content.Item, error) {
	failed := s.failed(j.Items)
	if len(failed) == 0 {
		return j.Items, nil
	}
	f := fate{failed: failed, bare: make([]bool, len(j.Items))}
	limit, end := open(j.Items), newestReply(j.Items)
	for from := 0; from < len(j.Items); {
		to := from + 1
		for to < len(j.Items) && sameReply(j.Items[to-1], j.Items[to]) {
			to++
		}
		if j.Items[from].Kind == content.Assistant {
			f.judge(j.Items, from, to, from < end, from < limit)
		}
		from = to
	}
	return edit(j.Items, f.drops(j.Items)), nil
}

// failed returns the calls that have a failed result.
func (s DropFailedResults) failed(items []content.Item) map[content.CallID]bool {
	statuses := s.Statuses
	if statuses == nil {
		statuses = []content.Status{
			content.StatusError, content.StatusNotExecuted, content.StatusLimit, content.StatusTerminated,
		}
	}
	failed := make(map[content.CallID]bool)
	for _, it := range items {
		if it.Kind != content.Tool {
			continue
		}
		for _, r := range it.Results() {
			status := r.Status
			if status == "" && r.IsError { // loaded from another system
				status = content.StatusError
			}
			if slices.Contains(statuses, status) {
				failed[r.CallID] = true
			}
		}
	}
	return failed
}

// fate says which calls to drop, and which replies lose their reasoning with them.
type fate struct {
	failed map[content.CallID]bool
	bare   []bool // by item: its reply would keep only reasoning, or reasoning without its calls
}

// judge decides about the reply items[from:to]. seen: the model has seen its results;
// closed: providers no longer want its reasoning.
func (f fate) judge(items []content.Item, from, to int, seen, closed bool) {
	goes, stays, reasons := false, false, false
	var calls []content.CallID
	for _, it := range items[from:to] {
		for _, p := range it.Parts {
			switch {
			case p.Call != nil:
				calls = append(calls, p.Call.ID)
				goes = goes || f.failed[p.Call.ID]
				stays = stays || !f.failed[p.Call.ID]
			case p.Kind == content.ReasoningKind:
				reasons = true
			default:
				stays = true
			}
		}
	}
	switch {
	case !goes:
	case !seen, reasons && stays && !closed:
		for _, id := range calls {
			delete(f.failed, id)
		}
	case reasons:
		for i := from; i < to; i++ {
			f.bare[i] = true
		}
	}
}

func (f fate) drops(items []content.Item) func(int, content.Part) bool {
	return func(i int, p content.Part) bool {
		switch {
		case p.Call != nil:
			return f.failed[p.Call.ID]
		case p.Result != nil && items[i].Kind != content.Notification:
			return f.failed[p.Result.CallID]
		}
		return f.bare[i] && p.Kind == content.ReasoningKind
	}
}
