package jetstream

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go"
	"github.com/vmihailenco/msgpack/v5"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events/journal"
	"github.com/turnlog/turnlog/jetstream/internal/api"
	"github.com/turnlog/turnlog/jetstream/internal/layout"
)

// Snapshots keeps the newest snapshot of each session. It is safe for concurrent use.
type Snapshots struct {
	cell *Cell
}

// Snapshots returns the cell's snapshots.
func (c *Cell) Snapshots() *Snapshots { return &Snapshots{cell: c} }

// Put replaces the snapshot of a session. A driver that was fenced may replace a newer snapshot
// with an older one; both are true, and the journal holds the rest.
func (s *Snapshots) Put(ctx context.Context, id content.SessionID, snap journal.Snapshot) error {
	if err := s.put(ctx, id, snap); err != nil {
		return fmt.Errorf("snapshot of %q at %d: %w", id, snap.Seq, err)
	}
	return nil
}

func (s *Snapshots) put(ctx context.Context, id content.SessionID, snap journal.Snapshot) error {
	if !content.IsToken(string(id)) {
		return content.ErrBadID
	}
	value, err := encodeSnapshot(snap)
	if err != nil {
		return err
	}
	old, err := s.last(ctx, id)
	if err != nil && !api.IsNotFound(err) {
		return err
	}
	header, data, err := s.cell.pack(ctx, value)
	if err != nil {
		return err
	}
	if _, err := s.cell.api.Publish(ctx, &nats.Msg{Subject: s.key(id), Header: header, Data: data}); err != nil {
		return err
	}
	if name := old.Header.Get(layout.HeaderBlob); name != "" && name != header.Get(layout.HeaderBlob) {
		s.cell.blobs.Drop(ctx, name)
	}
	return nil
}

// Get returns the snapshot of a session and whether there is one. An error means that it cannot
// be used; read the journal from its start instead.
func (s *Snapshots) Get(ctx context.Context, id content.SessionID) (journal.Snapshot, bool, error) {
	if !content.IsToken(string(id)) {
		return journal.Snapshot{}, false, nil
	}
	snap, err := s.get(ctx, id)
	if errors.Is(err, ErrBlobMissing) {
		snap, err = s.get(ctx, id) // it may have been replaced while it was read
	}
	switch {
	case api.IsNotFound(err):
		return journal.Snapshot{}, false, nil
	case err != nil:
		return journal.Snapshot{}, false, fmt.Errorf("snapshot of %s: %w", id, err)
	}
	return snap, true, nil
}

func (s *Snapshots) get(ctx context.Context, id content.SessionID) (journal.Snapshot, error) {
	m, err := s.last(ctx, id)
	if err != nil {
		return journal.Snapshot{}, err
	}
	if m.Spoofed {
		return journal.Snapshot{}, api.ErrSpoofed
	}
	value, err := s.cell.unpack(ctx, m.Header, m.Data, 0)
	if err != nil {
		return journal.Snapshot{}, err
	}
	return decodeSnapshot(value)
}

func (s *Snapshots) last(ctx context.Context, id content.SessionID) (api.Message, error) {
	return s.cell.api.Last(ctx, s.cell.names.Snapshots().Stream(), s.key(id))
}

func (s *Snapshots) key(id content.SessionID) string {
	return s.cell.names.Snapshots().Key(string(id))
}

const snapshotFields = 4

func encodeSnapshot(s journal.Snapshot) ([]byte, error) {
	var buf bytes.Buffer
	enc := msgpack.NewEncoder(&buf)
	if err := enc.EncodeArrayLen(snapshotFields); err != nil {
		return nil, fmt.Errorf("encode: %w", err)
	}
	if err := enc.EncodeMulti(s.Seq, s.Hash, s.Guard, s.State); err != nil {
		return nil, fmt.Errorf("encode: %w", err)
	}
	return buf.Bytes(), nil
}

func decodeSnapshot(value []byte) (journal.Snapshot, error) {
	var s journal.Snapshot
	rest := bytes.NewReader(value)
	dec := msgpack.NewDecoder(rest)
	if n, err := dec.DecodeArrayLen(); err != nil || n != snapshotFields {
		return s, errors.New("it is not in the format of this release")
	}
	if err := dec.DecodeMulti(&s.Seq, &s.Hash, &s.Guard); err != nil {
		return s, fmt.Errorf("decode: %w", err)
	}
	n, err := dec.DecodeBytesLen()
	if err != nil {
		return s, fmt.Errorf("decode: %w", err)
	}
	if n = max(n, 0); n != rest.Len() {
		return s, fmt.Errorf("it has %d bytes of state and says %d", rest.Len(), n)
	}
	s.State = value[len(value)-n:] // not copied: it may be large
	return s, nil
}
