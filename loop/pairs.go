package loop

import (
	"cmp"
	"slices"

	"github.com/turnlog/turnlog/content"
)

// mention is where a call or its result stands in a transcript.
type mention struct {
	id     content.CallID
	index  int
	result bool
}

// Unpaired finds the first call without a result, or result without a call before
// it, in a transcript. problem is empty if there is none.
func Unpaired(items []content.Item) (index int, call content.CallID, problem string) {
	all := mentions(items)
	slices.SortStableFunc(all, func(a, b mention) int { return cmp.Compare(a.id, b.id) })
	index = len(items)
	for len(all) > 0 {
		n := 1
		for n < len(all) && all[n].id == all[0].id {
			n++
		}
		if at, what := mispaired(all[:n]); what != "" && at < index {
			index, call, problem = at, all[0].id, what
		}
		all = all[n:]
	}
	if problem == "" {
		return 0, "", ""
	}
	return index, call, problem
}

// mentions lists the calls and results, in order. A notification tells of a result
// that came after the call was answered.
func mentions(items []content.Item) []mention {
	var all []mention
	for i, it := range items {
		for _, p := range it.Parts {
			if p.Call != nil {
				all = append(all, mention{id: p.Call.ID, index: i})
			}
			if p.Result != nil && it.Kind != content.Notification {
				all = append(all, mention{id: p.Result.CallID, index: i, result: true})
			}
		}
	}
	return all
}

// mispaired judges the mentions of one call: it has to be made once, and then
// answered once.
func mispaired(m []mention) (index int, problem string) {
	switch {
	case m[0].result:
		return m[0].index, "has a result before its call, or no call"
	case len(m) == 1:
		return m[0].index, "has no result"
	case !m[1].result:
		return m[1].index, "is made twice under one id"
	case len(m) > 2 && m[2].result:
		return m[2].index, "has two results"
	case len(m) > 2:
		return m[2].index, "is made twice under one id"
	}
	return 0, ""
}
