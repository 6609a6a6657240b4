package talk

import (
	"encoding/json"
	"fmt"
	"io"

	"github.com/turnlog/turnlog/cmd/turnlog/internal/app"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/events/journal"
)

// jsonView shows only notes while a turn runs; its end is one object.
type jsonView struct{ term app.Terminal }

func (v jsonView) entry(journal.Record) {}
func (v jsonView) event(events.Event)   {}
func (v jsonView) live(events.Event)    {}
func (v jsonView) note(text string)     { _, _ = fmt.Fprintln(v.term.Err, v.term.Style.Dim(text)) }
func (v jsonView) ask(text string)      { _, _ = io.WriteString(v.term.Err, text) }
func (v jsonView) strict()              {} // the end has the answer

// eventLine is a line of -o jsonl.
type eventLine struct {
	Seq   uint64          `json:"seq"`
	At    content.Time    `json:"at"`
	Cause string          `json:"cause"`
	Event json.RawMessage `json:"event"`
}

// jsonlView prints every event of the session as it is recorded, one a line.
type jsonlView struct {
	jsonView
	failed error // the first failed write
}

func (v *jsonlView) entry(rec journal.Record) {
	for _, ev := range rec.Entry.Events {
		raw, err := events.MarshalEvent(ev)
		if err == nil {
			err = app.WriteJSON(v.term.Out, eventLine{Seq: rec.Seq, At: rec.Entry.At, Cause: rec.Entry.Cause, Event: raw})
		}
		if err != nil && v.failed == nil {
			v.failed = err
		}
	}
}
