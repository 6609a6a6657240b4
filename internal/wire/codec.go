package wire

import (
	"bytes"

	"github.com/vmihailenco/msgpack/v5"
)

// Encode returns what write writes, in the compact forms. It returns ErrMalformed for a
// value that Decode would refuse. In a snapshot, empty slices are nil: a state that was folded from decoded
// entries has the bytes of one that was folded live.
func Encode(p Payload, write func(*Writer) error) ([]byte, error) {
	w := idle.Get().(*Writer) //nolint:forcetypeassert // it has no others
	defer w.release()
	w.bare = p == Snapshot
	if err := write(w); err != nil {
		return nil, err
	}
	b := w.written()
	return b, Check(b, p)
}

// Marshal encodes v.
func Marshal(v any, p Payload) ([]byte, error) {
	return Encode(p, func(w *Writer) error { return w.Value(v) })
}

// Decode calls read with a decoder of b, if Check accepts b.
func Decode(b []byte, p Payload, read func(*msgpack.Decoder) error) error {
	if err := Check(b, p); err != nil {
		return err
	}
	dec := msgpack.GetDecoder()
	defer msgpack.PutDecoder(dec)
	dec.Reset(bytes.NewReader(b))
	return read(dec)
}

// Unmarshal decodes b into v, if Check accepts b.
func Unmarshal(b []byte, p Payload, v any) error {
	return Decode(b, p, func(d *msgpack.Decoder) error { return d.Decode(v) })
}
