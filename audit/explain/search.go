package explain

import (
	"bytes"
	"cmp"
	"encoding/json"
	"reflect"
	"strings"
	"unicode/utf8"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/events/journal"
)

// Query says which events to find. All of its parts must match the same event; an empty part matches every event.
// In patterns, * matches any characters.
type Query struct {
	Tool   string       // pattern of the tool that the event is about
	Person string       // pattern of the person who did it: a verified name, or a claimed one
	Status string       // status of a result, a decision, a hook, a turn or a task; also in its public form, such as denied
	Text   string       // part of any text of the event, ignoring the case of ASCII letters
	From   content.Time // earliest time of the entry; 0: any
	To     content.Time // before this time; 0: any
}

// Hit is an event that matches a query.
type Hit struct {
	Session content.SessionID `json:"session"`
	Seq     uint64            `json:"seq"`
	At      content.Time      `json:"at"`
	Kind    events.Kind       `json:"kind"`
	Call    content.CallID    `json:"call,omitempty"`
	Tool    string            `json:"tool,omitempty"`
	Person  Person            `json:"person,omitzero"`
	Status  string            `json:"status,omitempty"`
	Text    string            `json:"text,omitempty"` // the text around the match, or what the event says
}

// Limits of what a search remembers and shows.
const (
	toolsKept = 4096 // calls whose tool is known
	around    = 80   // bytes of text before and after a match
)

// Searcher searches one journal. It keeps the tools of its last calls and nothing else.
type Searcher struct {
	query  Query
	needle []byte
	lower  []byte // buffer
	tools  map[content.CallID]string
	order  []content.CallID // of tools, oldest first
}

// NewSearcher returns a searcher for one journal.
func NewSearcher(q Query) *Searcher {
	return &Searcher{query: q, needle: bytes.ToLower([]byte(q.Text)), tools: map[content.CallID]string{}}
}

// Add passes the hits in the next record to found. A record that cannot be decoded has none.
func (s *Searcher) Add(r journal.Record, found func(Hit) error) error {
	fits := s.inTime(r.Entry.At) && s.contains(r.Payload)
	for _, ev := range r.Entry.Events {
		a := aboutOf(ev)
		if a.tool == "" {
			a.tool = s.tools[a.call]
		} else {
			s.remember(a.call, a.tool)
		}
		if !fits || !s.fits(a) {
			continue
		}
		text, ok := s.text(ev, a)
		if !ok {
			continue
		}
		hit := Hit{r.Entry.Session, r.Seq, r.Entry.At, events.KindOf(ev), a.call, a.tool, a.person, a.status, text}
		if err := found(hit); err != nil {
			return err
		}
	}
	return nil
}

func (s *Searcher) inTime(at content.Time) bool {
	return at >= s.query.From && (s.query.To == 0 || at < s.query.To)
}

// contains reports whether a payload may have the text. Texts are stored unchanged, so most entries need not be
// decoded.
func (s *Searcher) contains(payload []byte) bool {
	if len(s.needle) == 0 {
		return true
	}
	s.lower = append(s.lower[:0], payload...)
	for i, c := range s.lower {
		if c >= 'A' && c <= 'Z' {
			s.lower[i] = c + 'a' - 'A'
		}
	}
	return bytes.Contains(s.lower, s.needle)
}

func (s *Searcher) remember(id content.CallID, tool string) {
	if _, known := s.tools[id]; id == "" || known {
		return
	}
	if len(s.order) >= toolsKept {
		delete(s.tools, s.order[0])
		s.order = s.order[1:]
	}
	s.tools[id], s.order = tool, append(s.order, id)
}

func (s *Searcher) fits(a about) bool {
	q := s.query
	matches := func(pattern string, names ...string) bool {
		if pattern == "" {
			return true
		}
		for _, n := range names {
			if n != "" && content.Matches(pattern, n) {
				return true
			}
		}
		return false
	}
	status := []string{a.status}
	if a.result {
		status = append(status, content.Status(a.status).Public())
	}
	return matches(q.Tool, a.tool) && matches(q.Person, a.person.User, a.person.By) && matches(q.Status, status...)
}

// text returns the text of a hit, and reports whether the event has the text of the query.
func (s *Searcher) text(ev events.Event, a about) (string, bool) {
	if len(s.needle) == 0 {
		return clip(a.text, 0, 2*around), true
	}
	found, ok := "", false
	walk(reflect.ValueOf(ev), func(text string) bool {
		if i := bytes.Index(bytes.ToLower([]byte(text)), s.needle); i >= 0 {
			found, ok = clip(text, max(0, i-around), min(len(text), i+len(s.needle)+around)), true
		}
		return !ok
	})
	return found, ok
}

