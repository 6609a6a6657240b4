package audit

import (
	"bytes"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"testing"

	"github.com/turnlog/turnlog/audit/verdict"
	"github.com/turnlog/turnlog/commands"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/events/journal"
)

// reseal edits a journal's entries before they are chained, like a faulty writer.
func reseal(t *testing.T, edit func([]events.Entry)) []journal.Record {
	t.Helper()
	var entries []events.Entry
	for _, r := range tools().records(t) {
		entries = append(entries, r.Entry)
	}
	edit(entries)
	return linked(t, entries)
}

// forge writes an entry that Seal would reject, with a correct hash.
func forge(t *testing.T, r journal.Record, edit func(*events.Entry)) journal.Record {
	t.Helper()
	edit(&r.Entry)
	payload, err := r.Entry.Encode()
	if err != nil {
		t.Fatal(err)
	}
	return journal.Record{Head: journal.Head{Seq: r.Entry.Seq, Hash: events.HashOf(payload)}, Entry: r.Entry, Payload: payload}
}

func TestABreakInTheChainIsReportedAtItsEntry(t *testing.T) {
	t.Parallel()
	good := tools().records(t)
	edited := func(edit func([]journal.Record) []journal.Record) []journal.Record { return edit(slices.Clone(good)) }
	other := book{{events.DriverClaimed{Epoch: 1}}, {events.RunStarted{Stepped: true}}}.records(t)
	for _, row := range []struct {
		name      string
		records   []journal.Record
		seq       uint64
		invariant string
		says      string
	}{
		{"a missing entry", edited(func(r []journal.Record) []journal.Record { return slices.Delete(r, 4, 5) }), 6, singleWriter, "entry 5 is missing"},
		{"missing entries", edited(func(r []journal.Record) []journal.Record { return slices.Delete(r, 3, 6) }), 7, singleWriter, "entries 4 to 6 are missing"},
		{"no beginning", good[2:], 3, singleWriter, "entries 1 to 2 are missing"},
		{"an entry twice", edited(func(r []journal.Record) []journal.Record { return slices.Insert(r, 4, r[3]) }), 4, singleWriter, "a repetition or out of order"},
		{"two entries swapped", edited(func(r []journal.Record) []journal.Record { r[3], r[4] = r[4], r[3]; return r }), 5, singleWriter, "entry 4 is missing"},
		{"an entry of another writer", edited(func(r []journal.Record) []journal.Record { r[1] = other[1]; return r }), 3, singleWriter, "changed or replaced"},
		{"a changed payload", edited(func(r []journal.Record) []journal.Record {
			r[4].Payload = bytes.Replace(r[4].Payload, []byte("c2"), []byte("c3"), 1)
			return r
		}), 5, singleWriter, "the bytes were changed"},
		{"a changed hash", edited(func(r []journal.Record) []journal.Record { r[4].Hash[0]++; return r }), 5, singleWriter, "the bytes were changed"},
		{"a wrong place", edited(func(r []journal.Record) []journal.Record { r[4].Seq = 9; return r }), 9, singleWriter, "stored as entry 9, but its content says 5"},
		{"another session", reseal(t, func(e []events.Entry) { e[5].Session = "s-2" }), 6, singleWriter, "belongs to session s-2, not to s-1"},
		{"no entry at all", edited(func(r []journal.Record) []journal.Record {
			r[4].Payload = []byte("gone")
			r[4].Hash = events.HashOf(r[4].Payload)
			return r
		}), 5, wholeEntries, "it cannot be read"},
		{"a newer format", edited(func(r []journal.Record) []journal.Record {
			return append(r[:4], forge(t, r[4], func(e *events.Entry) { e.Version = 9 }))
		}), 5, wholeEntries, "format version 9"},
		{"an unknown kind", edited(func(r []journal.Record) []journal.Record {
			r[5].Payload = bytes.Replace(r[5].Payload, []byte("approval_required"), []byte("approval_inspired"), 1)
			r[5].Hash = events.HashOf(r[5].Payload)
			return r[:6]
		}), 6, wholeEntries, `unknown event kind "approval_inspired": a newer release wrote it`},
		{"a live event", reseal(t, func(e []events.Entry) { e[5].Events = []events.Event{events.ToolProgress{}} }), 6, wholeEntries, "never stored"},
		{"an empty entry", reseal(t, func(e []events.Entry) { e[5].Events = nil }), 6, wholeEntries, "it has no events"},
		{"an old epoch", reseal(t, func(e []events.Entry) { e[5].Epoch = 0 }), 6, epochRises, "written in epoch 0, but epoch 1 holds"},
		{"an epoch without a claim", reseal(t, func(e []events.Entry) { e[5].Epoch = 2 }), 6, epochRises, "written in epoch 2, but epoch 1 holds"},
		{"no claim", reseal(t, func(e []events.Entry) { e[0].Events = []events.Event{events.Warning{}} }), 1, epochRises, "before any host claimed"},
		{"a claim of an old epoch", tools().end(events.DriverClaimed{Epoch: 1}).records(t), 11, epochRises, "claims epoch 1 after epoch 1"},
		{"an entry after its host parked", tools().end(events.Parked{}).end(events.Warning{Code: "x"}).records(t), 12, epochRises, "had parked the session"},
		{"a claim after other events", tools().end(events.Warning{}, events.DriverClaimed{Epoch: 2}).records(t), 11, epochRises, "not the first event of its entry"},
		{"a falling cursor", reseal(t, func(e []events.Entry) {
			e[5].Cursors = []events.Cursor{{Lane: events.LaneAsk, Seq: 7}, {Lane: events.LaneReport, Seq: 3}}
			e[6].Cursors = []events.Cursor{{Lane: events.LaneAsk, Seq: 7}, {Lane: events.LaneReport, Seq: 2}}
		}), 7, cursorsRise, `"report" falls from 3 to 2`},
		{"a falling cursor at the same time", reseal(t, func(e []events.Entry) {
			e[5].Cursors = []events.Cursor{{Lane: events.LaneReport, Seq: 3, At: 5}}
			e[6].Cursors = []events.Cursor{{Lane: events.LaneReport, Seq: 2, At: 5}}
		}), 7, cursorsRise, `"report" falls from 3 to 2`},
		{"a cause twice", reseal(t, func(e []events.Entry) { e[6].Cause = e[4].Cause }), 7, "cause-once", "cmd-5 already caused entry 5"},
		{"no cause", reseal(t, func(e []events.Entry) { e[6].Cause = "" }), 7, "cause-once", "names no command"},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			report, err := Verify(journal.All(row.records))
			if err != nil {
				t.Fatal(err)
			}
			first, found := report.First()
			if !found || first.Seq != row.seq || first.Invariant != row.invariant || !strings.Contains(first.What, row.says) {
				t.Errorf("first is %v, want entry %d: %s: …%s…; all: %v", first, row.seq, row.invariant, row.says, report.Faults)
			}
		})
	}
}

