package events

import (
	"errors"
	"fmt"

	"github.com/vmihailenco/msgpack/v5"
)

// Kind is the name of a kind of event on the wire. It never changes.
type Kind string

// The kinds of events.
const (
	KindDriverClaimed      Kind = "driver_claimed"
	KindParked             Kind = "parked"
	KindRunStarted         Kind = "run_started"
	KindConfigChanged      Kind = "config_changed"
	KindInputQueued        Kind = "input_queued"
	KindInputAccepted      Kind = "input_accepted"
	KindTurnStarted        Kind = "turn_started"
	KindRoundStarted       Kind = "round_started"
	KindRoundFinished      Kind = "round_finished"
	KindModelCallStarted   Kind = "model_call_started"
	KindModelCallFailed    Kind = "model_call_failed"
	KindContentDelta       Kind = "content_delta"
	KindReplyRecorded      Kind = "reply_recorded"
	KindUsageUpdated       Kind = "usage_updated"
	KindToolCallRequested  Kind = "tool_call_requested"
	KindToolCatalogChanged Kind = "tool_catalog_changed"
	KindApprovalRequired   Kind = "approval_required"
	KindApprovalResolved   Kind = "approval_resolved"
	KindToolDispatched     Kind = "tool_dispatched"
	KindToolAttemptLost    Kind = "tool_attempt_lost"
	KindDeadLetterSettled  Kind = "dead_letter_settled"
	KindToolDetached       Kind = "tool_detached"
	KindToolProgress       Kind = "tool_progress"
	KindToolResultReceived Kind = "tool_result_received"
	KindHookDecided        Kind = "hook_decided"
	KindMutationStarted    Kind = "mutation_started"
	KindMutationFinished   Kind = "mutation_finished"
	KindLimitReached       Kind = "limit_reached"
	KindCancelRequested    Kind = "cancel_requested"
	KindCacheOverrideSet   Kind = "cache_override_set"
	KindToolsAllowed       Kind = "tools_allowed"
	KindTaskStarted        Kind = "task_started"
	KindMemoryRecalled     Kind = "memory_recalled"
	KindVerifyStarted      Kind = "verify_started"
	KindVerifyFinished     Kind = "verify_finished"
	KindMemoryStored       Kind = "memory_stored"
	KindTaskFinished       Kind = "task_finished"
	KindStateChanged       Kind = "state_changed"
	KindWarning            Kind = "warning"
	KindRunFailed          Kind = "run_failed"
	KindTurnFinished       Kind = "turn_finished"
	KindSessionClosed      Kind = "session_closed"
	KindSessionDeleted     Kind = "session_deleted"
	KindRefused            Kind = "refused"
)

// ErrUnknownKind is returned for an entry with an event that this release does not
// know. A driver refuses the session; an observer shows the raw entry.
var ErrUnknownKind = errors.New("unknown event kind")

// Kinds returns every kind, roughly in the order of a session's life.
func Kinds() []Kind {
	return []Kind{
		KindDriverClaimed, KindParked, KindRunStarted, KindConfigChanged, KindInputQueued, KindInputAccepted,
		KindTurnStarted, KindRoundStarted, KindRoundFinished, KindModelCallStarted, KindModelCallFailed,
		KindContentDelta, KindReplyRecorded, KindUsageUpdated, KindToolCallRequested, KindToolCatalogChanged,
		KindApprovalRequired, KindApprovalResolved, KindToolDispatched, KindToolAttemptLost, KindDeadLetterSettled,
		KindToolDetached, KindToolProgress, KindToolResultReceived, KindHookDecided, KindMutationStarted,
		KindMutationFinished, KindLimitReached, KindCancelRequested, KindCacheOverrideSet, KindToolsAllowed,
		KindTaskStarted, KindMemoryRecalled, KindVerifyStarted, KindVerifyFinished, KindMemoryStored,
		KindTaskFinished, KindStateChanged, KindWarning, KindRunFailed, KindTurnFinished, KindSessionClosed,
		KindSessionDeleted, KindRefused,
	}
}

// KindOf returns the kind of e.
func KindOf(e Event) Kind { return e.event() }

