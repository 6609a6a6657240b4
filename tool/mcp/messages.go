package mcp

import (
	"bufio"
	"bytes"
	"io"
	"sync/atomic"

	"go.uber.org/zap"
)

// maxNoise limits what is kept of a line that is not a message.
const maxNoise = 500

// messages reads a program's stdout without the lines that are not messages, such as
// greetings and stray prints. A message is an object, or a list of them, on its own line.
type messages struct {
	from   *bufio.Reader
	close  func() error
	output *output // gets the other lines
	inside bool    // a message

	ended atomic.Bool
}

func newMessages(from io.ReadCloser, out *output) *messages {
	return &messages{from: bufio.NewReaderSize(from, 32<<10), close: from.Close, output: out}
}

// Read returns the next bytes of messages.
func (m *messages) Read(b []byte) (int, error) {
	n, err := m.read(b)
	if err != nil {
		m.ended.Store(true)
	}
	return n, err
}

func (m *messages) read(b []byte) (int, error) {
	for !m.inside {
		first, err := m.from.Peek(1)
		if err != nil {
			return 0, err //nolint:wrapcheck // a pipe's end
		}
		switch first[0] {
		case '{', '[':
			m.inside = true
		case ' ', '\t', '\r', '\n':
			_, _ = m.from.Discard(1) // it was peeked
		default:
			m.skip()
		}
	}
	if m.from.Buffered() == 0 {
		if _, err := m.from.Peek(1); err != nil {
			return 0, err //nolint:wrapcheck // as above
		}
	}
	line, _ := m.from.Peek(min(len(b), m.from.Buffered())) // it is buffered
	if end := bytes.IndexByte(line, '\n'); end >= 0 {
		line, m.inside = line[:end+1], false
	}
	n := copy(b, line)
	_, _ = m.from.Discard(n) // it is buffered
	return n, nil
}

// skip reads a line that is not a message. The next read returns its error again.
func (m *messages) skip() {
	var kept []byte
	for {
		part, err := m.from.ReadSlice('\n')
		kept = append(kept, part[:min(len(part), maxNoise-len(kept))]...)
		if err != bufio.ErrBufferFull { //nolint:errorlint // ReadSlice returns it unwrapped
			break
		}
	}
	kept = bytes.TrimSpace(kept)
	m.output.noise.Do(func() {
		m.output.log.Warn("MCP server wrote a line that is not a message", zap.String("line", m.output.hide(string(kept))))
	})
	_, _ = m.output.Write(append(kept, '\n')) // never fails
}

// Close closes the pipe.
func (m *messages) Close() error { return m.close() }
