package journaltest_test

import (
	"errors"
	"testing"

	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/events/journal"
	"github.com/turnlog/turnlog/internal/testing/journaltest"
)

// failOnce fails the first append with the given cause.
func failOnce(cause string, fault journaltest.Fault) func(journal.Head, events.Entry) journaltest.Fault {
	done := false
	return func(_ journal.Head, e events.Entry) journaltest.Fault {
		if done || e.Cause != cause {
			return journaltest.None
		}
		done = true
		return fault
	}
}

func TestFaultsHaveTheirEffect(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		fault   journaltest.Fault
		want    error
		written bool // visible at once
		landed  bool // visible after Land
	}{
		{journaltest.Conflict, journal.ErrConflict, false, false},
		{journaltest.LostAck, journal.ErrUnknown, true, true},
		{journaltest.LostSend, journal.ErrUnknown, false, false},
		{journaltest.Late, journal.ErrUnknown, false, true},
	} {
		t.Run(tt.fault.String(), func(t *testing.T) {
			t.Parallel()
			j := journaltest.NewFaulty(journal.NewMemory(), failOnce("command-2", tt.fault))
			head := journaltest.Fill(t, j, "s", journal.Head{}, 1)[1]
			if _, err := j.Append(t.Context(), head, journaltest.Entry("s", 2)); !errors.Is(err, tt.want) {
				t.Fatalf("Append = %v, want %v", err, tt.want)
			}
			if j.Count(tt.fault) != 1 || j.Count(journaltest.None) != 1 {
				t.Errorf("counted %d of the fault and %d without, want 1 and 1", j.Count(tt.fault), j.Count(journaltest.None))
			}
			if got := lastCause(t, j) == "command-2"; got != tt.written {
				t.Errorf("entry is there at once: %v, want %v", got, tt.written)
			}
			j.Land(t.Context())
			if got := lastCause(t, j) == "command-2"; got != tt.landed {
				t.Errorf("entry is there after Land: %v, want %v", got, tt.landed)
			}
		})
	}
}

// TestLateEntryMakesTheNextAppendConflict shows why ErrUnknown is dangerous: a writer that read
// that the entry is missing, and appends, finds it there.
func TestLateEntryMakesTheNextAppendConflict(t *testing.T) {
	t.Parallel()
	j := journaltest.NewFaulty(journal.NewMemory(), failOnce("command-2", journaltest.Late))
	head := journaltest.Fill(t, j, "s", journal.Head{}, 1)[1]
	if _, err := j.Append(t.Context(), head, journaltest.Entry("s", 2)); !errors.Is(err, journal.ErrUnknown) {
		t.Fatalf("Append = %v, want ErrUnknown", err)
	}
	if _, err := j.Append(t.Context(), head, journaltest.Entry("s", 3)); !errors.Is(err, journal.ErrConflict) {
		t.Fatalf("Append after the same head = %v, want ErrConflict", err)
	}
	if got := lastCause(t, j); got != "command-2" {
		t.Errorf("last entry is of %s, want the late one", got)
	}
}

func TestFaultyWithoutFaultsKeepsTheContract(t *testing.T) {
	t.Parallel()
	journaltest.Run(t, journaltest.Features{}, func(*testing.T) journal.Journal {
		return journaltest.NewFaulty(journal.NewMemory(), func(journal.Head, events.Entry) journaltest.Fault {
			return journaltest.None
		})
	})
}

func lastCause(t *testing.T, j journal.Journal) string {
	t.Helper()
	last, err := j.Last(t.Context(), "s")
	if err != nil {
		t.Fatal(err)
	}
	return last.Entry.Cause
}
