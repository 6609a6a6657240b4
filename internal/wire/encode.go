package wire

import (
	"slices"
	"sync"

	"github.com/vmihailenco/msgpack/v5"
)

// sinks are reused: what is encoded is small, and there is a lot of it.
//
//nolint:gochecknoglobals // a pool is for the whole process
var sinks = sync.Pool{New: func() any { return new(sink) }}

// keptSink is the largest sink that is reused.
const keptSink = 64 << 10

// sink is what an encoder of Encode writes to, always in the compact forms, so that a
// Record can write for it.
type sink struct {
	record Record
}

// Write appends p.
func (s *sink) Write(p []byte) (int, error) {
	s.record.out = append(s.record.out, p...)
	return len(p), nil
}

// WriteByte appends c.
func (s *sink) WriteByte(c byte) error {
	s.record.out = append(s.record.out, c)
	return nil
}

// Encode returns what write writes, in the compact forms, as bytes that Check lets
// through.
func Encode(depth int, write func(*msgpack.Encoder) error) ([]byte, error) {
	s := sinks.Get().(*sink) //nolint:forcetypeassert // New makes no other
	s.record.out = s.record.out[:0]
	enc := msgpack.GetEncoder()
	defer msgpack.PutEncoder(enc)
	enc.Reset(s)
	enc.UseCompactInts(true)
	enc.UseCompactFloats(true)
	err := write(enc)
	if err == nil {
		err = Check(s.record.out, depth)
	}
	out := s.record.out
	if cap(out) <= keptSink { // a larger one is handed over, not copied
		out = slices.Clone(out)
		sinks.Put(s)
	}
	if err != nil {
		return nil, err
	}
	return out, nil
}

// Write writes a struct to an encoder of Encode. To another one it writes nothing and
// returns false.
func Write[T any](e *msgpack.Encoder, v *T, fields func(*T, *Record)) bool {
	s, ok := e.Writer().(*sink)
	if !ok {
		return false
	}
	writeStruct(&s.record, v, fields)
	return true
}

// WriteList is Write of a list of structs.
func WriteList[T any](e *msgpack.Encoder, list []T, fields func(*T, *Record)) bool {
	s, ok := e.Writer().(*sink)
	if !ok {
		return false
	}
	writeList(&s.record, list, fields)
	return true
}

// AppendList appends a list to b as DecodeList reads it.
func AppendList[T any](b []byte, list []T, fields func(*T, *Record)) []byte {
	r := Record{out: b}
	r.putListLen(len(list), list == nil)
	for i := range list {
		if cap(r.out)-len(r.out) < len(r.out)/8 {
			r.out = slices.Grow(r.out, len(r.out)) // a list that is long is long by far
		}
		writeStruct(&r, &list[i], fields)
	}
	return r.out
}
