package render

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/events/journal"
)

// timeLayout formats times in UTC, to the millisecond.
const timeLayout = "2006-01-02T15:04:05.000Z"

const (
	seqWidth  = 5
	timeWidth = len(timeLayout)
	kindWidth = len(events.KindToolResultReceived)
)

// Printer writes entries and live events, one line per event. It is not safe for concurrent
// use.
type Printer struct {
	w        io.Writer
	style    Style
	sessions bool // each line names its session
}

// NewPrinter returns a printer. With sessions, each line names its session.
func NewPrinter(w io.Writer, style Style, sessions bool) *Printer {
	return &Printer{w: w, style: style, sessions: sessions}
}

// Entry writes an entry. Only the line of its first event has its sequence and time.
func (p *Printer) Entry(rec journal.Record) error {
	e := rec.Entry
	lines := make([]eventLine, 0, len(e.Events))
	if _, sealed := errors.AsType[*events.SealedError](rec.Err); sealed {
		lines = p.style.sealed(e)
	} else if rec.Err != nil {
		lines = append(p.style.why(rec.Err), p.style.raw(rec.Payload)...)
	} else {
		for _, ev := range e.Events {
			lines = append(lines, eventLine{string(events.KindOf(ev)), p.style.detail(ev)})
		}
	}
	front := p.front(e.Session, strconv.FormatUint(rec.Seq, 10), e.At.Std().Format(timeLayout))
	for _, l := range lines {
		if err := p.line(front, l); err != nil {
			return err
		}
		front = p.front(e.Session, "", "")
	}
	return nil
}

// Live writes an event that is not in a journal.
func (p *Printer) Live(s content.SessionID, ev events.Event) error {
	front := p.front(s, "~", "")
	return p.line(front, eventLine{string(events.KindOf(ev)), p.style.detail(ev)})
}

// eventLine is one line for an event.
type eventLine struct {
	kind, detail string
}

func (p *Printer) front(s content.SessionID, seq, at string) string {
	out := p.style.Dim(fmt.Sprintf("%*s  %-*s", seqWidth, seq, timeWidth, at))
	if p.sessions {
		out = p.style.paint(blue, Safe(string(s))) + " " + out
	}
	return out
}

func (p *Printer) line(front string, l eventLine) error {
	kind := p.style.paint(p.kindColor(l.kind), fmt.Sprintf("%-*s", kindWidth, Safe(l.kind)))
	text := strings.TrimRight(front+"  "+kind+"  "+l.detail, " ")
	if _, err := fmt.Fprintln(p.w, text); err != nil {
		return fmt.Errorf("write: %w", err)
	}
	return nil
}

func (p *Printer) kindColor(kind string) color {
	switch events.Kind(kind) {
	case events.KindTurnStarted, events.KindTurnFinished, events.KindInputAccepted, events.KindReplyRecorded:
		return bold
	case events.KindWarning, events.KindLimitReached, events.KindCancelRequested, events.KindApprovalRequired, events.KindToolAttemptLost:
		return yellow
	case events.KindRunFailed, events.KindModelCallFailed, events.KindRefused:
		return red
	default:
		return plain
	}
}

// LiveJSON formats an event that is not in a journal as one JSON object.
func LiveJSON(s content.SessionID, ev events.Event) ([]byte, error) {
	raw, err := events.MarshalEvent(ev)
	if err != nil {
		return nil, fmt.Errorf("format live event of %s: %w", s, err)
	}
	raw, err = json.Marshal(struct {
		Session content.SessionID `json:"session"`
		Live    json.RawMessage   `json:"live"`
	}{s, raw})
	if err != nil {
		return nil, fmt.Errorf("format live event of %s: %w", s, err)
	}
	return raw, nil
}
