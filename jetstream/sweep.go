package jetstream

import (
	"context"
	"fmt"
	"slices"

	"github.com/turnlog/turnlog/content"
)

// Orphans lists the sessions that have a command, handled or not, and no token:
// something is to be done for each of them, and nobody is about to. The sweep
// wakes them; one that was woken meanwhile loses nothing by it.
//
// RUN is listed last: a session whose token comes or goes in between is woken once
// too often rather than not at all.
func (r *Runs) Orphans(ctx context.Context) ([]content.SessionID, error) {
	n := r.cell.names
	waiting := make(map[content.SessionID]bool)
	for _, p := range []struct {
		stream, subjects string
		wants            bool
	}{
		{n.inboxStream(), n.allCmds(), true},
		{n.timersStream(), n.allDue(), true},
		{n.runStream(), n.allRuns(), false},
	} {
		subjects, err := r.cell.subjects(ctx, p.stream, p.subjects)
		if err != nil {
			return nil, fmt.Errorf("list orphans: %w", err)
		}
		for s := range subjects {
			if p.wants {
				waiting[n.sessionOf(s)] = true
			} else {
				delete(waiting, n.sessionOf(s))
			}
		}
	}
	out := make([]content.SessionID, 0, len(waiting))
	for s := range waiting {
		out = append(out, s)
	}
	slices.Sort(out)
	return out, nil
}
