package mcp

import (
	"maps"
	"slices"

	"github.com/turnlog/turnlog/tool"
)

// EventKind is the kind of an [Event].
type EventKind string

// The kinds of events.
const (
	ServerConnected    EventKind = "server_connected"
	ServerDisconnected EventKind = "server_disconnected" // the connection ended; Err says why, unless Disconnect ended it
	ServerFailed       EventKind = "server_failed"       // an attempt to connect failed
	AuthNeeded         EventKind = "auth_needed"         // connecting needs authorization
	ToolsChanged       EventKind = "tools_changed"
	ResourcesChanged   EventKind = "resources_changed"
	PromptsChanged     EventKind = "prompts_changed"
	RefreshFailed      EventKind = "refresh_failed" // it stays connected and keeps its tools
)

// Event is something that happened to a server.
type Event struct {
	Server string
	Kind   EventKind
	Err    error

	Added, Removed, Changed []string // ToolsChanged: names, sorted
}

func (l *link) tell(e Event) {
	if l.all.Observer == nil {
		return
	}
	e.Server = l.cfg.Name
	l.telling.Lock()
	defer l.telling.Unlock()
	l.all.Observer(e)
}

// tellTools reports the difference between two offers.
func (l *link) tellTools(before, after []tool.Tool) {
	e := Event{Kind: ToolsChanged}
	digests := make(map[string]string, len(before))
	for _, t := range before {
		digests[t.Spec().Name] = tool.SpecDigest(t.Spec())
	}
	for _, t := range after {
		name := t.Spec().Name
		if old, found := digests[name]; !found {
			e.Added = append(e.Added, name)
		} else if old != tool.SpecDigest(t.Spec()) {
			e.Changed = append(e.Changed, name)
		}
		delete(digests, name)
	}
	e.Removed = slices.Sorted(maps.Keys(digests))
	if len(e.Added)+len(e.Removed)+len(e.Changed) > 0 {
		l.tell(e)
	}
}
