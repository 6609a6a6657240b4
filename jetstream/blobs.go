package jetstream

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/nats-io/nats.go"
)

// Blobs live in a NATS object store under the hexadecimal SHA-256 of their bytes,
// in the store's own format, so that its tools can read them. They are written
// and read here without its client: reading by batches of direct gets needs no
// consumer, and a blob that is there already is not written again.

const blobChunk = 128 << 10

// blobMeta is an object store's description of an object.
type blobMeta struct {
	Name    string    `json:"name"`
	Bucket  string    `json:"bucket"`
	NUID    string    `json:"nuid"`
	Size    uint64    `json:"size"`
	Chunks  uint32    `json:"chunks"`
	Digest  string    `json:"digest"`
	ModTime time.Time `json:"mtime"`
	Options *blobOpts `json:"options,omitempty"`
}

type blobOpts struct {
	ChunkSize uint32 `json:"max_chunk_size,omitempty"`
}

func storeDigest(d [sha256.Size]byte) string {
	return "SHA-256=" + base64.URLEncoding.EncodeToString(d[:])
}

// putBlob stores data under its digest, or finds it there. Chunks go first and
// the description last, so a reader never sees half a blob. A second attempt
// leaves the chunks of the first one behind, under a name that nobody knows.
func (c *Cell) putBlob(ctx context.Context, digest [sha256.Size]byte, data []byte) error {
	name := hex.EncodeToString(digest[:])
	_, err := c.blobMeta(ctx, name)
	if errors.Is(err, errNoMessage) {
		err = patiently(ctx, func(ctx context.Context) error { return c.writeBlob(ctx, name, digest, data) })
	}
	if err != nil {
		return fmt.Errorf("put blob %s: %w", name, err)
	}
	return nil
}

func (c *Cell) writeBlob(ctx context.Context, name string, digest [sha256.Size]byte, data []byte) error {
	meta := blobMeta{
		Name: name, Bucket: c.names.blobBucket(), NUID: rand.Text(),
		Size: uint64(len(data)), Chunks: uint32((len(data) + blobChunk - 1) / blobChunk), Digest: storeDigest(digest),
		ModTime: time.Now().UTC(), Options: &blobOpts{ChunkSize: blobChunk},
	}
	if err := c.writeChunks(ctx, c.names.blobChunks(meta.NUID), data); err != nil {
		return err
	}
	body, err := json.Marshal(meta)
	if err != nil {
		return fmt.Errorf("describe it: %w", err)
	}
	_, err = c.publish(ctx, &nats.Msg{Subject: c.names.blobMeta(name), Data: body})
	return err
}

// writeChunks writes all chunks without waiting in between, then waits for all.
func (c *Cell) writeChunks(ctx context.Context, subject string, data []byte) error {
	acks, err := c.nc.SubscribeSync(c.nc.NewInbox())
	if err != nil {
		return fmt.Errorf("subscribe: %w", err)
	}
	defer func() { _ = acks.Unsubscribe() }() // the connection may be gone
	ctx, cancel := context.WithTimeout(ctx, publishTimeout)
	defer cancel()
	for chunk := range slices.Chunk(data, blobChunk) {
		if err := c.nc.PublishRequest(subject, acks.Subject, chunk); err != nil {
			return fmt.Errorf("send a chunk: %w", err)
		}
	}
	for range slices.Chunk(data, blobChunk) {
		msg, err := acks.NextMsgWithContext(ctx)
		if err != nil {
			return fmt.Errorf("wait for the chunks: %w", err)
		}
		if _, err := parseAck(msg); err != nil {
			return err
		}
	}
	return nil
}

// blobMeta returns the description of the blob of that name. It asks the leader:
// the blob may have been written a moment ago. Of several descriptions the first
// one counts, so that nobody can put another blob in its place.
func (c *Cell) blobMeta(ctx context.Context, name string) (blobMeta, error) {
	var meta blobMeta
	m, err := c.leaderNext(ctx, c.names.blobStream(), c.names.blobMeta(name), 0)
	if err != nil {
		return meta, err
	}
	if err := json.Unmarshal(m.Data, &meta); err != nil {
		return meta, fmt.Errorf("description of blob %s: %w", name, err)
	}
	return meta, nil
}

// getBlob returns the blob of that name, verified.
func (c *Cell) getBlob(ctx context.Context, name string) ([]byte, error) {
	want, err := hex.DecodeString(name)
	if err != nil || len(want) != sha256.Size {
		return nil, fmt.Errorf("%w: %q is no SHA-256", ErrBlobMissing, name)
	}
	meta, err := c.blobMeta(ctx, name)
	if errors.Is(err, errNoMessage) {
		return nil, fmt.Errorf("%w: %s", ErrBlobMissing, name)
	}
	if err != nil {
		return nil, fmt.Errorf("get blob %s: %w", name, err)
	}
	for _, read := range []chunkReader{c.chunksFromAnywhere, c.chunksFromLeader} {
		var data []byte
		if data, err = read(ctx, meta); err != nil {
			return nil, fmt.Errorf("get blob %s: %w", name, err)
		}
		if sum := sha256.Sum256(data); string(sum[:]) == string(want) {
			return data, nil
		}
	}
	return nil, fmt.Errorf("%w: %s: its bytes have another digest", ErrBlobMissing, name)
}

// chunkReader returns the chunks of a blob that it finds, joined. What follows
// them is not the blob's.
type chunkReader func(context.Context, blobMeta) ([]byte, error)

// chunksFromAnywhere is fast, but a replica may not have the last ones yet.
func (c *Cell) chunksFromAnywhere(ctx context.Context, meta blobMeta) ([]byte, error) {
	data, n := make([]byte, 0, min(meta.Size, 64<<20)), uint32(0)
	for m, err := range c.batchGet(ctx, c.names.blobStream(), c.names.blobChunks(meta.NUID), 0) {
		if err != nil {
			return nil, err
		}
		if n++; n > meta.Chunks {
			break
		}
		data = append(data, m.Data...)
	}
	return data, nil
}

func (c *Cell) chunksFromLeader(ctx context.Context, meta blobMeta) ([]byte, error) {
	data, seq := make([]byte, 0, min(meta.Size, 64<<20)), uint64(0)
	for range meta.Chunks {
		m, err := c.leaderNext(ctx, c.names.blobStream(), c.names.blobChunks(meta.NUID), seq)
		if errors.Is(err, errNoMessage) {
			break
		}
		if err != nil {
			return nil, err
		}
		data, seq = append(data, m.Data...), m.Seq+1
	}
	return data, nil
}

// dropBlob removes a blob that nothing refers to any more. What it cannot remove
// stays behind unused, so there is nothing to report.
func (c *Cell) dropBlob(ctx context.Context, name string) {
	meta, err := c.blobMeta(ctx, name)
	if err != nil {
		return
	}
	for _, subject := range []string{c.names.blobMeta(name), c.names.blobChunks(meta.NUID)} {
		_, _ = c.ask(ctx, apiStreamPurge+c.names.blobStream(), fmt.Appendf(nil, `{"filter":%q}`, subject))
	}
}
