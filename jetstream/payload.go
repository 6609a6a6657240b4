package jetstream

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"time"

	"github.com/nats-io/nats.go"
)

// maxInline is the largest payload that travels in a message. What is larger goes
// to the object store, so that reading many messages stays cheap and a payload
// may be larger than the server's largest message.
const maxInline = 64 << 10

// headerBlob names the SHA-256 of a payload that is in the object store. The
// message itself is empty then.
const headerBlob = "Turnlog-Blob"

// pack returns the data of a message that carries data, and the headers that it
// needs, nil for none. A large payload is in the object store when pack returns.
func (c *Cell) pack(ctx context.Context, data []byte) (nats.Header, []byte, error) {
	if len(data) <= maxInline {
		return nil, data, nil
	}
	digest := sha256.Sum256(data)
	if err := c.putBlob(ctx, digest, data); err != nil {
		return nil, nil, err
	}
	return nats.Header{headerBlob: []string{hex.EncodeToString(digest[:])}}, nil, nil
}

// unpack returns what pack was given: data itself, or the blob that the headers
// name. It returns ErrBlobMissing if the blob is not there or has another digest.
func (c *Cell) unpack(ctx context.Context, h nats.Header, data []byte) ([]byte, error) {
	return c.unpackWithin(ctx, h, data, 0)
}

// unpackWithin is unpack for what strangers send: it reads no more than the limit.
func (c *Cell) unpackWithin(ctx context.Context, h nats.Header, data []byte, limit int) ([]byte, error) {
	ref := h.Get(headerBlob)
	if ref == "" {
		return data, nil
	}
	return c.getBlob(ctx, ref, limit)
}

// withHeader sets a header, which may be the first.
func withHeader(h nats.Header, name string, values ...string) nats.Header {
	if h == nil {
		h = nats.Header{}
	}
	h[name] = values
	return h
}

// publishTimeout is how long a publish waits for its acknowledgement. A leader
// that was just elected answers within it; a message that met none is gone.
const publishTimeout = 2 * time.Second

// publish sends a message to a stream and returns its sequence. One request, no
// second attempt: whether another one is harmless is for the caller to know. See
// isUnknown for what an error says.
func (c *Cell) publish(ctx context.Context, msg *nats.Msg) (uint64, error) {
	ctx, done := c.answered(ctx, publishTimeout, c.sending(msg.Subject))
	defer done()
	answer, err := c.nc.RequestMsgWithContext(ctx, msg)
	if err != nil {
		return 0, whyEnded(ctx, err)
	}
	return parseAck(answer)
}
