package mcp

import (
	"slices"
	"strings"

	"github.com/turnlog/turnlog/tool"
)

// EventKind says what became of a server.
type EventKind string

// The kinds of events.
const (
	ServerConnected    EventKind = "server_connected"
	ServerDisconnected EventKind = "server_disconnected" // the connection ended; Err says why, if nobody wanted that
	ServerFailed       EventKind = "server_failed"       // an attempt to connect failed
	AuthNeeded         EventKind = "auth_needed"         // it cannot be connected to without authorization
	ToolsChanged       EventKind = "tools_changed"
	ResourcesChanged   EventKind = "resources_changed"
	PromptsChanged     EventKind = "prompts_changed"
	RefreshFailed      EventKind = "refresh_failed" // it stays connected, with the tools that it had
)

// Event is something that became of a server.
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

// tellTools tells what is different between two offers.
func (l *link) tellTools(before, after []tool.Tool) {
	e := Event{Kind: ToolsChanged}
	for _, t := range after {
		old, found := find(before, t.Spec().Name)
		switch {
		case !found:
			e.Added = append(e.Added, t.Spec().Name)
		case tool.SpecDigest(old.Spec()) != tool.SpecDigest(t.Spec()):
			e.Changed = append(e.Changed, t.Spec().Name)
		}
	}
	for _, t := range before {
		if _, found := find(after, t.Spec().Name); !found {
			e.Removed = append(e.Removed, t.Spec().Name)
		}
	}
	if len(e.Added)+len(e.Removed)+len(e.Changed) > 0 {
		l.tell(e)
	}
}

func find(sorted []tool.Tool, name string) (tool.Tool, bool) {
	i, found := slices.BinarySearchFunc(sorted, name, func(t tool.Tool, n string) int { return strings.Compare(t.Spec().Name, n) })
	if !found {
		return nil, false
	}
	return sorted[i], true
}
