package events

import (
	"cmp"
	"slices"
	"time"

	"github.com/turnlog/turnlog/content"
)

// Origin is the source of queued input.
type Origin string

// The origins of input.
const (
	FromHost         Origin = "host"
	FromVerifier     Origin = "verifier"
	FromParent       Origin = "parent"
	FromTask         Origin = "task"
	FromNotification Origin = "notification"
	FromSchema       Origin = "schema" // correction of an answer that violates the schema
)

// OnBusy is the policy for input that arrives while a turn is open.
type OnBusy string

// The policies for concurrent input. The zero value is [Steer].
const (
	Steer     OnBusy = ""          // joins at the next round boundary
	Queue     OnBusy = "queue"     // starts the next turn
	Interrupt OnBusy = "interrupt" // cancels the open turn, then runs
	Reject    OnBusy = "reject"    // refuses it
)

// TurnOptions restrict one turn. Only its routes override the session's. A command has the requested options, a turn
// has the effective ones.
type TurnOptions struct {
	Limits     *Limits     `msgpack:"l,omitempty" json:"limits,omitempty"`      // nil: the session's per-turn limits
	Sequential bool        `msgpack:"sq,omitempty" json:"sequential,omitempty"` // one call at a time
	Rules      [][]Rule    `msgpack:"ru,omitempty" json:"rules,omitempty"`      // additional lists of rules; the strictest decision counts
	Routes     []RouteRule `msgpack:"rt,omitempty" json:"routes,omitempty"`     // before those of the session
}

// And returns the options of a turn that both inputs join: all rules, the tighter limits, and the
// later routes first.
func (o *TurnOptions) And(later *TurnOptions) *TurnOptions {
	if o == nil || later == nil {
		return cmp.Or(o, later)
	}
	out := TurnOptions{
		Limits: cmp.Or(o.Limits, later.Limits), Sequential: o.Sequential || later.Sequential,
		Rules: slices.Concat(o.Rules, later.Rules), Routes: slices.Concat(later.Routes, o.Routes),
	}
	if o.Limits != nil && later.Limits != nil {
		l := o.Limits.And(*later.Limits)
		out.Limits = &l
	}
	return &out
}

// InputQueued records accepted input that is not yet in the transcript.
type InputQueued struct {
	Items    []content.Item `msgpack:"i" json:"items"`
	Origin   Origin         `msgpack:"o" json:"origin"`
	OnBusy   OnBusy         `msgpack:"b,omitempty" json:"on_busy,omitempty"`
	Options  *TurnOptions   `msgpack:"op,omitempty" json:"options,omitempty"`
	Task     *TaskSpec      `msgpack:"t,omitempty" json:"task,omitempty"`
	TaskName string         `msgpack:"tn,omitempty" json:"task_name,omitempty"` // empty: named after its turn
	Baseline string         `msgpack:"bl,omitempty" json:"baseline,omitempty"`  // of the task
	By       string         `msgpack:"by,omitempty" json:"by,omitempty"`        // who sent it
	User     string         `msgpack:"us,omitempty" json:"user,omitempty"`      // verified, see content.Sender

	Signature *content.Signature `msgpack:"sg,omitempty" json:"signature,omitempty"` // not written: see CommandSigned
}

// InputAccepted records that queued input entered the transcript.
type InputAccepted struct {
	Turn    content.TurnID `msgpack:"t" json:"turn"`
	Items   []content.Item `msgpack:"i" json:"items"`
	Origin  Origin         `msgpack:"o" json:"origin"`
	Options *TurnOptions   `msgpack:"op,omitempty" json:"options,omitempty"` // of the open turn from here on; nil: unchanged
}

// TurnStarted opens a turn, once, before its first round.
type TurnStarted struct {
	Turn    content.TurnID `msgpack:"t" json:"turn"`
	Trigger Origin         `msgpack:"tr" json:"trigger"`
	Options *TurnOptions   `msgpack:"op,omitempty" json:"options,omitempty"`
}

// RoundStarted opens a round: one model call and the tool calls it asks for.
type RoundStarted struct {
	Turn    content.TurnID `msgpack:"t" json:"turn"`
	Round   int            `msgpack:"r" json:"round"`
	Catalog string         `msgpack:"c,omitempty" json:"catalog,omitempty"`
}

// RoundFinished closes a round when all its calls are answered.
type RoundFinished struct {
	Turn          content.TurnID `msgpack:"t" json:"turn"`
	Round         int            `msgpack:"r" json:"round"`
	TranscriptLen int            `msgpack:"n" json:"transcript_len"`
}

// CancelRequested records a request to cancel.
type CancelRequested struct {
	Scope  string         `msgpack:"s" json:"scope"` // turn, call or session
	Target content.CallID `msgpack:"t,omitempty" json:"target,omitempty"`
	Reason string         `msgpack:"r,omitempty" json:"reason,omitempty"`
	By     string         `msgpack:"b,omitempty" json:"by,omitempty"`
	User   string         `msgpack:"us,omitempty" json:"user,omitempty"` // verified, see content.Sender
}

