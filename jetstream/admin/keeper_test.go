package admin

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/events/journal"
	"github.com/turnlog/turnlog/jetstream"
	"github.com/turnlog/turnlog/jetstream/internal/api"
	"github.com/turnlog/turnlog/jetstream/internal/layout"
	"github.com/turnlog/turnlog/jetstream/trials"
)

// lived fills the cell with a session of n entries and everything else that a session may store, and
// returns its last entry.
func lived(t *testing.T, c *Cell, s content.SessionID, n int) journal.Record {
	t.Helper()
	head := journal.Head{}
	for i := range n {
		reason := "entry"
		if i == 1 {
			reason = strings.Repeat("large ", 20_000)
		}
		var err error
		head, err = c.cell.Journal().Append(t.Context(), head, events.Entry{
			Session: s, Cause: string(rune('a' + i)), At: content.TimeOf(time.Now()), Epoch: 1,
			Events: []events.Event{events.SessionClosed{Reason: reason}},
		})
		must(t, err)
	}
	for _, row := range Subjects(c.names.NS) {
		if row.Kept != "" && row.Kept != "JOURNAL" && strings.Contains(row.Subject, "<session>") {
			subject := strings.NewReplacer("<session>", string(s), "<id>", "i", "<queue>", "q", "<place>", "p", "<user>", "ada").Replace(row.Subject)
			say(t, c, subject, "something")
		}
	}
	last, err := c.cell.Journal().Last(t.Context(), s)
	must(t, err)
	return last
}

// remains counts the messages on subjects that name the session, by stream.
func remains(t *testing.T, c *Cell, s content.SessionID) map[string]uint64 {
	t.Helper()
	out := map[string]uint64{}
	for _, r := range Topology(c.names.NS, Config{}) {
		all, err := c.api.Subjects(t.Context(), r.Stream, ">")
		must(t, err)
		for subject, n := range all {
			if slices.Contains(strings.Split(subject, "."), string(s)) {
				out[subject] = n
			}
		}
	}
	return out
}

var deleted = events.SessionDeleted{By: "ada", Reason: "asked to"}

func TestDeletedSessionLeavesItsTombstone(t *testing.T) {
	for _, tt := range []struct {
		name string
		kill func(t *testing.T, c *Cell) // leaves the cell as the killed keeper did
	}{
		{"at once", func(*testing.T, *Cell) {}},
		{"killed among the streams", func(t *testing.T, c *Cell) {
			must(t, c.api.Purge(t.Context(), c.names.InboxStream(), c.names.Cmds("s"), 0))
			must(t, c.api.Purge(t.Context(), c.names.TasksStream(), c.names.Task("*", "s", "*"), 0))
		}},
		{"killed in the journal", func(t *testing.T, c *Cell) {
			must(t, c.clearExceptJournal(t.Context(), "s"))
			m, err := c.api.Next(t.Context(), c.names.JournalStream(), c.names.Journal("s"), 0)
			must(t, err)
			must(t, c.api.Purge(t.Context(), c.names.JournalStream(), c.names.Journal("s"), m.Seq+1))
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, c *Cell) {
				last, other := lived(t, c, "s", 5), lived(t, c, "other", 2)
				before := remains(t, c, "other")
				done, err := c.Delete(t.Context(), last, deleted)
				must(t, err)
				if done.Entries != 5 || done.Last != last.Hash || done.By != deleted.By || done.Reason != deleted.Reason || done.Expired {
					t.Errorf("Delete = %+v, want 5 entries and %s", done, last.Hash)
				}
				tt.kill(t, c)
				_, err = c.Clear(t.Context(), "s")
				must(t, err)
				again, err := c.Clear(t.Context(), "s")
				if again != 0 || err != nil {
					t.Errorf("Clear again = %d, %v", again, err)
				}
				if left := remains(t, c, "s"); len(left) != 1 || left[c.names.Journal("s")] != 1 {
					t.Errorf("of the session is left %v, want the tombstone", left)
				}
				if now := remains(t, c, "other"); len(now) != len(before) || other.Seq != 2 {
					t.Errorf("of the other session is left %v, want %v", now, before)
				}
				tombstone, err := c.cell.Journal().Last(t.Context(), "s")
				must(t, err)
				if d, ok := events.DeletionOf(tombstone.Entry); !ok || d != done {
					t.Errorf("DeletionOf the last entry = %v, %v, want %v", d, ok, done)
				}
				_, err = c.cell.Journal().Append(t.Context(), journal.Head{}, events.Entry{Session: "s", Events: []events.Event{events.Parked{}}})
				if !errors.Is(err, journal.ErrConflict) {
					t.Errorf("a first entry under the same id = %v, want ErrConflict", err)
				}
				<-time.After(2 * grace)
				if got, err := c.Collect(t.Context(), grace, false); err != nil || got.Removed != 1 {
					t.Errorf("Collect = %+v, %v, want the large entry gone that the other session does not share", got, err)
				}
			})
		})
	}
}