// Journaled reports whether the journal stores events of the kind. The others are
// live only or derived.
func Journaled(k Kind) bool {
	switch k {
	case KindContentDelta, KindToolProgress, KindStateChanged, KindRefused:
		return false
	default:
		return true
	}
}

func decodeEvent(k Kind, d *msgpack.Decoder) (Event, error) {
	switch k {
	case KindDriverClaimed:
		return decodeAs[DriverClaimed](d)
	case KindParked:
		return decodeAs[Parked](d)
	case KindRunStarted:
		return decodeAs[RunStarted](d)
	case KindConfigChanged:
		return decodeAs[ConfigChanged](d)
	case KindInputQueued:
		return decodeAs[InputQueued](d)
	case KindInputAccepted:
		return decodeAs[InputAccepted](d)
	case KindTurnStarted:
		return decodeAs[TurnStarted](d)
	case KindRoundStarted:
		return decodeFields[RoundStarted](d)
	case KindRoundFinished:
		return decodeFields[RoundFinished](d)
	case KindModelCallStarted:
		return decodeFields[ModelCallStarted](d)
	case KindModelCallFailed:
		return decodeAs[ModelCallFailed](d)
	case KindContentDelta:
		return decodeAs[ContentDelta](d)
	case KindReplyRecorded:
		return decodeFields[ReplyRecorded](d)
	case KindUsageUpdated:
		return decodeFields[UsageUpdated](d)
	case KindToolCallRequested:
		return decodeFields[ToolCallRequested](d)
	case KindToolCatalogChanged:
		return decodeAs[ToolCatalogChanged](d)
	case KindApprovalRequired:
		return decodeAs[ApprovalRequired](d)
	case KindApprovalResolved:
		return decodeAs[ApprovalResolved](d)
	case KindToolDispatched:
		return decodeFields[ToolDispatched](d)
	case KindToolAttemptLost:
		return decodeAs[ToolAttemptLost](d)
	case KindDeadLetterSettled:
		return decodeAs[DeadLetterSettled](d)
	case KindToolDetached:
		return decodeAs[ToolDetached](d)
	case KindToolProgress:
		return decodeAs[ToolProgress](d)
	case KindToolResultReceived:
		return decodeFields[ToolResultReceived](d)
	case KindHookDecided:
		return decodeAs[HookDecided](d)
	case KindMutationStarted:
		return decodeFields[MutationStarted](d)
	case KindMutationFinished:
		return decodeFields[MutationFinished](d)
	case KindLimitReached:
		return decodeAs[LimitReached](d)
	case KindCancelRequested:
		return decodeAs[CancelRequested](d)
	case KindCacheOverrideSet:
		return decodeAs[CacheOverrideSet](d)
	case KindToolsAllowed:
		return decodeAs[ToolsAllowed](d)
	case KindTaskStarted:
		return decodeAs[TaskStarted](d)
	case KindMemoryRecalled:
		return decodeAs[MemoryRecalled](d)
	case KindVerifyStarted:
		return decodeAs[VerifyStarted](d)
	case KindVerifyFinished:
		return decodeAs[VerifyFinished](d)
	case KindMemoryStored:
		return decodeAs[MemoryStored](d)
	case KindTaskFinished:
		return decodeAs[TaskFinished](d)
	case KindStateChanged:
		return decodeAs[StateChanged](d)
	case KindWarning:
		return decodeAs[Warning](d)
	case KindRunFailed:
		return decodeAs[RunFailed](d)
	case KindTurnFinished:
		return decodeAs[TurnFinished](d)
	case KindSessionClosed:
		return decodeAs[SessionClosed](d)
	case KindSessionDeleted:
		return decodeAs[SessionDeleted](d)
	case KindRefused:
		return decodeAs[Refused](d)
	}
	return nil, fmt.Errorf("%w %q", ErrUnknownKind, k)
}

func decodeAs[T Event](d *msgpack.Decoder) (Event, error) {
	var v T
	if err := d.Decode(&v); err != nil {
		return nil, fmt.Errorf("decode %T: %w", v, err)
	}
	return v, nil
}
