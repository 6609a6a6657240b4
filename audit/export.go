package audit

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/events/journal"
)

// The first line of an export names its format and version.
const (
	exportFormat  = "turnlog-journal"
	exportVersion = 1
)

// ErrNothingToExport is returned by Export for a journal without entries. Nothing was written.
var ErrNothingToExport = errors.New("nothing to export: the journal has no entries")

// header is the first line of an export.
type header struct {
	Format  string            `json:"format"`
	Version int               `json:"version"`
	Session content.SessionID `json:"session"`
}

// line is one entry as JSON. In an export the payload is the record; the other fields are a
// view of it and must agree with it.
type line struct {
	Seq     uint64            `json:"seq"`
	Session content.SessionID `json:"session"`
	Prev    events.Hash       `json:"prev"`
	Hash    events.Hash       `json:"hash"`
	At      content.Time      `json:"at"`
	Epoch   uint64            `json:"epoch"`
	Cause   string            `json:"cause"`
	Cursors []events.Cursor   `json:"cursors,omitempty"`  // not in exports
	Store   uint64            `json:"position,omitempty"` // not in exports
	Kinds   []events.Kind     `json:"kinds"`
	Events  []json.RawMessage `json:"events"`
	Unread  string            `json:"unread,omitempty"` // why kinds and events are missing
	Payload []byte            `json:"payload,omitempty"`
}

// Export writes a journal as lines of JSON: one that names the format, then one per entry, with the
// exact bytes that were stored. They suffice to verify the journal without a server, but cannot show
// whether it continues. If reading the records fails, the entries before the error are still
// written.
func Export(w io.Writer, records iter.Seq2[journal.Record, error]) error {
	out := bufio.NewWriter(w)
	err := export(json.NewEncoder(out), records)
	if flushed := out.Flush(); err == nil && flushed != nil {
		return fmt.Errorf("export: %w", flushed)
	}
	return err
}

func export(enc *json.Encoder, records iter.Seq2[journal.Record, error]) error {
	begun := false
	for r, err := range records {
		if err != nil {
			return err
		}
		if !begun {
			if err := enc.Encode(header{exportFormat, exportVersion, r.Entry.Session}); err != nil {
				return fmt.Errorf("export %s: %w", r.Entry.Session, err)
			}
			begun = true
		}
		l, err := lineOf(r)
		if err != nil {
			return err
		}
		if err := enc.Encode(l); err != nil {
			return fmt.Errorf("export %s/%d: %w", r.Entry.Session, r.Seq, err)
		}
	}
	if !begun {
		return ErrNothingToExport
	}
	return nil
}

// EntryJSON renders an entry as JSON for programs, like a line of an export. It includes the exact
// bytes only if this release cannot decode them, and also the cursors and the position in the store
// from which a reader of all sessions can resume.
func EntryJSON(r journal.Record) ([]byte, error) {
	l, err := lineOf(r)
	if err != nil {
		return nil, err
	}
	l.Cursors, l.Store = r.Entry.Cursors, r.Guard
	if r.Err == nil {
		l.Payload = nil
	}
	raw, err := json.Marshal(l)
	if err != nil {
		return nil, fmt.Errorf("show %s/%d: %w", l.Session, l.Seq, err)
	}
	return raw, nil
}

// lineOf returns the line of a record.
func lineOf(r journal.Record) (line, error) {
	e := r.Entry
	l := line{
		Seq: r.Seq, Session: e.Session, Prev: e.Prev, Hash: r.Hash, At: e.At, Epoch: e.Epoch, Cause: e.Cause,
		Kinds: []events.Kind{}, Events: []json.RawMessage{}, Payload: r.Payload,
	}
	evs := e.Events
	if r.Err != nil {
		l.Unread, evs = r.Err.Error(), nil
	}
	for _, ev := range evs {
		raw, err := events.MarshalEvent(ev)
		if err != nil {
			return l, fmt.Errorf("show %s/%d: %w", e.Session, r.Seq, err)
		}
		l.Kinds = append(l.Kinds, events.KindOf(ev))
		l.Events = append(l.Events, raw)
	}
	return l, nil
}
