package tool

import (
	"bytes"
	"fmt"
	"unicode/utf8"

	"github.com/turnlog/turnlog/content"
)

// Clip keeps the beginning and the end of its input and counts the rest, so that it accepts any
// amount of output in bounded memory. It is not safe for concurrent use.
type Clip struct {
	half int    // bytes kept at each end
	head []byte // the first half
	tail []byte // the last half at its end
	size int64  // bytes written
}

// NewClip returns a clip that keeps about limit bytes.
func NewClip(limit int) *Clip { return &Clip{half: max(limit, 2) / 2} }

// Write accepts all of p and never fails.
func (c *Clip) Write(p []byte) (int, error) {
	take(c, p)
	return len(p), nil
}

// WriteString accepts all of s and never fails. It copies only what it keeps.
func (c *Clip) WriteString(s string) (int, error) {
	take(c, s)
	return len(s), nil
}

func take[T []byte | string](c *Clip, p T) {
	c.size += int64(len(p))
	room := min(c.half-len(c.head), len(p))
	c.head = append(c.head, p[:room]...)
	p = p[room:]
	p = p[max(0, len(p)-c.half):]
	if len(c.tail)+len(p) > 2*c.half {
		c.tail = append(c.tail[:0], c.tail[len(c.tail)-c.half:]...)
	}
	c.tail = append(c.tail, p...)
}

// holds reports whether n more bytes would fit without a cut.
func (c *Clip) holds(n int) bool { return c.size+int64(n) <= int64(2*c.half) }

// Text returns the kept bytes as valid UTF-8, with a note where bytes were cut, and the number of
// bytes cut.
func (c *Clip) Text() (text string, cut int64) {
	tail := c.tail[max(0, len(c.tail)-c.half):]
	cut = c.size - int64(len(c.head)) - int64(len(tail))
	if cut == 0 {
		return string(valid(append(bytes.Clone(c.head), tail...))), 0
	}
	head := c.head[:wholeRunes(c.head)]
	skip := content.Boundary(tail, 0)
	cut += int64(len(c.head) - len(head) + skip)
	return fmt.Sprintf("%s\n[… %d bytes were cut here …]\n%s", valid(head), cut, valid(tail[skip:])), cut
}

// wholeRunes returns the length of b without an incomplete character at its end.
func wholeRunes(b []byte) int {
	for i := 1; i <= min(utf8.UTFMax-1, len(b)); i++ {
		if start := len(b) - i; utf8.RuneStart(b[start]) {
			if !utf8.FullRune(b[start:]) {
				return start
			}
			break
		}
	}
	return len(b)
}

// valid replaces invalid UTF-8. It returns valid text without a copy.
func valid(b []byte) []byte {
	if utf8.Valid(b) {
		return b
	}
	return bytes.ToValidUTF8(b, []byte("\uFFFD"))
}
