package audit

import (
	"errors"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/turnlog/turnlog/audit/verdict"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/events/journal"
)

// withTombstone adds a tombstone after the records.
func withTombstone(t *testing.T, records []journal.Record) []journal.Record {
	t.Helper()
	last := records[len(records)-1]
	e := events.Entry{
		Session: last.Entry.Session, Cause: "delete/1", At: last.Entry.At, Epoch: last.Entry.Epoch,
		Events: []events.Event{events.SessionDeleted{By: "ada", Reason: "asked to"}},
	}
	e, payload, head, err := journal.Link(last.Head, e)
	if err != nil {
		t.Fatal(err)
	}
	return append(slices.Clone(records), journal.Record{Head: head, Entry: e, Payload: payload})
}

func TestADeletedSessionIsIntact(t *testing.T) {
	t.Parallel()
	original := tools().records(t)
	n := len(original)
	all := withTombstone(t, original)
	for name, records := range map[string][]journal.Record{
		"nothing removed yet": all,
		"half removed":        all[n/2:],
		"removed":             all[n:],
	} {
		r, err := Verify(journal.All(records))
		if err != nil || !r.OK() || r.Exit(verdict.Chain) != verdict.ExitGone || r.Level != verdict.None {
			t.Errorf("%s: %v, %v", name, r, err)
		}
		if d := r.Tombstone; d == nil || d.By != "ada" || d.Entries != uint64(n) || d.Last != original[n-1].Hash || r.Head.Seq != uint64(n)+1 {
			t.Errorf("%s: %+v", name, r)
		}
	}
}

func TestATombstoneEndsAJournal(t *testing.T) {
	t.Parallel()
	original := tools().records(t)
	all := withTombstone(t, original)
	changed := slices.Clone(all)
	changed[len(changed)-1] = forge(t, all[len(all)-1], func(e *events.Entry) { e.Prev[0]++ })
	beyond := withTombstone(t, all)
	for _, row := range []struct {
		name    string
		records []journal.Record
		want    string
	}{
		{"an entry after it", beyond, "follows the tombstone"},
		{"after another entry", changed, "changed or replaced"},
		{"only its beginning before it", append(slices.Clone(all[:2]), all[len(original)]), "entries 3 to 10 are missing"},
		{"a gap and no tombstone", original[3:], "entries 1 to 3 are missing"},
	} {
		if found := check(row.records); len(found) == 0 || !strings.Contains(found[0].What, row.want) {
			t.Errorf("%s: %v, want %q", row.name, found, row.want)
		}
	}
}

func TestAnchorsDetectCutAndReplacedEnds(t *testing.T) {
	t.Parallel()
	original := tools().records(t)
	n := len(original)
	at := func(i int) Anchor { return Anchor{Session: "s-1", Seq: original[i].Seq, Hash: original[i].Hash} }
	other := reseal(t, func(e []events.Entry) { e[n-2].At++ }) // a valid fork
	for _, row := range []struct {
		name    string
		records []journal.Record
		anchor  Anchor
		kind    verdict.Kind // "": held
		want    string
		exit    int
	}{
		{"held", original, at(3), "", "", verdict.ExitReached},
		{"the end", original, at(n - 1), "", "", verdict.ExitReached},
		{"another session's", original, Anchor{Session: "s-2", Seq: 99, Hash: at(1).Hash}, "", "", verdict.ExitBelow},
		{"of the tombstone", withTombstone(t, original)[n:], Anchor{Session: "s-1", Seq: uint64(n) + 1, Hash: withTombstone(t, original)[n].Hash}, "", "", verdict.ExitGone},
		{"deleted since", withTombstone(t, original)[n:], at(3), verdict.Deleted, "the tombstone covers it", verdict.ExitUnjudged},
		{"deleted after it", withTombstone(t, original)[n:], at(n - 1), verdict.Deleted, "the tombstone covers it", verdict.ExitUnjudged},
		{"the end cut off", original[:n-2], at(n - 1), verdict.Truncated, "its end was cut off", verdict.ExitFault},
		{"forked before it", other, at(n - 1), verdict.Replaced, "this entry or an earlier one was replaced", verdict.ExitFault},
		{"cut off, then deleted", withTombstone(t, original[:n-3])[n-3:], at(n - 1), verdict.Truncated, "cut off before that", verdict.ExitFault},
		{"forked, then deleted", withTombstone(t, other)[n:], at(n - 1), verdict.Replaced, "replaced before that", verdict.ExitFault},
		{"nothing left", nil, at(2), verdict.Missing, "the journal is gone", verdict.ExitFault},
	} {
		r, err := Verify(journal.All(row.records), row.anchor)
		if err != nil {
			t.Fatal(err)
		}
		v, bad := r.First()
		if bad && (v.Invariant != anchorsHeld || !strings.Contains(v.What, row.want)) || v.Kind != row.kind || r.Exit(verdict.Anchored) != row.exit {
			t.Errorf("%s: %v, exit code %d, want %d: %s: %q", row.name, r.Faults, r.Exit(verdict.Anchored), row.exit, row.kind, row.want)
		}
	}
}

