package main

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/internal/cli"
	"github.com/turnlog/turnlog/jetstream"
	"github.com/turnlog/turnlog/journal"
)

// parseSession checks the name of a session.
func parseSession(name string) (content.SessionID, error) {
	s, err := content.ParseSessionID(name)
	if err != nil {
		return "", cli.Usage("%w", err)
	}
	return s, nil
}

// last returns the last entry of a session, and says in plain words if there is
// none.
func last(ctx context.Context, cell *cli.Cell, s content.SessionID) (journal.Record, error) {
	rec, err := cell.Journal().Last(ctx, s)
	if errors.Is(err, journal.ErrNotFound) {
		return rec, fmt.Errorf("session %s: %w in namespace %s at %s", s, journal.ErrNotFound, cell.Namespace(), cell.Conn.ConnectedUrlRedacted())
	}
	return rec, err
}

const (
	lagPause = 50 * time.Millisecond
	maxLag   = 5 * time.Second // of a replica behind its leader
)

// read yields a session's entries from a sequence on, up to the one that is the
// last now. Any replica may answer, and one that lags is asked again.
func read(ctx context.Context, cell *cli.Cell, s content.SessionID, from uint64) iter.Seq2[journal.Record, error] {
	return func(yield func(journal.Record, error) bool) {
		end, err := last(ctx, cell, s)
		if err != nil && !errors.Is(err, journal.ErrDamaged) {
			yield(journal.Record{}, err)
			return
		}
		// Of a damaged entry the sequence is not known; reading finds it again.
		target := end.Seq
		var head journal.Head
		for waited := time.Duration(0); ; waited += lagPause {
			for rec, err := range behind(ctx, cell.Journal(), s, head, from) {
				if !yield(rec, err) || err != nil {
					return
				}
				head, waited = rec.Head, 0
			}
			if head.Seq >= target || from > target {
				return
			}
			if waited >= maxLag {
				yield(journal.Record{}, fmt.Errorf("session %s: entry %d was written, but no entry behind %d can be read", s, target, head.Seq))
				return
			}
			if err := pause(ctx, lagPause); err != nil {
				yield(journal.Record{}, err)
				return
			}
		}
	}
}

// behind yields the entries behind head, or those from a sequence on if there is
// no head yet.
func behind(ctx context.Context, j *jetstream.Journal, s content.SessionID, head journal.Head, from uint64) iter.Seq2[journal.Record, error] {
	if head.Seq == 0 {
		return j.Read(ctx, s, max(from, 1)-1)
	}
	return j.ReadFrom(ctx, s, head)
}

func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
