// Package wire protects MessagePack decoders from untrusted bytes.
//
// The one idea: a msgpack header is a promise of what follows, and a decoder that trusts it
// allocates four billion elements because of five bytes. [Check] walks the bytes first,
// without allocating. It accepts only true lengths and bounded nesting, so any decoder may
// read accepted bytes. [Encode] and [Decode] check what they write and read.
//
// [Safely] runs decoders of other formats that may panic on hostile input.
package wire

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
)

// Depths that payloads may nest. Entries may nest deeper than commands, so that any command
// can be recorded.
const (
	CommandDepth = 64
	EntryDepth   = 128
)

// ErrMalformed is returned for bytes that no encoder of this module writes. Do not decode
// them.
var ErrMalformed = errors.New("malformed msgpack")

// elementsFree is how many array elements any payload may hold. More must be four bytes
// long on average, because decoded elements are much larger than short encoded ones.
const elementsFree = 1 << 16

// Check reports whether b is exactly one msgpack value that nests at most depth arrays and
// maps, without extension types, and whose lengths are true.
func Check(b []byte, depth int) error {
	c := checker{in: b, elements: elementsFree + len(b)/4}
	err := c.one(depth)
	if err == nil && c.at < len(b) {
		err = errMore
	}
	if err != nil {
		return fmt.Errorf("%w: at byte %d of %d: %w", ErrMalformed, c.at, len(b), err)
	}
	return nil
}

type checker struct {
	in       []byte
	at       int // bytes checked
	elements int // still allowed
}

var (
	errShort   = errors.New("the bytes end early")
	errForeign = errors.New("a type that no encoder of this module writes")
	errTooMany = errors.New("too many array elements for so few bytes")
	errTooDeep = errors.New("arrays and maps nest too deeply")
	errMore    = errors.New("bytes follow the value")
)

// one passes over one value and everything in it.
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

// value passes over one header and its scalar content, and returns how many values follow
// as its children.
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
	case codeFloat, codeDouble:
		return 0, c.pass(4 << (code - codeFloat))
	case codeText8, codeText16, codeText32:
		return 0, c.pass(c.length(1 << (code - codeText8)))
	case codeBin8, codeBin16, codeBin32:
		return 0, c.pass(c.length(1 << (code - codeBin8)))
	case codeArray16, codeArray32:
		return c.arrayOf(c.length(2 << (code - codeArray16)))
	case codeMap16, codeMap32:
		return c.mapOf(c.length(2 << (code - codeMap16)))
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

// length reads a length of 1, 2 or 4 bytes. It returns more than any value can have if the
// bytes end early.
func (c *checker) length(width int) int {
	b := c.in[c.at:]
	if c.pass(width) != nil {
		return math.MaxInt
	}
	switch width {
	case 1:
		return int(b[0])
	case 2:
		return int(binary.BigEndian.Uint16(b))
	}
	return int(min(binary.BigEndian.Uint32(b), math.MaxInt32))
}

func (c *checker) pass(n int) error {
	if n > len(c.in)-c.at {
		return errShort
	}
	c.at += n
	return nil
}
