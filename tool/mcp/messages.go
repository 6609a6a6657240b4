package mcp

import (
	"bufio"
	"bytes"
	"io"
	"sync/atomic"

	"go.uber.org/zap"
)

// maxNoise is how much is kept of a line that is no message.
const maxNoise = 500

// messages is what a program writes on stdout, without the lines that are no messages:
// many a program greets there, or leaves the odd print. A message is an object or a list
// of them, on a line of its own.
type messages struct {
	from   *bufio.Reader
	close  func() error
	words  *lastWords
	inside bool // within a line that is passed on

	over atomic.Bool // all was read
}

func newMessages(from io.ReadCloser, words *lastWords) *messages {
	return &messages{from: bufio.NewReaderSize(from, 32<<10), close: from.Close, words: words}
}

// Read passes on what belongs to messages.
func (m *messages) Read(b []byte) (int, error) {
	n, err := m.read(b)
	if err != nil {
		m.over.Store(true)
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
			_, _ = m.from.Discard(1) // it is there
		default:
			m.passOver()
		}
	}
	if m.from.Buffered() == 0 {
		if _, err := m.from.Peek(1); err != nil {
			return 0, err //nolint:wrapcheck // as above
		}
	}
	line, _ := m.from.Peek(min(len(b), m.from.Buffered())) // it is there
	if end := bytes.IndexByte(line, '\n'); end >= 0 {
		line, m.inside = line[:end+1], false
	}
	n := copy(b, line)
	_, _ = m.from.Discard(n) // as above
	return n, nil
}

// passOver reads a line that is no message. What ends it is met again by who reads on.
func (m *messages) passOver() {
	var kept []byte
	for {
		part, err := m.from.ReadSlice('\n')
		kept = append(kept, part[:min(len(part), maxNoise-len(kept))]...)
		if err != bufio.ErrBufferFull { //nolint:errorlint // ReadSlice returns it as it is
			break
		}
	}
	kept = bytes.TrimSpace(kept)
	m.words.noise.Do(func() {
		m.words.log.Warn("MCP server writes what is no message of the protocol", zap.String("line", m.words.hide(string(kept))))
	})
	_, _ = m.words.Write(append(kept, '\n')) // never fails
}

// Close ends it.
func (m *messages) Close() error { return m.close() }
