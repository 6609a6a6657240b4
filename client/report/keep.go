package report

import (
	"bytes"
	"context"
	"encoding/gob"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/google/renameio/v2/maybe"

	"github.com/turnlog/turnlog/client"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/internal/pause"
)

// keepFormat changes whenever a Summary of the same session does.
const keepFormat = 1

// keepEvery is the pause between two writes of an index.
const keepEvery = 5 * time.Minute

// kept is an Index in a file.
type kept struct {
	Format int
	At     client.Changes // through which it was read
	Rows   map[content.SessionID]keptRow
	Unread []content.SessionID
}

type keptRow struct {
	Entries uint64
	Row     *Summary
	Tools   []string
}

// keep reads what has changed, and writes the index to a file, now and then and when ctx ends.
func (x *Index) keep(ctx context.Context, c *client.Client, file string, complain func(error)) {
	var saved client.Changes
	save := func() {
		at, err := x.save(file, saved)
		if err != nil {
			complain(err)
		}
		saved = at
	}
	for {
		if _, err := x.read(ctx, c, complain); err != nil && ctx.Err() == nil {
			complain(err)
		}
		save()
		if !pause.For(ctx, keepEvery) {
			save()
			return
		}
	}
}

// Keep reads an index that has listed nothing from a file, and keeps it there until the function that it returns is called; "":
// nowhere. The file has titles, owners and costs of sessions, in the clear.
func (x *Index) Keep(ctx context.Context, c *client.Client, file string, complain func(error)) (end func()) {
	if file == "" {
		return func() {}
	}
	if err := x.open(ctx, c, file); err != nil {
		complain(err)
	}
	ctx, stop := context.WithCancel(ctx)
	var keeping sync.WaitGroup
	keeping.Go(func() { x.keep(ctx, c, file, complain) })
	return func() {
		stop()
		keeping.Wait()
	}
}

// open reads the index from a file that keep wrote. A file that is not there, that another release wrote in
// another format, or that is of another journal counts for nothing.
func (x *Index) open(ctx context.Context, c *client.Client, file string) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	f, err := os.Open(file) //nolint:gosec // the operator names it
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("index of sessions: %w", err)
	}
	defer func() { _ = f.Close() }() // it was only read
	var k kept
	if err := gob.NewDecoder(f).Decode(&k); err != nil {
		return fmt.Errorf("index of sessions: %s cannot be read, and is written again: %w", file, err)
	}
	if same, err := k.At.Hold(ctx, c); err != nil || !same || k.Format != keepFormat {
		return err
	}
	x.changes, x.unread, x.rows = k.At, k.Unread, make(map[content.SessionID]indexed, len(k.Rows))
	for id, r := range k.Rows {
		if r.Row != nil {
			r.Row.tools = r.Tools
		}
		x.rows[id] = indexed{r.Entries, r.Row}
	}
	return nil
}

// save writes the index, unless it is as it was saved before. It returns how far it was read.
func (x *Index) save(file string, before client.Changes) (client.Changes, error) {
	x.mu.Lock()
	k := kept{Format: keepFormat, At: x.changes, Unread: slices.Clone(x.unread)}
	rows := maps.Clone(x.rows) // a row is replaced and never changed
	x.mu.Unlock()
	if k.At == before || k.At == (client.Changes{}) {
		return before, nil
	}
	k.Rows = make(map[content.SessionID]keptRow, len(rows))
	for id, r := range rows {
		row := keptRow{Entries: r.entries, Row: r.row}
		if r.row != nil {
			row.Tools = r.row.tools
		}
		k.Rows[id] = row
	}
	var text bytes.Buffer
	err := gob.NewEncoder(&text).Encode(k)
	if err == nil {
		err = maybe.WriteFile(file, text.Bytes(), 0o600)
	}
	if err != nil {
		return before, fmt.Errorf("index of sessions: %w", err)
	}
	return k.At, nil
}
