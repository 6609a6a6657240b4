// Package wire guards the decoders of bytes that anybody may have written.
//
// The one idea: a msgpack header is a promise of what follows, and a decoder
// that believes it allocates room for four billion elements on the word of five
// bytes. [Check] walks the bytes first, without allocating, and lets only those
// through whose promises are kept and whose nesting is bounded; what passes can
// be handed to any decoder.
//
// [Unset] is for tests that want to know that a sample shows every field.
package wire

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"github.com/vmihailenco/msgpack/v5/msgpcode"
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
	c := checker{rest: b, elements: elementsFree + len(b)/4}
	open := make([]int, 0, 16) // values still to come in each open container
	for {
		children, err := c.value()
		switch {
		case err != nil:
			return fmt.Errorf("%w: at byte %d of %d: %w", ErrMalformed, len(b)-len(c.rest), len(b), err)
		case children > 0 && len(open) == depth:
			return fmt.Errorf("%w: nested deeper than %d", ErrMalformed, depth)
		case children > 0:
			open = append(open, children)
			continue
		}
		for len(open) > 0 {
			open[len(open)-1]--
			if open[len(open)-1] > 0 {
				break
			}
			open = open[:len(open)-1]
		}
		if len(open) == 0 {
			break
		}
	}
	if n := len(c.rest); n > 0 {
		return fmt.Errorf("%w: %d bytes follow its end", ErrMalformed, n)
	}
	return nil
}

type checker struct {
	rest     []byte
	elements int // that may still come
}

var (
	errShort   = errors.New("the bytes end early")
	errForeign = errors.New("a type that is never written here")
	errTooMany = errors.New("too many array elements for so few bytes")
)

// value takes one header with its scalar content off the front, and returns how
// many values it announces.
func (c *checker) value() (children int, err error) {
	b, err := c.take(1)
	if err != nil {
		return 0, err
	}
	code := b[0]
	switch {
	case msgpcode.IsFixedNum(code):
		return 0, nil
	case msgpcode.IsFixedString(code):
		_, err := c.take(int(code & msgpcode.FixedStrMask))
		return 0, err
	case msgpcode.IsFixedMap(code):
		return c.mapOf(int(code & msgpcode.FixedMapMask))
	case msgpcode.IsFixedArray(code):
		return c.arrayOf(int(code & msgpcode.FixedArrayMask))
	}
	switch code {
	case msgpcode.Nil, msgpcode.False, msgpcode.True:
		return 0, nil
	case msgpcode.Uint8, msgpcode.Int8:
		_, err = c.take(1)
	case msgpcode.Uint16, msgpcode.Int16:
		_, err = c.take(2)
	case msgpcode.Uint32, msgpcode.Int32, msgpcode.Float:
		_, err = c.take(4)
	case msgpcode.Uint64, msgpcode.Int64, msgpcode.Double:
		_, err = c.take(8)
	case msgpcode.Str8, msgpcode.Bin8:
		return 0, c.bytes(1)
	case msgpcode.Str16, msgpcode.Bin16:
		return 0, c.bytes(2)
	case msgpcode.Str32, msgpcode.Bin32:
		return 0, c.bytes(4)
	case msgpcode.Array16:
		return c.container(2, c.arrayOf)
	case msgpcode.Array32:
		return c.container(4, c.arrayOf)
	case msgpcode.Map16:
		return c.container(2, c.mapOf)
	case msgpcode.Map32:
		return c.container(4, c.mapOf)
	default:
		return 0, errForeign
	}
	return 0, err
}

func (c *checker) container(width int, of func(int) (int, error)) (int, error) {
	n, err := c.length(width)
	if err != nil {
		return 0, err
	}
	return of(n)
}

func (c *checker) arrayOf(n int) (int, error) {
	if n > len(c.rest) {
		return 0, errShort
	}
	if c.elements -= n; c.elements < 0 {
		return 0, errTooMany
	}
	return n, nil
}

func (c *checker) mapOf(n int) (int, error) {
	if n > len(c.rest)/2 {
		return 0, errShort
	}
	return 2 * n, nil
}

func (c *checker) bytes(width int) error {
	n, err := c.length(width)
	if err != nil {
		return err
	}
	_, err = c.take(n)
	return err
}

func (c *checker) length(width int) (int, error) {
	b, err := c.take(width)
	if err != nil {
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

func (c *checker) take(n int) ([]byte, error) {
	if n > len(c.rest) {
		return nil, errShort
	}
	b := c.rest[:n]
	c.rest = c.rest[n:]
	return b, nil
}
