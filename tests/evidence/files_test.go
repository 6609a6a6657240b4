package evidence

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/turnlog/turnlog/audit"
	"github.com/turnlog/turnlog/audit/verdict"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/events/journal"
)

// falsification is a file, and what must be found in it.
type falsification struct {
	name    string
	file    string
	anchors []audit.Anchor
	kind    verdict.Kind // of the first fault; "": none
	seq     uint64       // of its entry
	exit    int
}

func join(lines []string) string { return strings.Join(lines, "") }

func TestEveryFalsificationIsFound(t *testing.T) {
	t.Parallel()
	rows := slices.Concat(controls(t), cutLines(t), changedViews(t), changedPayloads(t), rewrittenHistories(t), tombstones(t), anchored(t))
	if len(rows) < 100 {
		t.Errorf("only %d cases", len(rows))
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			v, err := audit.VerifyImported(audit.Import(strings.NewReader(row.file)), row.anchors...)
			if err != nil {
				t.Fatal(err)
			}
			first, _ := v.First()
			if first.Kind != row.kind || first.Seq != row.seq || v.Exit(verdict.Chain) != row.exit {
				t.Errorf("exit code %d, %v\nwant %d, entry %d, %s", v.Exit(verdict.Chain), v.Faults, row.exit, row.seq, row.kind)
			}
		})
	}
}

// controls are files without a fault.
func controls(t *testing.T) []falsification {
	t.Helper()
	records := seal(t, entries())
	rows := []falsification{
		{name: "control: as exported", file: join(export(t, records))},
		{name: "control: lines with spaces", file: strings.ReplaceAll(join(export(t, records)), `,"prev"`, ` , "prev"`)},
		{name: "control: blank lines", file: strings.ReplaceAll(join(export(t, records)), "\n", "\n\n")},
	}
	for i := range records {
		rows = append(rows, falsification{name: fmt.Sprintf("control: the first %d entries", i+1), file: join(export(t, records[:i+1]))})
	}
	return rows
}

// cutLines removes, repeats, swaps and cuts lines.
func cutLines(t *testing.T) (rows []falsification) {
	t.Helper()
	lines := export(t, seal(t, entries()))
	n := len(lines)
	fault := func(name, file string, kind verdict.Kind, seq uint64) {
		rows = append(rows, falsification{name: name, file: file, kind: kind, seq: seq, exit: verdict.ExitFault})
	}
	fault("no file", "", verdict.Truncated, 0)
	fault("only the header", lines[0], verdict.Truncated, 0)
	fault("no header", join(lines[1:]), verdict.Unreadable, 0)
	fault("two headers", lines[0]+join(lines), verdict.Unreadable, 0)
	fault("two exports", join(lines)+"\n"+join(lines[1:]), verdict.Tampered, 1)
	fault("a line nested without end", lines[0]+lines[1]+strings.Repeat(`{"a":[`, 1<<20)+"\n"+lines[2], verdict.Unreadable, 0)
	for i := 1; i < n; i++ {
		if i < n-1 {
			fault(fmt.Sprintf("without entry %d", i), join(slices.Delete(slices.Clone(lines), i, i+1)), verdict.Missing, uint64(i)+1)
			fault(fmt.Sprintf("entry %d cut", i), join(lines[:i])+lines[i][:len(lines[i])/2], verdict.Truncated, 0)
			fault(fmt.Sprintf("entry %d twice", i), join(slices.Insert(slices.Clone(lines), i, lines[i])), verdict.Tampered, uint64(i))
			swapped := slices.Clone(lines)
			swapped[i], swapped[i+1] = strings.TrimSpace(swapped[i+1])+"\n", swapped[i]+"\n"
			fault(fmt.Sprintf("entries %d and %d swapped", i, i+1), join(swapped), verdict.Missing, uint64(i)+1)
		}
	}
	return rows
}

