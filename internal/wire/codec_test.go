package wire_test

import (
	"errors"
	"runtime"
	"strings"
	"testing"

	"github.com/vmihailenco/msgpack/v5"

	"github.com/turnlog/turnlog/internal/wire"
)

func TestEncodeCopiesALargeValueOnce(t *testing.T) { //nolint:paralleltest // it measures allocations
	text := strings.Repeat("x", 20<<20)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	b, err := wire.Encode(1, func(e *msgpack.Encoder) error { return e.EncodeString(text) })
	runtime.ReadMemStats(&after)
	if err != nil || len(b) < len(text) {
		t.Fatalf("Encode = %d bytes, %v", len(b), err)
	}
	if n := after.TotalAlloc - before.TotalAlloc; n > uint64(len(text))*3/2 {
		t.Errorf("%d bytes were allocated for %d", n, len(text))
	}
}

func TestEncodeChecksWhatItWrites(t *testing.T) {
	t.Parallel()
	deep := [][]int{{1}}
	if _, err := wire.Marshal(deep, 1); !errors.Is(err, wire.ErrMalformed) {
		t.Errorf("Marshal of 2 levels, at most 1 = %v, want ErrMalformed", err)
	}
	var got [][]int
	if b, err := wire.Marshal(deep, 2); err != nil || wire.Unmarshal(b, 2, &got) != nil || len(got) != 1 {
		t.Errorf("Marshal and Unmarshal = %v, %v", got, err)
	}
	if err := wire.Unmarshal([]byte{0x91, 0x91, 0x01}, 1, &got); !errors.Is(err, wire.ErrMalformed) {
		t.Errorf("Unmarshal of 2 levels, at most 1 = %v, want ErrMalformed", err)
	}
	if _, err := wire.Marshal(func() {}, 1); err == nil || errors.Is(err, wire.ErrMalformed) {
		t.Errorf("Marshal of a function = %v, want the encoder's error", err)
	}
}
