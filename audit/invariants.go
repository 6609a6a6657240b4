package audit

// invariant is a property of every intact journal.
type invariant struct {
	name string      // as in violations and in ARCHITECTURE.md
	rule func() rule // nil: checked by chain or Checker
}

// Names of the invariants that no rule checks.
const (
	singleWriter  = "single-writer"
	wholeEntries  = "whole-entries"
	epochRises    = "epoch-rises"
	cursorsRise   = "cursors-rise"
	noLostCommand = "no-lost-command"
	anchorsHeld   = "anchors-held"
	replayable    = "replayable"

	timeGoesOn = "time-goes-on" // only a warning: hosts' clocks differ
)

// invariants lists every invariant in the order in which Check checks them.
func invariants() []invariant {
	return []invariant{
		{singleWriter, nil},
		{wholeEntries, nil},
		{epochRises, nil},
		{cursorsRise, nil},
		{"cause-once", causeOnce},
		{noLostCommand, nil},
		{anchorsHeld, nil},
		{replayable, nil},
		{"digests-fit", digestsFit},
		{"session-brackets", sessionBrackets},
		{"turn-brackets", turnBrackets},
		{"round-numbers", roundNumbers},
		{"one-reply-per-round", oneReply},
		{"usage-adds-up", usageAddsUp},
		{"budget-held", budgetHeld},
		{"cancel-holds", cancelHolds},
		{"ends-have-causes", endsHaveCauses},
		{"hooks-once", hooksOnce},
		{"input-once", inputOnce},
		{"mutations-paired", mutationsPaired},
		{"gate-held", verifiedAsRecorded},
		{"parked-at-rest", parkedAtRest},
		{"calls-as-replied", callsAsReplied},
		{"one-terminal-result", oneTerminalResult},
		{"dispatch-before-result", dispatchBeforeResult},
		{"approval-before-run", approvalBeforeRun},
		{"approval-once", approvalOnce},
		{"grant-held", grantHeld},
		{"rules-held", rulesHeld},
		{"paired-calls", pairedCalls},
		{"runnable-tail", runnableTail},
		{"transcript-is-a-fold", transcriptIsAFold},
	}
}

// Invariants lists the names of all invariants. ARCHITECTURE.md says what each one means.
func Invariants() []string {
	var names []string
	for _, inv := range invariants() {
		names = append(names, inv.name)
	}
	return names
}
