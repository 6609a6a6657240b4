package audit

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/turnlog/turnlog/audit/verdict"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/events/journal"
)

// ofALaterRelease returns a journal as a later release wrote it: what is a snapshot_taken in the book is of a kind
// that this one does not know, and entries after the first ones may have another format.
func (b book) ofALaterRelease(t *testing.T, format func(seq uint64) int) []journal.Record {
	t.Helper()
	records := b.records(t)
	var prev events.Hash
	for i := range records {
		r := &records[i]
		r.Entry.Prev, r.Entry.Version = prev, format(r.Seq)
		payload, err := r.Entry.Encode()
		if err != nil {
			t.Fatal(err)
		}
		r.Payload = bytes.Replace(payload, []byte(events.KindSnapshotTaken), []byte("snapshot_token"), 1)
		r.Hash = events.HashOf(r.Payload)
		r.Entry, r.Err = events.Decode(r.Payload)
		prev = r.Hash
	}
	return records
}

// An entry that this release cannot read may claim the session, or hide what only a forger writes.
func TestClaimsAreJudgedAroundEntriesOfALaterRelease(t *testing.T) {
	t.Parallel()
	unknown, claim, known := events.SnapshotTaken{}, events.DriverClaimed{Epoch: 2}, events.Warning{Code: "x"}
	this := func(uint64) int { return events.Version }
	from := func(first uint64) func(uint64) int {
		return func(seq uint64) int {
			if seq >= first {
				return 9
			}
			return events.Version
		}
	}
	for name, tt := range map[string]struct {
		book   book
		format func(uint64) int
		want   []verdict.Kind
	}{
		"a claim":                             {tools().end(events.Parked{}).end(claim, unknown).end(known), this, []verdict.Kind{verdict.Newer}},
		"after a claim":                       {tools().end(events.Parked{}).end(claim).end(unknown), this, []verdict.Kind{verdict.Newer}},
		"before it parks":                     {tools().end(unknown, events.Parked{}).end(claim), this, []verdict.Kind{verdict.Newer}},
		"without a claim":                     {tools().end(events.Parked{}).end(unknown), this, []verdict.Kind{verdict.Forged, verdict.Newer}},
		"without a claim, later":              {tools().end(unknown).end(events.Parked{}).end(known), this, []verdict.Kind{verdict.Forged, verdict.Newer}},
		"a claim in a later format":           {tools().end(events.Parked{}).end(claim), from(12), []verdict.Kind{verdict.Newer}},
		"entries in a later format":           {tools().end(events.Parked{}).end(claim).end(known), from(12), []verdict.Kind{verdict.Newer, verdict.Newer}},
		"a later format from the first entry": {tools()[:1], from(1), []verdict.Kind{verdict.Newer}},
	} {
		records := tt.book.ofALaterRelease(t, tt.format)
		for from, verify := range map[string]func() (*verdict.Verdict, error){
			"a stream": func() (*verdict.Verdict, error) { return Verify(journal.All(records)) },
			"a file": func() (*verdict.Verdict, error) {
				return VerifyImported(Import(strings.NewReader(exported(t, records))))
			},
		} {
			v, err := verify()
			var kinds []verdict.Kind
			for _, f := range v.Faults {
				kinds = append(kinds, f.Kind)
			}
			if err != nil || !slices.Equal(kinds, tt.want) {
				t.Errorf("%s, from %s: %v, %v; want %v", name, from, v.Faults, err, tt.want)
			}
		}
	}
}

// An entry of an earlier epoch in a later format is still one that its writer cannot have written.
func TestALaterFormatIsNoExcuseForAnEarlierEpoch(t *testing.T) {
	t.Parallel()
	b := tools().end(events.DriverClaimed{Epoch: 2})
	records := b.records(t)
	stale := forge(t, b.end(events.Warning{Code: "x"}).records(t)[11], func(e *events.Entry) { e.Version, e.Epoch = 9, 1 })
	v, err := Verify(journal.All(append(records, stale)))
	if first, _ := v.First(); err != nil || first.Kind != verdict.Forged || first.Invariant != epochRises {
		t.Errorf("%v, %v", v.Faults, errors.Join(err))
	}
}
