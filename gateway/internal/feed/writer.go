package feed

import (
	"io"
	"net/http"
	"time"
)

// CutAfter is how many times its patience a write may take before the connection is cut.
const CutAfter = 3

// Writer writes server-sent events to one reader and checks that the reader keeps up. Flush returns the errors of all
// writes.
//
// A reader that does not read must not block the writer. Everything written between Begin and Flush has a deadline, after
// which the connection is cut. A reader that delays Flush, but less than that, is slow: see Late.
type Writer struct {
	out  http.ResponseWriter // it is buffered
	rc   *http.ResponseController
	slow time.Duration // delay from which a reader counts as slow

	began time.Time // of the writes since the last Flush
	size  int       // bytes of these writes
	late  bool
}

// roomFor is how many bytes are buffered before a flush.
const roomFor = 4 << 10

// newWriter returns a writer. patience is how long the reader may take for one flush.
func newWriter(w http.ResponseWriter, patience time.Duration) *Writer {
	h := w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("X-Accel-Buffering", "no")
	e := &Writer{out: w, rc: http.NewResponseController(w), slow: patience}
	_ = e.rc.SetReadDeadline(time.Time{}) // nothing more is read, and a deadline would end the request
	return e
}

// Begin begins a write and sets its deadline. A reader that does not read at all is cut off.
func (e *Writer) Begin() {
	e.began, e.size = time.Now(), 0
	_ = e.rc.SetWriteDeadline(e.began.Add(CutAfter * e.slow)) // every connection has deadlines
}

// Flush sends what was written since Begin. If that took long, the reader is slow.
func (e *Writer) Flush() error {
	err := e.rc.Flush()
	e.late = time.Since(e.began) > e.slow
	return err //nolint:wrapcheck // callers only check whether it is nil
}

// Late reports whether the reader was slow at the last Flush.
func (e *Writer) Late() bool { return e.late }

// Room reports whether the buffer has room for another event before a flush.
func (e *Writer) Room() bool { return e.size < roomFor }

// Line writes a line as it is.
func (e *Writer) Line(text string) {
	e.text(text)
	e.text("\n")
}

func (e *Writer) text(text string) {
	_, _ = io.WriteString(e.out, text) // Flush returns the error
	e.size += len(text)
}

// Event writes an event, with an ID if it has one.
func (e *Writer) Event(kind, id string, data []byte) {
	if id != "" {
		e.Line("id: " + id)
	}
	e.Line("event: " + kind)
	e.Data(data)
}

// Data writes an event that has only data.
func (e *Writer) Data(data []byte) {
	e.text("data: ")
	_, _ = e.out.Write(data)
	e.size += len(data)
	e.text("\n\n")
}

// Done writes the end of a stream of data.
func (e *Writer) Done() { e.Data([]byte("[DONE]")) }
