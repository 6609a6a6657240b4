package jetstream

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go"
	"github.com/vmihailenco/msgpack/v5"

	"github.com/turnlog/turnlog/audit/statement"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events/journal"
	"github.com/turnlog/turnlog/jetstream/internal/api"
	"github.com/turnlog/turnlog/jetstream/internal/bucket"
	"github.com/turnlog/turnlog/jetstream/internal/layout"
	"github.com/turnlog/turnlog/jetstream/internal/sealing"
)

// Snapshots keeps the newest snapshot of each session. It is safe for concurrent use.
type Snapshots struct {
	cell   *Cell
	bucket bucket.Bucket[journal.Snapshot]
}

// Snapshots returns the cell's snapshots.
func (c *Cell) Snapshots() *Snapshots {
	b := c.names.Snapshots()
	return &Snapshots{c, bucket.Bucket[journal.Snapshot]{
		API: c.api, What: "snapshot", Stream: b.Stream(), Prefix: b.Key(""), Tokens: 1, Once: true,
		Decode: decodeSnapshot,
	}}
}

// of returns the bucket for one session.
func (s *Snapshots) of(id content.SessionID) bucket.Bucket[journal.Snapshot] {
	b := s.bucket
	b.Unpack = func(ctx context.Context, h nats.Header, data []byte) ([]byte, error) {
		return s.cell.unpack(ctx, id, sealing.Snapshot, h, data, 0)
	}
	return b
}

// Put replaces the snapshot of a session. A replaced driver may overwrite a newer snapshot with an
// older one. Both are correct; the journal has the rest.
func (s *Snapshots) Put(ctx context.Context, id content.SessionID, snap journal.Snapshot) error {
	b, key := s.bucket, string(id)
	if !b.Valid(key) {
		return b.Failed("put", key, content.ErrBadID)
	}
	old, err := s.cell.api.Last(ctx, b.Stream, b.Prefix+key)
	if err != nil && !errors.Is(err, api.ErrNoMessage) {
		return b.Failed("put", key, err)
	}
	value, err := encodeSnapshot(&snap)
	msg := nats.NewMsg("")
	if err == nil {
		err = s.cell.pack(ctx, id, sealing.Snapshot, msg, value)
	}
	if err != nil {
		return b.Failed("put", key, err)
	}
	s.cell.sign(msg, func() []byte { return statement.Snapshot(s.cell.names.NS, id, snap) })
	if _, err := b.Write(ctx, "put", key, msg.Data, msg.Header); err != nil {
		return err
	}
	if name := old.Header.Get(layout.HeaderBlob); name != "" && name != msg.Header.Get(layout.HeaderBlob) {
		s.cell.blobs.Drop(ctx, name)
	}
	return nil
}

// Get returns the snapshot of a session and whether there is one. After an error, read the journal
// from its start instead.
func (s *Snapshots) Get(ctx context.Context, id content.SessionID) (journal.Snapshot, bool, error) {
	it, ok, err := s.of(id).Get(ctx, string(id))
	if errors.Is(err, ErrBlobMissing) { // the snapshot may have been replaced meanwhile
		it, ok, err = s.of(id).Get(ctx, string(id))
	}
	it.Value.Signature = layout.SignatureOf(it.Header)
	return it.Value, ok, err
}

const snapshotFields = 4

func encodeSnapshot(s *journal.Snapshot) ([]byte, error) {
	var buf bytes.Buffer
	enc := msgpack.NewEncoder(&buf)
	err := enc.EncodeArrayLen(snapshotFields)
	if err == nil {
		err = enc.EncodeMulti(s.Seq, s.Hash, s.Guard, s.State)
	}
	return buf.Bytes(), err
}

func decodeSnapshot(value []byte) (s journal.Snapshot, err error) {
	rest := bytes.NewReader(value)
	dec := msgpack.NewDecoder(rest)
	if n, err := dec.DecodeArrayLen(); err != nil || n != snapshotFields {
		return s, errors.New("it is not in the format of this release")
	}
	if err := dec.DecodeMulti(&s.Seq, &s.Hash, &s.Guard, &s.State); err != nil {
		return s, err
	}
	if rest.Len() > 0 {
		return s, fmt.Errorf("%d bytes follow its state", rest.Len())
	}
	return s, nil
}
