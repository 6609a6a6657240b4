package events

import "github.com/turnlog/turnlog/content"

// sent is an event that records who sent the command which caused it.
type sent interface {
	Event
	sentBy(s *content.Sender) Event
}

// SentBy returns evs with their verified sender. Without one they are returned as they are: a claimed
// name is in By. Events that record facts about the session itself have no sender.
func SentBy(evs []Event, s content.Sender) []Event {
	if !s.Verified {
		return evs
	}
	out := make([]Event, len(evs))
	for i, ev := range evs {
		out[i] = ev
		if ev, ok := ev.(sent); ok {
			out[i] = ev.sentBy(&s)
		}
	}
	return out
}

// Decider describes who decided. An approval that a grant answers has the name of the grant's own decision.
func (e ApprovalResolved) Decider() string {
	if e.Grant != "" || e.By == "" {
		return e.By
	}
	return content.SenderOf(e.By, e.Sender).String()
}

func (e RunStarted) sentBy(s *content.Sender) Event        { e.Sender = s; return e }
func (e InputQueued) sentBy(s *content.Sender) Event       { e.Sender = s; return e }
func (e ToolDetached) sentBy(s *content.Sender) Event      { e.Sender = s; return e }
func (e SessionClosed) sentBy(s *content.Sender) Event     { e.Sender = s; return e }
func (e ApprovalResolved) sentBy(s *content.Sender) Event  { e.Sender = s; return e }
func (e ToolsAllowed) sentBy(s *content.Sender) Event      { e.Sender = s; return e }
func (e DeadLetterSettled) sentBy(s *content.Sender) Event { e.Sender = s; return e }
func (e CancelRequested) sentBy(s *content.Sender) Event   { e.Sender = s; return e }
