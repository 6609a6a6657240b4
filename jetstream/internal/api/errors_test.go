package api

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// code is a negative answer of the server.
func code(class int, code jetstream.ErrorCode, text string) error {
	return fmt.Errorf("wrapped: %w", &jetstream.APIError{Code: class, ErrorCode: code, Description: text})
}

func TestErrorsAreClassified(t *testing.T) {
	t.Parallel()
	is := map[string]func(error) bool{
		"conflict": IsConflict, "already there": IsAlreadyThere, "not found": IsNotFound, "no stream": IsNoStream,
		"no consumer": IsNoConsumer, "name in use": IsNameInUse, "no jetstream": IsNoJetStream,
		"full": IsFull, "no responders": IsNoResponders, "transient": IsTransient, "unknown": IsUnknown,
	}
	for _, tt := range []struct {
		err  error
		want []string
	}{
		{nil, nil},
		{code(400, 10071, "wrong last sequence: 4"), []string{"conflict"}},
		{code(400, 10164, "wrong last sequence"), []string{"conflict"}},
		{code(503, 10077, "maximum messages per subject exceeded"), []string{"already there"}},
		{code(503, 10077, "no space left on device"), []string{"unknown"}},
		{code(503, 10077, "maximum bytes exceeded"), []string{"full"}},
		{code(503, 10077, "maximum messages exceeded"), []string{"full"}},
		{code(503, 10023, "insufficient resources"), []string{"full"}},
		{code(400, 10002, "resource limits exceeded for account"), []string{"full"}},
		{code(404, 10037, "no message found"), []string{"not found"}},
		{ErrNoMessage, []string{"not found", "unknown"}},
		{code(404, 10059, "stream not found"), []string{"no stream"}},
		{jetstream.ErrStreamNotFound, []string{"no stream"}},
		{code(404, 10014, "consumer not found"), []string{"no consumer"}},
		{jetstream.ErrStreamNameAlreadyInUse, []string{"name in use"}},
		{code(400, 10148, "consumer already exists"), []string{"name in use"}},
		{code(503, 10039, "JetStream not enabled for account"), []string{"no jetstream", "unknown"}},
		{jetstream.ErrJetStreamNotEnabled, []string{"no jetstream", "unknown"}},
		{code(503, 10008, "JetStream system temporarily unavailable"), []string{"transient", "unknown"}},
		{code(500, 10009, "can not handle request"), []string{"transient", "unknown"}},
		{code(503, 10163, "temporarily unavailable"), []string{"transient"}},
		{code(400, 10005, "no suitable peers for placement, peer offline"), []string{"transient"}},
		{code(400, 10005, "no suitable peers for placement, insufficient storage"), nil},
		{code(400, 10054, "message size exceeds maximum allowed"), nil},
		{nats.ErrNoResponders, []string{"no responders", "transient"}},
		{nats.ErrTimeout, []string{"transient", "unknown"}},
		{context.DeadlineExceeded, []string{"transient", "unknown"}},
		{context.Canceled, []string{"unknown"}},
		{nats.ErrDisconnected, []string{"transient", "unknown"}},
		{nats.ErrReconnectBufExceeded, []string{"transient"}},
		{nats.ErrConnectionClosed, []string{"unknown"}},
		{nats.ErrMaxPayload, nil},
		{errTorn, []string{"transient", "unknown"}},
		{errors.New("anything else"), []string{"unknown"}},
	} {
		want := map[string]bool{}
		for _, w := range tt.want {
			want[w] = true
		}
		for name, f := range is {
			if got := f(tt.err); got != want[name] {
				t.Errorf("%v: %s = %v, want %v", tt.err, name, got, want[name])
			}
		}
	}
}
