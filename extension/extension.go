// Package extension defines the code a host plugs into a session: hooks, mutators,
// observers, an approver, a verifier, notes, and a durable wrapper.
//
// They are separate because they have different powers. A [Hook] may veto at named points, and its
// decision is recorded. A [Mutator] edits the transcript; its edits apply as a whole or not at all.
// An [Observer] sees every event and can change nothing. The same values work for a session in
// process (package agent) and in a deployment (package actor).
package extension

import (
	"context"
	"time"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/model"
)

// Point names a point in a session at which hooks or mutators run.
type Point string

// The points. Mutators run at the last three, hooks at the others.
const (
	LoopIteration     Point = "loop_iteration"
	PreLlmCall        Point = "pre_llm_call"
	PostLlmCall       Point = "post_llm_call"
	PreToolExecution  Point = "pre_tool_execution"
	PostToolExecution Point = "post_tool_execution"
	ContextCompaction Point = "context_compaction"
	SessionStart      Point = "session_start" // in process: a host starts; in a deployment: the session is opened
	SessionEnd        Point = "session_end"   // in process: a host closes it; in a deployment: the session is closed

	BeforeModel     Point = "before_model"
	AfterToolResult Point = "after_tool_result"
	AfterTurnEnded  Point = "after_turn_ended"
)

// ForMutators reports whether mutators run at the point, not hooks.
func (p Point) ForMutators() bool {
	return p == BeforeModel || p == AfterToolResult || p == AfterTurnEnded
}

// Hook may veto at its points. Its decision is recorded, so replay never runs a hook.
type Hook interface {
	// Name names the hook in the journal.
	Name() string
	// Points lists where the hook runs.
	Points() []Point
	// OnEvent decides. An error terminates the turn unless FailOpen wraps the hook.
	OnEvent(ctx context.Context, e HookEvent) (Action, error)
}

// HookEvent is what happens at a point; fields that do not apply are zero. It is read only.
type HookEvent struct {
	Point   Point             `json:"point"`
	Session content.SessionID `json:"session"`
	Turn    content.TurnID    `json:"turn,omitempty"`
	Round   int               `json:"round"` // from 0

	Request *model.Request      `json:"-"`
	Reply   *model.Reply        `json:"-"`
	Call    *content.ToolCall   `json:"call,omitempty"`
	Result  *content.ToolResult `json:"result,omitempty"`

	OldTokens int `json:"old_tokens,omitempty"` // before a compaction
	NewTokens int `json:"new_tokens,omitempty"` // after it
}

// Action is a hook's decision.
type Action struct {
	Kind   ActionKind
	Reason string // recorded with every kind
}

// ActionKind is the kind of a hook's decision.
type ActionKind int

// The kinds of actions.
const (
	Continue ActionKind = iota
	Skip
	Terminate
)

// String returns the recorded name of the action.
func (k ActionKind) String() string {
	if names := []string{"continue", "skip", "terminate"}; k >= Continue && k <= Terminate {
		return names[k]
	}
	return "unknown"
}

type failOpen struct{ Hook }

// FailOpen wraps a hook so that its errors become warnings and do not end the turn.
func FailOpen(h Hook) Hook { return failOpen{h} }

// FailsOpen reports whether h was wrapped by FailOpen.
func FailsOpen(h Hook) bool {
	_, ok := h.(failOpen)
	return ok
}

// Mutator edits a copy of the transcript, which is committed whole or not at all. It runs at
// every mutation point, unless it is [Placed], and decides for itself whether to act.
type Mutator interface {
	// Name names the mutator in the journal.
	Name() string
	// Mutate edits the candidate. An error leaves the transcript untouched. Mutate must
	// return promptly when ctx ends: a cancelled turn waits for it to record its usage.
	Mutate(ctx context.Context, m *Mutation) error
}

// Placed is a Mutator that runs only at some of the points. At the others, nothing is recorded about it.
type Placed interface {
	Mutator
	// Points lists where the mutator runs; none: everywhere.
	Points() []Point
}

// PointsOf returns where a mutator runs; none: everywhere.
func PointsOf(m Mutator) []Point {
	if p, ok := m.(Placed); ok {
		return p.Points()
	}
	return nil
}

// Mutation is one run of a mutator.
type Mutation struct {
	Point   Point
	Session content.SessionID
	Turn    content.TurnID
	Items   []content.Item // the candidate, to edit or replace

	// For the record.
	OldTokens, NewTokens int64
	Usage                content.Usage
	Metadata             content.Metadata
}

// Observer sees every event in order and cannot fail the session.
type Observer interface {
	// HandleEvent sees one event. It must not call back into the session's driver.
	HandleEvent(e Observed)
}

// Observed is an event and its place in the journal. Seq is zero for live-only events.
type Observed struct {
	Session content.SessionID
	Seq     uint64
	At      time.Time
	Cause   string
	Event   events.Event
}

// TranscriptObserver gets every appended item once, in transcript order.
type TranscriptObserver interface {
	// OnItemAppended sees one item.
	OnItemAppended(s content.SessionID, it content.Item)
}

// Approver decides approvals on a person's behalf.
type Approver interface {
	// Approve decides. The reason is recorded; the model sees the reason of a denial. An error
	// decides nothing: the approval stays open.
	Approve(ctx context.Context, a events.Approval) (approve bool, reason string, err error)
}

// Verifier checks the work of a task.
type Verifier interface {
	// Verify reports whether the work passes. An error is a failed verification,
	// unless ctx ended.
	Verify(ctx context.Context, workdir string) (pass bool, output string, err error)
}

// Notes recalls and stores what tasks learned.
type Notes interface {
	// Recall returns items that may help with the goal. With an error, it still returns the items
	// that it found.
	Recall(ctx context.Context, goal string) ([]content.Item, error)
	// Remember stores a task's outcome.
	Remember(ctx context.Context, goal, summary string) error
}

// Durable wraps the two effects that cost money, for hosts that also journal them elsewhere.
type Durable interface {
	// CallModel calls next once, or returns the reply of an earlier call.
	CallModel(ctx context.Context, r model.Request, next func(context.Context, model.Request) (model.Reply, error)) (model.Reply, error)
	// CallTool calls next once, or returns the result of an earlier call.
	CallTool(ctx context.Context, c content.ToolCall, next func(context.Context, content.ToolCall) (content.ToolResult, error)) (content.ToolResult, error)
}
