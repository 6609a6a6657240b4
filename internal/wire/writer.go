package wire

import (
	"bytes"
	"encoding/binary"
	"math"
	"sync"

	"github.com/vmihailenco/msgpack/v5"
)

// Writer writes msgpack in the compact forms, with the bytes that the library writes. It appends to a buffer,
// while the library calls an interface for every few bytes.
type Writer struct {
	b       []byte
	bare    bool             // empty slices are written as nil
	library *msgpack.Encoder // writes to the Writer; nil until it is needed
}

// maxIdle is the largest buffer that is kept for later values.
const maxIdle = 64 << 10

var idle = sync.Pool{New: func() any { return new(Writer) }} //nolint:gochecknoglobals // buffers

// written returns the written bytes. A small buffer is copied and kept; a large one is returned itself.
func (w *Writer) written() []byte {
	if cap(w.b) <= maxIdle {
		return bytes.Clone(w.b)
	}
	b := w.b
	w.b = nil
	return b
}

func (w *Writer) release() {
	if w.library != nil {
		msgpack.PutEncoder(w.library)
	}
	w.b, w.library, w.bare = w.b[:0], nil, false
	idle.Put(w)
}

// Library returns an encoder of the library that writes to w.
func (w *Writer) Library() *msgpack.Encoder {
	if w.library == nil {
		w.library = msgpack.GetEncoder()
		w.library.Reset(w)
		w.library.UseCompactInts(true)
		w.library.UseCompactFloats(true)
	}
	return w.library
}

// Write appends bytes, for the library.
func (w *Writer) Write(b []byte) (int, error) {
	w.b = append(w.b, b...)
	return len(b), nil
}

// WriteByte appends a byte, for the library.
func (w *Writer) WriteByte(b byte) error {
	w.b = append(w.b, b)
	return nil
}

// Nil writes nil.
func (w *Writer) Nil() { w.b = append(w.b, codeNil) }

// Bool writes a Boolean.
func (w *Writer) Bool(v bool) {
	if v {
		w.b = append(w.b, codeTrue)
	} else {
		w.b = append(w.b, codeFalse)
	}
}

// Uint writes an unsigned integer.
func (w *Writer) Uint(n uint64) {
	switch {
	case n <= math.MaxInt8:
		w.b = append(w.b, byte(n))
	case n <= math.MaxUint8:
		w.b = append(w.b, codeUint8, byte(n))
	case n <= math.MaxUint16:
		w.b = binary.BigEndian.AppendUint16(append(w.b, codeUint16), uint16(n))
	case n <= math.MaxUint32:
		w.b = binary.BigEndian.AppendUint32(append(w.b, codeUint32), uint32(n))
	default:
		w.b = binary.BigEndian.AppendUint64(append(w.b, codeUint64), n)
	}
}

// minFixed is the least integer that fits in the first byte.
const minFixed = -32

// Int writes an integer.
func (w *Writer) Int(n int64) {
	switch {
	case n >= 0:
		w.Uint(uint64(n))
	case n >= minFixed:
		w.b = append(w.b, byte(n))
	case n >= math.MinInt8:
		w.b = append(w.b, codeInt8, byte(n))
	case n >= math.MinInt16:
		w.b = binary.BigEndian.AppendUint16(append(w.b, codeInt16), uint16(n))
	case n >= math.MinInt32:
		w.b = binary.BigEndian.AppendUint32(append(w.b, codeInt32), uint32(n))
	default:
		w.b = binary.BigEndian.AppendUint64(append(w.b, codeInt64), uint64(n))
	}
}

// Text writes a string.
func (w *Writer) Text(s string) {
	if n := len(s); n <= maxFixedText {
		w.b = append(w.b, codeFixedText|byte(n))
	} else {
		w.length(n, codeText8, codeText16, codeText32)
	}
	w.b = append(w.b, s...)
}

// Bytes writes bytes; nil is nil.
func (w *Writer) Bytes(b []byte) {
	if b == nil || w.bare && len(b) == 0 {
		w.Nil()
		return
	}
	w.length(len(b), codeBin8, codeBin16, codeBin32)
	w.b = append(w.b, b...)
}

// Array begins an array of n values.
func (w *Writer) Array(n int) {
	if n <= maxFixedArray {
		w.b = append(w.b, codeFixedArray|byte(n))
	} else {
		w.length(n, 0, codeArray16, codeArray32)
	}
}

// Map begins a map of n keys and values.
func (w *Writer) Map(n int) {
	if n <= maxFixedMap {
		w.b = append(w.b, codeFixedMap|byte(n))
	} else {
		w.length(n, 0, codeMap16, codeMap32)
	}
}

// length writes a length in its shortest form. Not all types have a one-byte form.
func (w *Writer) length(n int, code8, code16, code32 byte) {
	switch {
	case n <= math.MaxUint8 && code8 != 0:
		w.b = append(w.b, code8, byte(n))
	case n <= math.MaxUint16:
		w.b = binary.BigEndian.AppendUint16(append(w.b, code16), uint16(n))
	default:
		w.b = binary.BigEndian.AppendUint32(append(w.b, code32), uint32(n))
	}
}
