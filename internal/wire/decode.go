package wire

import (
	"fmt"
	"io"
	"math"

	"github.com/vmihailenco/msgpack/v5"
)

// Decode has read read b, which has to be what Check lets through.
func Decode(b []byte, depth int, read func(*msgpack.Decoder) error) error {
	if err := Check(b, depth); err != nil {
		return err
	}
	return decode(b, read)
}

// Unmarshal reads b into v, which has to be what Check lets through.
func Unmarshal(b []byte, depth int, v any) error {
	return Decode(b, depth, func(d *msgpack.Decoder) error { return d.Decode(v) })
}

// DecodeFirst has read read the value that b begins with, and returns what follows it.
func DecodeFirst(b []byte, depth int, read func(*msgpack.Decoder) error) (rest []byte, err error) {
	value, rest, err := cut(b, depth)
	if err != nil {
		return nil, err
	}
	return rest, decode(value, read)
}

func decode(b []byte, read func(*msgpack.Decoder) error) error {
	dec := msgpack.GetDecoder()
	defer msgpack.PutDecoder(dec)
	dec.Reset(&source{Record{reading: true, in: b, depth: math.MaxInt, elements: math.MaxInt}}) // it is checked
	return read(dec)
}

// Read reads a struct from a decoder of Decode. From another one it reads nothing and
// returns false.
func Read[T any](d *msgpack.Decoder, v *T, fields func(*T, *Record)) (bool, error) {
	src, ok := d.Buffered().(*source)
	if !ok {
		return false, nil
	}
	readStruct(&src.record, v, fields)
	return true, src.record.err
}

// ReadList is Read of a list of structs.
func ReadList[T any](d *msgpack.Decoder, v *[]T, fields func(*T, *Record)) (bool, error) {
	src, ok := d.Buffered().(*source)
	if !ok {
		return false, nil
	}
	readList(&src.record, v, fields)
	return true, src.record.err
}

// DecodeList reads a list that is all of b, and checks it meanwhile. It is for lists so
// long that what each of them takes counts: elements share what they are kept in.
func DecodeList[T any](b []byte, depth int, fields func(*T, *Record)) ([]T, error) {
	r := Record{reading: true, in: b, depth: depth, elements: elementsFree + len(b)/4, shared: new(shared)}
	var list []T
	readList(&r, &list, fields)
	if r.err == nil && r.at < len(r.in) {
		r.err = errMore
	}
	if r.err != nil {
		return nil, fmt.Errorf("%w: %w", ErrMalformed, r.err)
	}
	return list, nil
}

// source is what a decoder of Decode reads, as a Record can as well.
type source struct {
	record Record
}

// Read reads as much as there is.
func (s *source) Read(p []byte) (int, error) {
	r := &s.record
	if r.at == len(r.in) && len(p) > 0 {
		return 0, io.EOF
	}
	n := copy(p, r.in[r.at:])
	r.at += n
	return n, nil
}

// ReadByte reads one byte.
func (s *source) ReadByte() (byte, error) {
	r := &s.record
	if r.at == len(r.in) {
		return 0, io.EOF
	}
	r.at++
	return r.in[r.at-1], nil
}

// UnreadByte takes the last ReadByte back.
func (s *source) UnreadByte() error {
	s.record.at--
	return nil
}
