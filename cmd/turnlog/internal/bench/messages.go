package bench

import (
	"encoding/json"
	"errors"
	"maps"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/turnlog/turnlog/commands"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/tool"
)

// floorMessages are the bytes that the floor sends: those of a session with a small
// tool call, encoded once, so that a store that compresses has the same work to do.
type floorMessages struct {
	reply, result []byte // entries
	task, report  []byte
	header        nats.Header // of entries, without the guard
}

// floorTask is the size of a task with a small input.
const floorTask = 200

func newFloorMessages() (m floorMessages, err error) {
	const turn, session = content.TurnID("turn-1"), content.SessionID("bench-100")
	now := content.TimeOf(time.Now())
	place := content.PlaceOf(1, 100, 1)
	digest := tool.Digest(json.RawMessage(`{}`))
	call := content.ToolCall{ID: content.CallID(place), Place: place, Name: "noop", Input: json.RawMessage(`{}`)}
	item := content.NewItem(content.Assistant, content.CallPart(call))
	outcome := content.NewResult(call.ID, call.Name, content.StatusOK, "ok")
	seal := func(cause string, evs ...events.Event) []byte {
		payload, failed := events.Entry{
			Version: events.Version, Session: session, Seq: 200, Prev: events.HashOf([]byte(cause)), Cause: cause,
			At: now, Epoch: 1, Cursors: []events.Cursor{{Lane: events.LaneReport, Seq: 10_000}}, Events: evs,
		}.Encode()
		err = errors.Join(err, failed)
		return payload
	}
	m.reply = seal("model/turn-1/r100/a1",
		events.ReplyRecorded{Turn: turn, Round: 100, Attempt: 1, Items: []content.Item{item}, FinishReason: content.ToolCalls, Model: "bench"},
		events.UsageUpdated{Turn: turn, Round: 100, Source: "model"},
		events.ToolCallRequested{Turn: turn, Round: 100, Call: call, Routing: content.Routing{Known: true, Source: queueName, Queue: queueName, Digest: digest}},
		events.ToolDispatched{Call: call.ID, Place: place, Attempt: 1, Queue: queueName, Digest: digest},
	)
	m.result = seal("result/t1-r100-c1/1",
		events.ToolResultReceived{Turn: turn, Round: 100, Result: outcome, Attempt: 1, Duration: time.Millisecond},
		events.RoundFinished{Turn: turn, Round: 100, TranscriptLen: 201},
		events.RoundStarted{Turn: turn, Round: 101},
		events.ModelCallStarted{Turn: turn, Round: 101, Attempt: 1, TranscriptLen: 201, Catalog: digest},
	)
	report, failed := commands.Envelope{
		ID: "result/t1-r100-c1/1", Session: session, By: "worker/" + queueName, At: now,
		Command: commands.ReportResult{Place: place, Attempt: 1, Queue: queueName, Outcome: tool.Result{Result: outcome, Duration: time.Millisecond}},
	}.Encode()
	if err = errors.Join(err, failed); err != nil {
		return m, err
	}
	m.report, m.task = report, m.reply[:floorTask]
	hash := events.HashOf(m.reply).String()
	m.header = nats.Header{
		"Turnlog-Seq": {"200"}, "Turnlog-Hash": {hash}, "Turnlog-Prev": {hash}, "Turnlog-Version": {"1"},
		"Turnlog-Kinds": {strings.Join([]string{"reply_recorded", "usage_updated", "tool_call_requested", "tool_dispatched"}, ",")},
	}
	return m, nil
}

// entry returns a guarded entry.
func (m floorMessages) entry(subject, guard string, payload []byte) *nats.Msg {
	header := maps.Clone(m.header)
	header["Nats-Expected-Last-Subject-Sequence"] = []string{guard}
	return &nats.Msg{Subject: subject, Header: header, Data: payload}
}
