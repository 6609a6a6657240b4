package jetstream

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
)

// Blobs live in a NATS object store under the hexadecimal SHA-256 of their bytes,
// in the store's own format, so that its tools can read them. They are written
// and read here without its client: reading by batches of direct gets needs no
// consumer, and a blob that is there already is not written again.
//
// What is not referred to any more is collected, so whoever stores a blob that is
// there already says that it is wanted: its description is written once more,
// guarded by the last one. A collector retires a blob with a description that says
// so, guarded likewise, and only if the last one is old. One of the two comes first,
// and the other one sees it.

const (
	blobChunk  = 128 << 10
	blobWindow = 32 // chunks that are on their way
	blobTries  = 10 // as often a blob may be retired just when it is stored
)

// errBlobRace is returned when others keep describing the same blob.
var errBlobRace = errors.New("others keep writing it")

// errBlobChanged is returned when what is stored changes meanwhile.
var errBlobChanged = errors.New("its bytes changed while they were stored")

// blobMeta is an object store's description of an object.
type blobMeta struct {
	Name    string    `json:"name"`
	Bucket  string    `json:"bucket"`
	NUID    string    `json:"nuid"`
	Size    uint64    `json:"size"`
	Chunks  uint32    `json:"chunks"`
	Digest  string    `json:"digest"`
	ModTime time.Time `json:"mtime"`
	Deleted bool      `json:"deleted,omitempty"` // it was retired: what came before does not count any more
	Options *blobOpts `json:"options,omitempty"`
}

type blobOpts struct {
	ChunkSize uint32 `json:"max_chunk_size,omitempty"`
}

func storeDigest(d [sha256.Size]byte) string {
	return "SHA-256=" + base64.URLEncoding.EncodeToString(d[:])
}

// describes returns the description that a message holds, of a blob that is there.
func (c *Cell) describes(m stored) (blobMeta, bool) {
	var meta blobMeta
	ok := !m.Aimed && json.Unmarshal(m.Data, &meta) == nil && !meta.Deleted &&
		m.Subject == c.names.blobMeta(meta.Name)
	return meta, ok
}

// putBlob stores data under its digest, or finds it there.
func (c *Cell) putBlob(ctx context.Context, digest [sha256.Size]byte, data []byte) error {
	return c.storeBlob(ctx, digest, int64(len(data)), bytes.NewReader(data))
}

// storeBlob stores what src holds from its start, or finds it there. Chunks go first
// and the description last, so a reader never sees half a blob. An attempt that fails
// leaves chunks behind, under a name that nobody knows, for the collector.
func (c *Cell) storeBlob(ctx context.Context, digest [sha256.Size]byte, size int64, src io.ReadSeeker) error {
	name := hex.EncodeToString(digest[:])
	w := wanted{name: name, size: size}
	for range blobTries {
		err := c.lastBlobWord(ctx, &w)
		switch {
		case err != nil || w.said:
		case w.there:
			err = promptly(ctx, func(ctx context.Context) error { return c.describeBlob(ctx, name, w.body, w.last) })
		default:
			err = promptly(ctx, func(ctx context.Context) error { return c.writeBlob(ctx, digest, size, src, w.last) })
		}
		if isConflict(err) {
			continue // described or retired meanwhile
		}
		if err != nil {
			return fmt.Errorf("put blob %s: %w", name, err)
		}
		return nil
	}
	return fmt.Errorf("put blob %s: %w", name, errBlobRace)
}

// wanted is how far a writer is with a blob.
type wanted struct {
	name string
	size int64

	looked bool
	first  uint64 // the last description when it began, 0 for none
	last   uint64 // the last description now
	there  bool   // which says that the blob is there
	said   bool   // since the writer began
	body   []byte
}

// lastBlobWord looks at the last description of a blob.
func (c *Cell) lastBlobWord(ctx context.Context, w *wanted) error {
	m, err := c.leaderLast(ctx, c.names.blobStream(), c.names.blobMeta(w.name))
	if err != nil && !errors.Is(err, errNoMessage) {
		return err
	}
	meta, ok := c.describes(m)
	w.last, w.body, w.there = m.Seq, m.Data, ok && meta.Size == uint64(w.size)
	w.said = w.there && w.looked && m.Seq > w.first
	if !w.looked {
		w.looked, w.first = true, m.Seq
	}
	return nil
}

// describeBlob writes a description behind the last one.
func (c *Cell) describeBlob(ctx context.Context, name string, body []byte, last uint64) error {
	_, err := c.publish(ctx, &nats.Msg{
		Subject: c.names.blobMeta(name), Header: nats.Header{headerGuard: {strconv.FormatUint(last, 10)}}, Data: body,
	})
	return err
}

func (c *Cell) writeBlob(ctx context.Context, digest [sha256.Size]byte, size int64, src io.ReadSeeker, last uint64) error {
	if _, err := src.Seek(0, io.SeekStart); err != nil {
		return fmt.Errorf("read it once more: %w", err)
	}
	meta := blobMeta{
		Name: hex.EncodeToString(digest[:]), Bucket: c.names.blobBucket(), NUID: rand.Text(),
		Size: uint64(size), Digest: storeDigest(digest), Options: &blobOpts{ChunkSize: blobChunk},
	}
	sum := sha256.New()
	chunks, err := c.writeChunks(ctx, c.names.blobChunks(meta.NUID), io.TeeReader(src, sum))
	if err != nil {
		return err
	}
	if [sha256.Size]byte(sum.Sum(nil)) != digest {
		return errBlobChanged
	}
	meta.Chunks, meta.ModTime = chunks, time.Now().UTC()
	body, err := json.Marshal(meta)
	if err != nil {
		return fmt.Errorf("describe it: %w", err)
	}
	return c.describeBlob(ctx, meta.Name, body, last)
}

// writeChunks writes what src holds, always some chunks ahead of their
// acknowledgements, and waits for all. It says how many there were.
func (c *Cell) writeChunks(ctx context.Context, subject string, src io.Reader) (chunks uint32, err error) {
	acks, err := c.nc.SubscribeSync(c.nc.NewInbox())
	if err != nil {
		return 0, fmt.Errorf("subscribe: %w", err)
	}
	defer func() { _ = acks.Unsubscribe() }() // the connection may be gone
	heard, asked := uint32(0), c.sending(subject)
	hear := func() error {
		ctx, done := c.answered(ctx, publishTimeout, asked)
		defer done()
		msg, err := acks.NextMsgWithContext(ctx)
		if err != nil {
			return fmt.Errorf("wait for the chunks: %w", whyEnded(ctx, err))
		}
		heard++
		_, err = parseAck(msg)
		return err
	}
	buf := make([]byte, blobChunk)
	for {
		n, err := io.ReadFull(src, buf)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) {
			return chunks, fmt.Errorf("read it: %w", err)
		}
		if err := c.nc.PublishRequest(subject, acks.Subject, buf[:n]); err != nil { // copies it
			return chunks, fmt.Errorf("send a chunk: %w", err)
		}
		if chunks++; chunks-heard >= blobWindow {
			if err := hear(); err != nil {
				return chunks, err
			}
		}
	}
	for heard < chunks {
		if err := hear(); err != nil {
			return chunks, err
		}
	}
	return chunks, nil
}
