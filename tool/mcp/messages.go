package mcp

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"sync/atomic"
)

// maxNoise is the number of bytes kept of a line that is not a message.
const maxNoise = 500

// messages reads a program's stdout without the lines that are not messages, such as
// greetings and stray prints. A message is an object, or a list of them, on its own line.
type messages struct {
	io.Closer
	from   *bufio.Reader
	output *output // gets the other lines

	rest    []byte // of the current piece of a message
	partial bool   // the last piece did not end its line
	skip    bool   // its line is not a message

	ended atomic.Bool
}

func newMessages(from io.ReadCloser, out *output) *messages {
	return &messages{Closer: from, from: bufio.NewReaderSize(from, 32<<10), output: out}
}

// Read returns the next bytes of messages.
func (m *messages) Read(b []byte) (int, error) {
	for len(m.rest) == 0 {
		piece, err := m.from.ReadSlice('\n')
		if len(piece) == 0 && err != nil {
			m.ended.Store(true)
			return 0, err //nolint:wrapcheck // a pipe's end
		}
		if !m.partial {
			text := bytes.TrimSpace(piece)
			m.skip = len(text) == 0 || text[0] != '{' && text[0] != '['
			if m.skip && len(text) > 0 {
				m.output.skipped(text[:min(len(text), maxNoise)])
			}
		}
		if m.partial = errors.Is(err, bufio.ErrBufferFull); !m.skip {
			m.rest = piece
		}
	}
	n := copy(b, m.rest)
	m.rest = m.rest[n:]
	return n, nil
}
