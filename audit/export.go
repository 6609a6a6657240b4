package audit

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"

	"github.com/turnlog/turnlog/audit/internal/view"
	"github.com/turnlog/turnlog/content"
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

// Export writes a journal as lines of JSON: one line with the format, then one line per entry, with the
// exact stored bytes. They suffice to verify the journal without a server, but cannot show whether it
// continues. If reading the records fails, the entries before the error are still written.
func Export(w io.Writer, records iter.Seq2[journal.Record, error]) error {
	out := bufio.NewWriter(w)
	err := export(out, records)
	if flushed := out.Flush(); err == nil && flushed != nil {
		return fmt.Errorf("export: %w", flushed)
	}
	return err
}

func export(out *bufio.Writer, records iter.Seq2[journal.Record, error]) error {
	var line []byte
	for r, err := range records {
		if err != nil {
			return err
		}
		if line == nil {
			line = headerOf(r.Entry.Session)
			_, _ = out.Write(append(line, '\n')) // Flush reports it
		}
		if line, err = view.Append(line[:0], r); err != nil {
			return err
		}
		if _, err := out.Write(append(line, '\n')); err != nil {
			return fmt.Errorf("export %s/%d: %w", r.Entry.Session, r.Seq, err)
		}
	}
	if line == nil {
		return ErrNothingToExport
	}
	return nil
}

// headerOf returns the first line of an export.
func headerOf(s content.SessionID) []byte {
	line, _ := json.Marshal(header{exportFormat, exportVersion, s}) // two strings and a number
	return line
}

// EntryJSON renders an entry as JSON for programs, like a line of an export. It includes the exact
// bytes only if this release cannot decode them, and also the cursors and the position in the store
// from which a reader of all sessions can resume.
func EntryJSON(r journal.Record) ([]byte, error) { return view.AppendShown(nil, r) }
