// Package attached checks the files to which a journal refers: files that people attached, and files in which tools
// stored output that does not fit in a result.
//
// A journal names a file by the hash of its bytes, so the chain covers the file too. A reader with the bytes, in a
// deployment or in a folder next to an export, can check them.
package attached

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"iter"

	"github.com/turnlog/turnlog/audit/verdict"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/events/journal"
)

// Store has the bytes of files by their SHA-256 in hexadecimal.
type Store interface {
	// CopyTo writes a file to w. ok is false if it is missing or damaged.
	CopyTo(ctx context.Context, id string, w io.Writer) (ok bool, err error)
}

// File is a file that a journal refers to.
type File struct {
	ID   string // the SHA-256 of its bytes, in hexadecimal
	Name string
	Seq  uint64 // sequence of the first entry that refers to it
	Line int    // line of that entry in an export
}

// Files collects the files that a journal refers to.
type Files struct {
	all  []File
	seen map[string]bool
}

// All returns the files, each once, in the order of their first entries.
func (f *Files) All() []File { return f.all }

// Watch yields the records unchanged, and notes their files.
func (f *Files) Watch(records iter.Seq2[journal.Record, error]) iter.Seq2[journal.Record, error] {
	return func(yield func(journal.Record, error) bool) {
		for r, err := range records {
			if err == nil {
				f.add(r)
			}
			if !yield(r, err) {
				return
			}
		}
	}
}

func (f *Files) add(r journal.Record) {
	for _, ev := range r.Entry.Events {
		for parts := range partsOf(ev) {
			f.parts(r, parts)
		}
	}
}

// partsOf yields the parts of the conversation that an event contains.
func partsOf(ev any) iter.Seq[[]content.Part] {
	var items []content.Item
	switch ev := ev.(type) {
	case events.RunStarted:
		items = ev.Transcript
	case events.InputQueued:
		items = ev.Items
	case events.InputAccepted:
		items = ev.Items
	case events.ReplyRecorded:
		items = ev.Items
	case events.MemoryRecalled:
		items = ev.Items
	case events.MutationFinished:
		items = ev.Replacement
	case events.ToolResultReceived:
		items = []content.Item{{Parts: ev.Result.Output}}
	}
	return func(yield func([]content.Part) bool) {
		for i := range items {
			if !yield(items[i].Parts) {
				return
			}
		}
	}
}

func (f *Files) parts(r journal.Record, parts []content.Part) {
	for i := range parts {
		p := &parts[i]
		if p.Result != nil {
			f.parts(r, p.Result.Output)
		}
		if p.Media == nil {
			continue
		}
		id, ok := content.BlobID(p.Media.URI)
		if _, err := hex.DecodeString(id); !ok || err != nil || len(id) != hex.EncodedLen(sha256.Size) || f.seen[id] {
			continue // no file can have such a name
		}
		if f.seen == nil {
			f.seen = map[string]bool{}
		}
		f.seen[id] = true
		f.all = append(f.all, File{ID: id, Name: p.Name, Seq: r.Seq, Line: r.Line})
	}
}

// Judge adds faults to a verdict on the journal for files that are missing or have other bytes, and settles it again.
// Without a store it only counts the files. It returns an error if reading fails.
func (f *Files) Judge(ctx context.Context, v *verdict.Verdict, from Store) error {
	if from == nil {
		v.UncheckedFiles = len(f.all)
		v.Settle()
		return nil
	}
	for _, file := range f.all {
		kind, what, err := check(ctx, file, from)
		if err != nil {
			return fmt.Errorf("file %s: %w", file.ID, err)
		}
		if kind != "" {
			v.Add(verdict.Fault{Kind: kind, Seq: file.Seq, Line: file.Line, What: fmt.Sprintf("the file %q (%s) %s", file.Name, file.ID, what)})
		}
	}
	v.Settle()
	return nil
}

// check returns what is wrong with a file.
func check(ctx context.Context, f File, from Store) (kind verdict.Kind, what string, err error) {
	sum := &digest{Hash: sha256.New()}
	ok, err := from.CopyTo(ctx, f.ID, sum)
	switch {
	case err != nil:
		return "", "", err
	case !ok && sum.n == 0:
		return verdict.Missing, "is missing", nil
	case !ok || hex.EncodeToString(sum.Sum(nil)) != f.ID:
		return verdict.Tampered, "does not match its digest in the journal", nil
	}
	return "", "", nil
}
