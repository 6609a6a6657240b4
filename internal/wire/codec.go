package wire

import (
	"bytes"

	"github.com/vmihailenco/msgpack/v5"
)

// firstBuffer is the capacity that most encoded values fit in.
const firstBuffer = 512

// Encode returns what write writes, in the compact forms. It returns ErrMalformed for a
// value that Decode would refuse.
func Encode(p Payload, write func(*msgpack.Encoder) error) ([]byte, error) {
	b := bytes.NewBuffer(make([]byte, 0, firstBuffer))
	enc := msgpack.GetEncoder()
	defer msgpack.PutEncoder(enc)
	enc.Reset(b)
	enc.UseCompactInts(true)
	enc.UseCompactFloats(true)
	if err := write(enc); err != nil {
		return nil, err
	}
	return b.Bytes(), Check(b.Bytes(), p)
}

// Marshal encodes v.
func Marshal(v any, p Payload) ([]byte, error) {
	return Encode(p, func(e *msgpack.Encoder) error { return Value(e, v) })
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
