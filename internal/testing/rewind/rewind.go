// Package rewind returns a stream to an earlier state, as an old backup or a power loss does.
package rewind

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"

	"github.com/nats-io/nats.go"
)

// Backup is a stream with its messages and consumers at one time. The stream must be on disk.
type Backup struct {
	stream string
	about  about
	chunks [][]byte
}

// about describes a stream in a request to restore it.
type about struct {
	Config json.RawMessage `json:"config"`
	State  json.RawMessage `json:"state"`
}

const chunkSize = 64 << 10

// Keep makes a backup of a stream.
func Keep(ctx context.Context, nc *nats.Conn, stream string) (*Backup, error) {
	to := nc.NewInbox()
	sub, err := nc.SubscribeSync(to)
	if err != nil {
		return nil, fmt.Errorf("keep %s: %w", stream, err)
	}
	defer func() { _ = sub.Unsubscribe() }() // the connection may be gone
	b := &Backup{stream: stream}
	query := fmt.Appendf(nil, `{"deliver_subject":%q,"chunk_size":%d}`, to, chunkSize)
	answer, err := ask(ctx, nc, "$JS.API.STREAM.SNAPSHOT."+stream, query)
	if err == nil {
		err = json.Unmarshal(answer, &b.about)
	}
	if err != nil {
		return nil, fmt.Errorf("keep %s: %w", stream, err)
	}
	for {
		msg, err := sub.NextMsgWithContext(ctx)
		switch {
		case err != nil:
			return nil, fmt.Errorf("keep %s: %w", stream, err)
		case len(msg.Data) > 0:
			b.chunks = append(b.chunks, bytes.Clone(msg.Data))
			_ = msg.Respond(nil) // the last chunk wants no answer
		case msg.Header.Get("Status") == "204" || len(msg.Header) == 0:
			return b, nil
		default:
			return nil, fmt.Errorf("keep %s: %s %s", stream, msg.Header.Get("Status"), msg.Header.Get("Description"))
		}
	}
}

// Restore replaces the stream with the backup. Messages that were stored since are lost.
func (b *Backup) Restore(ctx context.Context, nc *nats.Conn) error {
	if err := b.restore(ctx, nc); err != nil {
		return fmt.Errorf("restore %s: %w", b.stream, err)
	}
	return nil
}

func (b *Backup) restore(ctx context.Context, nc *nats.Conn) error {
	if _, err := ask(ctx, nc, "$JS.API.STREAM.DELETE."+b.stream, nil); err != nil {
		return err
	}
	query, err := json.Marshal(b.about)
	if err != nil {
		return fmt.Errorf("request: %w", err)
	}
	answer, err := ask(ctx, nc, "$JS.API.STREAM.RESTORE."+b.stream, query)
	if err != nil {
		return err
	}
	var to struct {
		Subject string `json:"deliver_subject"`
	}
	if err := json.Unmarshal(answer, &to); err != nil {
		return fmt.Errorf("answer: %w", err)
	}
	for _, chunk := range append(b.chunks, nil) {
		if _, err := ask(ctx, nc, to.Subject, chunk); err != nil {
			return err
		}
	}
	return nil
}

// ask sends a request and returns the answer, unless that is an error.
func ask(ctx context.Context, nc *nats.Conn, subject string, query []byte) (json.RawMessage, error) {
	msg, err := nc.RequestWithContext(ctx, subject, query)
	if err != nil {
		return nil, err //nolint:wrapcheck // callers name the stream
	}
	var answer struct {
		Error *struct {
			Description string `json:"description"`
		} `json:"error"`
	}
	if err := json.Unmarshal(msg.Data, &answer); len(msg.Data) > 0 && err != nil {
		return nil, fmt.Errorf("answer: %w", err)
	}
	if answer.Error != nil {
		return nil, fmt.Errorf("%s: %s", subject, answer.Error.Description)
	}
	return msg.Data, nil
}
