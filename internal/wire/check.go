// Package wire protects MessagePack decoders from untrusted bytes, and reads and writes the
// most frequent structs faster than they do.
//
// The one idea: a msgpack header is a promise of what follows, and a decoder
// that trusts it allocates four billion elements because of five bytes. [Check] walks the
// bytes first, without allocating, and accepts only those whose promises are kept and whose
// nesting is bounded; accepted bytes are safe for any decoder.
//
// [Record] is for the few structs that long journals consist of. It reads and writes
// exactly what the library does by their tags, among what the library reads and writes
// in [Decode] and [Encode]; the tests hold each struct that has its fields named
// against its tags.
//
// [Unset] is for tests that want to know that a sample shows every field.
package wire

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
)

// Depths that payloads may nest. Entries may nest deeper than commands, so that
// whatever a command brings can be recorded.
const (
	CommandDepth = 64
	EntryDepth   = 128
)

// ErrMalformed is returned by Check for bytes that no encoder of this module
// writes. Do not decode them.
var ErrMalformed = errors.New("malformed msgpack")

// elementsFree is how many array elements any payload may hold; beyond it they
// have to be four bytes long on average. Decoded elements are much larger than
// the shortest encoded ones.
const elementsFree = 1 << 16

// Check reports whether b is exactly one msgpack value that nests at most depth
// arrays and maps, without extension types, and whose lengths are true.
func Check(b []byte, depth int) error {
	_, rest, err := cut(b, depth)
	if err == nil && len(rest) > 0 {
		err = fmt.Errorf("%w: %d bytes follow its end", ErrMalformed, len(rest))
	}
	return err
}

// cut takes the value that b begins with off what follows it.
func cut(b []byte, depth int) (value, rest []byte, err error) {
	c := checker{in: b, elements: elementsFree + len(b)/4}
	if err := c.one(depth); err != nil {
		return nil, nil, fmt.Errorf("%w: at byte %d of %d: %w", ErrMalformed, c.at, len(b), err)
	}
	return b[:c.at:c.at], b[c.at:], nil
}

type checker struct {
	in       []byte
	at       int // how much of it is checked
	elements int // that may still come
}

var (
	errShort   = errors.New("the bytes end early")
	errForeign = errors.New("a type that is never written here")
	errTooMany = errors.New("too many array elements for so few bytes")
	errTooDeep = errors.New("arrays and maps nest too deeply")
	errMore    = errors.New("bytes follow its end")
)

// one passes over one value, with all that is in it.
func (c *checker) one(depth int) error {
	var few [16]int
	open := few[:0] // values still to come in each container around the innermost
	for left := 1; ; {
		for left == 0 {
			if len(open) == 0 {
				return nil
			}
			left, open = open[len(open)-1], open[:len(open)-1]
		}
		left--
		if c.short() {
			continue
		}
		children, err := c.value()
		switch {
		case err != nil:
			return err
		case children > 0 && len(open) == depth:
			return errTooDeep
		case children > 0:
			open = append(open, left)
			left = children
		}
	}
}

// short passes over a value of the kinds that most are of, and reports whether it was
// one.
func (c *checker) short() bool {
	if c.at == len(c.in) {
		return false
	}
	code, n := c.in[c.at], 1
	if code&^maxFixedText == codeFixedText {
		n += int(code & maxFixedText)
	} else if code >= codeFixedMap && code < codeFixedMinus {
		return false
	}
	if n > len(c.in)-c.at {
		return false
	}
	c.at += n
	return true
}

// value passes over one header with its scalar content, and returns how many values
// it announces.
func (c *checker) value() (children int, err error) {
	if c.at == len(c.in) {
		return 0, errShort
	}
	code := c.in[c.at]
	c.at++
	switch {
	case code < codeFixedMap, code >= codeFixedMinus:
		return 0, nil
	case code < codeFixedArray:
		return c.mapOf(int(code & maxFixedMap))
	case code < codeFixedText:
		return c.arrayOf(int(code & maxFixedArray))
	case code < codeNil:
		return 0, c.pass(int(code & maxFixedText))
	}
	switch code {
	case codeNil, codeFalse, codeTrue:
		return 0, nil
	case codeUint8, codeUint16, codeUint32, codeUint64:
		return 0, c.pass(1 << (code - codeUint8))
	case codeInt8, codeInt16, codeInt32, codeInt64:
		return 0, c.pass(1 << (code - codeInt8))
	case codeFloat:
		return 0, c.pass(4)
	case codeDouble:
		return 0, c.pass(8)
	case codeText8, codeText16, codeText32:
		return 0, c.bytes(1 << (code - codeText8))
	case codeBin8, codeBin16, codeBin32:
		return 0, c.bytes(1 << (code - codeBin8))
	case codeArray16, codeArray32:
		n, err := c.length(2 << (code - codeArray16))
		if err != nil {
			return 0, err
		}
		return c.arrayOf(n)
	case codeMap16, codeMap32:
		n, err := c.length(2 << (code - codeMap16))
		if err != nil {
			return 0, err
		}
		return c.mapOf(n)
	}
	return 0, errForeign
}

func (c *checker) arrayOf(n int) (int, error) {
	if n > len(c.in)-c.at {
		return 0, errShort
	}
	if c.elements -= n; c.elements < 0 {
		return 0, errTooMany
	}
	return n, nil
}

func (c *checker) mapOf(n int) (int, error) {
	if n > (len(c.in)-c.at)/2 {
		return 0, errShort
	}
	return 2 * n, nil
}

func (c *checker) bytes(width int) error {
	n, err := c.length(width)
	if err != nil {
		return err
	}
	return c.pass(n)
}

func (c *checker) length(width int) (int, error) {
	b := c.in[c.at:]
	if err := c.pass(width); err != nil {
		return 0, err
	}
	switch width {
	case 1:
		return int(b[0]), nil
	case 2:
		return int(binary.BigEndian.Uint16(b)), nil
	}
	if n := binary.BigEndian.Uint32(b); n <= math.MaxInt32 {
		return int(n), nil
	}
	return 0, errShort
}

func (c *checker) pass(n int) error {
	if n > len(c.in)-c.at {
		return errShort
	}
	c.at += n
	return nil
}
