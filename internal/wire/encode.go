package wire

import (
	"bytes"
	"slices"
	"sync"

	"github.com/vmihailenco/msgpack/v5"
)

// buffers are reused: what is encoded is small, and there is a lot of it.
//
//nolint:gochecknoglobals // a pool is for the whole process
var buffers = sync.Pool{New: func() any { return new(bytes.Buffer) }}

// keptBuffer is the largest buffer that is reused.
const keptBuffer = 64 << 10

// Encode returns what write writes, in the compact forms, as bytes that Check lets
// through.
func Encode(depth int, write func(*msgpack.Encoder) error) ([]byte, error) {
	buf := buffers.Get().(*bytes.Buffer) //nolint:forcetypeassert // New makes no other
	buf.Reset()
	enc := msgpack.GetEncoder()
	defer msgpack.PutEncoder(enc)
	enc.Reset(buf)
	enc.UseCompactInts(true)
	enc.UseCompactFloats(true)
	err := write(enc)
	if err == nil {
		err = Check(buf.Bytes(), depth)
	}
	out := slices.Clone(buf.Bytes())
	if buf.Cap() <= keptBuffer {
		buffers.Put(buf)
	}
	if err != nil {
		return nil, err
	}
	return out, nil
}
