package audit

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/turnlog/turnlog/audit/verdict"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/events/journal"
	"github.com/turnlog/turnlog/events/seal"
)

// sealedRecords is the journal of a sealed session, with an optional change of its entries.
func sealedRecords(t *testing.T, key *seal.Key, edit func([]events.Entry) []events.Entry) []journal.Record {
	t.Helper()
	var entries []events.Entry
	for i, r := range tools().records(t) {
		r.Entry.Sealing = &events.Sealing{ID: key.ID(), Key: key, Nonce: seal.Nonce{byte(i)}}
		entries = append(entries, r.Entry)
	}
	if edit != nil {
		entries = edit(entries)
	}
	return linked(t, entries)
}

// without returns the records as a reader without their key has them.
func without(records []journal.Record) []journal.Record {
	out := slices.Clone(records)
	for i := range out {
		out[i].Entry, out[i].Err = events.Decode(out[i].Payload)
	}
	return out
}

// erased adds the tombstone of an erased session.
func erased(entries []events.Entry) []events.Entry {
	last := entries[len(entries)-1]
	return append(entries, events.Entry{
		Session: last.Session, Cause: "delete/1", At: last.At, Epoch: last.Epoch, Events: []events.Event{events.SessionDeleted{By: "ada", Reason: "asked to", Erased: true}},
	})
}

func TestASealedJournalIsJudged(t *testing.T) {
	t.Parallel()
	key := seal.New()
	whole := sealedRecords(t, key, nil)
	gone := sealedRecords(t, key, erased)
	head := Anchor{Session: "s-1", Seq: whole[3].Seq, Hash: whole[3].Hash}
	for _, row := range []struct {
		name    string
		records []journal.Record
		exit    int
		level   verdict.Level
		state   verdict.Kind
		faults  []verdict.Kind
	}{
		{"with its key", whole, verdict.ExitReached, verdict.Anchored, "", nil},
		{"without its key", without(whole), verdict.ExitUnjudged, verdict.Anchored, "", []verdict.Kind{verdict.Sealed}},
		{"erased", without(gone), verdict.ExitGone, verdict.Anchored, verdict.Erased, nil},
		{"erased, and its entries removed", without(gone[len(gone)-1:]), verdict.ExitUnjudged, verdict.None, verdict.Deleted, []verdict.Kind{verdict.Deleted}},
		{"an entry replaced", without(replace(t, gone, 4)), verdict.ExitFault, verdict.None, verdict.Erased, []verdict.Kind{verdict.Replaced}},
		{"an entry missing", without(slices.Delete(slices.Clone(gone), 4, 5)), verdict.ExitFault, verdict.None, verdict.Erased, []verdict.Kind{verdict.Missing}},
		{"an entry that is not sealed", sealedRecords(t, key, func(e []events.Entry) []events.Entry { e[5].Sealing = nil; return e }), verdict.ExitFault, verdict.None, "", []verdict.Kind{verdict.Forged}},
		{"an entry with another key", without(sealedRecords(t, key, func(e []events.Entry) []events.Entry { e[5].Sealing = events.NewSealing(seal.New()); return e })), verdict.ExitFault, verdict.None, "", []verdict.Kind{verdict.Forged, verdict.Sealed}},
		{"sealed late", sealedRecords(t, key, func(e []events.Entry) []events.Entry { e[0].Sealing = nil; return e[:2] }), verdict.ExitFault, verdict.None, "", []verdict.Kind{verdict.Forged}},
		{"not sealed, but erased", linked(t, erased(entriesOf(tools().records(t)))), verdict.ExitFault, verdict.None, verdict.Erased, []verdict.Kind{verdict.Forged}},
	} {
		v, err := Verify(journal.All(row.records), head)
		if row.name == "an entry that is not sealed" || row.name == "sealed late" || strings.HasPrefix(row.name, "not sealed") || row.name == "an entry with another key" {
			v, err = Verify(journal.All(row.records))
		}
		var kinds []verdict.Kind
		for _, f := range v.Faults {
			kinds = append(kinds, f.Kind)
		}
		if err != nil || v.Exit(verdict.Chain) != row.exit || v.Level != row.level || v.State != row.state || !slices.Equal(kinds, row.faults) {
			t.Errorf("%s: exit code %d, level %s, state %q, faults %v, %v; want %d, %s, %q, %v", row.name, v.Exit(verdict.Chain), v.Level, v.State, v.Faults, err, row.exit, row.level, row.state, row.faults)
		}
		closed := row.records[len(row.records)/2].Err != nil && row.level > verdict.None
		if says := slices.ContainsFunc(v.NotProved, func(s string) bool { return strings.Contains(s, "content") }); closed && !says {
			t.Errorf("%s: not proved is %q", row.name, v.NotProved)
		}
	}
}

func entriesOf(records []journal.Record) (out []events.Entry) {
	for _, r := range records {
		out = append(out, r.Entry)
	}
	return out
}

// replace puts an entry that was sealed again, with other content, in the place of one.
func replace(t *testing.T, records []journal.Record, at int) []journal.Record {
	t.Helper()
	records = slices.Clone(records)
	e := records[at].Entry
	e.Sealing, e.Events = events.NewSealing(e.Sealing.Key), []events.Event{events.Warning{Code: "other"}}
	payload, err := e.Encode()
	if err != nil {
		t.Fatal(err)
	}
	records[at] = journal.Record{Head: journal.Head{Seq: e.Seq, Hash: events.HashOf(payload)}, Entry: e, Payload: payload}
	return records
}

// An export of a sealed session is the same with and without its key, and shows nothing of the content.
func TestAnExportOfASealedSessionIsSealed(t *testing.T) {
	t.Parallel()
	records := sealedRecords(t, seal.New(), erased)
	text := exported(t, records)
	if again := exported(t, without(records)); again != text {
		t.Error("an export depends on the key")
	}
	if strings.Contains(text, `"hi"`) || !strings.Contains(text, `"sealed":"`) || !strings.Contains(text, `"kinds":["run_started"]`) {
		t.Errorf("the export is %s", text)
	}
	back, err := imported(strings.NewReader(text))
	if err != nil || len(back) != len(records) {
		t.Fatalf("%d records, %v", len(back), err)
	}
	v, err := VerifyImported(journal.All(back))
	if err != nil || v.Exit(verdict.Chain) != verdict.ExitGone || v.Level != verdict.Chain || v.State != verdict.Erased {
		t.Errorf("%+v, %v", v, err)
	}
	for _, forged := range []struct{ from, to string }{
		{`"kinds":["run_started"]`, `"kinds":["run_failed"]`},
		{`"sealed":"`, `"sealed":"0`},
		{`,"sealed":"`, `,"unread":"","sealed":"`},
		{`"events":[],"payload"`, `"events":[{"kind":"parked"}],"payload"`},
	} {
		if _, err := imported(strings.NewReader(strings.Replace(text, forged.from, forged.to, 1))); err == nil {
			t.Errorf("an export with %s is accepted", forged.to)
		}
	}
	open, err := EntryJSON(records[2])
	closed, closedErr := EntryJSON(without(records)[2])
	if err != nil || closedErr != nil || !bytes.Contains(open, []byte(`"hi"`)) || bytes.Contains(closed, []byte(`"hi"`)) || !bytes.Contains(closed, []byte(`"payload"`)) {
		t.Errorf("with the key: %s, %v; without: %s, %v", open, err, closed, closedErr)
	}
}
