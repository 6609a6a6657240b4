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
	bucket bucket[journal.Snapshot]
}

// Snapshots returns the cell's snapshots.
func (c *Cell) Snapshots() *Snapshots {
	b := c.names.Snapshots()
	return &Snapshots{bucket[journal.Snapshot]{
		cell: c, what: "snapshot", stream: b.Stream(), prefix: b.Key(""), tokens: 1, blobs: true, once: true,
		encode: encodeSnapshot, decode: decodeSnapshot,
	}}
}

// Put replaces the snapshot of a session. A replaced driver may overwrite a newer snapshot with an
// older one. Both are correct; the journal has the rest.
func (s *Snapshots) Put(ctx context.Context, id content.SessionID, snap journal.Snapshot) error {
	b, key := s.bucket, string(id)
	if !b.valid(key) {
		return b.failed("put", key, content.ErrBadID)
	}
	old, err := b.cell.api.Last(ctx, b.stream, b.prefix+key)
	if err != nil && !errors.Is(err, api.ErrNoMessage) {
		return b.failed("put", key, err)
	}
	value, err := b.encode(&snap)
	msg := nats.NewMsg("")
	if err == nil {
		err = b.cell.pack(ctx, msg, value)
	}
	if err != nil {
		return b.failed("put", key, err)
	}
	if _, err := b.write(ctx, "put", key, msg.Data, msg.Header); err != nil {
		return err
	}
	if name := old.Header.Get(layout.HeaderBlob); name != "" && name != msg.Header.Get(layout.HeaderBlob) {
		b.cell.blobs.Drop(ctx, name)
	}
	return nil
}

// Get returns the snapshot of a session and whether there is one. After an error, read the journal
// from its start instead.
func (s *Snapshots) Get(ctx context.Context, id content.SessionID) (journal.Snapshot, bool, error) {
	it, ok, err := s.bucket.get(ctx, string(id))
	if errors.Is(err, ErrBlobMissing) { // the snapshot may have been replaced meanwhile
		it, ok, err = s.bucket.get(ctx, string(id))
	}
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
