package audit

// Invariant is a promise that every journal keeps.
type Invariant struct {
	Name    string // as in violations and in the documentation
	Promise string // one sentence or two

	rule func() rule // nil: checked by Chain or Checker
}

// Names of the invariants about events.
const (
	CauseOnce         = "cause-once"
	SessionBrackets   = "session-brackets"
	TurnBrackets      = "turn-brackets"
	RoundNumbers      = "round-numbers"
	OneReply          = "one-reply-per-round"
	UsageAddsUp       = "usage-adds-up"
	CallsAsReplied    = "calls-as-replied"
	OneTerminalResult = "one-terminal-result"
	DispatchFirst     = "dispatch-before-result"
	ApprovalBeforeRun = "approval-before-run"
	ApprovalOnce      = "approval-once"
	GrantHeld         = "grant-held"
	RulesHeld         = "rules-held"
	CancelHolds       = "cancel-holds"
	EndsHaveCauses    = "ends-have-causes"
	HooksOnce         = "hooks-once"
	BudgetHeld        = "budget-held"
	InputOnce         = "input-once"
	MutationsPaired   = "mutations-paired"
	GateHeld          = "gate-held"
	ParkedAtRest      = "parked-at-rest"
	PairedCalls       = "paired-calls"
	RunnableTail      = "runnable-tail"
	TranscriptIsAFold = "transcript-is-a-fold"
	Replayable        = "replayable"
)

// Invariants lists every invariant in the order in which Check checks them.
func Invariants() []Invariant {
	return append(append(entryInvariants(), turnInvariants()...), callInvariants()...)
}

func entryInvariants() []Invariant {
	return []Invariant{
		{
			Name:    SingleWriter,
			Promise: "The entries form one chain: numbered without gaps, each naming the hash of the one before it, none of them changed.",
		},
		{
			Name:    WholeEntries,
			Promise: "Every entry can be read by this release and holds at least one fact, of kinds that are stored.",
		},
		{
			Name:    EpochRises,
			Promise: "Every entry was written by the host that had last claimed the session, and every claim has a higher epoch.",
		},
		{
			Name:    CursorsRise,
			Promise: "A lane's cursor never falls, so no command is taken twice.",
		},
		{
			Name:    CauseOnce,
			Promise: "Every entry names the command that caused it, and one that comes again within 64 entries causes none.",
			rule:    causeOnce,
		},
		{
			Name:    NoLostCommand,
			Promise: "Every accepted command has an entry that it caused.",
		},
		{
			Name:    AnchorsHeld,
			Promise: "What was once seen of the journal is still there: nothing was cut off at its end or replaced, unless the session was deleted.",
		},
		{
			Name:    Replayable,
			Promise: "The core folds the journal without objection, and arrives at the same transcript as the audit.",
		},
	}
}

func turnInvariants() []Invariant {
	return []Invariant{
		{
			Name:    SessionBrackets,
			Promise: "A session opens once, before anything else happens in it, and after its close nothing starts.",
			rule:    sessionBrackets,
		},
		{
			Name:    TurnBrackets,
			Promise: "Turns come one after another, each started once and finished once, and what belongs to a turn happens inside it.",
			rule:    turnBrackets,
		},
		{
			Name:    RoundNumbers,
			Promise: "Rounds are numbered from 1 within their turn. A round finishes when all of its calls are answered, and the next one starts after it.",
			rule:    roundNumbers,
		},
		{
			Name:    OneReply,
			Promise: "Each attempt at a model call ends before the next begins, a round has at most one reply, and only a cancel or a limit ends a turn without waiting for it.",
			rule:    oneReply,
		},
		{
			Name:    UsageAddsUp,
			Promise: "A turn's usage is the sum of what was recorded for it, and no attempt is billed twice.",
			rule:    usageAddsUp,
		},
		{
			Name:    BudgetHeld,
			Promise: "No round, attempt or tool starts beyond a limit, and a limit that was reached ends the turn. Wall clock is not judged: journals do not hold all waits.",
			rule:    budgetHeld,
		},
		{
			Name:    CancelHolds,
			Promise: "After a cancel nothing new starts in its turn, or for its call.",
			rule:    cancelHolds,
		},
		{
			Name:    EndsHaveCauses,
			Promise: "The cancel, limit, hook or approval that ended a turn or answered a call is on record before. Other turns end as their last reply did.",
			rule:    endsHaveCauses,
		},
		{
			Name:    HooksOnce,
			Promise: "The hooks of a point are asked once in a round, or once per call.",
			rule:    hooksOnce,
		},
		{
			Name:    InputOnce,
			Promise: "What enters the transcript as input was queued before, and enters once.",
			rule:    inputOnce,
		},
		{
			Name:    MutationsPaired,
			Promise: "A mutator's outcome follows its start, and one that failed or changed nothing replaces nothing.",
			rule:    mutationsPaired,
		},
		{
			Name:    GateHeld,
			Promise: "A task has at most one verification more than it has retries, each with one verdict, and is called verified only if its gate passed or it has none.",
			rule:    gateHeld,
		},
		{
			Name:    ParkedAtRest,
			Promise: "A session is parked only while no model is being called for it.",
			rule:    parkedAtRest,
		},
	}
}

func callInvariants() []Invariant {
	return []Invariant{
		{
			Name:    CallsAsReplied,
			Promise: "The calls of a reply are requested once each, in order, at their places, under ids that are new to the session.",
			rule:    callsAsReplied,
		},
		{
			Name:    OneTerminalResult,
			Promise: "Every call has one answer by the end of its turn, a result or a placeholder. Only a placeholder, a cancel while it ran or an unknown outcome lets one late result follow.",
			rule:    oneTerminalResult,
		},
		{
			Name:    DispatchFirst,
			Promise: "That a call may start is recorded before what it did, one attempt at a time.",
			rule:    dispatchBeforeResult,
		},
		{
			Name:    ApprovalBeforeRun,
			Promise: "Nothing of a round runs while one of its gates is undecided, and no call runs unless each of its gates approved it as it runs.",
			rule:    approvalBeforeRun,
		},
		{
			Name:    ApprovalOnce,
			Promise: "Every approval is settled once, and before its turn ends: by a decision on the arguments that it is about, or by its deadline.",
			rule:    approvalOnce,
		},
		{
			Name:    GrantHeld,
			Promise: "A question is left out only if the same one about the same tool was approved for always before, or if the session's rules alone ask it of a tool that was allowed before; and a call starts with no approval that was not given.",
			rule:    grantHeld,
		},
		{
			Name:    RulesHeld,
			Promise: "No call starts that the rules of its session or of its turn deny, and one that they ask about starts only once that was approved.",
			rule:    rulesHeld,
		},
		{
			Name:    PairedCalls,
			Promise: "At every model call each tool call in the transcript has exactly one result, after it.",
			rule:    pairedCalls,
		},
		{
			Name:    RunnableTail,
			Promise: "A model is called only with a transcript that ends in a user, tool or notification item, or in a provider's compaction.",
			rule:    runnableTail,
		},
		{
			Name:    TranscriptIsAFold,
			Promise: "The transcript is as long at every model call and round end as the facts before it add up to.",
			rule:    transcriptIsAFold,
		},
	}
}