// CacheOverrideSet records a cache request for the next model call only.
type CacheOverrideSet struct {
	Cache content.CacheRequest `msgpack:"c" json:"cache"`
}

// WarnCostUnknown is the code of the warning that a limit on cost does not count a model.
const WarnCostUnknown = "cost_unknown"

// Warning records a problem that did not stop the session.
type Warning struct {
	Code    string         `msgpack:"c" json:"code"`
	Message string         `msgpack:"m" json:"message"`
	Call    content.CallID `msgpack:"cl,omitempty" json:"call,omitempty"`
}

// RunFailed records why a turn failed, just before its TurnFinished.
type RunFailed struct {
	Turn    content.TurnID     `msgpack:"t" json:"turn"`
	Code    string             `msgpack:"c" json:"code"`
	Class   content.ErrorClass `msgpack:"cl,omitempty" json:"class,omitempty"`
	Message string             `msgpack:"m" json:"message"`
}

// TurnFinished closes a turn, exactly once.
type TurnFinished struct {
	Turn         content.TurnID       `msgpack:"t" json:"turn"`
	FinishReason content.FinishReason `msgpack:"fr" json:"finish_reason"`
	Rounds       int                  `msgpack:"r" json:"rounds"`
	Usage        content.Usage        `msgpack:"u" json:"usage"`
	Metadata     content.Metadata     `msgpack:"md,omitempty" json:"metadata,omitempty"`
	Error        string               `msgpack:"e,omitempty" json:"error,omitempty"`
}

// Refused tells a client that its ask was refused. It is live only: a client that
// misses it can see that the cursors of a later entry passed the ask, but that the ask
// caused no entry.
type Refused struct {
	Command string `msgpack:"c" json:"command"` // id of the envelope
	Reason  string `msgpack:"r" json:"reason"`  // stable code
	Detail  string `msgpack:"d,omitempty" json:"detail,omitempty"`
	After   uint64 `msgpack:"s,omitempty" json:"after,omitempty"` // the last entry when it was refused, which the client reads first; 0: an earlier release
}

// Phase is what a task is doing, derived from its events.
type Phase string

// The phases of a task.
const (
	Idle      Phase = "idle"
	Planning  Phase = "planning"
	Executing Phase = "executing"
	Verifying Phase = "verifying"
	Reporting Phase = "reporting"
)

// StateChanged is derived: the phase after an entry that changed it.
type StateChanged struct {
	Phase Phase `msgpack:"p" json:"phase"`
}

// TaskSpec is a goal and how to verify that it is reached.
type TaskSpec struct {
	Goal         string   `msgpack:"g" json:"goal"`
	Verifier     []string `msgpack:"ga,omitempty" json:"gate,omitempty"` // argv; empty: none, or a func of the host
	VerifierFunc bool     `msgpack:"gf,omitempty" json:"gate_func,omitempty"`
	MaxRetries   int      `msgpack:"mr,omitempty" json:"max_retries,omitempty"`
}

// TaskStarted opens a task. From here on, models see only the System items of the earlier
// transcript.
type TaskStarted struct {
	Task     string   `msgpack:"t" json:"task"`
	Spec     TaskSpec `msgpack:"s" json:"spec"`
	Baseline string   `msgpack:"b,omitempty" json:"baseline,omitempty"`
}

// MemoryRecalled records what planning found: notes, specs, context files.
type MemoryRecalled struct {
	Items []content.Item `msgpack:"i,omitempty" json:"items,omitempty"`
}

// VerifyStarted records that the verifier is about to run.
type VerifyStarted struct {
	Attempt int `msgpack:"a" json:"attempt"`
}

// VerifyFinished records the outcome of the verifier.
type VerifyFinished struct {
	Attempt  int           `msgpack:"a" json:"attempt"`
	Success  bool          `msgpack:"s,omitempty" json:"success"`
	Status   string        `msgpack:"st" json:"status"` // passed, failed, skipped, cancelled
	Exit     int           `msgpack:"x,omitempty" json:"exit"`
	Output   string        `msgpack:"o,omitempty" json:"output,omitempty"` // at most 4,000 characters, keeping the end
	Duration time.Duration `msgpack:"d,omitempty" json:"duration_ns,omitempty"`
	By       string        `msgpack:"by,omitempty" json:"by,omitempty"`   // who reported it, if a client's function did the work
	User     string        `msgpack:"us,omitempty" json:"user,omitempty"` // verified, see content.Sender
}

// MemoryStored records that the task's summary was stored as a note.
type MemoryStored struct {
	Error string `msgpack:"e,omitempty" json:"error,omitempty"`
}

// TaskFinished closes a task.
type TaskFinished struct {
	Status       string   `msgpack:"st" json:"status"` // done, failed, cancelled, blocked
	Verified     bool     `msgpack:"v,omitempty" json:"verified"`
	VerifyStatus string   `msgpack:"vs,omitempty" json:"verify_status,omitempty"`
	Attempts     int      `msgpack:"a,omitempty" json:"attempts"`
	FilesChanged []string `msgpack:"f,omitempty" json:"files_changed,omitempty"`
	Summary      string   `msgpack:"s,omitempty" json:"summary,omitempty"`
}
