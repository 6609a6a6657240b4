package content

// Unpaired finds the first call without a result, or result without a call before it, in a
// transcript. problem is empty if there is none. A notification does not count: it repeats a
// result that came after the call was answered.
func Unpaired(items []Item) (index int, call CallID, problem string) {
	index = len(items)
	fault := func(i int, id CallID, what string) {
		if i < index {
			index, call, problem = i, id, what
		}
	}
	var calls []CallID
	made, answered := map[CallID]int{}, map[CallID]bool{} // made: by which item
	for i, it := range items {
		for _, p := range it.Parts {
			if p.Call != nil {
				if _, twice := made[p.Call.ID]; twice {
					fault(i, p.Call.ID, "is made twice under one id")
				} else {
					calls, made[p.Call.ID] = append(calls, p.Call.ID), i
				}
			}
			if p.Result != nil && it.Kind != Notification {
				if _, known := made[p.Result.CallID]; !known {
					fault(i, p.Result.CallID, "has a result before its call, or no call")
				} else if answered[p.Result.CallID] {
					fault(i, p.Result.CallID, "has two results")
				}
				answered[p.Result.CallID] = true
			}
		}
	}
	for _, id := range calls {
		if !answered[id] {
			fault(made[id], id, "has no result")
		}
	}
	if problem == "" {
		index = 0
	}
	return index, call, problem
}

// OpenRound finds an open round at the end of a transcript: a reply with calls, and their known
// results. If there is none, reply is empty.
func OpenRound(items []Item) (before, reply, results []Item) {
	to := len(items)
	for to > 0 && items[to-1].Kind == Tool {
		to--
	}
	from, calls := to, 0
	for from > 0 && items[from-1].Kind == Assistant && (from == to || items[from-1].FinishReason == "") {
		from--
		calls += len(items[from].Calls())
	}
	if calls == 0 {
		return items, nil, nil
	}
	return items[:from], items[from:to], items[to:]
}

// Unanswered returns results for the calls of a reply that have none.
func Unanswered(reply, results []Item, s Status, text string) (out []Item) {
	answered := map[CallID]bool{}
	for _, it := range results {
		for _, p := range it.Parts {
			if p.Result != nil {
				answered[p.Result.CallID] = true
			}
		}
	}
	for _, it := range reply {
		for _, c := range it.Calls() {
			if !answered[c.ID] {
				out = append(out, NewItem(Tool, ResultPart(NewResult(c.ID, c.Name, s, text))))
			}
		}
	}
	return out
}
