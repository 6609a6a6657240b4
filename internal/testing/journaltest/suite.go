package journaltest

import (
	"testing"

	"github.com/turnlog/turnlog/events/journal"
)

// Features says how a journal may differ from others. The zero value requires everything.
type Features struct {
	NoClock bool // the store records no time: Record.Stored is zero
}

// Case is one requirement. Run gets an empty journal.
type Case struct {
	Name string
	Run  func(t *testing.T, j journal.Journal)
}

// Run tests journals against the contract. Each case gets its own from open, which registers
// the cleanup.
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
	return []Case{
		{"NobodyWroteYet", nobodyWroteYet},
		{"AppendFillsInItsPlace", appendFillsInItsPlace},
		{"EntriesFormAChain", entriesFormAChain},
		{"StoredByTheStoresClock", storedByTheStoresClock(f)},
		{"OtherHeadsConflict", otherHeadsConflict},
		{"OneOfManyWritersWins", oneOfManyWritersWins},
		{"BadSessionsAreRefused", badSessionsAreRefused},
		{"AnEndedContextWritesNothing", anEndedContextWritesNothing},
		{"ReadAfterAnything", readAfterAnything},
		{"ReadMayStopAnywhere", readMayStopAnywhere},
		{"SessionsAreApart", sessionsAreApart},
		{"LargeEntriesComeBackExactly", largeEntriesComeBackExactly},
		{"FollowGoesOnWithWhatIsWritten", followGoesOnWithWhatIsWritten},
		{"FollowWaitsForTheFirstEntry", followWaitsForTheFirstEntry},
		{"FollowersSeeEachEntryOnce", followersSeeEachEntryOnce},
		{"FollowEndsWithItsContext", followEndsWithItsContext},
	}
}
