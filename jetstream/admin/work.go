package admin

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/jetstream/internal/api"
	"github.com/turnlog/turnlog/jetstream/internal/layout"
)

// Work says which sessions have work, and on which queues their calls are. It is read from the streams'
// indexes, so its cost does not depend on the content of sessions.
type Work struct {
	Active map[content.SessionID]bool           // sessions with a command, handled or not: a turn is open
	Tokens map[content.SessionID]bool           // sessions with a run token
	Calls  map[string]map[content.SessionID]int // these sessions' pending and running calls, by queue
}

// Work lists the sessions with work. It lists tokens last.
func (c *Cell) Work(ctx context.Context) (w Work, err error) {
	calls, err := c.api.Subjects(ctx, c.names.TasksStream(), c.names.AllTasks())
	if err != nil {
		return w, fmt.Errorf("list work: %w", err)
	}
	w.Calls = make(map[string]map[content.SessionID]int)
	for subject := range calls {
		w.call(subject)
	}
	w.Active, w.Tokens, err = c.cell.Runs().Sessions(ctx)
	for _, of := range w.Calls {
		maps.DeleteFunc(of, func(s content.SessionID, _ int) bool { return !w.Active[s] && !w.Tokens[s] }) // left over from lost workers
	}
	return w, err
}

// call counts the call of a subject: <ns>.task.<queue>.<session>.<place>.
func (w Work) call(subject string) {
	tokens := strings.Split(subject, ".")
	if len(tokens) != len(strings.Split(layout.Names{}.AllTasks(), ".")) {
		return
	}
	queue, session := tokens[2], content.SessionID(tokens[3])
	if w.Calls[queue] == nil {
		w.Calls[queue] = make(map[content.SessionID]int)
	}
	w.Calls[queue][session]++
}

// Mark is the position of a message, which shows since when a state holds.
type Mark struct {
	Seq uint64    // in its stream
	At  time.Time // by the server's clock
}

// Command returns the newest command of a session, handled or not, and whether there is one.
func (c *Cell) Command(ctx context.Context, s content.SessionID) (Mark, bool, error) {
	for _, l := range c.names.Commands(s) {
		if m, ok, err := c.mark(ctx, l); err != nil || ok {
			return m, ok, err
		}
	}
	return Mark{}, false, nil
}

// Waiting returns the sessions with a command, handled or not, that was sent before a time by the server's
// clock. It reads at most limit messages and reports whether there may be more sessions.
func (c *Cell) Waiting(ctx context.Context, before time.Time, limit int) (sessions []content.SessionID, more bool, err error) {
	for _, l := range c.names.Commands(layout.AllSessions) {
		for seq := uint64(1); ; limit-- {
			m, err := c.api.Next(ctx, l.Stream, l.Subject, seq)
			if errors.Is(err, api.ErrNoMessage) || err == nil && !m.Time.Before(before) {
				break
			}
			if err != nil {
				return nil, false, fmt.Errorf("commands before %v: %w", before, err)
			}
			if limit == 0 {
				return sessions, true, nil
			}
			if s := c.names.SessionOf(m.Subject); s != "" && !slices.Contains(sessions, s) {
				sessions = append(sessions, s)
			}
			seq = m.Seq + 1
		}
	}
	return sessions, false, nil
}

// TokenOf returns the run token of a session, and whether it has one. A token stays the same from the wake
// on, even if its holder changes.
func (c *Cell) TokenOf(ctx context.Context, s content.SessionID) (Mark, bool, error) {
	return c.mark(ctx, layout.Stored{Stream: c.names.RunStream(), Subject: c.names.Run(s)})
}

func (c *Cell) mark(ctx context.Context, of layout.Stored) (Mark, bool, error) {
	m, err := c.api.Last(ctx, of.Stream, of.Subject)
	switch {
	case errors.Is(err, api.ErrNoMessage):
		return Mark{}, false, nil
	case err != nil:
		return Mark{}, false, fmt.Errorf("last message on %s: %w", of.Subject, err)
	}
	return Mark{Seq: m.Seq, At: m.Time}, true, nil
}

// Clocks compares the clock of each recorded node with the server's, at the time of the node's record. The
// time that the record took to arrive is part of the difference.
func (c *Cell) Clocks(ctx context.Context) (map[string]time.Duration, error) {
	records, err := c.cell.Nodes().List(ctx)
	if err != nil {
		return nil, fmt.Errorf("clocks of nodes: %w", err)
	}
	out := make(map[string]time.Duration)
	for _, r := range records {
		if r.AheadKnown {
			out[r.Node] = r.Ahead
		}
	}
	return out, nil
}