func TestAfterABrokenLinkOnlyTheChainIsChecked(t *testing.T) {
	t.Parallel()
	records := slices.Delete(tools().records(t), 4, 5)
	report, err := Verify(journal.All(records))
	if err != nil || report.UnjudgedFrom != 6 || len(report.Faults) != 1 {
		t.Errorf("UnjudgedFrom = %d, violations %v, error %v", report.UnjudgedFrom, report.Faults, err)
	}
	if report.Entries != 9 || report.Head.Seq != 10 || report.OK() {
		t.Errorf("the report is %+v", report)
	}
}

func TestACommandRepeatedMuchLaterIsAWarning(t *testing.T) {
	t.Parallel()
	story := tools()
	for range 65 {
		story = story.end(events.Warning{Code: "x"})
	}
	var entries []events.Entry
	for _, r := range story.records(t) {
		entries = append(entries, r.Entry)
	}
	entries[len(entries)-1].Cause = entries[4].Cause
	records := linked(t, entries)
	report, err := Verify(journal.All(records))
	if err != nil || !report.OK() || len(report.Warnings) != 1 || report.Warnings[0].Invariant != "cause-once" {
		t.Errorf("%v, warnings %v, error %v", report.Faults, report.Warnings, err)
	}
}

func TestAClockSetBackIsAWarning(t *testing.T) {
	t.Parallel()
	records := reseal(t, func(e []events.Entry) { e[5].At = 1 })
	report, err := Verify(journal.All(records))
	if err != nil || !report.OK() {
		t.Fatalf("%v, %v", report.Faults, err)
	}
	if len(report.Warnings) != 1 || report.Warnings[0].Seq != 6 || report.Warnings[0].Invariant != timeGoesOn {
		t.Errorf("warnings are %v", report.Warnings)
	}
	if _, found := report.First(); found {
		t.Error("a warning is reported as a violation")
	}
}

func TestAnAcceptedCommandMustCauseAnEntry(t *testing.T) {
	t.Parallel()
	c := NewChecker()
	c.Accepted("cmd-3", "cmd-77")
	for _, r := range tools().records(t) {
		c.Add(r)
	}
	for range 2 { // a second Verdict repeats nothing
		found := c.Verdict().Faults
		if len(found) != 1 || found[0].Invariant != noLostCommand || !strings.Contains(found[0].String(), "entry 10, missing (no-lost-command): command cmd-77") {
			t.Errorf("found %v", found)
		}
	}
	b := book{{events.Warning{Code: "later"}}}
	late := b.records(t)[0]
	late = forge(t, late, func(e *events.Entry) {
		last := tools().records(t)[9]
		e.Seq, e.Prev, e.Cause, e.Epoch, e.At = 11, last.Hash, "cmd-77", 1, last.Entry.At
	})
	c.Add(late)
	if found := c.Verdict().Faults; len(found) != 0 {
		t.Errorf("after its entry arrived: %v", found)
	}
}

