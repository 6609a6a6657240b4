package audit

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/turnlog/turnlog/audit/verdict"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/events/journal"
)

// link appends an entry to records.
func link(t *testing.T, records []journal.Record, evs ...events.Event) []journal.Record {
	t.Helper()
	last := records[len(records)-1]
	e := events.Entry{Session: last.Entry.Session, Cause: fmt.Sprintf("move/%d", last.Seq), At: last.Entry.At, Epoch: last.Entry.Epoch, Events: evs}
	if claim, ok := evs[0].(events.DriverClaimed); ok {
		e.Epoch = claim.Epoch
	}
	e, payload, head, err := journal.Link(last.Head, e)
	if err != nil {
		t.Fatal(err)
	}
	return append(slices.Clone(records), journal.Record{Head: head, Entry: e, Payload: payload})
}

// movedAway returns the journals of a session that was moved: that of the source, and that of the target.
func movedAway(t *testing.T, original []journal.Record) (source, target []journal.Record) {
	t.Helper()
	source = link(t, original, events.SessionDeleted{By: "ada", MovedTo: &events.MovedTo{Cell: "b", Place: "nats://n2"}})
	target = slices.Clone(original)
	for i := range target {
		target[i].Moved, target[i].Stored = true, time.Time{}
	}
	target = link(t, target, events.DriverClaimed{
		Epoch: original[len(original)-1].Entry.Epoch + 1, Node: "move",
		MovedFrom: &events.MovedFrom{Cell: "a", Place: "nats://n1", Tombstone: source[len(source)-1].Hash, Entry: source[len(source)-1].Payload},
	}, events.Parked{})
	return source, link(t, target, events.DriverClaimed{Epoch: original[len(original)-1].Entry.Epoch + 2, Node: "node-9"})
}

func TestAMovedSessionIsWholeInBothPlaces(t *testing.T) {
	t.Parallel()
	original := tools().records(t)
	n := len(original)
	source, target := movedAway(t, original)
	v, err := Verify(journal.All(target))
	if err != nil || !v.OK() || v.State != "" || v.Level != verdict.Chain || len(v.Warnings) > 0 {
		t.Errorf("target: %v, %v, state %q, level %v, warnings %v", v.Faults, err, v.State, v.Level, v.Warnings)
	}
	if len(v.Moves) != 1 || v.Moves[0].Seq != uint64(n)+1 || v.Moves[0].Cell != "a" || v.Moves[0].At == 0 {
		t.Errorf("moves: %+v", v.Moves)
	}
	for name, records := range map[string][]journal.Record{"not cleared": source, "cleared": source[n:]} {
		v, err := Verify(journal.All(records))
		if err != nil || !v.OK() || v.State != verdict.Moved || v.Exit(verdict.Chain) != verdict.ExitGone || v.Level != verdict.None {
			t.Errorf("source, %s: %v, %v, state %q, level %v", name, v.Faults, err, v.State, v.Level)
		}
		if d := v.Tombstone; d == nil || d.MovedTo == nil || d.MovedTo.Place != "nats://n2" || !strings.HasPrefix(d.String(), "was moved to nats://n2 (cell b) at ") {
			t.Errorf("source, %s: %v", name, d)
		}
	}
}

