package audit_test

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"github.com/turnlog/turnlog/audit"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/events/journal"
)

// write chains the entries as a journal does.
func write(entries ...events.Entry) []journal.Record {
	var records []journal.Record
	var head journal.Head
	for i, e := range entries {
		e.Session, e.Cause, e.Epoch, e.At = "demo", fmt.Sprintf("cmd-%d", i+1), 1, content.Time(i+1)
		e, payload, next, err := journal.Link(head, e)
		if err != nil {
			panic(err)
		}
		head = next
		records = append(records, journal.Record{Head: head, Entry: e, Payload: payload})
	}
	return records
}

func opening() []events.Entry {
	return []events.Entry{
		{Events: []events.Event{events.DriverClaimed{Epoch: 1, Node: "a"}}},
		{Events: []events.Event{events.RunStarted{}}},
	}
}

// Invariants are checked on the journal alone, whatever wrote it.
func ExampleChecker() {
	records := write(append(opening(),
		events.Entry{Events: []events.Event{events.TurnFinished{Turn: "turn-1", FinishReason: content.Completed}}},
	)...)
	c := audit.NewChecker()
	for _, r := range records {
		c.Add(r)
	}
	first, _ := c.Verdict().First()
	fmt.Println(first)
	// Output:
	// entry 3, forged (turn-brackets): turn-1 finishes, but no turn is open
}

// An export can be verified without a server. A removed entry is detected.
func ExampleVerify() {
	records := write(append(opening(), events.Entry{Events: []events.Event{events.Warning{Code: "note"}}})...)

	var file bytes.Buffer
	if err := audit.Export(&file, journal.All(slices.Delete(records, 1, 2))); err != nil {
		fmt.Println(err)
	}
	report, err := audit.Verify(audit.Import(&file))
	if err != nil {
		fmt.Println(err)
	}
	first, _ := report.First()
	fmt.Println(report.OK(), first)
	// Output:
	// false line 3, entry 3, missing (single-writer): entry 2 is expected here: entry 2 is missing
}

// Import compares the view in each line of an export with the entry itself.
func ExampleImport() {
	var file strings.Builder
	if err := audit.Export(&file, journal.All(write(opening()...))); err != nil {
		fmt.Println(err)
	}
	changed := strings.Replace(file.String(), `"node":"a"`, `"node":"b"`, 1)
	for r, err := range audit.Import(strings.NewReader(changed)) {
		fmt.Println(r.Seq, err)
	}
	// Output:
	// 1 bad export: line 2, entry 1, tampered: events: the view of event 1, a driver_claimed, differs from the payload
}

func ExampleTranscript() {
	entries := append(opening(), events.Entry{Events: []events.Event{
		events.InputAccepted{Turn: "turn-1", Items: []content.Item{content.UserText("Hello?")}, Origin: events.FromHost},
	}})
	for _, it := range audit.Transcript(entries) {
		fmt.Printf("%s: %s\n", it.Kind, it.Text())
	}
	// Output:
	// user: Hello?
}
