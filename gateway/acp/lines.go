package acp

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strconv"
	"sync"

	sdk "github.com/coder/acp-go-sdk"
)

// maxMessage bounds a message. It is below the SDK's limit of 10 MiB.
const maxMessage = 10<<20 - 1<<10

// lines reads messages, one per line. It answers lines that the SDK would only log: lines that are not messages or are
// too large.
type lines struct {
	ready   <-chan struct{} // reading starts when it is closed
	from    io.Reader
	refuse  func(id json.RawMessage, e *sdk.RequestError)
	prompts *sync.WaitGroup // prompts that were passed on and that no session has received yet

	in   *bufio.Reader
	line []byte // the rest of the line that was not passed on yet
}

// Read reads a part of a message. The SDK handles each request in a separate goroutine. So a cancel waits here until sessions
// have received the prompts before it. Otherwise it would find nothing to cancel.
func (l *lines) Read(b []byte) (int, error) {
	if l.in == nil {
		<-l.ready
		l.in = bufio.NewReaderSize(l.from, 64<<10)
	}
	for len(l.line) == 0 {
		line, whole, err := l.next()
		if l.check(line, whole) {
			line = append(line, '\n')
			l.line = line
		} else if err != nil {
			return 0, err
		}
	}
	n := copy(b, l.line)
	l.line = l.line[n:]
	return n, nil
}

// next reads a line. If it is too long, it returns its beginning.
func (l *lines) next() (line []byte, whole bool, err error) {
	whole = true
	for {
		part, err := l.in.ReadSlice('\n')
		if len(line)+len(part) > maxMessage {
			whole = false
		} else {
			line = append(line, part...)
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return bytes.TrimSpace(line), whole, err
		}
	}
}

// check reports whether a line is a message, and answers it if it is not.
func (l *lines) check(line []byte, whole bool) bool {
	var m struct { // the same fields as the SDK reads
		Version string            `json:"jsonrpc"`
		ID      json.RawMessage   `json:"id"`
		Method  string            `json:"method"`
		Error   *sdk.RequestError `json:"error"`
	}
	switch err := json.Unmarshal(line, &m); {
	case !whole:
		l.refuse(idIn(line), &sdk.RequestError{Code: codeRequest, Message: "the message has more than " + strconv.Itoa(maxMessage>>20) + " MiB: send smaller files"})
	case len(line) == 0:
	case !json.Valid(line):
		l.refuse(nil, &sdk.RequestError{Code: codeParse, Message: "this line is not JSON: " + err.Error()})
	case err != nil, m.Method == "" && m.ID == nil:
		l.refuse(m.ID, &sdk.RequestError{Code: codeRequest, Message: "this is not a JSON-RPC message: it needs a method, an id or both"})
	default:
		switch m.Method {
		case sdk.AgentMethodSessionPrompt:
			l.prompts.Add(1)
		case sdk.AgentMethodSessionCancel:
			l.prompts.Wait()
		}
		return true
	}
	return false
}

// idIn returns the ID of a request from its beginning, if it is there.
func idIn(start []byte) json.RawMessage {
	d := json.NewDecoder(bytes.NewReader(start))
	if _, err := d.Token(); err != nil { // the brace
		return nil
	}
	for {
		key, err := d.Token()
		var value json.RawMessage
		if err != nil || d.Decode(&value) != nil {
			return nil
		}
		if key == "id" {
			return value
		}
	}
}

// writer writes whole messages.
type writer struct {
	mu sync.Mutex
	to io.Writer
}

// Write writes a message.
func (w *writer) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.to.Write(b) //nolint:wrapcheck // it is a writer
}

// refuse answers a message with an error.
func (w *writer) refuse(id json.RawMessage, e *sdk.RequestError) {
	b, _ := json.Marshal(struct { // it has only texts
		Version string            `json:"jsonrpc"`
		ID      json.RawMessage   `json:"id"`
		Error   *sdk.RequestError `json:"error"`
	}{"2.0", id, e})
	_, _ = w.Write(append(b, '\n')) // the editor may be gone
}