func TestDeleteConflictsUnlessAtTheLastEntry(t *testing.T) {
	inBubble(t, func(t *testing.T, c *Cell) {
		last := lived(t, c, "s", 2)
		lived2, err := c.cell.Journal().Append(t.Context(), last.Head, events.Entry{Session: "s", Cause: "x", Epoch: 1, Events: []events.Event{events.Parked{}}})
		must(t, err)
		if _, err := c.Delete(t.Context(), last, deleted); !errors.Is(err, journal.ErrConflict) {
			t.Errorf("Delete of a session that went on = %v, want ErrConflict", err)
		}
		if _, err := c.Clear(t.Context(), "s"); !errors.Is(err, ErrNotDeleted) {
			t.Errorf("Clear of a session that went on = %v, want ErrNotDeleted", err)
		}
		if now, err := c.cell.Journal().Last(t.Context(), "s"); err != nil || now.Head != lived2 {
			t.Errorf("Last = %+v, %v, want %+v", now.Head, err, lived2)
		}
	})
}

// TestReadersEndAtTheTombstone covers readers at all positions.
func TestReadersEndAtTheTombstone(t *testing.T) {
	inBubble(t, func(t *testing.T, c *Cell) {
		last := lived(t, c, "s", 5)
		j := c.cell.Journal()
		var heads []journal.Head
		for rec, err := range j.Read(t.Context(), "s", 0) {
			must(t, err)
			heads = append(heads, rec.Head)
		}
		cursor := jetstream.CursorAt(journal.Record{Head: heads[1], Entry: events.Entry{Session: "s"}})
		_, err := c.Delete(t.Context(), last, deleted)
		must(t, err)
		check := func(t *testing.T, how string) {
			t.Helper()
			for name, read := range map[string]func(yield func(journal.Record, error) bool){
				"Read":                   j.Read(t.Context(), "s", 0),
				"Read after 3":           j.Read(t.Context(), "s", 3),
				"ReadFrom 2":             j.ReadFrom(t.Context(), "s", heads[1]),
				"ReadFrom the last":      j.ReadFrom(t.Context(), "s", heads[4]),
				"Follow":                 j.Follow(t.Context(), "s", 0),
				"Follow after 3":         j.Follow(t.Context(), "s", 3),
				"FollowFrom 2":           j.FollowFrom(t.Context(), "s", heads[1]),
				"Observe with a cursor":  j.Observe(t.Context(), "s", cursor),
				"Observe all from there": j.Observe(t.Context(), jetstream.AllSessions, cursor),
			} {
				var got events.Deletion
				for rec, err := range read {
					if err != nil {
						t.Errorf("%s, %s: %v", how, name, err)
						break
					}
					if d, ok := events.DeletionOf(rec.Entry); ok {
						got = d
						break
					}
				}
				if got.Entries != 5 || got.Last != last.Hash {
					t.Errorf("%s, %s ends with %v", how, name, got)
				}
			}
			for rec, err := range j.Read(t.Context(), "s", 6) {
				t.Errorf("%s, Read after the tombstone = %d, %v", how, rec.Seq, err)
			}
		}
		check(t, "nothing cleared")
		must(t, c.api.Purge(t.Context(), c.names.JournalStream(), c.names.Journal("s"), heads[2].Guard))
		check(t, "half cleared")
		_, err = c.Clear(t.Context(), "s")
		must(t, err)
		check(t, "cleared")
	})
}

