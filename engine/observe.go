package engine

import (
	"reflect"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/extension"
	"github.com/turnlog/turnlog/loop"
)

// Observers shows a session to its observers, one event at a time. A panic in an observer is
// logged and changes nothing.
type Observers struct {
	Session content.SessionID
	Events  []extension.Observer           // see every entry's events, and live ones
	Items   []extension.TranscriptObserver // see every item that an entry appends
	Log     *zap.Logger

	mu    sync.Mutex
	ended int // the number of the last turn that ended
}

// Seen is the state of a session before an entry, to which Show compares it.
type Seen struct {
	transcript []content.Item
	phase      events.Phase
}

// See returns what Show needs of a session before an entry is folded.
func See(s *loop.State) Seen { return Seen{s.Transcript, s.Phase()} }

// Show shows an entry's events, then the task's phase if it changed, then the items that the
// entry appended. s is the session after the entry was folded.
func (o *Observers) Show(e events.Entry, before Seen, s *loop.State) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if s.Last != nil {
		o.ended = s.Last.N
	}
	seen := extension.Observed{Session: e.Session, Seq: e.Seq, At: e.At.Std(), Cause: e.Cause}
	for _, ev := range e.Events {
		seen.Event = ev
		o.observe(seen)
	}
	if now := s.Phase(); now != before.phase {
		seen.Event = events.StateChanged{Phase: now}
		o.observe(seen)
	}
	for _, it := range s.Transcript[min(known(e, before.transcript), len(s.Transcript)):] {
		for _, to := range o.Items {
			o.guard("transcript observer", func() { to.OnItemAppended(e.Session, it) })
		}
	}
}

// known returns how many of the transcript's first items were not appended by the entry: earlier
// items, the items that a session begins with, and rewritten items. A mutator that only appends
// rewrites nothing.
func known(e events.Entry, before []content.Item) int {
	n := len(before)
	for _, ev := range e.Events {
		switch ev := any(ev).(type) {
		case events.RunStarted:
			n = len(ev.Transcript)
		case events.MutationFinished:
			if ev.Dirty && !continues(ev.Replacement, before) {
				n = len(ev.Replacement)
			}
		}
	}
	return n
}

func continues(items, before []content.Item) bool {
	return len(items) >= len(before) && reflect.DeepEqual(items[:len(before)], before)
}

// ShowLive shows an event that is not recorded.
func (o *Observers) ShowLive(ev events.Event) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !Late(ev, o.ended) {
		o.observe(extension.Observed{Session: o.Session, At: time.Now(), Event: ev})
	}
}

// Late reports whether a live event is a delta of a turn that has ended. Deltas may arrive on
// another path than entries, and nothing of a turn may follow its end.
func Late(ev events.Event, ended int) bool {
	d, ok := ev.(events.ContentDelta)
	return ok && d.Turn.Number() <= ended
}

func (o *Observers) observe(e extension.Observed) {
	for _, obs := range o.Events {
		o.guard("observer", func() { obs.HandleEvent(e) })
	}
}

// guard keeps a broken observer from breaking the session.
func (o *Observers) guard(what string, f func()) {
	defer func() {
		if p := recover(); p != nil {
			o.Log.Error(what+" panicked", zap.Any("panic", p))
		}
	}()
	f()
}
