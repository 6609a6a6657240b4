package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/nats-io/nats.go"
)

// Subjects of the API about whole streams; the name of a stream follows.
const (
	StreamSnapshot = "$JS.API.STREAM.SNAPSHOT."
	StreamRestore  = "$JS.API.STREAM.RESTORE."
	StreamDelete   = "$JS.API.STREAM.DELETE."
	consumerList   = "$JS.API.CONSUMER.LIST."
)

const (
	copyChunk    = 128 << 10        // part of a stream's archive that fits one message
	copyTimeout  = 30 * time.Second // the longest wait for the next chunk
	chunkTimeout = 10 * time.Second // until a chunk is taken; a server abandons a restore after 5 s without one

	// restoreTimeout bounds how long a server takes to start a stream whose archive it has received.
	restoreTimeout = 10 * time.Minute
)

// Copied describes the stream of an archive, as the server reports it.
type Copied struct {
	Config json.RawMessage `json:"config"`
	State  json.RawMessage `json:"state"`
}

// CopyOut writes the archive of a stream to w: the messages that the stream has at the time of the call,
// with their sequences and times, but not its consumers. A message that is deleted during the copy may or
// may not be in it.
func (c *Conn) CopyOut(ctx context.Context, stream string, w io.Writer) (about Copied, err error) {
	to := c.nc.NewInbox()
	sub, err := c.nc.SubscribeSync(to)
	if err != nil {
		return about, fmt.Errorf("copy %s: %w", stream, err)
	}
	defer func() { _ = sub.Unsubscribe() }() // the connection may be gone
	if err := sub.SetPendingLimits(-1, -1); err != nil {
		return about, fmt.Errorf("copy %s: %w", stream, err)
	}
	query := fmt.Appendf(nil, `{"deliver_subject":%s,"no_consumers":true,"chunk_size":%d}`, quoted(to), copyChunk)
	data, err := c.askWithin(ctx, copyTimeout, StreamSnapshot+stream, query)
	if err == nil {
		err = json.Unmarshal(data, &about)
	}
	for err == nil {
		var end bool
		if end, err = nextChunk(ctx, sub, w); end {
			return about, nil
		}
	}
	return about, fmt.Errorf("copy %s: %w", stream, err)
}

// nextChunk writes the next chunk, or reports the end.
func nextChunk(ctx context.Context, sub *nats.Subscription, w io.Writer) (end bool, err error) {
	within, cancel := context.WithTimeout(ctx, copyTimeout)
	defer cancel()
	msg, err := sub.NextMsgWithContext(within)
	switch {
	case err != nil && ctx.Err() == nil && within.Err() != nil:
		return false, fmt.Errorf("the server sent nothing for %v", copyTimeout)
	case err != nil:
		return false, err //nolint:wrapcheck // the caller names the stream
	case len(msg.Data) > 0:
		if msg.Reply != "" { // the last chunk needs no answer
			err = msg.Respond(nil)
		}
		if err == nil {
			_, err = w.Write(msg.Data)
		}
		return false, err //nolint:wrapcheck // likewise
	}
	if status := msg.Header.Get("Status"); status != "" && status != "204" {
		return false, fmt.Errorf("the server ended the copy: %s %s", status, msg.Header.Get("Description"))
	}
	return true, nil
}

// CopyIn creates a stream from an archive. The stream must not exist. If it returns
// context.DeadlineExceeded although ctx has not ended, a request or its answer was lost, as may happen
// between accounts in a cluster that has just started: delete the stream and try again.
func (c *Conn) CopyIn(ctx context.Context, stream string, about Copied, r io.Reader) error {
	if err := c.copyIn(ctx, stream, about, r); err != nil {
		return fmt.Errorf("restore %s: %w", stream, err)
	}
	return nil
}

func (c *Conn) copyIn(ctx context.Context, stream string, about Copied, r io.Reader) error {
	query, err := json.Marshal(about)
	if err != nil {
		return fmt.Errorf("encode: %w", err)
	}
	data, err := c.askWithin(ctx, chunkTimeout, StreamRestore+stream, query)
	if err != nil {
		return err
	}
	var to struct {
		Subject string `json:"deliver_subject"`
	}
	if err := json.Unmarshal(data, &to); err != nil {
		return fmt.Errorf("answer of the API: %w", err)
	}
	for chunk := make([]byte, copyChunk); ; {
		n, err := io.ReadFull(r, chunk)
		ended := errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
		if err != nil && !ended {
			return err //nolint:wrapcheck // an error of the archive
		}
		if n > 0 {
			if err := c.give(ctx, chunkTimeout, to.Subject, chunk[:n]); err != nil {
				return err
			}
		}
		if ended {
			return c.give(ctx, restoreTimeout, to.Subject, nil)
		}
	}
}

// give sends a chunk. Between accounts, the servers of a cluster may learn where the restore listens only
// after it has answered.
func (c *Conn) give(ctx context.Context, timeout time.Duration, subject string, chunk []byte) (err error) {
	unheard := Patiently(ctx, func(ctx context.Context) error {
		if _, err = c.askWithin(ctx, timeout, subject, chunk); IsNoResponders(err) {
			return err
		}
		return nil
	})
	if unheard != nil {
		return unheard
	}
	return err
}

// DeleteStream deletes a stream and all of its messages.
func (c *Conn) DeleteStream(ctx context.Context, stream string) error {
	_, err := c.askWithin(ctx, CreateTimeout, StreamDelete+stream, nil)
	return err
}

// DescribeStream returns the configuration of a stream, as JSON.
func (c *Conn) DescribeStream(ctx context.Context, stream string) (json.RawMessage, error) {
	var info struct {
		Config json.RawMessage `json:"config"`
	}
	err := c.describe(ctx, stream, StreamInfo+stream, nil, &info)
	return info.Config, err
}

// Consumers returns the configurations of the durable consumers of a stream, as JSON.
func (c *Conn) Consumers(ctx context.Context, stream string) ([]json.RawMessage, error) {
	all := []json.RawMessage{}
	for {
		var page struct {
			Total     int `json:"total"`
			Consumers []struct {
				Config json.RawMessage `json:"config"`
			} `json:"consumers"`
		}
		err := c.describe(ctx, stream, consumerList+stream, fmt.Appendf(nil, `{"offset":%d}`, len(all)), &page)
		if err != nil {
			return nil, err
		}
		for _, info := range page.Consumers {
			all = append(all, info.Config)
		}
		if len(page.Consumers) == 0 || len(all) >= page.Total {
			return all, nil
		}
	}
}
