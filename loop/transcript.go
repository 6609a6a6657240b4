package loop

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"github.com/turnlog/turnlog/content"
)

// add appends items to the transcript and gives them their ID and time.
func (s *State) add(items ...content.Item) {
	for _, it := range items {
		if it.ID == "" {
			s.Appended++
			it.ID = content.ItemID("i" + strconv.Itoa(s.Appended))
		} else {
			s.Appended = max(s.Appended, ordinal(it.ID))
		}
		it.CreatedAt = cmp.Or(it.CreatedAt, s.At)
		s.Transcript = append(s.Transcript, it)
	}
}

// maxOrdinal keeps an invented ID from using up the numbers.
const maxOrdinal = 1 << 30

// ordinal is N of an ID iN, given here or in an earlier session; zero for any other.
func ordinal(id content.ItemID) int {
	digits, ok := strings.CutPrefix(string(id), "i")
	n, err := strconv.Atoi(digits)
	if !ok || err != nil || n < 0 || n > maxOrdinal {
		return 0
	}
	return n
}

// place appends the answers of the round's calls to the transcript, each once all earlier
// calls have theirs, so that transcript order is call order.
func (s *State) place() {
	for i := range s.Turn.Calls {
		c := &s.Turn.Calls[i]
		switch {
		case c.Placed:
			continue
		case c.Result != nil:
			it := content.NewItem(content.Tool, content.ResultPart(*c.Result))
			it.Metadata = resultMetadata(*c.Result)
			s.add(it)
		case c.Placeholder != "":
			r := content.NewResult(c.ID, c.Name, content.StatusOK, c.Placeholder)
			s.add(content.NewItem(content.Tool, content.ResultPart(r)))
		default:
			return
		}
		c.Placed = true
	}
}

func resultMetadata(r content.ToolResult) content.Metadata {
	if r.Status == content.StatusOK {
		return nil
	}
	md := content.Metadata{}.With(content.MetaToolStatus, r.Status)
	if r.Code != "" {
		md = md.With(content.MetaFailureCode, r.Code)
	}
	for _, key := range []string{content.MetaInterrupted, content.MetaInterruptReason, content.MetaInterruptStage} {
		if v, ok := r.Metadata.Get(key); ok {
			md = md.With(key, v)
		}
	}
	return md
}

// notice tells a model of an outcome that arrived after its call was answered.
func notice(c Call, r content.ToolResult) content.Item {
	verb := "completed"
	if r.IsError {
		verb = "failed"
	}
	head := content.TextPart("Background tool call " + string(c.ID) + " " + verb + ": " + r.Text())
	return content.NewItem(content.Notification, head, content.ResultPart(r))
}

// withhold marks the round's reply as vetoed. Answers of cancelled calls may follow it.
func (s *State) withhold() {
	t := s.Turn
	t.Items, s.Transcript = slices.Clone(t.Items), slices.Clone(s.Transcript)
	end := len(s.Transcript)
	for end > 0 && s.Transcript[end-1].Kind != content.Assistant {
		end--
	}
	for i := range t.Replied {
		it := &s.Transcript[end-1-i]
		it.Metadata = it.Metadata.With(content.MetaWithheld, true)
		t.Items[len(t.Items)-1-i] = *it
	}
}

// Unpaired finds the first call without a result, or result without a call before it, in a
// transcript. problem is empty if there is none.
func Unpaired(items []content.Item) (index int, call content.CallID, problem string) {
	all := mentions(items)
	n := 0 // how many mentions of the call come before this one
	for i, m := range all {
		if n++; i == 0 || all[i-1].id != m.id {
			n = 0
		}
		last := i+1 == len(all) || all[i+1].id != m.id
		what := ""
		switch {
		case n == 0 && m.result:
			what = "has a result before its call, or no call"
		case n == 0 && last:
			what = "has no result"
		case n > 0 && !m.result:
			what = "is made twice under one id"
		case n > 1:
			what = "has two results"
		}
		if what != "" && (problem == "" || m.index < index) {
			index, call, problem = m.index, m.id, what
		}
	}
	return index, call, problem
}

// mention is where a transcript mentions a call: the call itself, or its result.
type mention struct {
	id     content.CallID
	index  int
	result bool
}

// mentions lists the mentions of each call in order. A notification is none: it tells of a
// result that came after the call was answered.
func mentions(items []content.Item) []mention {
	var all []mention
	for i, it := range items {
		for _, p := range it.Parts {
			if p.Call != nil {
				all = append(all, mention{p.Call.ID, i, false})
			}
			if p.Result != nil && it.Kind != content.Notification {
				all = append(all, mention{p.Result.CallID, i, true})
			}
		}
	}
	slices.SortStableFunc(all, func(a, b mention) int { return cmp.Compare(a.id, b.id) })
	return all
}
