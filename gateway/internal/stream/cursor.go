package stream

import (
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/events/journal"
)

// ErrBadCursor is returned by ParseCursor for a text that is not a cursor.
var ErrBadCursor = errors.New("not a cursor")

// Call names an attempt at a model call. The zero Call means no attempt.
type Call struct {
	Turn    content.TurnID `json:"turn"`
	Round   int            `json:"round"`
	Attempt int            `json:"attempt"`
}

// before reports whether c was made before d.
func (c Call) before(d Call) bool {
	if n, m := c.Turn.Number(), d.Turn.Number(); n != m {
		return n < m
	}
	if c.Round != d.Round {
		return c.Round < d.Round
	}
	return c.Attempt < d.Attempt
}

// Cursor is a place in the stream of a session: after an entry, and after some of the reply in flight at that
// entry. Everything in the stream up to the cursor has been received.
//
// Entry and Offset are the place. The rest lets any process continue from it at once: where the entry is
// stored, the start of its hash, which shows whether it is the same journal, and the state of the reply.
type Cursor struct {
	Entry  uint64 // 0: before the first entry
	Offset int    // in the reply in flight, see the package doc; 0: before it

	Position uint64  // of the entry in the store, the Guard of its head; 0: unknown
	Hash     [8]byte // the first bytes of the entry's hash
	Call     Call    // the call in flight after the entry
	Part     int     // the part of the reply at Offset
	In       int     // the place of Offset within the part
	Sum      uint32  // checksum of everything before Offset; 0 with an Offset: unknown
}

// at returns the cursor after an entry.
func at(h journal.Head) Cursor {
	return Cursor{Entry: h.Seq, Position: h.Guard, Hash: [8]byte(h.Hash[:8])}
}

// After returns the cursor at the end of a journal, with the call in flight, if there is one.
func After(h journal.Head, c Call) Cursor {
	out := at(h)
	out.Call = c
	return out
}

// Names reports whether the cursor's entry has that hash, as far as the cursor knows.
func (c Cursor) Names(h events.Hash) bool {
	return c.Hash == [8]byte{} || c.Hash == [8]byte(h[:8])
}

// String returns the cursor as one word: entry, offset, and the rest in base64.
func (c Cursor) String() string {
	b := make([]byte, 0, 32)
	text := strconv.AppendInt(append(strconv.AppendUint(b, c.Entry, 10), '.'), int64(c.Offset), 10)
	if c.Position == 0 {
		return string(text)
	}
	rest := append(binary.AppendUvarint(make([]byte, 0, 32), c.Position), c.Hash[:]...)
	if c.Call != (Call{}) {
		for _, n := range []int{c.Call.Turn.Number(), c.Call.Round, c.Call.Attempt, c.Part, c.In} {
			rest = binary.AppendUvarint(rest, uint64(max(n, 0)))
		}
		if c.Offset > 0 {
			rest = binary.BigEndian.AppendUint32(rest, c.Sum)
		}
	}
	return string(base64.RawURLEncoding.AppendEncode(append(text, '.'), rest))
}

// ParseCursor parses the result of String, and also the short forms that people write: an entry, or an entry and an offset.
func ParseCursor(text string) (c Cursor, err error) {
	words := strings.Split(text, ".")
	if len(words) > 3 {
		return c, fmt.Errorf("%w: %q", ErrBadCursor, text)
	}
	if c.Entry, err = strconv.ParseUint(words[0], 10, 64); err != nil {
		return c, fmt.Errorf("%w: %q: it must begin with the number of an entry", ErrBadCursor, text)
	}
	if len(words) > 1 {
		if c.Offset, err = strconv.Atoi(words[1]); err != nil || c.Offset < 0 {
			return c, fmt.Errorf("%w: %q: its second word must be an offset", ErrBadCursor, text)
		}
	}
	if len(words) > 2 {
		rest, err := base64.RawURLEncoding.Strict().DecodeString(words[2])
		if err != nil || !c.decode(rest) {
			return c, fmt.Errorf("%w: %q: its third word is damaged", ErrBadCursor, text)
		}
	}
	return c, nil
}

// decode reads the third word.
func (c *Cursor) decode(b []byte) bool {
	number := func() (n uint64) {
		n, size := binary.Uvarint(b)
		b = b[max(size, 0):]
		return n
	}
	c.Position = number()
	if c.Position == 0 || len(b) < len(c.Hash) {
		return false
	}
	b = b[copy(c.Hash[:], b):]
	if len(b) == 0 {
		return c.Offset == 0
	}
	var n [5]int
	for i := range n {
		n[i] = int(number() & (1<<31 - 1)) //nolint:gosec // masked to 31 bits
	}
	c.Call = Call{Turn: content.TurnIDFor(n[0]), Round: n[1], Attempt: n[2]}
	c.Part, c.In = n[3], n[4]
	if c.Offset == 0 {
		return len(b) == 0 && c.Part == 0 && c.In == 0
	}
	if len(b) != 4 || c.In > c.Offset {
		return false
	}
	c.Sum = binary.BigEndian.Uint32(b)
	return true
}
