package journaltest

import (
	"fmt"
	"testing"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events/journal"
)

// Features describes how a journal may differ from others. The zero value requires everything.
type Features struct {
	NoClock bool // the store has no clock: Record.Stored is zero
	Shared  bool // the cases share a store, so each uses its own session IDs
}

// Case is one requirement. Run gets a journal without the sessions that it uses.
type Case struct {
	Name string
	Run  func(t *testing.T, j journal.Journal)
}

// bench is a journal for one case.
type bench struct {
	journal.Journal

	prefix string // of the case's session IDs
}

func (b *bench) id(s string) content.SessionID { return content.SessionID(b.prefix + s) }

// Run tests journals against the contract. Each case gets its own from open, which registers the
// cleanup.
func Run(t *testing.T, f Features, open func(t *testing.T) journal.Journal) {
	t.Helper()
	for _, c := range Cases(f) {
		t.Run(c.Name, func(t *testing.T) {
			t.Parallel()
			c.Run(t, open(t))
		})
	}
}

// Cases returns all requirements.
func Cases(f Features) []Case {
	var out []Case
	for i, c := range []struct {
		name string
		run  func(t *testing.T, j *bench)
	}{
		{"EmptySessionHasNoEntries", emptyJournal},
		{"AppendSetsPositionAndVersion", appendSetsPosition},
		{"EntriesFormAChain", chain},
		{"EntriesHaveTheStoresTime", storeClock(f)},
		{"OtherHeadsConflict", otherHeadsConflict},
		{"OneOfManyWritersWins", oneWriterWins},
		{"BadSessionIDsAreRejected", badSessions},
		{"EndedContextWritesNothing", endedContext},
		{"ReadStartsAfterAnyEntry", readAfter},
		{"ReadMayStopAnywhere", readStops},
		{"SessionsAreSeparate", separateSessions},
		{"LargeEntriesAreReadExactly", largeEntries},
		{"FollowYieldsNewEntries", followNewEntries},
		{"FollowWaitsForTheFirstEntry", followFirstEntry},
		{"FollowersGetEachEntryOnce", followOnce},
		{"FollowEndsWithItsContext", followEnds},
	} {
		prefix := ""
		if f.Shared {
			prefix = fmt.Sprintf("case%d-", i)
		}
		out = append(out, Case{c.name, func(t *testing.T, j journal.Journal) { c.run(t, &bench{j, prefix}) }})
	}
	return out
}
