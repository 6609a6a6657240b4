package explain

import (
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
)

// sights tracks the form in which models see the results of some calls. Answers enter the transcript in the order
// of the calls, and all of them before the next model call, so it is enough to note their form at that time.
type sights struct {
	calls map[content.CallID]*sight
}

// sight is a call's result in the transcript.
type sight struct {
	call    *Call
	text    string // text of the result
	now     Form
	through string
	shown   Form // the form that the last model call saw
}

// note folds an event that follows those of a call.
func (s *sights) note(at At, ev any) {
	switch ev := ev.(type) {
	case events.ToolDetached:
		s.set(ev.Call, FormPlaceholder, "")
	case events.ToolResultReceived:
		if !ev.Late {
			s.set(ev.Result.CallID, FormFull, ev.Result.Text())
		}
	case events.InputAccepted:
		for _, it := range ev.Items {
			for _, r := range it.Results() {
				s.set(r.CallID, FormNotice, r.Text())
			}
		}
	case events.ReplyRecorded:
		if ev.FinishReason == content.Compaction { // models ignore what comes before it
			s.replace(nil, "the provider's compaction")
		}
	case events.TaskStarted:
		s.replace(nil, "the start of "+ev.Task)
	case events.MutationFinished:
		if ev.Dirty {
			s.replace(ev.Replacement, ev.Mutator)
		}
	case events.ModelCallStarted:
		s.show(at, ev)
	}
}

func (s *sights) follow(c *Call) {
	if s.calls == nil {
		s.calls = map[content.CallID]*sight{}
	}
	s.calls[c.ID] = &sight{call: c}
}

func (s *sights) set(id content.CallID, form Form, text string) {
	if c := s.calls[id]; c != nil {
		c.now, c.text, c.through = form, text, ""
	}
}

// replace replaces the transcript.
func (s *sights) replace(items []content.Item, through string) {
	found := map[content.CallID]string{}
	for _, it := range items {
		for _, r := range it.Results() {
			found[r.CallID] = r.Text()
		}
	}
	for id, c := range s.calls {
		text, ok := found[id]
		switch {
		case c.now == "" || c.now == FormGone && !ok:
		case !ok:
			c.now, c.through = FormGone, through
		case c.now != FormPlaceholder && text != c.text:
			c.now, c.text, c.through = FormChanged, text, through
		}
	}
}

// show records what a model call sees, if the previous one saw something else.
func (s *sights) show(at At, ev events.ModelCallStarted) {
	for _, c := range s.calls {
		if c.now != c.shown {
			c.shown = c.now
			c.call.Seen = append(c.call.Seen, Sight{at, ev.Turn, ev.Round, c.now, c.through})
		}
	}
}
