// Package pending lists the approvals that sessions wait for, from a cache.
//
// The one idea: a session's questions change only with its journal. So the session is read once for all pages that show
// it, and again only when the journal has a later entry.
package pending

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"

	"github.com/turnlog/turnlog/client/report"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/engine"
	"github.com/turnlog/turnlog/events/journal"
	"github.com/turnlog/turnlog/gateway/people"
	"github.com/turnlog/turnlog/loop"
	"github.com/turnlog/turnlog/session"
)

// Pending is a pending approval and its context.
type Pending struct {
	report.Approval

	Session content.SessionID `json:"session"`
	Title   string            `json:"title" doc:"the title of the session"`
	Agent   string            `json:"agent,omitempty"`
	Owner   string            `json:"owner,omitempty"`
	Asks    string            `json:"asks" doc:"the question as text"`
	May     bool              `json:"may_decide"`

	is, above question
}

// question identifies a sub-agent's question, which its caller asks as well.
type question struct {
	of content.SessionID
	content.QuestionKey
}

// Asked has the questions of a session as it was read.
type Asked struct {
	all      []Pending
	of       people.Subject
	position uint64 // of the last entry
}

// Of returns the questions of a session.
func Of(state *loop.State, of people.Subject, head journal.Head) Asked {
	a := Asked{of: of, position: head.Guard}
	for _, q := range state.PendingApprovals() {
		a.all = append(a.all, Pending{
			Approval: report.ApprovalOf(q), Session: state.Session, Title: report.TitleOf(state), Agent: of.Agent, Owner: of.Owner, Asks: report.QuestionOf(q),
			is:    question{engine.ChildID(state.Session, report.PlaceOf(content.CallID(q.ID))), content.QuestionKey{Kind: q.RequestKind, Scope: q.Scope}},
			above: question{state.Session, session.ChildQuestion(q)},
		})
	}
	return a
}

// For returns the questions that a person may see, and whether the person may decide them.
func (a Asked) For(p *people.Person) []Pending {
	if !p.MaySee(a.of) {
		return nil
	}
	all := slices.Clone(a.all)
	for i := range all {
		all[i].May = p.MayDecide(a.of)
	}
	return all
}

// Once leaves out a sub-agent's question if the list has its caller's, since a decision there counts for both. It keeps
// both if the person may decide only the sub-agent's.
func Once(all []Pending) []Pending {
	may := map[question]bool{}
	for _, p := range all {
		may[p.is] = p.May
	}
	return slices.DeleteFunc(all, func(p Pending) bool {
		above, asks := may[p.above]
		return asks && (above || !p.May)
	})
}

// Entries gives access to the entries of sessions.
type Entries interface {
	// EntryFrom returns the first entry of a session at or after a position, or session.ErrNotFound.
	EntryFrom(ctx context.Context, s content.SessionID, position uint64) (journal.Record, error)
}

// List caches the questions of sessions. It is safe for concurrent use.
type List struct {
	mu    sync.Mutex
	known map[content.SessionID]Asked
}

// Get returns the questions of a session. It reads the session if it is not cached, or if its journal has a later entry.
func (l *List) Get(ctx context.Context, from Entries, id content.SessionID, read func() (Asked, error)) (Asked, error) {
	l.mu.Lock()
	a, ok := l.known[id]
	l.mu.Unlock()
	if ok {
		if _, err := from.EntryFrom(ctx, id, a.position+1); errors.Is(err, session.ErrNotFound) {
			return a, nil
		}
	}
	a, err := read()
	if err != nil {
		return Asked{}, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.known == nil {
		l.known = map[content.SessionID]Asked{}
	}
	l.known[id] = a
	return a, nil
}

// Keep removes all sessions except those that ask. asking must be sorted.
func (l *List) Keep(asking []content.SessionID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	maps.DeleteFunc(l.known, func(id content.SessionID, _ Asked) bool {
		_, asks := slices.BinarySearch(asking, id)
		return !asks
	})
}
