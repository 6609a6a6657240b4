package events

import (
	"errors"
	"fmt"
	"reflect"
	"sync"

	"github.com/turnlog/turnlog/internal/wire"
)

// Kind is the name of a kind of event on the wire. It never changes.
type Kind string

// The kinds of events.
const (
	KindDriverClaimed      Kind = "driver_claimed"
	KindParked             Kind = "parked"
	KindSnapshotTaken      Kind = "snapshot_taken"
	KindCommandSigned      Kind = "command_signed"
	KindRunStarted         Kind = "run_started"
	KindConfigChanged      Kind = "config_changed"
	KindModelSwitched      Kind = "model_switched"
	KindPolicyApplied      Kind = "policy_applied"
	KindInputQueued        Kind = "input_queued"
	KindInputAccepted      Kind = "input_accepted"
	KindTurnStarted        Kind = "turn_started"
	KindRoundStarted       Kind = "round_started"
	KindRoundFinished      Kind = "round_finished"
	KindModelCallStarted   Kind = "model_call_started"
	KindModelCallFailed    Kind = "model_call_failed"
	KindContentDelta       Kind = "content_delta"
	KindContentRepeated    Kind = "content_repeated"
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

// zeros has an event of every kind, roughly in the order of a session's life.
//
//nolint:gochecknoglobals // a constant table; building it for each event would dominate decoding
var zeros = []Event{
	DriverClaimed{},
	Parked{},
	SnapshotTaken{},
	CommandSigned{},
	RunStarted{},
	ConfigChanged{},
	ModelSwitched{},
	PolicyApplied{},
	InputQueued{},
	InputAccepted{},
	TurnStarted{},
	RoundStarted{},
	RoundFinished{},
	ModelCallStarted{},
	ModelCallFailed{},
	ContentDelta{},
	ContentRepeated{},
	ReplyRecorded{},
	UsageUpdated{},
	ToolCallRequested{},
	ToolCatalogChanged{},
	ApprovalRequired{},
	ApprovalResolved{},
	ToolDispatched{},
	ToolAttemptLost{},
	DeadLetterSettled{},
	ToolDetached{},
	ToolProgress{},
	ToolResultReceived{},
	HookDecided{},
	MutationStarted{},
	MutationFinished{},
	LimitReached{},
	CancelRequested{},
	CacheOverrideSet{},
	ToolsAllowed{},
	TaskStarted{},
	MemoryRecalled{},
	VerifyStarted{},
	VerifyFinished{},
	MemoryStored{},
	TaskFinished{},
	StateChanged{},
	Warning{},
	RunFailed{},
	TurnFinished{},
	SessionClosed{},
	SessionDeleted{},
	Refused{},
}

// Kinds returns every kind, roughly in the order of a session's life.
func Kinds() []Kind { return Entry{Events: zeros}.Kinds() }

// KindOf returns the kind of e.
func KindOf(e Event) Kind { return e.event() }

// Journaled reports whether the journal stores events of the kind. The others are
// live only or derived.
func Journaled(k Kind) bool {
	switch k {
	case KindContentDelta, KindContentRepeated, KindToolProgress, KindStateChanged, KindRefused:
		return false
	default:
		return true
	}
}

// types has the type of each kind.
var types = sync.OnceValue(func() map[Kind]reflect.Type { //nolint:gochecknoglobals // constant
	all := map[Kind]reflect.Type{}
	for _, zero := range zeros {
		all[KindOf(zero)] = reflect.TypeOf(zero)
	}
	return all
})

// decodeEvent decodes an event of the kind.
func decodeEvent(k Kind, r *wire.Reader) (Event, error) {
	t := types()[k]
	if t == nil {
		return nil, fmt.Errorf("%w %q", ErrUnknownKind, k)
	}
	ev, err := r.Of(t)
	if err != nil {
		return nil, fmt.Errorf("decode %s: %w", k, err)
	}
	return ev.(Event), nil //nolint:forcetypeassert // the type of a zero
}
