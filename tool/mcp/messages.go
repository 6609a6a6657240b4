package mcp

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// maxNoise is the number of bytes kept of a line that is not a message.
const maxNoise = 500

// messages reads a program's stdout without the lines that are not messages, such as greetings and
// stray prints. A message is an object on its own line. Lists of messages, which only one old version
// of the protocol had, do not count as messages: 16 MiB of them decode to more than 1 GB.
type messages struct {
	io.Closer
	from   *bufio.Reader
	output *output // gets the other lines

	values  values
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
			m.skip = len(text) == 0 || text[0] != '{'
			if m.skip && len(text) > 0 {
				m.output.skipped(text[:min(len(text), maxNoise)])
			}
		}
		if m.partial = errors.Is(err, bufio.ErrBufferFull); m.skip {
			continue
		}
		if err := m.values.add(piece); err != nil {
			return 0, err
		}
		m.rest = piece
	}
	n := copy(b, m.rest)
	m.rest = m.rest[n:]
	return n, nil
}

// maxValues limits one message. The SDK decodes schemas and structured content to trees, several
// times: an empty object of 3 bytes took more than 300.
const maxValues = 1 << 20

var errManyValues = fmt.Errorf("a message has more than %d values", maxValues)

// values counts the values of a message while it is read. A value begins an array or object, or
// follows a comma.
type values struct {
	n, depth      int
	events        bool // a blank line ends the message, not its last bracket
	text, escaped bool
	blank         bool // the line so far
}

func (v *values) add(b []byte) error {
	for _, c := range b {
		switch {
		case c == '\n': // no text contains it
			if v.events && v.blank {
				v.n = 0
			}
			v.text, v.escaped, v.blank = false, false, true
			continue
		case c == '\r':
			continue
		case v.escaped:
			v.escaped = false
		case v.text && c == '\\':
			v.escaped = true
		case c == '"':
			v.text = !v.text
		case v.text:
		case c == ',':
			v.n++
		case c == '{' || c == '[':
			v.n++
			v.depth++
		case c == '}' || c == ']':
			if v.depth--; v.depth <= 0 && !v.events {
				v.n, v.depth = 0, 0
			}
		}
		if v.blank = false; v.n > maxValues {
			return errManyValues
		}
	}
	return nil
}

// counted is the body of a response.
type counted struct {
	io.ReadCloser
	values values
}

// Read returns the next bytes, as long as they have few values.
func (c *counted) Read(b []byte) (int, error) {
	n, err := c.ReadCloser.Read(b)
	if many := c.values.add(b[:n]); many != nil {
		return 0, many
	}
	return n, err //nolint:wrapcheck // the body's end
}

// Limits of the requests of a server that are not answered yet.
const (
	maxAsked      = 1000
	maxAskedBytes = 16 << 20
	// maxAnswers limits the answers that are being sent to a URL, each with its request.
	maxAnswers    = 8
	answerTimeout = 5 * time.Second
)

var errAsksTooMuch = errors.New("the server sends requests without reading the answers")

// guarded connects to a program.
type guarded struct {
	sdk.IOTransport
	lose func(cause error)
}

// Connect returns a connection that fails if the program asks too much.
func (t *guarded) Connect(ctx context.Context) (sdk.Connection, error) {
	c, err := t.IOTransport.Connect(ctx)
	return &guard{Connection: c, lose: t.lose}, err //nolint:wrapcheck // it never fails
}

// guard counts a program's requests until they are answered: the SDK accepts them as fast as they
// come, and keeps each one until the program has read the answer.
type guard struct {
	sdk.Connection
	lose func(cause error) // the SDK would first wait until all answers are sent

	mu    sync.Mutex
	open  int
	bytes int // of the requests since none was open
}

// Read returns the next message.
func (g *guard) Read(ctx context.Context) (jsonrpc.Message, error) {
	m, err := g.Connection.Read(ctx)
	r, ok := m.(*jsonrpc.Request)
	if err != nil || !ok || !r.IsCall() {
		return m, err //nolint:wrapcheck // the SDK wraps it
	}
	id, _ := r.ID.Raw().(string)
	g.mu.Lock()
	defer g.mu.Unlock()
	g.open++
	g.bytes += len(id) + len(r.Method) + len(r.Params)
	if g.open > maxAsked || g.bytes > maxAskedBytes {
		g.lose(errAsksTooMuch)
		return nil, errAsksTooMuch
	}
	return m, nil
}

// Write sends a message.
func (g *guard) Write(ctx context.Context, m jsonrpc.Message) error {
	err := g.Connection.Write(ctx, m)
	if _, ok := m.(*jsonrpc.Response); ok {
		g.mu.Lock()
		defer g.mu.Unlock()
		if g.open--; g.open <= 0 {
			g.open, g.bytes = 0, 0
		}
	}
	return err //nolint:wrapcheck // the SDK wraps it
}
