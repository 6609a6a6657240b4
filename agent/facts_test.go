package agent_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/turnlog/turnlog/audit"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/events/journal"
)

// cutoff is a journal whose host dies before an event of a kind is written.
type cutoff struct {
	journal.Journal
	before events.Kind
}

func (c cutoff) Append(ctx context.Context, h journal.Head, e events.Entry) (journal.Head, error) {
	if slices.Contains(e.Kinds(), c.before) {
		return h, errors.New("power failure")
	}
	return c.Journal.Append(ctx, h, e)
}

// recorded returns the events of one kind in a journal, and audits the journal.
func recorded[E events.Event](t *testing.T, log journal.Journal, s content.SessionID) (out []E) {
	t.Helper()
	c := audit.NewChecker()
	for rec, err := range log.Read(t.Context(), s, 0) {
		if err != nil {
			t.Fatal(err)
		}
		c.Add(rec)
		for _, ev := range rec.Entry.Events {
			if e, ok := ev.(E); ok {
				out = append(out, e)
			}
		}
	}
	if bad := c.Verdict().Faults; len(bad) > 0 {
		t.Errorf("audit of %s: %v", s, bad)
	}
	return out
}
