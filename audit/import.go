package audit

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"reflect"
	"slices"

	"github.com/turnlog/turnlog/audit/verdict"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/events/journal"
)

// ErrBadExport is returned by Import if the lines are not an export, or one was changed or truncated, with
// a [verdict.FaultError] that names the line. The views of the entries before that line are true.
var ErrBadExport = errors.New("bad export")

// maxLine bounds the length of a line.
const maxLine = 256 << 20

// Import reads the output of Export line by line. It compares the view in each line with its
// payload, so it detects a changed view as well as a changed record. An error ends the sequence.
// [Verify] checks the chain. An export that was cut off at the end of a line looks like a shorter
// journal.
func Import(r io.Reader) iter.Seq2[journal.Record, error] {
	return func(yield func(journal.Record, error) bool) {
		in := importer{lines: bufio.NewScanner(r)}
		in.lines.Buffer(make([]byte, 0, 1<<16), maxLine)
		if err := in.begin(); err != nil {
			yield(journal.Record{}, err)
			return
		}
		for {
			rec, err := in.next()
			switch {
			case !errors.Is(err, io.EOF):
				in.entries++
			case in.entries > 0:
				return
			default:
				err = in.bad(verdict.Truncated, 0, "it has no entries")
			}
			if !yield(rec, err) || err != nil {
				return
			}
		}
	}
}

type importer struct {
	lines   *bufio.Scanner
	line    int
	head    header
	entries int
}

// begin reads the line that names the format.
func (i *importer) begin() error {
	raw, err := i.read()
	switch {
	case errors.Is(err, io.EOF):
		return i.bad(verdict.Truncated, 0, "the export is empty")
	case err != nil:
		return err
	}
	if err := json.Unmarshal(raw, &i.head); err != nil || i.head.Format != exportFormat {
		return i.bad(verdict.Unreadable, 0, "the first line does not name the format %q", exportFormat)
	}
	if i.head.Version < 1 || i.head.Version > exportVersion {
		return i.bad(verdict.Newer, 0, "version %d of the format is unknown; this release reads 1 to %d", i.head.Version, exportVersion)
	}
	return nil
}

// next reads the next entry. It returns io.EOF after the last.
func (i *importer) next() (journal.Record, error) {
	raw, err := i.read()
	if err != nil {
		return journal.Record{}, err
	}
	var shown line
	if err := json.Unmarshal(raw, &shown); err != nil {
		return journal.Record{}, i.bad(verdict.Unreadable, 0, "the line cannot be read, or is cut off: %v", err)
	}
	e, err := events.Decode(shown.Payload)
	if err != nil && !errors.Is(err, events.ErrUnknownKind) {
		return journal.Record{}, i.bad(verdict.Unreadable, shown.Seq, "the payload is not an entry: %v", err)
	}
	if e.Seq == 0 && err != nil { // the view cannot be checked
		e.Seq, e.Session, e.Prev, e.At, e.Epoch, e.Cause = shown.Seq, shown.Session, shown.Prev, shown.At, shown.Epoch, shown.Cause
	}
	rec := journal.Record{
		Head:    journal.Head{Seq: e.Seq, Hash: events.HashOf(shown.Payload)},
		Entry:   e,
		Payload: shown.Payload,
		Err:     err,
		Line:    i.line,
	}
	if err != nil {
		rec.Entry.Events = nil
	}
	real, err := lineOf(rec)
	if err != nil {
		return rec, err
	}
	if err := i.compare(shown, real); err != nil {
		return rec, err
	}
	if real.Session != i.head.Session {
		return rec, i.bad(verdict.Foreign, real.Seq, "session: the entry belongs to %q, the export to %q", real.Session, i.head.Session)
	}
	return rec, nil
}

// compare returns the first difference between a line's view and its payload.
func (i *importer) compare(shown, real line) error {
	for _, c := range []struct {
		field       string
		shown, real any
	}{
		{"hash", shown.Hash, real.Hash},
		{"seq", shown.Seq, real.Seq},
		{"session", shown.Session, real.Session},
		{"prev", shown.Prev, real.Prev},
		{"at", shown.At, real.At},
		{"epoch", shown.Epoch, real.Epoch},
		{"cause", shown.Cause, real.Cause},
	} {
		if c.shown != c.real {
			return i.bad(verdict.Tampered, real.Seq, "%s: the view has %v, the payload %v: one of them was changed", c.field, c.shown, c.real)
		}
	}
	if real.Unread != "" || shown.Unread != "" && len(shown.Kinds)+len(shown.Events) == 0 {
		return nil // the exporting release or this one cannot decode it
	}
	if !slices.Equal(shown.Kinds, real.Kinds) {
		return i.bad(verdict.Tampered, real.Seq, "kinds: the view has %v, the payload %v: one of them was changed", shown.Kinds, real.Kinds)
	}
	if len(shown.Events) != len(real.Events) {
		return i.bad(verdict.Tampered, real.Seq, "events: the view has %d, the payload %d", len(shown.Events), len(real.Events))
	}
	for n := range real.Events {
		if !sameJSON(shown.Events[n], real.Events[n]) {
			return i.bad(verdict.Tampered, real.Seq, "events: the view of event %d, a %s, differs from the payload", n+1, real.Kinds[n])
		}
	}
	return nil
}

// sameJSON reports whether two JSON texts have equal values, whatever their layout.
func sameJSON(a, b []byte) bool {
	if bytes.Equal(a, b) {
		return true
	}
	var x, y any
	return decodeJSON(a, &x) && decodeJSON(b, &y) && reflect.DeepEqual(x, y)
}

func decodeJSON(b []byte, v *any) bool {
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	return d.Decode(v) == nil
}

// read returns the next line that is not blank, or io.EOF.
func (i *importer) read() ([]byte, error) {
	for i.lines.Scan() {
		i.line++
		if len(bytes.TrimSpace(i.lines.Bytes())) > 0 {
			return i.lines.Bytes(), nil
		}
	}
	i.line++
	switch err := i.lines.Err(); {
	case err == nil:
		return nil, io.EOF
	case errors.Is(err, bufio.ErrTooLong):
		return nil, i.bad(verdict.Unreadable, 0, "the line is longer than %d bytes", maxLine)
	default:
		return nil, fmt.Errorf("import line %d: %w", i.line, err)
	}
}

// bad returns the fault of the current line; the sequence of its entry is 0 if unknown.
func (i *importer) bad(kind verdict.Kind, seq uint64, format string, args ...any) error {
	fault := verdict.Fault{Kind: kind, Seq: seq, Line: i.line, What: fmt.Sprintf(format, args...)}
	return fmt.Errorf("%w: %w", ErrBadExport, &verdict.FaultError{Fault: fault})
}
