package compact

import (
	"context"
	"slices"

	"github.com/turnlog/turnlog/content"
)

// DropReasoning drops the reasoning of replies, except in open tool rounds, where providers
// require it unchanged.
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

// DropFailedResults drops failed calls with their results, except for the newest reply, whose
// results the model has not seen yet. It drops a reply that has nothing else. It keeps calls that a
// person refused and calls that may have had an effect: a model must remember them.
type DropFailedResults struct{}

// Name returns drop_failed_results.
func (DropFailedResults) Name() string { return "drop_failed_results" }

// Compact drops the calls and results. A reply whose reasoning providers still require
// is dropped as a whole or kept unchanged.
func (DropFailedResults) Compact(_ context.Context, j *Job) ([]content.Item, error) {
	failed, dropped := failedCalls(j.Items), make(map[content.CallID]bool)
	bare := make([]bool, len(j.Items)) // by item: its reply loses its reasoning with its calls
	limit, end := open(j.Items), newestReply(j.Items)
	for from := 0; from < end; {
		to := from + 1
		for to < end && sameReply(j.Items[to-1], j.Items[to]) {
			to++
		}
		calls, stays, reasons := split(j.Items[from:to], failed)
		if len(calls) > 0 && (!reasons || !stays || from < limit) {
			for _, id := range calls {
				dropped[id] = true
			}
			for i := from; i < to; i++ {
				bare[i] = true
			}
		}
		from = to
	}
	return edit(j.Items, func(i int, p content.Part) bool {
		switch {
		case p.Call != nil:
			return dropped[p.Call.ID]
		case p.Result != nil && j.Items[i].Kind != content.Notification:
			return dropped[p.Result.CallID]
		}
		return bare[i] && p.Kind == content.ReasoningKind
	}), nil
}

// split returns the failed calls of a reply, and whether it has anything else that stays,
// and reasoning.
func split(reply []content.Item, failed map[content.CallID]bool) (calls []content.CallID, stays, reasons bool) {
	for _, it := range reply {
		for _, p := range it.Parts {
			switch {
			case p.Call != nil && failed[p.Call.ID]:
				calls = append(calls, p.Call.ID)
			case p.Kind == content.ReasoningKind:
				reasons = true
			default:
				stays = true
			}
		}
	}
	return calls, stays, reasons
}

func failedCalls(items []content.Item) map[content.CallID]bool {
	failed := make(map[content.CallID]bool)
	for _, it := range items {
		if it.Kind != content.Tool {
			continue
		}
		for _, r := range it.Results() {
			switch r.Status {
			case content.StatusError, content.StatusNotExecuted, content.StatusLimit, content.StatusTerminated:
				failed[r.CallID] = true
			case "": // loaded from another system
				failed[r.CallID] = failed[r.CallID] || r.IsError
			default:
			}
		}
	}
	return failed
}
