package conformance

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/events/journal"
	"github.com/turnlog/turnlog/loop"
	"github.com/turnlog/turnlog/session"
)

// prefixes are positions of sessions at which a node has died or a session was forked. Most sessions pass through the
// same positions, and repeating what happens there would show nothing new.
type prefixes struct {
	mu   sync.Mutex // guards seen
	seen map[string]bool
}

// died reports whether a node died at the same position before, in a session with the same configuration. Only in
// scenarios whose host acts at a certain time does it matter which one it is, once that time has begun, and which shape
// it is in, while calls run. In the others, what the host does next has no effect before the session has recovered.
func (p *prefixes) died(sc *scenario, shape string, records []journal.Record) bool {
	at := positionAfter(records)
	key := fmt.Sprint(at.last, at.kinds, at.waiting, at.running)
	if slices.Contains(at.kinds, string(events.KindOf(events.ReplyRecorded{}))) {
		key += at.config // whether it survives is the same question before
	}
	lines := eventLines(records)
	acts := slices.ContainsFunc(sc.Steps, func(s step) bool {
		return s.Do != nil && slices.ContainsFunc(lines, func(line string) bool { return says(line, s.When) })
	})
	if acts || slices.Contains(at.kinds, string(events.KindOf(events.TaskStarted{}))) {
		key += sc.name
		if at.running > 0 {
			key += shape
		}
	}
	return p.before("crash" + key)
}

// forked reports whether a session of a deployment was forked at the same position before. What a fork takes of its
// origin is the same in process, where sessions are forked after each entry. A deployment adds how the fork finds it:
// the input that it has to answer comes from the client, all else from the node. The shape matters only while calls run.
func (p *prefixes) forked(shape string, records []journal.Record, origin *loop.State) bool {
	at := positionAfter(records)
	key := fmt.Sprint(at.last, at.waiting, at.running, kindsOf(session.ForkInput(origin)), origin.CacheOverride != nil)
	if at.running > 0 {
		key += shape
	}
	forked, configured := p.before("fork"+key), p.before("fork of"+at.config)
	return forked && configured
}

func (p *prefixes) before(what string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	seen := p.seen[what]
	p.seen[what] = true
	return seen
}

// position is what matters of where a session stands.
type position struct {
	last    string   // the last entry
	kinds   []string // the kinds of all events so far
	waiting []string // the routes of the calls without a result
	running int      // calls
	config  string
}

func positionAfter(records []journal.Record) (at position) {
	running, routes := make(map[content.CallID]bool), make(map[content.CallID]string)
	for _, rec := range records {
		at.last = fmt.Sprintf("%q", eventLines([]journal.Record{rec}))
		for _, ev := range rec.Entry.Events {
			at.kinds = append(at.kinds, string(events.KindOf(ev)))
			switch ev := ev.(type) { //nolint:gochecksumtype // the others say all in their words
			case events.ToolDispatched:
				running[ev.Call] = true
			case events.ToolAttemptLost:
				delete(running, ev.Call)
			case events.ToolResultReceived:
				delete(running, ev.Result.CallID)
				delete(routes, ev.Result.CallID)
			case events.RunStarted:
				ev.Config.Model, ev.Config.ModelData, ev.Config.Catalog = "", nil, events.Catalog{}
				at.config = string(plain(ev))
			case events.ToolCallRequested:
				routes[ev.Call.ID] = string(plain(ev.Routing))
			case events.InputQueued:
				at.last += string(plain(kindsOf(ev.Items)))
			}
		}
	}
	slices.Sort(at.kinds)
	at.kinds = slices.Compact(at.kinds)
	at.waiting, at.running = slices.Sorted(maps.Values(routes)), len(running)
	return at
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
