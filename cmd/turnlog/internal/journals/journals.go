// Package journals holds the commands that process whole journals: to compare them, replay them, search them, or
// make cassettes of them.
//
// A journal comes from a session of a deployment or from an exported file, and the commands treat both the same.
package journals

import (
	"context"
	"iter"
	"strings"

	"github.com/turnlog/turnlog/audit"
	"github.com/turnlog/turnlog/client"
	"github.com/turnlog/turnlog/cmd/turnlog/internal/app"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/events/journal"
	"github.com/turnlog/turnlog/internal/cli"
	"github.com/turnlog/turnlog/session"
)

// isFile reports whether an argument names an exported file: no session has such an ID.
func isFile(arg string) bool { return strings.ContainsAny(arg, "./") }

// with calls do with the journals of the arguments. Each is a session or an exported file. The first signal ends do's
// context. It connects only if an argument is a session.
func with(ctx context.Context, r *app.Remote, args []string, do func(context.Context, func(arg string) iter.Seq2[journal.Record, error]) error) error {
	local := true
	for _, arg := range args {
		if isFile(arg) {
			continue
		}
		if _, err := cli.ParseSession(arg); err != nil {
			return err
		}
		local = false
	}
	if local {
		return r.App.Interruptible(ctx, func(ctx context.Context) error { return do(ctx, file) })
	}
	return r.Do(ctx, func(ctx context.Context, _ *cli.Cell, c *client.Client) error {
		return do(ctx, func(arg string) iter.Seq2[journal.Record, error] {
			if isFile(arg) {
				return file(arg)
			}
			return remote(ctx, c, content.SessionID(arg))
		})
	})
}

// file reads an export. A file that is not an export is a usage error.
func file(name string) iter.Seq2[journal.Record, error] {
	return func(yield func(journal.Record, error) bool) {
		begun := false
		for rec, err := range audit.ImportFile(name) {
			switch {
			case err == nil:
				err = gone(rec)
			case !begun:
				err = cli.Usage("%w", err)
			}
			if begun = true; !yield(rec, err) {
				return
			}
		}
	}
}

// remote reads the journal of a session. A session without one is an error.
func remote(ctx context.Context, c *client.Client, id content.SessionID) iter.Seq2[journal.Record, error] {
	return func(yield func(journal.Record, error) bool) {
		n := 0
		for rec, err := range c.Records(ctx, id, 0) {
			n++
			if err == nil {
				err = gone(rec)
			}
			if err != nil {
				err = app.NoSession(id, err)
			}
			if !yield(rec, err) || err != nil {
				return
			}
		}
		if n == 0 {
			yield(journal.Record{}, app.NoSession(id, session.ErrNotFound))
		}
	}
}

// gone returns an error for the tombstone of a deleted session: only the tombstone is left of its journal.
func gone(rec journal.Record) error {
	if d, deleted := events.DeletionOf(rec.Entry); deleted {
		return &session.DeletedError{Session: rec.Entry.Session, Deletion: d}
	}
	return nil
}
