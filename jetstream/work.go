package jetstream

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/turnlog/turnlog/content"
)

// Work says which sessions have something to do, and where their calls are. It is read
// from the indexes of the streams: it costs the same whatever the sessions hold.
type Work struct {
	Active map[content.SessionID]bool           // have a command, handled or not: their turns are open
	Tokens map[content.SessionID]bool           // have a run token
	Calls  map[string]map[content.SessionID]int // by queue: calls that are waiting or running
}

// Work lists who is at work. Tokens are listed last, so that a session that is just
// woken has one.
func (c *Cell) Work(ctx context.Context) (Work, error) {
	n := c.names
	w := Work{Active: make(map[content.SessionID]bool), Tokens: make(map[content.SessionID]bool), Calls: make(map[string]map[content.SessionID]int)}
	for _, l := range []struct {
		stream, subjects string
		note             func(subject string)
	}{
		{n.tasksStream(), n.allTasks(), w.call},
		{n.inboxStream(), n.allCmds(), func(s string) { w.Active[n.sessionOf(s)] = true }},
		{n.timersStream(), n.allDue(), func(s string) { w.Active[n.sessionOf(s)] = true }},
		{n.runStream(), n.allRuns(), func(s string) { w.Tokens[n.sessionOf(s)] = true }},
	} {
		subjects, err := c.subjects(ctx, l.stream, l.subjects)
		if err != nil {
			return w, fmt.Errorf("list work: %w", err)
		}
		for s := range subjects {
			l.note(s)
		}
	}
	return w, nil
}

// call notes the call of a subject: <ns>.task.<queue>.<session>.<place>.
func (w Work) call(subject string) {
	tokens := strings.Split(subject, ".")
	if len(tokens) != len(strings.Split(names{}.allTasks(), ".")) {
		return
	}
	queue, session := tokens[2], content.SessionID(tokens[3])
	if w.Calls[queue] == nil {
		w.Calls[queue] = make(map[content.SessionID]int)
	}
	w.Calls[queue][session]++
}

// Mark is a message, as far as it tells since when something is so.
type Mark struct {
	Seq uint64    // in its stream
	At  time.Time // by the server's clock
}

// Command returns the newest command of a session, handled or not; false: there is
// none.
func (c *Cell) Command(ctx context.Context, s content.SessionID) (Mark, bool, error) {
	m, ok, err := c.mark(ctx, c.names.inboxStream(), c.names.cmds(s))
	if err != nil || ok {
		return m, ok, err
	}
	return c.mark(ctx, c.names.timersStream(), c.names.due(s))
}

// Waiting lists the sessions with a command, handled or not, that was sent before a time
// by the server's clock. Streams keep their order, so it reads what is older and one
// more, but no more than limit messages; it reports whether there may be others.
func (c *Cell) Waiting(ctx context.Context, before time.Time, limit int) (sessions []content.SessionID, more bool, err error) {
	for _, l := range []struct{ stream, subjects string }{
		{c.names.inboxStream(), c.names.allCmds()},
		{c.names.timersStream(), c.names.allDue()},
	} {
		for seq := uint64(1); ; limit-- {
			m, err := c.leaderNext(ctx, l.stream, l.subjects, seq)
			if errors.Is(err, errNoMessage) || err == nil && !m.Time.Before(before) {
				break
			}
			if err != nil {
				return nil, false, fmt.Errorf("commands before %v: %w", before, err)
			}
			if limit == 0 {
				return sessions, true, nil
			}
			if s := c.names.sessionOf(m.Subject); !slices.Contains(sessions, s) {
				sessions = append(sessions, s)
			}
			seq = m.Seq + 1
		}
	}
	return sessions, false, nil
}

// TokenOf returns the run token of a session; false: it has none. The token stays the
// same one from the wake on, whoever holds it.
func (c *Cell) TokenOf(ctx context.Context, s content.SessionID) (Mark, bool, error) {
	return c.mark(ctx, c.names.runStream(), c.names.run(s))
}

func (c *Cell) mark(ctx context.Context, stream, subject string) (Mark, bool, error) {
	m, err := c.leaderLast(ctx, stream, subject)
	switch {
	case errors.Is(err, errNoMessage):
		return Mark{}, false, nil
	case err != nil:
		return Mark{}, false, fmt.Errorf("last message on %s: %w", subject, err)
	}
	return Mark{Seq: m.Seq, At: m.Time}, true, nil
}

// Clocks compares the clock of each node that is on record with the server's, as they
// were when it made its record. How long that took to arrive is part of the difference.
func (n *Nodes) Clocks(ctx context.Context) (map[string]time.Duration, error) {
	records, err := n.List(ctx)
	if err != nil {
		return nil, fmt.Errorf("clocks of nodes: %w", err)
	}
	out := make(map[string]time.Duration)
	for _, r := range records {
		if r.Ahead != unknownClock {
			out[r.Node] = r.Ahead
		}
	}
	return out, nil
}