// changedViews changes what readers of the JSON see.
func changedViews(t *testing.T) (rows []falsification) {
	t.Helper()
	lines := export(t, seal(t, entries()))
	edit := func(name string, n int, from, to string, kind verdict.Kind, seq uint64) {
		changed := slices.Clone(lines)
		changed[n] = strings.Replace(changed[n], from, to, 1)
		if changed[n] == lines[n] {
			t.Fatalf("%s: nothing was changed in %s", name, lines[n])
		}
		rows = append(rows, falsification{name: "view: " + name, file: join(changed), kind: kind, seq: seq, exit: verdict.ExitFault})
	}
	tampered := func(name string, n int, from, to string) { edit(name, n, from, to, verdict.Tampered, uint64(n)) }
	for _, key := range []string{"seq", "session", "prev", "hash", "at", "epoch", "cause", "kinds", "events"} {
		tampered(key+" in another case", 7, `"`+key+`":`, `"`+strings.ToUpper(key)+`":`)
		tampered(key+" added in another case", 7, `"`+key+`":`, `"`+strings.ToUpper(key)+`":[],"`+key+`":`)
		tampered(key+" twice", 7, `"`+key+`":`, `"`+key+`":[],"`+key+`":`)
	}
	tampered("a key more", 7, `{"seq"`, `{"note":"approved","seq"`)
	tampered("a key more in an event", 7, `"by":"ada"`, `"by":"ada","user":"ada"`)
	tampered("a key of an event twice", 7, `"by":"ada"`, `"by":"bob","by":"ada"`)
	tampered("a key of an event in another case", 7, `"by":"ada"`, `"BY":"bob","by":"ada"`)
	tampered("another approver", 7, `"by":"ada"`, `"by":"bob"`)
	tampered("another outcome", 7, `"outcome":"approved"`, `"outcome":"denied"`)
	tampered("unread", 7, `,"payload"`, `,"unread":"a later release wrote it","payload"`)
	tampered("an event less", 7, `,{"kind":"tool_dispatched"`, `],"unread":"","x":[{"kind":"tool_dispatched"`)
	tampered("other arguments", 6, `"path"`, `"other"`)
	tampered("another sequence", 7, `"seq":7`, `"seq":8`)
	tampered("a number in another form", 7, `"seq":7`, `"seq":7.0`)
	tampered("another time", 7, `"at":"2023`, `"at":"2024`)
	tampered("another hash", 7, `"hash":"`, `"hash":"0`)
	edit("no payload", 7, `"payload"`, `"payloud"`, verdict.Unreadable, 0)
	edit("a payload that is not base64", 7, `"payload":"`, `"payload":"!`, verdict.Unreadable, 0)
	edit("no JSON", 7, `{"seq"`, `{{"seq"`, verdict.Tampered, 7)
	edit("more values than fit in memory", 7, `,"payload"`, `,"x":[`+strings.Repeat("0,", 2_000_000)+`0],"payload"`, verdict.Tampered, 7)
	edit("something after the object", 7, "\"}\n", "\"} {}\n", verdict.Unreadable, 0)
	edit("a header with a key more", 0, `{"format"`, `{"note":1,"format"`, verdict.Tampered, 0)
	edit("a header with a key twice", 0, `"version":1`, `"version":1,"version":1`, verdict.Tampered, 0)
	edit("a header with a key in another case", 0, `"session"`, `"Session"`, verdict.Tampered, 0)
	edit("a header of another session", 0, `"s-1"`, `"s-2"`, verdict.Foreign, 1)
	edit("a header of another format", 0, `turnlog-journal`, `other`, verdict.Unreadable, 0)
	rows = append(rows, falsification{
		name: "view: a header of a later version", file: strings.Replace(join(lines), `"version":1`, `"version":2`, 1),
		kind: verdict.Newer, exit: verdict.ExitUnjudged,
	})
	return rows
}

// changedPayloads changes bytes, makes hash and view match, and rebuilds the chain.
func changedPayloads(t *testing.T) (rows []falsification) {
	t.Helper()
	add := func(name string, records []journal.Record, kind verdict.Kind, seq uint64, exit int) {
		rows = append(rows, falsification{name: "payload: " + name, file: join(export(t, records)), kind: kind, seq: seq, exit: exit})
	}
	good := seal(t, entries())
	longer := func(b []byte) []byte { return append([]byte{0xdc, 0, b[0] & 0x0f}, b[1:]...) } // an array in a longer form
	add("an array in a longer form", replaced(t, good, 3, longer(good[3].Payload)), verdict.Tampered, 4, verdict.ExitFault)
	add("an integer in a longer form", replaced(t, good, 3, append([]byte{good[3].Payload[0], 0xcc}, good[3].Payload[1:]...)), verdict.Tampered, 4, verdict.ExitFault)
	claim := good[0].Payload
	at := strings.Index(string(claim), "\xa1e\x01")
	twice := slices.Concat(claim[:at-1], []byte{claim[at-1] + 1}, []byte("\xa1e\x09"), claim[at:])
	add("a field twice", replaced(t, good, 0, twice), verdict.Tampered, 1, verdict.ExitFault)
	unknown := slices.Concat(claim[:at-1], []byte{claim[at-1] + 1}, []byte("\xa3new\x09"), claim[at:])
	add("an unknown field", replaced(t, good, 0, unknown), verdict.Newer, 1, verdict.ExitUnjudged)
	add("a later format", replaced(t, good, 8, slices.Concat(good[8].Payload[:1], []byte{events.VersionSealed + 1}, good[8].Payload[2:])), verdict.Newer, 9, verdict.ExitUnjudged)
	kind := strings.Replace(string(good[8].Payload), "turn_finished", "turn_vanished", 1)
	add("an unknown kind", replaced(t, good, 8, []byte(kind)), verdict.Newer, 9, verdict.ExitUnjudged)
	lines := export(t, good)
	for name, payload := range map[string][]byte{
		"empty": {}, "no entry": []byte("hello"), "cut": good[4].Payload[:20], "more": append(slices.Clone(good[4].Payload), 0),
	} {
		changed := slices.Clone(lines)
		changed[5] = strings.Replace(changed[5], base64.StdEncoding.EncodeToString(payloadOf(t, lines[5])), base64.StdEncoding.EncodeToString(payload), 1)
		rows = append(rows, falsification{name: "payload: " + name, file: join(changed), kind: verdict.Unreadable, exit: verdict.ExitFault})
	}
	return rows
}

