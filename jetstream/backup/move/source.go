package move

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/nats-io/nats.go"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/events/journal"
	"github.com/turnlog/turnlog/jetstream/internal/api"
	"github.com/turnlog/turnlog/jetstream/internal/blob"
)

// source is what the journal at the source says, up to its tombstone.
type source struct {
	session   content.SessionID
	last      journal.Record // the last entry to move; zero: the entries are gone
	tombstone events.Hash    // zero: there is none yet
	left      []byte         // the tombstone's bytes

	blobs   map[string]bool // possible names of blobs in payloads
	cursors []events.Cursor // of the lanes after last
	moves   []arrival
}

// arrival is a move that brought the session to a cell before.
type arrival struct {
	seq uint64
	events.MovedFrom
}

// read reads the first entries of the journal at the source, and verifies that they form a chain. It calls
// each for every entry. If the source was cleared, there are none.
func (m *Mover) read(ctx context.Context, s content.SessionID, entries uint64, each func(journal.Record)) (*source, error) {
	j := &source{session: s, blobs: map[string]bool{}}
	for rec, err := range m.from.Journal().Read(ctx, s, 0) {
		if err != nil {
			return nil, err
		}
		if _, deleted := events.DeletionOf(rec.Entry); deleted || rec.Seq > entries {
			break
		}
		if _, later := errors.AsType[*events.FormatError](rec.Err); later {
			return nil, fmt.Errorf("%s, entry %d: %w: use a later release", s, rec.Seq, rec.Err)
		}
		each(rec)
		j.add(rec)
	}
	if j.last.Seq != 0 && j.last.Seq != entries {
		return nil, fmt.Errorf("%w: it has %d entries, want %d", ErrChanged, j.last.Seq, entries)
	}
	return j, nil
}

func (j *source) add(rec journal.Record) {
	for name := range blob.Names(rec.Payload) {
		j.blobs[string(name)] = true
	}
	if len(rec.Payload) >= inline {
		j.blobs[rec.Hash.String()] = true
	}
	if from := events.MovedFromOf(rec.Entry); from != nil {
		j.moves = append(j.moves, arrival{rec.Seq, *from})
	}
	j.cursors = events.Advance(j.cursors, rec.Entry.Cursors)
	j.last = rec
	j.last.Payload = nil
}

// inline is the size from which the payload of an entry may be a blob, named by the hash of the entry.
const inline = 32 << 10

// take copies the blobs that entries name, and the wrapped keys of the session. What the target already has
// stays.
func (m *Mover) take(ctx context.Context, out *Moved, j *source) error {
	if err := m.before("blobs"); err != nil {
		return err
	}
	out.Blobs = 0
	for name := range j.blobs {
		there, err := m.blob(ctx, name)
		if err != nil {
			return fmt.Errorf("blob %s: %w", name, err)
		}
		if there {
			out.Blobs++
		}
	}
	for msg, err := range m.from.api.AllFromLeader(ctx, m.from.names.SealsStream(), m.from.names.Seal(j.session, "*"), 0) {
		if err == nil && !msg.Spoofed {
			out.Sealed = true
			err = m.key(ctx, msg)
		}
		if err != nil {
			return fmt.Errorf("its wrapped key: %w", err)
		}
	}
	return nil
}

// blob copies a blob, if the source has it. It stores the blob again even if the target has it, so that it
// is not collected.
func (m *Mover) blob(ctx context.Context, name string) (there bool, err error) {
	var f spool
	defer f.remove()
	ok, err := m.from.Blobs().CopyTo(ctx, name, &f)
	if err != nil || !ok { // most digests do not name a blob
		return false, err
	}
	if f.File == nil {
		_, _, err := m.to.Blobs().PutFrom(ctx, bytes.NewReader(nil))
		return true, err
	}
	got, _, err := m.to.Blobs().PutFrom(ctx, f)
	if err == nil && got != name {
		err = fmt.Errorf("%w: the digest of its bytes is %s", journal.ErrDamaged, got)
	}
	return true, err
}

// spool is a temporary file that is created by the first write.
type spool struct{ *os.File }

// Write writes to the file.
func (s *spool) Write(p []byte) (n int, err error) {
	if s.File == nil {
		if s.File, err = os.CreateTemp("", "turnlog-move-*"); err != nil {
			return 0, err //nolint:wrapcheck // it names the file
		}
	}
	return s.File.Write(p) //nolint:wrapcheck // likewise
}

func (s *spool) remove() {
	if s.File != nil {
		_, _ = s.Close(), os.Remove(s.Name()) // if this fails, the file is in the directory for temporary files
	}
}

// key copies a wrapped key.
func (m *Mover) key(ctx context.Context, msg api.Message) error {
	if err := m.before("key"); err != nil {
		return err
	}
	_, err := m.to.api.Publish(ctx, &nats.Msg{Subject: msg.Subject, Data: msg.Data})
	if !api.IsAlreadyThere(err) {
		return err
	}
	has, err := m.to.api.Last(ctx, m.to.names.SealsStream(), msg.Subject)
	if err == nil && !bytes.Equal(has.Data, msg.Data) {
		err = fmt.Errorf("%w: the target has a different key under that name", ErrTaken)
	}
	return err
}
