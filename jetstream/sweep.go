package jetstream

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/jetstream/internal/api"
)

// Sweep finds the sessions that need a driver and have none. Looking again at streams that have not changed
// is cheap. One goroutine owns it.
type Sweep struct {
	cell  *Cell
	lists *api.Lister
}

// Sweep returns a sweep that has not looked yet.
func (r *Runs) Sweep() *Sweep { return &Sweep{r.cell, api.NewLister(r.cell.api, r.most)} }

// sampled is how many commands of a stream are sampled if there are too many sessions to list.
const sampled = 300

// Look lists the sessions that have a command and no token, sorted. Wake them. A session whose token
// changes meanwhile may be woken once too often, which is harmless. If there are too many to list, Look
// returns a random sample. Some of those may have a token; waking them is harmless, too. It also returns
// the ends of the streams that wake sessions.
func (s *Sweep) Look(ctx context.Context) ([]content.SessionID, Ends, error) {
	orphans, of := make(map[content.SessionID]bool), append(s.cell.names.Commands(AllSessions), s.cell.tokens())
	for i, o := range of { // tokens last, so that a session woken meanwhile has one; none if there are too many
		subjects, err := s.lists.List(ctx, o.Stream, o.Subject, min(len(of)-1-i, 1)*sampled)
		if err != nil {
			return nil, nil, fmt.Errorf("look for sessions with work: %w", err)
		}
		for _, subject := range subjects {
			orphans[s.cell.names.SessionOf(subject)] = i < len(of)-1
		}
	}
	maps.DeleteFunc(orphans, func(s content.SessionID, without bool) bool { return !without || s == "" })
	ends, tasks := maps.Clone(s.lists.Ends), s.cell.names.TasksStream()
	end, err := s.cell.api.End(ctx, tasks)
	ends[tasks] = end
	return slices.Sorted(maps.Keys(orphans)), ends, err
}