// rewrittenHistories are chains that a writer of journals rebuilt with entries that no host writes.
func rewrittenHistories(t *testing.T) (rows []falsification) {
	t.Helper()
	add := func(name string, seq uint64, edit func(e []events.Entry) []events.Entry) {
		rows = append(rows, falsification{
			name: "history: " + name, file: join(export(t, rewritten(t, edit))), kind: verdict.Forged, seq: seq, exit: verdict.ExitFault,
		})
	}
	event := func(n, i int, ev events.Event) func([]events.Entry) []events.Entry {
		return func(e []events.Entry) []events.Entry { e[n-1].Events[i] = ev; return e }
	}
	other := json.RawMessage(`{"path":"/etc/passwd"}`)
	add("other arguments ran", 7, func(e []events.Entry) []events.Entry {
		ev := e[6].Events[1].(events.ToolDispatched) //nolint:forcetypeassert // see entries
		ev.Input = other
		e[6].Events[1] = ev
		return e
	})
	add("the approver was shown other arguments", 6, func(e []events.Entry) []events.Entry {
		ev := e[5].Events[0].(events.ApprovalRequired) //nolint:forcetypeassert // see entries
		ev.Approval.Input = other
		e[5].Events[0] = ev
		return e
	})
	add("the call was requested with other arguments", 5, func(e []events.Entry) []events.Entry {
		ev := e[4].Events[2].(events.ToolCallRequested) //nolint:forcetypeassert // see entries
		ev.Call.Input = other
		e[4].Events[2] = ev
		return e
	})
	add("no approval", 7, func(e []events.Entry) []events.Entry { e[6].Events = e[6].Events[1:]; return e })
	add("a denied call runs", 7, event(7, 0, events.ApprovalResolved{Approval: "a1", Call: "c1", Outcome: events.Denied, By: "ada"}))
	add("an approval of another call", 7, event(7, 0, events.ApprovalResolved{Approval: "a1", Call: "c2", Outcome: events.Approved, By: "ada"}))
	add("a result without a run", 8, func(e []events.Entry) []events.Entry { e[6].Events = e[6].Events[:1]; return e })
	add("another epoch", 6, func(e []events.Entry) []events.Entry { e[5].Epoch = 2; return e })
	add("no claim", 1, event(1, 0, events.Warning{Code: "x"}))
	add("a claim of the same epoch", 6, event(6, 0, events.DriverClaimed{Epoch: 1}))
	add("no cause", 6, func(e []events.Entry) []events.Entry { e[5].Cause = ""; return e })
	add("a cause twice", 6, func(e []events.Entry) []events.Entry { e[5].Cause = e[3].Cause; return e })
	add("no events", 6, func(e []events.Entry) []events.Entry { e[5].Events = nil; return e })
	add("a live event", 6, event(6, 0, events.ToolProgress{Call: "c1"}))
	add("a longer transcript", 8, event(8, 1, events.RoundFinished{Turn: "turn-1", Round: 1, TranscriptLen: 9}))
	add("more rounds", 9, event(9, 3, events.TurnFinished{Turn: "turn-1", FinishReason: content.Completed, Rounds: 3}))
	add("input without a queue", 4, func(e []events.Entry) []events.Entry {
		e[2].Events = []events.Event{events.Warning{Code: "x"}}
		return e
	})
	rows = append(rows, falsification{
		name: "history: another session", kind: verdict.Foreign, seq: 6, exit: verdict.ExitFault,
		file: join(export(t, rewritten(t, func(e []events.Entry) []events.Entry { e[5].Session = "s-2"; return e }))),
	})
	return rows
}

