package sealing

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/events/seal"
	"github.com/turnlog/turnlog/jetstream/internal/layout"
)

// Purposes of sealed bytes. Bytes sealed for one purpose do not open for another.
const (
	Command  = "command"
	Task     = "task"
	Snapshot = "snapshot"
	Live     = "live"
)

func (k *Keys) purpose(s content.SessionID, purpose string) []byte {
	return []byte("turnlog-seal/v1\n" + purpose + "\n" + k.names.NS + "\n" + string(s))
}

// Close seals the data of a message if its session is sealed, and adds the header that says so.
func (k *Keys) Close(ctx context.Context, s content.SessionID, purpose string, h nats.Header, data []byte) ([]byte, error) {
	key, err := k.Of(ctx, s)
	if err != nil || key == nil {
		return data, err
	}
	h.Del(layout.HeaderBaggage) // it would not be sealed
	h[layout.HeaderSealed] = []string{key.ID().String()}
	return key.Box(data, k.purpose(s, purpose)), nil
}

// Open reverses Close. It returns an *events.SealedError if the key is not available, and seal.ErrNotOpened
// if the data does not open.
func (k *Keys) Open(ctx context.Context, s content.SessionID, purpose string, h nats.Header, data []byte) ([]byte, error) {
	return k.OpenWith(ctx, s, purpose, h.Get(layout.HeaderSealed), data)
}

// OpenWith is Open with the value of the header.
func (k *Keys) OpenWith(ctx context.Context, s content.SessionID, purpose, sealed string, data []byte) ([]byte, error) {
	if sealed == "" {
		return data, nil
	}
	var id seal.ID
	if n, err := hex.Decode(id[:], []byte(sealed[:min(len(sealed), 2*len(id))])); err != nil || n != len(id) {
		return nil, fmt.Errorf("%w: the header %s is %q", seal.ErrNotOpened, layout.HeaderSealed, content.Clip(sealed, 80))
	}
	key, err := k.With(ctx, s, id)
	if errors.Is(err, seal.ErrNotOpened) {
		return nil, err
	}
	if err != nil || key == nil {
		return nil, &events.SealedError{Session: s, ID: id, Why: err}
	}
	return key.Unbox(data, k.purpose(s, purpose))
}