func TestVerifyReportsTheEntriesBeforeAReadError(t *testing.T) {
	t.Parallel()
	down := errors.New("the store is down")
	records := tools().records(t)
	report, err := Verify(func(yield func(journal.Record, error) bool) {
		_ = yield(records[0], nil) && yield(records[1], nil) && yield(journal.Record{}, down)
	})
	if !errors.Is(err, down) || report.Entries != 2 || !report.OK() || report.Head.Hash != records[1].Hash {
		t.Errorf("Verify = %+v, %v", report, err)
	}
}

func TestAnEmptyJournalIsWhole(t *testing.T) {
	t.Parallel()
	report, err := Verify(journal.All(nil))
	if err != nil || !report.OK() || report.Entries != 0 || report.Head.Seq != 0 || !report.Head.Hash.IsZero() {
		t.Errorf("Verify = %+v, %v", report, err)
	}
}

func TestAnEntryThatTheCoreCannotFoldIsAViolation(t *testing.T) {
	t.Parallel()
	records := tools().after(events.KindTurnFinished, 1, events.RoundFinished{Turn: "turn-1", Round: 2, TranscriptLen: 5}).records(t)
	found := check(records)
	if !slices.ContainsFunc(found, func(v verdict.Fault) bool { return v.Invariant == replayable && v.Seq == 10 }) {
		t.Errorf("found %v", found)
	}
	state, err := Replay("s-1", journal.All(records))
	if !errors.Is(err, journal.ErrDamaged) || !strings.Contains(err.Error(), "s-1/10") || state == nil {
		t.Errorf("Replay = %v", err)
	}
}

func TestReplayStopsAtAnUnreadableEntry(t *testing.T) {
	t.Parallel()
	records := tools().records(t)
	records[4].Err = events.ErrUnknownKind
	if state, err := Replay("s-1", journal.All(records)); !errors.Is(err, events.ErrUnknownKind) || state.Seq != 4 {
		t.Errorf("Replay = %v at %d", err, state.Seq)
	}
	var failing iter.Seq2[journal.Record, error] = func(yield func(journal.Record, error) bool) { yield(journal.Record{}, journal.ErrDamaged) }
	if _, err := Replay("s-1", failing); !errors.Is(err, journal.ErrDamaged) {
		t.Errorf("Replay = %v", err)
	}
}

func TestTranscriptHasEveryItem(t *testing.T) {
	t.Parallel()
	b := tools()
	var entries []events.Entry
	for _, r := range b.records(t) {
		entries = append(entries, r.Entry)
	}
	if got := Transcript(entries); len(got) != 5 || got[2].Kind != content.Tool || got[4].Text() != "done" {
		t.Errorf("Transcript = %+v", got)
	}
	if Transcript(nil) != nil {
		t.Error("no entries have a transcript")
	}
}

func TestADifferingItemIsNamed(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		items []content.Item
		want  string
	}{
		{[]content.Item{content.UserText("hi")}, ""},
		{[]content.Item{content.UserText("ho")}, "item 1 of the core's transcript differs"},
		{nil, "has 1 items, but the facts add up to 0"},
	} {
		var r replayer
		for _, rec := range tools().records(t)[:3] {
			if problem := r.fold(rec.Entry, &transcript{}); problem != "" {
				t.Fatal(problem)
			}
		}
		fourth := tools().records(t)[3].Entry
		problem := r.fold(fourth, &transcript{items: row.items})
		if !strings.Contains(problem, row.want) || (problem == "") != (row.want == "") {
			t.Errorf("fold = %q, want %q", problem, row.want)
		}
		if problem != "" && r.fold(tools().records(t)[4].Entry, &transcript{}) != "" {
			t.Error("a problem is reported twice")
		}
	}
}

func TestATaskAfterALongConversationKeepsTheSystemItems(t *testing.T) {
	t.Parallel()
	d := drive(t, commands.OpenSession{Transcript: []content.Item{content.SystemText("be brief"), content.SystemText("and kind")}})
	long := strings.Repeat("hello ", 60)
	for task := range 2 { // content before the first one is no longer in memory
		for range 500 {
			d.say(long)
			d.reply(long)
		}
		d.do(commands.StartTask{Spec: events.TaskSpec{Goal: "green"}})
		id := fmt.Sprintf("task-turn-%d", 501*(task+1))
		d.do(commands.ReportRecall{Task: id})
		d.reply("done")
		d.do(commands.ReportMemory{Task: id})
	}
	report, err := Verify(journal.All(d.records))
	if err != nil || !report.OK() || report.Turns != 1002 {
		t.Errorf("%+v, %v", report, err)
	}
}
