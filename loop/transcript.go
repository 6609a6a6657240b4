package loop

import (
	"cmp"
	"slices"
	"sort"
	"strconv"

	"github.com/turnlog/turnlog/content"
)

// add appends items to the transcript and sets their IDs and times.
func (s *State) add(items ...content.Item) {
	for _, it := range items {
		if it.ID == "" {
			s.Appended++
			it.ID = content.ItemID("i" + strconv.Itoa(s.Appended))
		} else {
			s.Appended = max(s.Appended, it.ID.Ordinal())
		}
		it.CreatedAt = cmp.Or(it.CreatedAt, s.At)
		s.Bytes += content.Weight(it)
		s.Transcript = append(s.Transcript, it)
	}
}

// place appends the answers of the round's calls to the transcript. Each waits for the answers of all earlier
// calls, so the transcript has them in the order of the calls.
func (s *State) place() {
	placed := sort.Search(len(s.Turn.Calls), func(i int) bool { return !s.Turn.Calls[i].Placed })
	for i := placed; i < len(s.Turn.Calls); i++ {
		answer, ok := s.Turn.Calls[i].Answer()
		if !ok {
			return
		}
		s.add(answer)
		s.Turn.Calls[i].Placed = true
	}
}

// withhold marks the round's reply as vetoed. Answers of cancelled calls may follow it.
func (s *State) withhold() {
	t := s.Turn
	t.Items, s.Transcript = slices.Clone(t.Items), slices.Clone(s.Transcript)
	s.Rewritten++
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