func TestAnchorsOfAMovedSessionAreHeldWhereItIs(t *testing.T) {
	t.Parallel()
	original := tools().records(t)
	n := len(original)
	source, target := movedAway(t, original)
	at := func(records []journal.Record, i int) Anchor {
		return Anchor{Session: "s-1", Seq: records[i].Seq, Hash: records[i].Hash, At: records[i].Entry.At}
	}
	left := at(source, n)
	d, _ := events.DeletionOf(source[n].Entry)
	left.Deletion = &d
	elsewhere := left
	elsewhere.Deletion = new(d)
	elsewhere.Deletion.Last = original[0].Hash
	deleted := left
	deleted.Deletion = new(d)
	deleted.Deletion.MovedTo = nil
	claims := func(from events.MovedFrom) []journal.Record {
		return link(t, target[:n-1], events.DriverClaimed{Epoch: original[n-1].Entry.Epoch + 1, Node: "move", MovedFrom: &from})
	}
	hashAlone := link(t, target[:n], events.DriverClaimed{
		Epoch: original[n-1].Entry.Epoch + 1, Node: "move", MovedFrom: &events.MovedFrom{Cell: "a", Tombstone: source[n].Hash},
	})
	wrong := at(original, n-1)
	wrong.Hash = original[0].Hash
	other := at(source, n)
	other.Hash = original[0].Hash
	for _, row := range []struct {
		name    string
		records []journal.Record
		anchor  Anchor
		kind    verdict.Kind // "": held
		exit    int
	}{
		{"from before, at the target", target, at(original, 3), "", verdict.ExitReached},
		{"the tombstone, at the target", target, left, "", verdict.ExitReached},
		{"its hash alone, at the target", target, at(source, n), "", verdict.ExitReached},
		{"the tombstone, of which the claim has only the hash", hashAlone, left, "", verdict.ExitReached},
		{"its hash alone, and that is all that the claim has", hashAlone, at(source, n), verdict.Moved, verdict.ExitUnjudged},
		{"the tombstone of another history, at the target", hashAlone, elsewhere, verdict.Moved, verdict.ExitUnjudged},
		{"the tombstone of a deletion, at the target", hashAlone, deleted, verdict.Moved, verdict.ExitUnjudged},
		{"an entry whose hash a claim takes for that of a tombstone", claims(events.MovedFrom{Cell: "a", Tombstone: original[n-1].Hash}), at(original, n-1), verdict.Moved, verdict.ExitUnjudged},
		{"an entry that a claim takes for a tombstone", claims(events.MovedFrom{Cell: "a", Tombstone: original[n-1].Hash, Entry: original[n-1].Payload}), at(original, n-1), verdict.Forged, verdict.ExitFault},
		{"an entry that a claim takes for another tombstone", claims(events.MovedFrom{Cell: "a", Tombstone: original[n-1].Hash, Entry: source[n].Payload}), at(original, n-1), verdict.Forged, verdict.ExitFault},
		{"a tombstone that was in another place", claims(events.MovedFrom{Cell: "a", Tombstone: source[n].Hash, Entry: source[n].Payload}), at(original, n-2), verdict.Forged, verdict.ExitFault},
		{"the claim, at the target", target, at(target, n), "", verdict.ExitReached},
		{"another tombstone, at the target", target, other, verdict.Replaced, verdict.ExitFault},
		{"from before, at the source", source[n:], at(original, 3), verdict.Moved, verdict.ExitUnjudged},
		{"the last one, at the source", source[n:], at(original, n-1), verdict.Moved, verdict.ExitUnjudged},
		{"the tombstone, at the source", source[n:], at(source, n), "", verdict.ExitGone},
		{"the claim, at the source", source[n:], at(target, n), verdict.Moved, verdict.ExitUnjudged},
		{"a later one, at the source", source[n:], at(target, n+1), verdict.Moved, verdict.ExitUnjudged},
		{"another last one, at the source", source[n:], wrong, verdict.Replaced, verdict.ExitFault},
	} {
		v, err := Verify(journal.All(row.records), row.anchor)
		if err != nil {
			t.Fatal(err)
		}
		if f, _ := v.First(); f.Kind != row.kind || v.Exit(verdict.Anchored) != row.exit {
			t.Errorf("%s: %v, exit code %d, want %q, %d", row.name, v.Faults, v.Exit(verdict.Anchored), row.kind, row.exit)
		}
	}
	v, err := Verify(journal.All(target), at(source, n))
	if err != nil || v.Through.Seq != uint64(n) || v.BeyondAnchor != 2 {
		t.Errorf("the tombstone covers what is before it: through %d, %d beyond, %v; want %d, 2", v.Through.Seq, v.BeyondAnchor, err, n)
	}
}

func TestOnlyTheBeginningOfAJournalIsMoved(t *testing.T) {
	t.Parallel()
	original := tools().records(t)
	n := len(original)
	_, target := movedAway(t, original)
	late := slices.Clone(target)
	late[n+1].Moved = true
	mixed := slices.Clone(target)
	mixed[2].Moved = false
	unsaid := slices.Clone(original)
	for i := range unsaid {
		unsaid[i].Moved = true
	}
	unsaid = link(t, unsaid, events.DriverClaimed{Epoch: original[n-1].Entry.Epoch + 1, Node: "node-9"})
	for name, records := range map[string][]journal.Record{"after the claim": late, "one was not": mixed, "no claim says so": unsaid} {
		if found := check(records); len(found) == 0 || found[0].Kind != verdict.Forged || !strings.Contains(found[0].What, "moved here") {
			t.Errorf("%s: %v", name, found)
		}
	}
}
