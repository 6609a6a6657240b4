package feed

import (
	"bufio"
	"net/http"
	"time"
)

// CutAfter is how many times its patience a write may take before the connection is cut.
const CutAfter = 3

// Writer writes server-sent events to one reader, and sees whether it keeps up. Flush reports the errors of all.
//
// A reader that does not read must not hold who writes. What is written between Begin and Flush has a deadline, after which the
// connection is cut. A reader that makes Flush wait long before that is slow: see Late.
type Writer struct {
	out  *bufio.Writer
	rc   *http.ResponseController
	slow time.Duration // when a reader counts as slow

	began time.Time // of what was written since the last Flush
	late  bool
}

// newWriter returns a writer for a reader that may take a time for what is written at once.
func newWriter(w http.ResponseWriter, patience time.Duration) *Writer {
	h := w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("X-Accel-Buffering", "no")
	e := &Writer{out: bufio.NewWriter(w), rc: http.NewResponseController(w), slow: patience}
	_ = e.rc.SetReadDeadline(time.Time{}) // nothing more is read, and a deadline would end the request
	return e
}

// Begin begins to write. A reader that does not read at all is cut off.
func (e *Writer) Begin() {
	e.began = time.Now()
	_ = e.rc.SetWriteDeadline(e.began.Add(CutAfter * e.slow)) // every connection has deadlines
}

// Flush sends what was written since Begin. A reader that made that wait is slow.
func (e *Writer) Flush() error {
	err := e.out.Flush()
	if err == nil {
		err = e.rc.Flush()
	}
	e.late = time.Since(e.began) > e.slow
	return err //nolint:wrapcheck // only whether there is one counts
}

// Late reports whether the reader was slow at the last Flush.
func (e *Writer) Late() bool { return e.late }

// Room reports whether more can be written before something is sent.
func (e *Writer) Room() bool { return e.out.Available() > 0 }

// Line writes a line as it is.
func (e *Writer) Line(text string) {
	_, _ = e.out.WriteString(text)
	_ = e.out.WriteByte('\n')
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
	_, _ = e.out.WriteString("data: ")
	_, _ = e.out.Write(data)
	_, _ = e.out.WriteString("\n\n")
}

// Done writes the end of a stream of data.
func (e *Writer) Done() { e.Data([]byte("[DONE]")) }
