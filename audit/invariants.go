package audit

import (
	"slices"
)

// Invariant is a property of every intact journal.
type Invariant struct {
	Name    string // as in violations and in the documentation
	Promise string // one sentence or two

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

// Invariants lists every invariant in the order in which Check checks them.
func Invariants() []Invariant {
	return slices.Concat(entryInvariants(), turnInvariants(), callInvariants())
}

func entryInvariants() []Invariant {
	return []Invariant{
		{singleWriter, "The entries form one chain: numbered without gaps, each naming the hash of its predecessor, " +
			"none of them changed.", nil},
		{wholeEntries, "This release can read every entry. Each holds at least one fact, of kinds that are stored.", nil},
		{epochRises, "The host that last claimed the session wrote the entry, and every claim has a higher epoch.", nil},
		{cursorsRise, "A lane's cursor never falls, so no command is handled twice.", nil},
		{"cause-once", "Every entry names the command that caused it. A command that returns within 64 entries causes " +
			"no other.", causeOnce},
		{noLostCommand, "Every accepted command caused an entry.", nil},
		{anchorsHeld, "What was once seen of the journal is still there: nothing was cut off at its end or replaced, " +
			"unless the session was deleted.", nil},
		{replayable, "The core folds the journal without a panic and arrives at the same transcript as the audit.", nil},
	}
}

func turnInvariants() []Invariant {
	return []Invariant{
		{"session-brackets", "A session opens once, before anything else happens in it. Nothing starts after its close.", sessionBrackets},
		{"turn-brackets", "Turns follow each other. Each starts once and finishes once, and what belongs to a turn " +
			"happens inside it.", turnBrackets},
		{"round-numbers", "Rounds are numbered from 1 within their turn. A round finishes when all of its calls are " +
			"answered, and the next one starts after it.", roundNumbers},
		{"one-reply-per-round", "Each attempt at a model call ends before the next begins. A round has at most one reply. " +
			"Only a cancel or a limit ends a turn during an attempt.", oneReply},
		{"usage-adds-up", "A turn's usage is the sum of what was recorded for it. No attempt is billed twice.", usageAddsUp},
		{"budget-held", "No round, attempt or tool starts beyond a limit, and a reached limit ends the turn. Wall clock is " +
			"not checked, because journals do not record all waits.", budgetHeld},
		{"cancel-holds", "After a cancel nothing new starts in its turn, or for its call.", cancelHolds},
		{"ends-have-causes", "The cancel, limit, hook or approval that ended a turn or answered a call is recorded before. " +
			"Other turns end as their last reply did.", endsHaveCauses},
		{"hooks-once", "The hooks of a point run once per round, or once per call.", hooksOnce},
		{"input-once", "Input was queued before it enters the transcript, and enters once.", inputOnce},
		{"mutations-paired", "A mutator's outcome follows its start. One that failed or changed nothing replaces nothing.", mutationsPaired},
		{"gate-held", "A task is verified at most once more than it has retries, each time with one verdict. It is called " +
			"verified only if its verifier passed or it has none.", gateHeld},
		{"parked-at-rest", "A session is parked only while no model call runs for it.", parkedAtRest},
	}
}

func callInvariants() []Invariant {
	return []Invariant{
		{"calls-as-replied", "The calls of a reply are requested once each, in order, at their places, under ids that are new " +
			"to the session.", callsAsReplied},
		{"one-terminal-result", "Every call has one answer by the end of its turn, a result or a placeholder. One late result " +
			"may follow only a placeholder, a cancel while it ran, or an unknown outcome.", oneTerminalResult},
		{"dispatch-before-result", "The permission to start a call is recorded before its result, one attempt at a time.", dispatchBeforeResult},
		{"approval-before-run", "Nothing of a round runs while one of its questions is open. A call runs only if each of its " +
			"questions was approved, as it was approved.", approvalBeforeRun},
		{"approval-once", "Every approval is settled once, before its turn ends, by a decision on the arguments that it is " +
			"about or by its deadline.", approvalOnce},
		{"grant-held", "A question is skipped only if the same one about the same tool was approved for always before, or if " +
			"only the session's rules ask it about a tool that was allowed before. A call starts only with approvals that " +
			"were given.", grantHeld},
		{"rules-held", "No call starts that the rules of its session or of its turn deny, or that still needs their approval.", rulesHeld},
		{"paired-calls", "At every model call each tool call in the transcript has exactly one result, after it.", pairedCalls},
		{"runnable-tail", "A model is called only with a transcript that ends in a user, tool or notification item, or in a " +
			"provider's compaction.", runnableTail},
		{"transcript-is-a-fold", "The recorded length of the transcript at every model call and round end follows from the " +
			"facts before it.", transcriptIsAFold},
	}
}
