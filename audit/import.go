package audit

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"slices"

	"github.com/turnlog/turnlog/audit/internal/view"
	"github.com/turnlog/turnlog/audit/verdict"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/events/journal"
	"github.com/turnlog/turnlog/internal/textfile"
)

// ErrBadExport is returned by Import if the lines are not an export, or if a line was changed or truncated,
// with a [verdict.FaultError] that names the line. The views of the entries before that line are correct.
var ErrBadExport = errors.New("bad export")

// maxLine bounds the length of a line.
const maxLine = 256 << 20

// ImportFile is Import for a regular file. Its errors name the file.
func ImportFile(name string) iter.Seq2[journal.Record, error] {
	return func(yield func(journal.Record, error) bool) {
		f, err := textfile.Open(name)
		if err != nil {
			yield(journal.Record{}, err)
			return
		}
		defer func() { _ = f.Close() }() // only read
		for rec, err := range Import(f) {
			if err != nil {
				err = fmt.Errorf("%s: %w", name, err)
			}
			if !yield(rec, err) {
				return
			}
		}
	}
}

// Import reads the output of Export line by line. The view in each line must match its payload exactly, with
// each key once, so Import detects a changed view as well as a changed record. An error ends the sequence.
// [Verify] checks the chain. An export that was cut off at the end of a line looks like a shorter journal.
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
	last    uint64 // sequence
	view    []byte // the line of the latest entry up to its payload, as it should be
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
	shown, err := view.Parse(raw)
	if err != nil {
		return i.bad(verdict.Tampered, 0, "the first line: %v", err)
	}
	if real, _ := view.Parse(headerOf(i.head.Session)); !maps.Equal(shown, real) { // it has strings and numbers
		return i.bad(verdict.Tampered, 0, "the first line has other members than format, version and session")
	}
	return nil
}

// next reads the next entry. It returns io.EOF after the last.
func (i *importer) next() (journal.Record, error) {
	raw, err := i.read()
	if err != nil {
		return journal.Record{}, err
	}
	payload, shown, err := view.Payload(raw)
	switch {
	case errors.Is(err, io.ErrUnexpectedEOF):
		return journal.Record{}, i.bad(verdict.Truncated, 0, "the line is cut off")
	case err != nil:
		return journal.Record{}, i.bad(verdict.Unreadable, 0, "the line cannot be read: %v", err)
	}
	rec := journal.Record{Payload: payload, Line: i.line}
	rec.Entry, rec.Err = events.Decode(payload)
	e := &rec.Entry
	rec.Head = journal.Head{Seq: e.Seq, Hash: events.HashOf(payload)}
	_, sealed := errors.AsType[*events.SealedError](rec.Err)
	newer := errors.Is(rec.Err, events.ErrUnknownKind) && !sealed
	switch {
	case rec.Err != nil && !newer && !sealed:
		return rec, i.bad(verdict.Unreadable, e.Seq, "the payload is not an entry: %v", rec.Err)
	case newer && e.Seq == 0: // its head has another layout, so the view cannot be checked
		e.Session, e.Seq, rec.Seq = i.head.Session, i.last+1, i.last+1
		i.last = rec.Seq
		return rec, nil
	}
	i.last = rec.Seq
	if problem := i.compare(raw, shown, &rec, newer); problem != nil {
		return rec, problem
	}
	if e.Session != i.head.Session {
		return rec, i.bad(verdict.Foreign, e.Seq, "session: the entry belongs to %q, the export to %q", e.Session, i.head.Session)
	}
	return rec, nil
}

// compare compares a line with its record, and adds the signature to it. shown is what view.Payload returned.
func (i *importer) compare(raw, shown []byte, rec *journal.Record, newer bool) (err error) {
	i.view = view.AppendHead(slices.Grow(i.view[:0], len(shown)), rec)
	if err = i.show(rec, view.SignatureAt(raw, i.view)); err != nil || bytes.Equal(shown, i.view) {
		return err
	}
	i.view = view.AppendHead(i.view[:0], rec)
	if err = i.show(rec, view.Signature(raw)); err != nil {
		return err
	}
	i.view = view.AppendPayload(i.view, rec.Payload)
	problem := view.Difference(raw, i.view, newer)
	if problem != "" && rec.Err == nil && rec.Entry.IsPartOf(rec.Payload) { // its events have fields that only a later release shows
		problem = view.Difference(raw, i.view, true)
	}
	if problem != "" {
		return i.bad(verdict.Tampered, rec.Seq, "%s", problem)
	}
	return nil
}

// show completes the view of a record with its signature, up to the payload.
func (i *importer) show(rec *journal.Record, signature []byte) (err error) {
	if rec.Signature, err = content.ParseSignature(signature); err != nil {
		return i.bad(verdict.Forged, rec.Seq, "%v", err)
	}
	i.view, err = view.AppendRest(i.view, rec)
	return err
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
