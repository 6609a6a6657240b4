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

// prefixes are beginnings of journals after which a node has died or a session was forked. Most sessions begin
// alike, and repeating that would show nothing new.
type prefixes struct {
	mu   sync.Mutex // guards seen
	seen map[string]bool
}

// died reports whether a node died after the same entries before, in a session with the same
// configuration whose host did the same at the same time. While a worker has no call, it does not
// matter which shape it was in.
func (p *prefixes) died(sc *scenario, shape string, records []journal.Record) bool {
	began, running := beginning(records)
	if slices.ContainsFunc(sc.Steps, func(s step) bool { return s.Do != nil || s.Task != nil }) {
		began += sc.name
		if running {
			began += shape
		}
	}
	return p.before("crash" + began)
}

// forked reports whether a session of a deployment with the same entries was forked before. The shape matters only
// while calls run.
func (p *prefixes) forked(shape string, records []journal.Record) bool {
	began, running := beginning(records)
	if running {
		began += shape
	}
	return p.before("fork" + began)
}

func (p *prefixes) before(what string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	seen := p.seen[what]
	p.seen[what] = true
	return seen
}

// beginning returns what matters of entries, and whether a call runs after them.
func beginning(records []journal.Record) (began string, running bool) {
	var b strings.Builder
	calls, routes := make(map[content.CallID]bool), make(map[content.CallID]string) // running calls; routes of calls without a result
	for _, rec := range records {
		fmt.Fprintf(&b, "%q", eventLines([]journal.Record{rec}))
		for _, ev := range rec.Entry.Events {
			switch ev := ev.(type) { //nolint:gochecksumtype // the others say all in their words
			case events.ToolDispatched:
				calls[ev.Call] = true
			case events.ToolAttemptLost:
				delete(calls, ev.Call)
			case events.ToolResultReceived:
				delete(calls, ev.Result.CallID)
				delete(routes, ev.Result.CallID)
			case events.RunStarted:
				ev.Config.Model, ev.Config.ModelData, ev.Config.Catalog = "", nil, events.Catalog{}
				b.Write(plain(ev))
			case events.ToolCallRequested:
				routes[ev.Call.ID] = string(plain(ev.Routing))
			case events.InputQueued:
				b.Write(plain(kindsOf(ev.Items)))
			}
		}
	}
	b.Write(plain(routes)) // in the order of the calls
	return b.String(), len(calls) > 0
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
