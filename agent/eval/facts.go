package eval

import (
	"strings"
	"time"

	"github.com/turnlog/turnlog/audit/compare"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/events/journal"
)

// facts are what checks read about a session.
type facts struct {
	compare.Side

	of     string // the suite and the case, or what a judge judges
	inputs []string
	calls  []content.ToolCall
	answer string // the last text of the model
	fault  string // why the last turn failed, or ""
	took   time.Duration
}

// read reads a journal. For a fork, only the calls and the usage of its own turns count.
func read(records []journal.Record) (f facts) {
	var side compare.Reader
	var first content.Time
	for _, rec := range records {
		side.Add(rec)
		for _, ev := range rec.Entry.Events {
			switch ev := ev.(type) { //nolint:gochecksumtype // checks read no others
			case events.RunStarted:
				first, f.of = rec.Entry.At, ev.Metadata.Text(MetaCase)
			case events.InputQueued:
				f.inputs = append(f.inputs, texts(ev.Items)...)
			case events.ReplyRecorded:
				if said := strings.Join(texts(ev.Items), "\n"); said != "" {
					f.answer = said
				}
			case events.ToolCallRequested:
				f.calls = append(f.calls, ev.Call)
			case events.TurnFinished:
				f.fault = ev.Error
				f.took = rec.Entry.At.Std().Sub(first.Std())
			}
		}
	}
	f.Side = side.Side
	return f
}

// ended reports whether the session has had a turn, and none is open.
func (f facts) ended() bool { return f.Outcome != "" && !f.Open }

func texts(items []content.Item) (out []string) {
	for _, it := range items {
		if t := it.Text(); t != "" {
			out = append(out, t)
		}
	}
	return out
}