// clip returns a part of a text without splitting characters.
func clip(text string, from, to int) string {
	to = min(to, len(text))
	for from > 0 && from < len(text) && !utf8.RuneStart(text[from]) {
		from--
	}
	for to < len(text) && !utf8.RuneStart(text[to]) {
		to++
	}
	out := text[min(from, to):to]
	if from > 0 {
		out = "…" + out
	}
	if to < len(text) {
		out += "…"
	}
	return out
}

// walk passes the texts in a value to use, until use returns false.
func walk(v reflect.Value, use func(string) bool) bool {
	switch v.Kind() {
	case reflect.String:
		return use(v.String())
	case reflect.Pointer:
		return v.IsNil() || walk(v.Elem(), use)
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			return v.Type() != reflect.TypeFor[json.RawMessage]() || use(string(v.Bytes()))
		}
		for i := range v.Len() {
			if !walk(v.Index(i), use) {
				return false
			}
		}
	case reflect.Struct:
		for _, field := range v.Fields() {
			if !walk(field, use) {
				return false
			}
		}
	default:
	}
	return true
}

// about has the properties of an event that a query matches.
type about struct {
	call   content.CallID
	tool   string
	person Person
	status string
	result bool // status is the status of a result
	text   string
}

func aboutOf(ev any) about {
	switch ev := ev.(type) {
	case events.ToolCallRequested:
		return about{call: ev.Call.ID, tool: ev.Call.Name, text: string(ev.Call.Input)}
	case events.ApprovalRequired:
		return about{call: ev.Approval.CallID, tool: ev.Approval.Tool, text: ev.Approval.Summary}
	case events.ApprovalResolved:
		return about{call: ev.Call, person: Person{User: ev.User, By: ev.By}, status: string(ev.Outcome), text: ev.Reason}
	case events.ToolDispatched:
		return about{call: ev.Call, text: string(ev.Input)}
	case events.ToolAttemptLost:
		return about{call: ev.Call, status: "lost", text: ev.Reason}
	case events.DeadLetterSettled:
		return about{call: ev.Call, person: Person{User: ev.User, By: ev.By}, status: string(ev.Outcome), text: ev.Reason}
	case events.ToolDetached:
		return about{call: ev.Call, person: Person{User: ev.User, By: ev.By}, status: "detached"}
	case events.ToolResultReceived:
		r := ev.Result
		return about{call: r.CallID, tool: r.Name, status: string(r.Status), result: true, text: r.Text()}
	case events.HookDecided:
		return about{call: ev.Call, status: ev.Action, text: ev.Reason}
	}
	return aboutSession(ev)
}

// aboutSession is aboutOf for events that are not about a call of a model.
func aboutSession(ev any) about {
	switch ev := ev.(type) {
	case events.DriverClaimed:
		return about{person: Person{User: ev.User, By: ev.RetriedBy}}
	case events.RunStarted:
		return about{person: Person{User: ev.User, By: ev.By}}
	case events.ModelSwitched:
		return about{person: Person{User: ev.User, By: ev.By}, text: ev.Model}
	case events.ToolsAllowed:
		return about{person: Person{User: ev.User, By: ev.By}, text: strings.Join(ev.Tools, ", ")}
	case events.InputQueued:
		return about{person: Person{User: ev.User, By: ev.By}, text: textOf(ev.Items)}
	case events.ReplyRecorded:
		return about{text: textOf(ev.Items)}
	case events.CancelRequested:
		return about{call: ev.Target, person: Person{User: ev.User, By: ev.By}, status: "cancelled", text: ev.Reason}
	case events.TurnFinished:
		return about{status: string(ev.FinishReason), text: ev.Error}
	case events.VerifyFinished:
		return about{person: Person{User: ev.User, By: ev.By}, status: ev.Status, text: ev.Output}
	case events.TaskFinished:
		return about{status: ev.Status, text: ev.Summary}
	case events.Warning:
		return about{call: ev.Call, status: ev.Code, text: ev.Message}
	case events.RunFailed:
		return about{status: cmp.Or(ev.Code, string(ev.Class)), text: ev.Message}
	case events.SessionClosed:
		return about{person: Person{User: ev.User, By: ev.By}, text: ev.Reason}
	case events.SessionDeleted:
		return about{person: Person{User: ev.User, By: ev.By}, text: ev.Reason}
	}
	return about{}
}