func TestHoldingsAreOrderedByTheirLastChange(t *testing.T) {
	inBubble(t, func(t *testing.T, c *Cell) {
		old := lived(t, c, "old", 3)
		<-time.After(time.Hour)
		lived(t, c, "new", 1)
		<-time.After(time.Hour)
		_, err := c.Delete(t.Context(), lived(t, c, "gone", 1), deleted)
		must(t, err)
		got, err := c.Holdings(t.Context())
		must(t, err)
		if len(got) != 3 || got[0].Session != "old" || got[1].Session != "new" || got[2].Session != "gone" {
			t.Fatalf("Holdings = %+v", got)
		}
		if h := got[0]; h.Entries != 3 || h.Bytes < 120_000 || h.Deleted || !h.Changed.Equal(old.Stored) {
			t.Errorf("old = %+v", h)
		}
		if h := got[2]; h.Entries != 2 || !h.Deleted {
			t.Errorf("gone = %+v", h)
		}
	})
}

func TestDeletedSessionsAreNotListed(t *testing.T) {
	inBubble(t, func(t *testing.T, c *Cell) {
		for _, s := range []content.SessionID{"a", "b", "c"} {
			lived(t, c, s, 1)
		}
		last, err := c.cell.Journal().Last(t.Context(), "b")
		must(t, err)
		_, err = c.Delete(t.Context(), last, deleted)
		must(t, err)
		for _, step := range []string{"deleted", "cleared"} {
			got, err := c.cell.Journal().Sessions(t.Context())
			must(t, err)
			want := []content.SessionID{"a", "b", "c"} // its entries are still there
			if step == "cleared" {
				want = []content.SessionID{"a", "c"}
			}
			if !slices.Equal(got, want) {
				t.Errorf("%s: Sessions = %v, want %v", step, got, want)
			}
			_, err = c.Clear(t.Context(), "b")
			must(t, err)
		}
	})
}

func TestDeleteChangesNothingInAnIncompleteCell(t *testing.T) {
	inBubble(t, func(t *testing.T, c *Cell) {
		last := lived(t, c, "s", 3)
		before := remains(t, c, "s")
		must(t, jsOf(t, c).DeleteStream(t.Context(), c.names.Dead().Stream())) // as in a cell of an earlier release
		if _, err := c.Delete(t.Context(), last, deleted); !errors.Is(err, api.ErrNotProvisioned) || !strings.Contains(err.Error(), "KV_TURNLOG_DEAD") {
			t.Fatalf("Delete = %v, want that DEAD is missing", err)
		}
		must(t, c.Provision(t.Context(), Config{Memory: true}))
		delete(before, c.names.Dead().Key("s"))
		delete(before, c.names.Dead().Key(layout.TrialKeys+"s"))
		delete(before, c.names.Dead().Key(layout.TrialKeys+"s.ada"))
		if diff := cmp.Diff(before, remains(t, c, "s")); diff != "" {
			t.Errorf("something was changed (-before +after):\n%s", diff)
		}
	})
}

func TestUnlistRemovesDeletedSessions(t *testing.T) {
	inBubble(t, func(t *testing.T, c *Cell) {
		last := lived(t, c, "s", 2)
		lived(t, c, "other", 1)
		_, err := c.Delete(t.Context(), last, deleted)
		must(t, err)
		_, err = c.Clear(t.Context(), "s")
		must(t, err)
		for _, s := range []content.SessionID{"s", "early"} { // after the tombstone, and before the first entry
			_, err = c.cell.DeadLetters().Note(t.Context(), s)
			must(t, err)
			_, err = trials.Of(c.cell).Put(t.Context(), trials.Trial{Session: s})
			must(t, err)
		}
		if n, err := c.Unlist(t.Context()); n != 2 || err != nil {
			t.Errorf("Unlist = %d, %v; want two notes", n, err)
		}
		listed, err := c.cell.DeadLetters().Sessions(t.Context())
		must(t, err)
		if want := []content.SessionID{"early", "other"}; !slices.Equal(listed, want) {
			t.Errorf("on the list are %v, want %v", listed, want)
		}
	})
}
