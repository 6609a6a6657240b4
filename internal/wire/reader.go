package wire

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"math/bits"
	"sync"

	"github.com/vmihailenco/msgpack/v5"
)

// Reader reads msgpack that Check accepts, and accepts the same as the library: nil is the zero value of every type, and
// bytes can be read as text. Its results do not refer to the bytes that it reads.
type Reader struct {
	in   []byte
	at   int               // bytes read
	kept [keptTexts]string // short texts that were read before
}

// Ids, names and states are repeated within an entry and from one entry to the next. A reader keeps the last ones, each in
// a slot computed from some of its bytes, so that they take memory only once.
const (
	keptTexts = 128
	maxKept   = 64 // bytes
)

var idleReaders = sync.Pool{New: func() any { return new(Reader) }} //nolint:gochecknoglobals // texts

// text returns b as a string.
func (r *Reader) text(b []byte) string {
	if len(b) == 0 || len(b) > maxKept {
		return string(b)
	}
	h := uint64(b[0])<<16 ^ uint64(b[len(b)/2])<<8 ^ uint64(b[len(b)-1])
	if len(b) >= 8 {
		h = binary.LittleEndian.Uint64(b) ^ bits.RotateLeft64(binary.LittleEndian.Uint64(b[len(b)-8:]), 1)
	}
	const odd = 0x9e3779b97f4a7c15 // spreads small differences to the high bits
	kept := &r.kept[h*odd>>57]
	if *kept != string(b) {
		*kept = string(b)
	}
	return *kept
}

// code returns the first byte of the next value.
func (r *Reader) code() (byte, error) {
	if r.at == len(r.in) {
		return 0, errShort
	}
	r.at++
	return r.in[r.at-1], nil
}

// next is code without reading it.
func (r *Reader) next() byte {
	if r.at == len(r.in) {
		return codeNil
	}
	return r.in[r.at]
}

// take reads n bytes.
func (r *Reader) take(n int) ([]byte, error) {
	if n > len(r.in)-r.at {
		return nil, errShort
	}
	r.at += n
	return r.in[r.at-n : r.at], nil
}

// number reads an unsigned integer of 1, 2, 4 or 8 bytes.
func (r *Reader) number(width int) (uint64, error) {
	b, err := r.take(width)
	if err != nil {
		return 0, err
	}
	switch width {
	case 1:
		return uint64(b[0]), nil
	case 2:
		return uint64(binary.BigEndian.Uint16(b)), nil
	case 4:
		return uint64(binary.BigEndian.Uint32(b)), nil
	}
	return binary.BigEndian.Uint64(b), nil
}

// Int reads an integer.
func (r *Reader) Int() (int64, error) {
	code, err := r.code()
	if err != nil {
		return 0, err
	}
	switch {
	case code < codeFixedMap || code >= codeFixedMinus:
		return int64(int8(code)), nil //nolint:gosec // that is what the byte means
	case code == codeNil:
		return 0, nil
	case code < codeUint8 || code > codeInt64:
		return 0, unexpected(code, "an integer")
	case code <= codeUint64:
		n, err := r.number(1 << (code - codeUint8))
		return int64(n), err //nolint:gosec // an Uint is read in the same way
	}
	width := 1 << (code - codeInt8)
	n, err := r.number(width)
	unused := 64 - 8*width
	return int64(n<<unused) >> unused, err //nolint:gosec // it extends the sign
}

// Uint reads an unsigned integer.
func (r *Reader) Uint() (uint64, error) {
	n, err := r.Int()
	return uint64(n), err //nolint:gosec // it was converted from one
}

// Bool reads a Boolean.
func (r *Reader) Bool() (bool, error) {
	switch code, err := r.code(); {
	case err != nil:
		return false, err
	case code == codeTrue:
		return true, nil
	case code != codeFalse && code != codeNil:
		return false, unexpected(code, "a Boolean")
	}
	return false, nil
}

// Text reads a string.
func (r *Reader) Text() (string, error) {
	b, err := r.content()
	return r.text(b), err
}

// Bytes reads bytes; nil is nil.
func (r *Reader) Bytes() ([]byte, error) {
	b, err := r.content()
	if b == nil || err != nil {
		return nil, err
	}
	return append(make([]byte, 0, len(b)), b...), nil
}

// Fixed reads exactly len(to) bytes, or returns an error.
func (r *Reader) Fixed(to []byte) error {
	b, err := r.content()
	if err == nil && len(b) != len(to) {
		err = fmt.Errorf("%d bytes, want %d", len(b), len(to))
	}
	copy(to, b)
	return err
}

// content reads text or bytes without a copy; nil is nil.
func (r *Reader) content() ([]byte, error) {
	code, err := r.code()
	if err != nil {
		return nil, err
	}
	var n uint64
	switch {
	case code == codeNil:
		return nil, nil
	case code >= codeFixedText && code < codeNil:
		n = uint64(code & maxFixedText)
	case code >= codeText8 && code <= codeText32:
		n, err = r.number(1 << (code - codeText8))
	case code >= codeBin8 && code <= codeBin32:
		n, err = r.number(1 << (code - codeBin8))
	default:
		return nil, unexpected(code, "text or bytes")
	}
	if err != nil {
		return nil, err
	}
	return r.take(int(n)) //nolint:gosec // at most 32 bits
}

// Array reads the beginning of an array, and returns how many values follow; -1 for nil.
func (r *Reader) Array() (int, error) {
	return r.container(isArray, codeFixedArray, maxFixedArray, "an array")
}

// Map reads the beginning of a map, and returns how many keys follow, each before its value; -1 for nil.
func (r *Reader) Map() (int, error) { return r.container(isMap, codeFixedMap, maxFixedMap, "a map") }

// container reads the size of an array or a map. The size of a small one is in its first byte, after fixed.
func (r *Reader) container(is func(byte) bool, fixed, small byte, want string) (int, error) {
	code, err := r.code()
	switch {
	case err != nil:
		return 0, err
	case code == codeNil:
		return -1, nil
	case !is(code):
		return 0, unexpected(code, want)
	case code <= fixed+small:
		return int(code & small), nil
	}
	n, err := r.number(2 << (code & 1))    // the codes of both kinds begin with an even one
	return int(min(n, math.MaxInt32)), err //nolint:gosec // it fits
}

// Skip passes over a value.
func (r *Reader) Skip() error {
	c := checker{in: r.in, at: r.at, values: len(r.in)}
	err := c.one(snapshotDepth)
	r.at = c.at
	return err
}

// library lets the library decode the next value.
func (r *Reader) library(decode func(*msgpack.Decoder) error) error {
	from := r.at
	if err := r.Skip(); err != nil {
		return err
	}
	dec := msgpack.GetDecoder()
	defer msgpack.PutDecoder(dec)
	dec.Reset(bytes.NewReader(r.in[from:r.at]))
	return decode(dec)
}

func unexpected(code byte, want string) error {
	return fmt.Errorf("%#x does not begin a value that is %s", code, want)
}

func isArray(code byte) bool {
	return code >= codeFixedArray && code < codeFixedText || code == codeArray16 || code == codeArray32
}
