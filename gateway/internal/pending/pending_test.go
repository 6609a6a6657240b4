package pending_test

import (
	"context"
	"errors"
	"testing"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events/journal"
	"github.com/turnlog/turnlog/gateway/internal/pending"
	"github.com/turnlog/turnlog/gateway/people"
	"github.com/turnlog/turnlog/loop"
	"github.com/turnlog/turnlog/session"
)

// ended is a journal whose last entry is at a position.
type ended uint64

func (e *ended) EntryFrom(_ context.Context, _ content.SessionID, position uint64) (rec journal.Record, err error) {
	if position > uint64(*e) {
		err = session.ErrNotFound
	}
	return rec, err
}

// TestASessionIsReadAgainWhenItsJournalGrew counts how often sessions are read.
func TestASessionIsReadAgainWhenItsJournalGrew(t *testing.T) {
	t.Parallel()
	var l pending.List
	at, reads := ended(7), 0
	read := func() (pending.Asked, error) {
		reads++
		return pending.Of(loop.New("s"), people.Subject{}, journal.Head{Guard: uint64(at)}), nil
	}
	for i, tt := range []struct {
		at   ended
		keep []content.SessionID
		want int
	}{
		{7, []content.SessionID{"s"}, 1},
		{7, []content.SessionID{"a", "s"}, 1},
		{9, []content.SessionID{"s"}, 2},
		{9, []content.SessionID{"s", "z"}, 2},
		{9, []content.SessionID{"r", "t"}, 3}, // it had no questions for a while
	} {
		at = tt.at
		l.Keep(tt.keep)
		if _, err := l.Get(t.Context(), &at, "s", read); err != nil || reads != tt.want {
			t.Errorf("%d: read %d times, %v; want %d", i, reads, err, tt.want)
		}
	}
	at = 10
	gone := errors.New("gone")
	if _, err := l.Get(t.Context(), &at, "s", func() (pending.Asked, error) { return pending.Asked{}, gone }); !errors.Is(err, gone) {
		t.Errorf("a session that cannot be read: %v", err)
	}
}
