package wire_test

import (
	"runtime"
	"strings"
	"testing"

	"github.com/vmihailenco/msgpack/v5"

	"github.com/turnlog/turnlog/internal/wire"
)

// TestALargeValueIsCopiedOnce: into what Encode returns.
func TestALargeValueIsCopiedOnce(t *testing.T) { //nolint:paralleltest // it measures allocations
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
