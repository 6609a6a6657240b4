package audit

import (
	"slices"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
)

// Transcript returns what a model would see after the entries. Its fold is independent of the core's.
// Items are as recorded; items for results and placeholders have no ID.
func Transcript(entries []events.Entry) []content.Item {
	var t transcript
	for _, e := range entries {
		for _, ev := range e.Events {
			t.apply(ev, e.At)
		}
	}
	return t.items
}

// len returns how many items the transcript has.
func (t *transcript) len() int { return t.before + len(t.items) }

// forget drops the items before the nth. It keeps empty system items, because a task counts them.
func (t *transcript) forget(n int) {
	if n <= t.before {
		return
	}
	drop := t.items[:n-t.before]
	for _, it := range drop {
		if it.Kind == content.System {
			t.systems = append(t.systems, content.Item{Kind: it.Kind, FinishReason: it.FinishReason})
		}
	}
	t.items = slices.Delete(t.items, 0, len(drop)) // in place: the array does not grow
	t.before = n
}

// transcript is the conversation as the events produce it.
type transcript struct {
	before  int            // how many items were dropped
	systems []content.Item // the system items among them, without content
	items   []content.Item // the items that were not dropped

	round []answer // the calls of the round, in order
	at    map[content.CallID]int
	next  int // in round: the first whose answer is not in the transcript
	pairs pairs

	rewrites int // how often items began again
}

// answer is the answer to a call of the round.
type answer struct {
	name   string // of the tool
	result *content.ToolResult
}

func (t *transcript) apply(ev any, at content.Time) {
	switch ev := ev.(type) {
	case events.RunStarted:
		t.add(ev.Transcript...)
	case events.InputAccepted:
		t.add(ev.Items...)
	case events.MemoryRecalled:
		t.add(ev.Items...)
	case events.RoundStarted:
		t.round, t.at, t.next = t.round[:0], nil, 0
	case events.ReplyRecorded:
		t.add(ev.Items...)
	case events.ToolCallRequested:
		if t.at == nil {
			t.at = map[content.CallID]int{}
		}
		if _, twice := t.at[ev.Call.ID]; !twice {
			t.at[ev.Call.ID] = len(t.round)
		}
		t.round = append(t.round, answer{name: ev.Call.Name})
	case events.ToolResultReceived:
		if !ev.Late {
			t.answer(ev.Result.CallID, ev.Result, at)
		}
	case events.ToolDetached:
		t.answer(ev.Call, content.NewResult(ev.Call, t.nameOf(ev.Call), content.StatusOK, ev.Placeholder), at)
	case events.MutationFinished:
		if ev.Dirty {
			t.replace(ev.Replacement)
		}
	case events.SessionDeleted:
		*t = transcript{rewrites: t.rewrites + 1}
	case events.TaskStarted:
		t.replace(slices.DeleteFunc(slices.Concat(t.systems, t.items), func(it content.Item) bool { return it.Kind != content.System }))
	}
}

// answer records a call's answer, and appends all answers that are next in order: an answer enters
// the transcript once all earlier calls have theirs.
func (t *transcript) answer(id content.CallID, r content.ToolResult, at content.Time) {
	if i, known := t.at[id]; known && t.round[i].result == nil {
		t.round[i].result = &r
	}
	for ; t.next < len(t.round) && t.round[t.next].result != nil; t.next++ {
		it := content.NewItem(content.Tool, content.ResultPart(*t.round[t.next].result))
		it.CreatedAt = at
		t.add(it)
	}
}

// nameOf returns the tool of a call of the round.
func (t *transcript) nameOf(id content.CallID) string {
	if i, known := t.at[id]; known {
		return t.round[i].name
	}
	return ""
}

func (t *transcript) add(items ...content.Item) {
	t.items = append(t.items, items...)
	for _, it := range items {
		t.pairs.add(it)
	}
}

func (t *transcript) replace(items []content.Item) {
	t.before, t.systems, t.items = 0, nil, nil
	t.pairs, t.rewrites = pairs{}, t.rewrites+1
	t.add(items...)
}

// pairs matches calls with results as items are added.
type pairs struct {
	calls   []content.CallID // in order; those from first on may have no result yet
	first   int
	done    map[content.CallID]bool // false: called, no result yet
	problem string                  // the first one that no later item can fix
}

func (p *pairs) add(it content.Item) {
	if p.done == nil {
		p.done = map[content.CallID]bool{}
	}
	for _, part := range it.Parts {
		switch {
		case part.Call != nil:
			p.call(part.Call.ID)
		case part.Result != nil && it.Kind != content.Notification:
			p.result(part.Result.CallID)
		}
	}
}

func (p *pairs) call(id content.CallID) {
	if _, known := p.done[id]; known {
		p.fail("call " + string(id) + " occurs twice")
		return
	}
	p.done[id] = false
	p.calls = append(p.calls, id)
}

func (p *pairs) result(id content.CallID) {
	switch done, known := p.done[id]; {
	case !known:
		p.fail("a result of call " + string(id) + " has no call before it")
	case done:
		p.fail("call " + string(id) + " has two results")
	default:
		p.done[id] = true
	}
}

// open returns the first call without a result.
func (p *pairs) open() (id content.CallID, found bool) {
	for p.first < len(p.calls) && p.done[p.calls[p.first]] {
		p.first++
	}
	if p.first == len(p.calls) {
		p.calls, p.first = p.calls[:0], 0
		return "", false
	}
	return p.calls[p.first], true
}

func (p *pairs) fail(problem string) {
	if p.problem == "" {
		p.problem = problem
	}
}

// pairedCalls: later outcomes of a call are notifications, not results.
func pairedCalls() rule {
	return func(f *fact) {
		if _, ok := f.event.(events.ModelCallStarted); !ok {
			return
		}
		p := &f.transcript.pairs
		if p.problem != "" {
			f.fail("the model is called with a broken transcript: %s", p.problem)
		} else if id, open := p.open(); open {
			f.fail("the model is called while call %s has no result in the transcript", id)
		}
	}
}

func runnableTail() rule {
	return func(f *fact) {
		if _, ok := f.event.(events.ModelCallStarted); !ok {
			return
		}
		items := f.transcript.items
		if len(items) == 0 {
			f.fail("the model is called with an empty transcript")
			return
		}
		last := items[len(items)-1]
		runnable := []content.Kind{content.User, content.Tool, content.Notification}
		if !slices.Contains(runnable, last.Kind) && (last.Kind != content.Assistant || last.FinishReason != content.Compaction) {
			f.fail("the model is called with a transcript that ends in an item of kind %s", last.Kind)
		}
	}
}

func transcriptIsAFold() rule {
	return func(f *fact) {
		var want int
		switch ev := f.event.(type) {
		case events.ModelCallStarted:
			want = ev.TranscriptLen
		case events.RoundFinished:
			want = ev.TranscriptLen
		default:
			return
		}
		if got := f.transcript.len(); got != want {
			f.fail("a %T records a transcript of %d items, but the facts add up to %d", f.event, want, got)
		}
	}
}
