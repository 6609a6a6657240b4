package sim

import (
	"sync"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/extension"
)

// observer watches one driver and checks the promises to observers.
type observer struct {
	h *host

	mu       sync.Mutex
	seq      uint64
	items    map[content.ItemID]bool
	ended    map[content.TurnID]bool
	surfaced map[content.TurnID]bool
	awaited  map[string]int // texts of input that joined and was not yet shown as items
}

func newObserver(h *host) *observer {
	return &observer{
		h: h, items: map[content.ItemID]bool{}, ended: map[content.TurnID]bool{}, surfaced: map[content.TurnID]bool{},
		awaited: map[string]int{},
	}
}

// HandleEvent checks the order of events.
func (o *observer) HandleEvent(e extension.Observed) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if e.Session != o.h.id {
		o.h.w.wrong("%s: an observer was shown an event of %s", o.h.id, e.Session)
	}
	if e.Seq == 0 {
		return // live
	}
	if e.Seq < o.seq {
		o.h.w.wrong("%s: an observer was shown entry %d after %d", o.h.id, e.Seq, o.seq)
	}
	o.seq = e.Seq
	switch ev := e.Event.(type) { //nolint:gochecksumtype // two are enough
	case events.TurnFinished:
		o.ended[ev.Turn] = true
	case events.InputAccepted:
		for _, t := range texts(ev.Items) {
			o.awaited[t]++
		}
	}
}

// OnItemAppended checks that each item comes once.
func (o *observer) OnItemAppended(s content.SessionID, it content.Item) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if s != o.h.id || it.ID == "" || o.items[it.ID] {
		o.h.w.wrong("%s: a transcript observer was shown item %q of %s, not for the first time: %v", o.h.id, it.ID, s, o.items[it.ID])
	}
	o.items[it.ID] = true
	if t := it.Text(); o.awaited[t] > 0 {
		o.awaited[t]--
	}
}

// over checks that every accepted input was shown as an item.
func (o *observer) over() {
	o.mu.Lock()
	defer o.mu.Unlock()
	for t, n := range o.awaited {
		if n > 0 {
			o.h.w.wrong("%s: a transcript observer was not shown %q", o.h.id, t)
		}
	}
}

// finished checks that Next returns the end of each turn once, and after it was recorded.
func (o *observer) finished(t content.TurnID) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.surfaced[t] || !o.ended[t] {
		o.h.w.wrong("%s: Next returned the end of %s; before: %v, recorded: %v", o.h.id, t, o.surfaced[t], o.ended[t])
	}
	o.surfaced[t] = true
}
