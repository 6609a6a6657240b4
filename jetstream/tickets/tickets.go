// Package tickets keeps the key of a cell's tickets in a stream.
//
// The stream keeps the first message on the key's subject. So the key must be stored before users can write,
// and no reply of the server, acknowledgment or later message replaces it.
package tickets

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go"

	"github.com/turnlog/turnlog/jetstream"
	"github.com/turnlog/turnlog/jetstream/internal/api"
	"github.com/turnlog/turnlog/jetstream/internal/layout"
	"github.com/turnlog/turnlog/worker/task"
)

const (
	keySize = 32

	// keyFormat is the first byte of a stored key. It distinguishes the key from the server's replies, which
	// are JSON.
	keyFormat = 1
)

// CreateKey creates the key of the cell's tickets unless there is one. Provisioning calls it.
func CreateKey(ctx context.Context, cell *jetstream.Cell) error {
	conn, names := api.New(cell.Conn()), layout.New(cell.Namespace())
	key := make([]byte, 1+keySize)
	_, _ = rand.Read(key) // never fails
	key[0] = keyFormat
	err := api.Patiently(ctx, func(ctx context.Context) error {
		_, err := conn.Publish(ctx, &nats.Msg{Subject: names.TicketKey(), Data: key})
		return err
	})
	if err != nil && !api.IsAlreadyThere(err) {
		return fmt.Errorf("create the key of tickets: %w", conn.Explain(ctx, names.KeysStream(), err))
	}
	return nil
}

// Of returns the cell's tickets. It returns jetstream.ErrNotProvisioned if the cell has no key.
func Of(ctx context.Context, cell *jetstream.Cell) (*task.Tickets, error) {
	conn, names := api.New(cell.Conn()), layout.New(cell.Namespace())
	stream := names.KeysStream()
	m, err := conn.Last(ctx, stream, names.TicketKey())
	switch {
	case errors.Is(err, api.ErrNoMessage):
		err = fmt.Errorf("%w: the cell has no key of tickets", jetstream.ErrNotProvisioned)
	case err == nil && (m.Spoofed || len(m.Data) != 1+keySize || m.Data[0] != keyFormat):
		err = fmt.Errorf("the stored key of tickets is not valid: delete the stream %s, then provision the cell", stream)
	}
	if err != nil {
		return nil, fmt.Errorf("key of tickets: %w", err)
	}
	return task.NewTickets(m.Data[1:]), nil
}
