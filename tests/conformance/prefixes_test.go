package conformance

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/events/journal"
)

// prefixes are beginnings of journals after which a node has died already. Most sessions begin
// alike, and another crash there would show nothing new.
type prefixes struct {
	mu   sync.Mutex // guards seen
	seen map[string]bool
}

// before reports whether a node died after the same entries before, in a session with the same
// configuration whose host did the same at the same time. A worker that has no call does not matter,
// so then it may have been in the other shape.
func (p *prefixes) before(sc *scenario, shape string, records []journal.Record) bool {
	var b strings.Builder
	acts := slices.ContainsFunc(sc.Steps, func(s step) bool { return s.Do != nil || s.Task != nil })
	if acts {
		b.WriteString(sc.name)
	}
	running := make(map[content.CallID]bool)
	for _, rec := range records {
		fmt.Fprintf(&b, "%q", said([]journal.Record{rec}))
		for _, ev := range rec.Entry.Events {
			switch ev := ev.(type) { //nolint:gochecksumtype // the others say all in their words
			case events.ToolDispatched:
				running[ev.Call] = true
			case events.ToolAttemptLost:
				delete(running, ev.Call)
			case events.ToolResultReceived:
				delete(running, ev.Result.CallID)
			case events.RunStarted:
				ev.Config.Model, ev.Config.ModelData, ev.Config.Catalog = "", nil, events.Catalog{}
				b.Write(plain(ev))
			case events.ToolCallRequested:
				b.Write(plain(ev.Routing))
			case events.InputQueued:
				b.Write(plain(kindsOf(ev.Items)))
			}
		}
	}
	if acts && len(running) > 0 {
		b.WriteString(shape)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	seen := p.seen[b.String()]
	p.seen[b.String()] = true
	return seen
}

func kindsOf(items []content.Item) []content.Kind {
	var out []content.Kind
	for _, it := range items {
		out = append(out, it.Kind)
	}
	return out
}

// plain returns a value as JSON, or as text if that fails.
func plain(v any) []byte {
	raw, err := json.Marshal(v)
	if err != nil {
		return fmt.Append(nil, v)
	}
	return raw
}
