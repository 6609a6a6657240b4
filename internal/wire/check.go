// Package wire protects decoders from untrusted bytes.
//
// A msgpack header announces what follows. A decoder that trusts it may allocate four billion
// elements because of five bytes. So [Check] walks the bytes first, without allocating. It
// accepts only true lengths, bounded nesting, and as many values as the bytes may hold, so any
// decoder may read accepted bytes. [Encode] and [Decode] check what they write and read.
// [Memory] bounds the memory for decoding before the bytes arrive.
//
// [Safely] runs decoders of other formats that may panic on hostile input.
package wire

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
)

// Payload is a kind of payload. It determines how deep the payload may nest and how much it may hold.
type Payload int

// The kinds of payloads. Entries may nest deeper than commands, so that any command can be
// recorded, and snapshots deeper than entries.
const (
	Command  Payload = iota // commands, tasks, and values of buckets
	Entry                   // entries of journals and live events
	Snapshot                // states of sessions
)

// What payloads may hold. Arrays and maps count one by one, since most of them decode to
// structs, which are much larger than short encoded ones.
const (
	valuesFree    = 1 << 14 // array elements and maps in any payload; more must be two bytes long on average
	commandValues = 1 << 20 // array elements and maps in a command: a transcript of 250,000 items
	commandDepth  = 64
	entryDepth    = 128
	snapshotDepth = entryDepth + 16
)

// depth is how deep arrays and maps may nest.
func (p Payload) depth() int { return [...]int{commandDepth, entryDepth, snapshotDepth}[p] }

// values is how many array elements and maps n bytes may hold.
func (p Payload) values(n int) int {
	most := min(2*n, valuesFree+n/2) // a map in an array counts twice
	if p == Command {
		return min(most, commandValues)
	}
	return most
}

// valueMemory is the maximum memory that decoding takes for one array element or map: the
// largest structs of transcripts, and the growth of the slice that holds them.
const valueMemory = 256

// Memory returns the maximum number of bytes that reading and decoding n bytes of a payload takes.
func Memory(n int, p Payload) int64 { return 2*int64(n) + valueMemory*int64(p.values(n)) }

// ErrMalformed is returned for bytes that no encoder of this module writes. Do not decode
// them.
var ErrMalformed = errors.New("malformed msgpack")

// Check reports whether b is exactly one msgpack value within the bounds of its kind, with true
// lengths and without extension types.
func Check(b []byte, p Payload) error { return check(b, p.depth(), p.values(len(b))) }

func check(b []byte, depth, values int) error {
	c := checker{in: b, values: values}
	err := c.one(depth)
	switch {
	case err == nil && c.at < len(b):
		err = errMore
	case errors.Is(err, errTooMany):
		err = fmt.Errorf("%w, at most %d in so many bytes", err, values)
	case errors.Is(err, errTooDeep):
		err = fmt.Errorf("%w, at most %d levels", err, depth)
	}
	if err != nil {
		return fmt.Errorf("%w: at byte %d of %d: %w", ErrMalformed, c.at, len(b), err)
	}
	return nil
}

type checker struct {
	in     []byte
	at     int // bytes checked
	values int // array elements and maps that are still allowed
}

var (
	errShort   = errors.New("the bytes end early")
	errForeign = errors.New("a type that this format does not use")
	errTooMany = errors.New("too many array elements and maps")
	errTooDeep = errors.New("arrays and maps nest too deeply")
	errMore    = errors.New("there are bytes after the value")
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
	return n, c.count(n)
}

func (c *checker) mapOf(n int) (int, error) {
	if n > (len(c.in)-c.at)/2 {
		return 0, errShort
	}
	return 2 * n, c.count(1)
}

func (c *checker) count(n int) error {
	if c.values -= n; c.values < 0 {
		return errTooMany
	}
	return nil
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
