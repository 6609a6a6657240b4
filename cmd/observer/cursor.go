package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"sync/atomic"
	"time"

	"github.com/google/renameio/v2/maybe"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/internal/cli"
	"github.com/turnlog/turnlog/internal/textfile"
	"github.com/turnlog/turnlog/jetstream"
)

// storeEvery bounds how old the stored cursor may be.
const storeEvery = 250 * time.Millisecond

// bookmark stores a cursor in a file, or nowhere without a path. It is owned by the
// goroutine that shows entries.
type bookmark struct {
	path string
	page

	due   <-chan time.Time // when to store; nil: nothing to store
	moved bool

	position *atomic.Uint64 // position of the cursor for other goroutines; nil: not needed
}

// page is the content of the file.
type page struct {
	Namespace string            `json:"namespace"`
	Of        content.SessionID `json:"of"` // the session that is followed, or jetstream.AllSessions
	At        jetstream.Cursor  `json:"at"`
}

// load reads the file, if there is one.
func (b *bookmark) load() (at jetstream.Cursor, stored bool, err error) {
	if b.path == "" {
		return at, false, nil
	}
	raw, err := textfile.ReadFile(b.path, 64<<10)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return at, false, nil
	case err != nil:
		return at, false, cli.Usage("--cursor: %w", err)
	}
	var p page
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	switch err := d.Decode(&p); {
	case err != nil || d.More() || p.Of == "":
		return at, false, cli.Usage("--cursor %s: the file does not contain a cursor: name another one", b.path)
	case p.Namespace != b.Namespace || p.Of != b.Of:
		return at, false, cli.Usage("--cursor %s: it is for %s, not for %s: name another file", b.path, p.about(), b.about())
	}
	return p.At, true, nil
}

// about describes what a cursor is for.
func (p page) about() string {
	if p.Of == jetstream.AllSessions {
		return "all sessions of namespace " + p.Namespace
	}
	return fmt.Sprintf("session %s of namespace %s", p.Of, p.Namespace)
}

// move sets the cursor.
func (b *bookmark) move(to jetstream.Cursor) {
	if b.position != nil {
		b.position.Store(to.Position)
	}
	if b.path == "" {
		return
	}
	b.At, b.moved = to, true
	if b.due == nil {
		b.due = time.After(storeEvery)
	}
}

// follow passes updates to use and moves the cursor past them, until ended receives the reason for the end, or use
// returns an error. The caller must then store the cursor again.
func (b *bookmark) follow(ctx context.Context, all <-chan update, ended <-chan error, use func(update) error) error {
	for {
		select {
		case n := <-all:
			if err := use(n); err != nil {
				return err
			}
			if n.live == nil {
				b.move(jetstream.CursorAt(n.rec))
			}
		case <-b.due:
			if err := b.store(); err != nil {
				return err
			}
		case err := <-ended:
			select {
			case <-ctx.Done():
				return nil
			default:
				return err
			}
		}
	}
}

// store writes the file if the cursor moved. It replaces the whole file, so a reader finds
// either the old or the new cursor, even after a crash.
func (b *bookmark) store() error {
	if !b.moved {
		return nil
	}
	raw, err := json.Marshal(b.page)
	if err == nil {
		err = maybe.WriteFile(b.path, append(raw, '\n'), 0o600)
	}
	if err != nil {
		return fmt.Errorf("store cursor: %w", err)
	}
	b.moved, b.due = false, nil
	return nil
}
