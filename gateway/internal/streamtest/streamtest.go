// Package streamtest provides a turn whose first attempt fails in the middle of its text, for tests of protocols.
package streamtest

import (
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/events/journal"
	"github.com/turnlog/turnlog/gateway/internal/stream"
)

// Text is the final text of the turn.
const Text = "Grüße an alle"

// Entries returns the journal of the turn.
func Entries() (all []journal.Record) {
	turn := content.TurnIDFor(1)
	for i, list := range [][]events.Event{
		{events.TurnStarted{Turn: turn}, events.RoundStarted{Turn: turn, Round: 1}, events.ModelCallStarted{Turn: turn, Round: 1, Attempt: 1}},
		{events.ModelCallFailed{Turn: turn, Round: 1, Attempt: 1}, events.ModelCallStarted{Turn: turn, Round: 1, Attempt: 2}},
		{events.InputQueued{Items: []content.Item{content.UserText("and")}}},
		{
			events.ReplyRecorded{Turn: turn, Round: 1, Attempt: 2, Items: []content.Item{content.AssistantText(Text)}},
			events.TurnFinished{Turn: turn, FinishReason: content.Completed},
		},
	} {
		all = append(all, journal.Record{Head: journal.Head{Seq: uint64(i + 1), Guard: uint64(i + 1)}, Entry: events.Entry{Events: list}})
	}
	return all
}

// Live passes the events of a reader that is connected from the beginning. The text of the first attempt is "Hal".
func Live(show func(stream.Event)) {
	all, st := Entries(), stream.New(stream.Cursor{})
	say := func(attempt, after int, op content.DeltaOp, text string) {
		st.Live(events.ContentDelta{Turn: content.TurnIDFor(1), Round: 1, Attempt: attempt, After: after, Delta: content.Delta{Op: op, Kind: content.TextKind, Text: text}}, show)
	}
	st.Entry(all[0], show)
	say(1, 1, content.BeginPart, "")
	say(1, 1, content.AppendPart, "Hal")
	st.Entry(all[1], show)
	say(2, 1, content.BeginPart, "")
	for i, c := range "Grüße" {
		say(2, i+1, content.AppendPart, string(c))
	}
	st.Entry(all[2], show)
	say(2, len("Grüße")+1, content.AppendPart, " an")
	st.Entry(all[3], show)
}