// tombstones of sessions that were deleted, or not.
func tombstones(t *testing.T) (rows []falsification) {
	t.Helper()
	records := seal(t, entries())
	deleted := append(slices.Clone(records), tombstone(t, records, events.SessionDeleted{By: "ada"}))
	expired := tombstone(t, records, events.SessionDeleted{Expired: true})
	add := func(name string, list []journal.Record, kind verdict.Kind, seq uint64, exit int) {
		rows = append(rows, falsification{name: "tombstone: " + name, file: join(export(t, list)), kind: kind, seq: seq, exit: exit})
	}
	add("nothing removed yet", deleted, "", 0, verdict.ExitGone)
	add("half removed", deleted[4:], "", 0, verdict.ExitGone)
	add("alone", deleted[9:], "", 0, verdict.ExitGone)
	add("expired", []journal.Record{expired}, "", 0, verdict.ExitGone)
	add("without the approval", slices.Delete(slices.Clone(deleted), 6, 7), verdict.Missing, 8, verdict.ExitFault)
	add("without the middle", append(slices.Clone(deleted[:2]), deleted[9]), verdict.Missing, 10, verdict.ExitFault)
	add("after a front that is still there", append(slices.Clone(deleted[:8]), deleted[9]), verdict.Missing, 10, verdict.ExitFault)
	add("before an entry", append(slices.Clone(deleted), tombstone(t, deleted, events.SessionDeleted{})), verdict.Forged, 11, verdict.ExitFault)
	add("of another history", append(slices.Clone(records[:8]), tombstone(t, seal(t, entries()[:7]), events.SessionDeleted{})), verdict.Tampered, 8, verdict.ExitFault)
	return rows
}

// anchored journals contradict or lack what was seen before.
func anchored(t *testing.T) (rows []falsification) {
	t.Helper()
	records := seal(t, entries())
	anchor := func(i int) audit.Anchor {
		return audit.Anchor{Session: "s-1", Seq: records[i].Seq, Hash: records[i].Hash}
	}
	add := func(name string, list []journal.Record, a audit.Anchor, kind verdict.Kind, seq uint64, exit int) {
		rows = append(rows, falsification{name: "anchor: " + name, file: join(export(t, list)), anchors: []audit.Anchor{a}, kind: kind, seq: seq, exit: exit})
	}
	invented := records[len(records)-1]
	invented.Hash[0]++
	add("held", records, anchor(4), "", 0, verdict.ExitReached)
	add("of the end", records, anchor(8), "", 0, verdict.ExitReached)
	add("cut off", records[:7], anchor(8), verdict.Truncated, 9, verdict.ExitFault)
	add("history rewritten", rewritten(t, func(e []events.Entry) []events.Entry { e[2].At--; return e }), anchor(8), verdict.Replaced, 9, verdict.ExitFault)
	add("covered by a tombstone", []journal.Record{tombstone(t, records, events.SessionDeleted{})}, anchor(4), verdict.Deleted, 5, verdict.ExitUnjudged)
	add("covered by an expiry", []journal.Record{tombstone(t, records, events.SessionDeleted{Expired: true})}, anchor(8), verdict.Expired, 9, verdict.ExitUnjudged)
	add("an invented tombstone", []journal.Record{tombstone(t, []journal.Record{invented}, events.SessionDeleted{By: "alice"})}, anchor(8), verdict.Replaced, 9, verdict.ExitFault)
	add("a tombstone after a shorter history", []journal.Record{tombstone(t, records[:5], events.SessionDeleted{})}, anchor(8), verdict.Truncated, 9, verdict.ExitFault)
	claim := func(n int, at, taken content.Time, more ...events.Event) []journal.Record {
		list := entries()[:n]
		list = append(list, events.Entry{Session: "s-1", Cause: "restore/1", At: at, Epoch: 2, Events: []events.Event{
			events.DriverClaimed{Epoch: 2, Node: "restore", Restored: &events.Restored{Backup: "b1", Taken: taken}},
		}})
		for _, ev := range more {
			list = append(list, events.Entry{Session: "s-1", Cause: "cmd-y", At: records[n].Entry.At, Epoch: 2, Events: []events.Event{ev}})
		}
		return seal(t, list)
	}
	began, end := records[0].Entry.At, anchor(8)
	end.At = records[8].Entry.At
	later := end.At.Add(time.Hour)
	add("lost in a restore", claim(5, later, began), end, verdict.Restored, 9, verdict.ExitUnjudged)
	add("older than the backup of a restore", claim(5, later, later), end, verdict.Truncated, 9, verdict.ExitFault)
	add("later than a restore", claim(5, began, began), end, verdict.Truncated, 9, verdict.ExitFault)
	add("later than what follows a restore that is dated ahead", claim(5, later, began, events.Warning{Code: "x"}), end, verdict.Truncated, 9, verdict.ExitFault)
	add("before the place of a restore", claim(5, later, began), audit.Anchor{Session: "s-1", Seq: 5, Hash: events.Hash{1}, At: end.At}, verdict.Replaced, 5, verdict.ExitFault)
	cut := export(t, records)
	rows = append(rows, falsification{
		name: "anchor: a line that is cut off comes first", file: join(cut[:4]) + cut[4][:40], anchors: []audit.Anchor{anchor(8)},
		kind: verdict.Truncated, exit: verdict.ExitFault,
	})
	return rows
}
