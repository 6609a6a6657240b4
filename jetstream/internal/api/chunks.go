package api

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/nats-io/nats.go"
)

// chunkWindow is how many chunks may await their acknowledgment, so that a large blob to a distant server
// does not wait a round trip for each chunk.
const chunkWindow = 32

// PublishChunks writes the content of src to a subject, in messages of size bytes, and waits until all
// are acknowledged. It returns their number.
func (c *Conn) PublishChunks(ctx context.Context, subject string, src io.Reader, size int) (chunks uint32, err error) {
	// SubscribeSync would allocate half a megabyte.
	acks, err := c.nc.ChanSubscribe(c.nc.NewInbox(), make(chan *nats.Msg, chunkWindow))
	if err != nil {
		return 0, fmt.Errorf("subscribe: %w", err)
	}
	defer func() { _ = acks.Unsubscribe() }() // the connection may be gone
	acked, before := uint32(0), c.nc.LastError()
	await := func() error {
		ctx, done := c.awaitSince(ctx, PublishTimeout, subject, before)
		defer done()
		msg, err := acks.NextMsgWithContext(ctx)
		if err != nil {
			return fmt.Errorf("wait for the chunks: %w", endOf(ctx, err))
		}
		acked++
		_, err = parseAck(msg)
		return err
	}
	buf := make([]byte, size)
	for {
		n, err := io.ReadFull(src, buf)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) {
			return chunks, fmt.Errorf("read: %w", err)
		}
		if err := c.nc.PublishRequest(subject, acks.Subject, buf[:n]); err != nil { // copies buf
			return chunks, fmt.Errorf("send a chunk: %w", err)
		}
		if chunks++; chunks-acked < chunkWindow {
			continue
		}
		if err := await(); err != nil {
			return chunks, err
		}
	}
	for acked < chunks {
		if err := await(); err != nil {
			return chunks, err
		}
	}
	return chunks, nil
}
