// Package pending lists the approvals that sessions wait for.
//
// The one idea: what a session asks changes only with its journal. So it is read once for all pages that show it, and read again
// when the journal has a later entry.
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

// Pending is an approval that waits, with what it is about.
type Pending struct {
	report.Approval

	Session content.SessionID `json:"session"`
	Title   string            `json:"title" doc:"of the session"`
	Agent   string            `json:"agent,omitempty"`
	Owner   string            `json:"owner,omitempty"`
	Asks    string            `json:"asks" doc:"the question, in words"`
	May     bool              `json:"may_decide"`

	is, above question
}

// question is what a sub-agent asks, for which its caller asks, too.
type question struct {
	of content.SessionID
	content.QuestionKey
}

// Asked is what a session asked when it was read.
type Asked struct {
	all      []Pending
	of       people.Subject
	position uint64 // of the last entry
}

// Of returns what a session asks.
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

// For returns what a person may see of it, and says what the person may decide.
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

// Once leaves out what a sub-agent asks if its caller's question is in the list: a decision there is for both.
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

// List remembers what sessions asked. Several goroutines may use it.
type List struct {
	mu    sync.Mutex
	known map[content.SessionID]Asked
}

// Get returns what a session asks. It reads the session if it does not remember it, or if the journal has a later entry.
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

// Keep forgets all sessions but those that ask, in order.
func (l *List) Keep(asking []content.SessionID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	maps.DeleteFunc(l.known, func(id content.SessionID, _ Asked) bool {
		_, asks := slices.BinarySearch(asking, id)
		return !asks
	})
}