// restoreAfter continues the records as a restore from a backup that has them does, and then as a driver does.
func restoreAfter(t *testing.T, records []journal.Record, taken, at content.Time) []journal.Record {
	t.Helper()
	out := slices.Clone(records)
	epoch := out[len(out)-1].Entry.Epoch
	for i, claim := range []events.DriverClaimed{
		{Epoch: epoch + 1, Node: "restore", Restored: &events.Restored{Backup: "b1", Taken: taken}}, {Epoch: epoch + 2, Node: "node-9"},
	} {
		last := out[len(out)-1]
		e, payload, head, err := journal.Link(last.Head, events.Entry{
			Session: last.Entry.Session, Cause: "restore/" + strconv.Itoa(i), At: at, Epoch: claim.Epoch, Events: []events.Event{claim},
		})
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, journal.Record{Head: head, Entry: e, Payload: payload})
	}
	return out
}

func TestWhatARestoreLostIsNoFault(t *testing.T) {
	t.Parallel()
	original := tools().records(t)
	n := len(original)
	k := n - 3 // entries of the backup
	taken := original[k-1].Entry.At.Add(time.Hour)
	at := taken.Add(time.Hour)
	all := restoreAfter(t, original[:k], taken, at)
	anchor := func(i int, when content.Time) Anchor {
		return Anchor{Session: "s-1", Seq: original[i].Seq, Hash: original[i].Hash, At: when}
	}
	between := taken.Add(time.Minute)
	for _, row := range []struct {
		name    string
		records []journal.Record
		anchor  Anchor
		kind    verdict.Kind // "": held
		exit    int
		level   verdict.Level
	}{
		{"an entry of the backup", all, anchor(k-1, original[k-1].Entry.At), "", verdict.ExitReached, verdict.Anchored},
		{"the first entry that is lost", all, anchor(k, between), verdict.Restored, verdict.ExitUnjudged, verdict.Chain},
		{"one beyond the end", all, anchor(n-1, between), verdict.Restored, verdict.ExitUnjudged, verdict.Chain},
		{"one of an unknown time", all, anchor(n-1, 0), verdict.Restored, verdict.ExitUnjudged, verdict.Chain},
		{"one from before the backup", all, anchor(n-1, taken.Add(-time.Hour/2)), verdict.Truncated, verdict.ExitFault, verdict.None},
		{"one from after the restore", all, anchor(n-1, at.Add(time.Minute)), verdict.Truncated, verdict.ExitFault, verdict.None},
		{"another entry where one is kept", all, Anchor{Session: "s-1", Seq: uint64(k), Hash: original[0].Hash, At: between}, verdict.Replaced, verdict.ExitFault, verdict.None},
		{"no restore", original[:k], anchor(n-1, between), verdict.Truncated, verdict.ExitFault, verdict.None},
	} {
		v, err := Verify(journal.All(row.records), row.anchor)
		if err != nil {
			t.Fatal(err)
		}
		f, _ := v.First()
		if f.Kind != row.kind || v.Exit(verdict.Chain) != row.exit || v.Level != row.level {
			t.Errorf("%s: %v, exit code %d, level %v; want %q, %d, %v", row.name, v.Faults, v.Exit(verdict.Chain), v.Level, row.kind, row.exit, row.level)
		}
	}
	v, err := Verify(journal.All(all), anchor(1, 0))
	if err != nil || len(v.Restores) != 1 || v.Restores[0].Seq != uint64(k)+1 || v.Restores[0].Backup != "b1" || v.Restores[0].At != at || v.Level != verdict.Anchored {
		t.Errorf("restores: %+v, level %v, %v", v.Restores, v.Level, err)
	}
}

func TestASessionThatABackupLacksIsLost(t *testing.T) {
	t.Parallel()
	at := content.TimeOf(time.Date(2026, 11, 27, 12, 0, 0, 0, time.UTC))
	restores := []verdict.Restore{{At: at, Restored: events.Restored{Backup: "b1", Taken: at.Add(-time.Hour)}}}
	for name, row := range map[string]struct {
		at   content.Time
		kind verdict.Kind
	}{
		"between": {at.Add(-time.Minute), verdict.Restored}, "before the backup": {at.Add(-2 * time.Hour), verdict.Missing}, "after the restore": {at.Add(1), verdict.Missing},
	} {
		anchor := Anchor{Session: "s-1", Seq: 3, Hash: events.HashOf([]byte("x")), At: row.at}
		v, err := Verify(journal.All(nil), anchor)
		if err != nil {
			t.Fatal(err)
		}
		Absent(v, restores, anchor)
		if f, _ := v.First(); f.Kind != row.kind || v.Level != verdict.None {
			t.Errorf("%s: %v, level %v, want %s", name, v.Faults, v.Level, row.kind)
		}
	}
}

func TestAnchorsAreRead(t *testing.T) {
	t.Parallel()
	hash := strings.Repeat("ab", 32)
	got, err := ReadAnchors(strings.NewReader(`{"session":"s-1","seq":3,"hash":"` + hash + `","at":"then"}` + "\n\n" + `{"session":"s-2","seq":9,"hash":"` + hash + `"}`))
	if err != nil || len(got) != 2 || got[0].Seq != 3 || got[1].Session != "s-2" || got[1].Hash.String() != hash {
		t.Errorf("ReadAnchors = %+v, %v", got, err)
	}
	for _, bad := range []string{"x", "{}", `{"session":"s-1","seq":0,"hash":"` + hash + `"}`, `{"session":"s-1","seq":1}`, `{"session":"s-1","seq":1,"hash":"ab"}`} {
		if got, err := ReadAnchors(strings.NewReader(bad)); !errors.Is(err, ErrBadAnchor) {
			t.Errorf("ReadAnchors(%.40q) = %v, %v", bad, got, err)
		}
	}
}
