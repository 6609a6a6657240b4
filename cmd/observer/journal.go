package main

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events/journal"
	"github.com/turnlog/turnlog/internal/cli"
)

// last returns the last entry of a session, or an error that says where none was found.
func last(ctx context.Context, cell *cli.Cell, s content.SessionID) (journal.Record, error) {
	rec, err := cell.Journal().Last(ctx, s)
	if errors.Is(err, journal.ErrNotFound) {
		return rec, fmt.Errorf("session %s: %w in namespace %s at %s", s, journal.ErrNotFound, cell.Namespace(), cell.Conn.ConnectedUrlRedacted())
	}
	return rec, err
}

// read yields a session's entries from a sequence on, up to its present end.
func read(ctx context.Context, cell *cli.Cell, s content.SessionID, from uint64) iter.Seq2[journal.Record, error] {
	return func(yield func(journal.Record, error) bool) {
		if _, err := last(ctx, cell, s); err != nil && !errors.Is(err, journal.ErrDamaged) {
			yield(journal.Record{}, err)
			return
		}
		for rec, err := range cell.Journal().Read(ctx, s, max(from, 1)-1) {
			if !yield(rec, err) || err != nil {
				return
			}
		}
	}
}
