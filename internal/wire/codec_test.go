package wire_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/turnlog/turnlog/internal/testing/allocated"
	"github.com/turnlog/turnlog/internal/wire"
)

func TestEncodeCopiesALargeValueOnce(t *testing.T) { //nolint:paralleltest // it measures allocations
	text := strings.Repeat("x", 20<<20)
	var b []byte
	var err error
	n := allocated.By(func() {
		b, err = wire.Encode(wire.Command, func(w *wire.Writer) error { return w.Value(text) })
	})
	if err != nil || len(b) < len(text) {
		t.Fatalf("Encode = %d bytes, %v", len(b), err)
	}
	if n > int64(len(text))*5/2 { // with the race detector, Buffer.Grow takes twice as much
		t.Errorf("%d bytes were allocated for %d", n, len(text))
	}
}

func TestEncodeChecksWhatItWrites(t *testing.T) {
	t.Parallel()
	deep := func(levels int) (v any) {
		for v = 1; levels > 0; levels-- {
			v = []any{v}
		}
		return v
	}
	if _, err := wire.Marshal(deep(65), wire.Command); !errors.Is(err, wire.ErrMalformed) {
		t.Errorf("Marshal of 65 levels, at most 64 = %v, want ErrMalformed", err)
	}
	var got []any
	b, err := wire.Marshal(deep(65), wire.Entry)
	if err != nil || wire.Unmarshal(b, wire.Entry, &got) != nil || len(got) != 1 {
		t.Errorf("Marshal and Unmarshal = %v, %v", got, err)
	}
	if err := wire.Unmarshal(b, wire.Command, &got); !errors.Is(err, wire.ErrMalformed) {
		t.Errorf("Unmarshal of 65 levels, at most 64 = %v, want ErrMalformed", err)
	}
	if _, err := wire.Marshal(func() {}, wire.Command); err == nil || errors.Is(err, wire.ErrMalformed) {
		t.Errorf("Marshal of a function = %v, want the encoder's error", err)
	}
}
