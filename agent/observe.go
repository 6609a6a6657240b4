package agent

import (
	"reflect"
	"time"

	"go.uber.org/zap"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/extension"
)

// seen is the state of the session before an entry.
type seen struct {
	transcript []content.Item
	phase      events.Phase
}

// show hands an entry's events to the observers, then the task's phase if it changed, then the
// items that it appended to the transcript observers.
func (d *driver) show(e events.Entry, before seen) {
	d.live.Lock()
	defer d.live.Unlock()
	for _, ev := range e.Events {
		d.observe(extension.Observed{Session: e.Session, Seq: e.Seq, At: e.At.Std(), Cause: e.Cause, Event: ev})
	}
	if now := d.state.Phase(); now != before.phase {
		d.observe(extension.Observed{
			Session: e.Session, Seq: e.Seq, At: e.At.Std(), Cause: e.Cause, Event: events.StateChanged{Phase: now},
		})
	}
	for _, it := range d.state.Transcript[min(known(e, before.transcript), len(d.state.Transcript)):] {
		for _, o := range d.agent.cfg.TranscriptObservers {
			d.guard("transcript observer", func() { o.OnItemAppended(e.Session, it) })
		}
	}
}

// known returns how many of the transcript's first items an entry did not append: the earlier
// items, those that a session begins with, and those that a mutator rewrote. A mutator that only
// appended rewrote nothing.
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

// showLive shows a live event to the observers.
func (d *driver) showLive(ev events.Event) {
	d.live.Lock()
	defer d.live.Unlock()
	d.watcher.Live(ev)
	d.observe(extension.Observed{Session: d.ID(), At: time.Now(), Event: ev})
}

func (d *driver) observe(o extension.Observed) {
	for _, obs := range d.agent.cfg.Observers {
		d.guard("observer", func() { obs.HandleEvent(o) })
	}
}

// guard keeps a broken observer from breaking the loop.
func (d *driver) guard(what string, f func()) {
	defer func() {
		if p := recover(); p != nil {
			d.log.Error(what+" panicked", zap.Any("panic", p))
		}
	}()
	f()
}
