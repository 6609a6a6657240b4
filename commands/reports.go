package commands

import (
	"time"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/tool"
)

// ModelCall names one attempt at a model call.
type ModelCall struct {
	Turn    content.TurnID `msgpack:"t"`
	Round   int            `msgpack:"r"`
	Attempt int            `msgpack:"a"`
}

// ReportReply reports a complete reply, with the checks that the host has already
// made.
type ReportReply struct {
	ModelCall
	Items        []content.Item       `msgpack:"i,omitempty"`
	FinishReason content.FinishReason `msgpack:"fr,omitempty"`
	Usage        content.Usage        `msgpack:"u"`
	Model        string               `msgpack:"m,omitempty"`
	ResponseID   string               `msgpack:"id,omitempty"`
	Invalid      string               `msgpack:"iv,omitempty"` // why the answer violates the session's schema
	Routing      []content.Routing    `msgpack:"ro,omitempty"` // one per call of the reply, in order
	Checks       []Check              `msgpack:"ch,omitempty"` // nil: preflight is pending
	Hooks        []HookAnswer         `msgpack:"h,omitempty"`
	Warnings     []events.Warning     `msgpack:"w,omitempty"` // about content that the model did not see
}

// Check is the preflight of one call: lookup, patch, schema, permissions.
type Check struct {
	Place     content.Place `msgpack:"p"`
	Refusal   *Refusal      `msgpack:"r,omitempty"` // nil: the call may run when its questions are approved
	Questions []Question    `msgpack:"g,omitempty"`
	Digest    string        `msgpack:"d,omitempty"` // of the effective input
}

// Refusal says why a call cannot run.
type Refusal struct {
	Status  content.Status `msgpack:"s"` // error or denied
	Code    string         `msgpack:"c"`
	Message string         `msgpack:"m"` // for the model
}

// Question is a question that a person must answer before a call runs.
type Question struct {
	RequestKind string                 `msgpack:"k"`
	Scope       string                 `msgpack:"sc,omitempty"` // limits a lasting approval, in addition to tool and kind
	Reason      content.ApprovalReason `msgpack:"r"`
	Summary     string                 `msgpack:"s,omitempty"`
	Metadata    content.Metadata       `msgpack:"md,omitempty"`
	TTL         time.Duration          `msgpack:"ttl,omitempty"` // zero: the session's
	Asker       events.Asker           `msgpack:"as,omitempty"`
}

// QuestionsOf returns the questions of a verdict.
func QuestionsOf(v tool.Verdict) []Question {
	var out []Question
	for _, q := range v.Questions() {
		out = append(out, Question{
			RequestKind: q.RequestKind, Scope: q.Scope, Reason: q.Reason, Summary: q.Summary, Metadata: q.Metadata, TTL: q.TTL,
		})
	}
	return out
}

// ReportModelFailed reports an attempt without a reply.
type ReportModelFailed struct {
	ModelCall
	Class      content.ErrorClass `msgpack:"c"`
	Code       string             `msgpack:"co,omitempty"`
	Message    string             `msgpack:"m,omitempty"`
	RetryAfter time.Duration      `msgpack:"ra,omitempty"`
	Usage      content.Usage      `msgpack:"u"`
}

// ReportModelStopped reports the part of a reply that arrived before it was stopped.
type ReportModelStopped struct {
	ModelCall
	Items []content.Item `msgpack:"i,omitempty"`
	Usage content.Usage  `msgpack:"u"`
}

// ReportResult reports the outcome of a call.
type ReportResult struct {
	Place   content.Place `msgpack:"p"`
	Attempt int           `msgpack:"a"`
	Queue   string        `msgpack:"q,omitempty"`
	Outcome tool.Result   `msgpack:"o"`
	Hooks   []HookAnswer  `msgpack:"h,omitempty"`

	Signature *content.Signature `msgpack:"sg,omitempty"` // of the worker; nil: none
	SignedAt  content.Time       `msgpack:"sa,omitempty"`
}

// ReportAttemptLost reports that the worker of an attempt was lost.
type ReportAttemptLost struct {
	Place   content.Place `msgpack:"p"`
	Attempt int           `msgpack:"a"`
	Queue   string        `msgpack:"q,omitempty"`
	Reason  string        `msgpack:"r,omitempty"`
	Last    bool          `msgpack:"l,omitempty"` // make no other attempt: there is no worker for it
}

// ReportOvertaken reports that a worker skipped a task because the driver that
// dispatched it has been replaced. The current driver dispatches the call again if it
// is still pending. The core ignores the report.
type ReportOvertaken struct {
	Place   content.Place `msgpack:"p"`
	Attempt int           `msgpack:"a"`
	Task    uint64        `msgpack:"n"` // its sequence in the stream of tasks
}

// ReportPreflight reports the checks of calls.
type ReportPreflight struct {
	Turn   content.TurnID `msgpack:"t"`
	Round  int            `msgpack:"r"`
	Checks []Check        `msgpack:"c"`
	Hooks  []HookAnswer   `msgpack:"h,omitempty"`
}

// ReportQuestion reports that a dispatched call needs another approval. It has not run
// and is dispatched again when it is approved.
type ReportQuestion struct {
	Place    content.Place `msgpack:"p"`
	Attempt  int           `msgpack:"a"`
	N        int           `msgpack:"n,omitempty"` // number of approvals that the attempt already had
	Question Question      `msgpack:"g"`
	Also     []Question    `msgpack:"al,omitempty"` // further questions
}

// HookAnswer is the decision of the hooks at one point.
type HookAnswer struct {
	Point      string         `msgpack:"p"`
	Call       content.CallID `msgpack:"c,omitempty"`
	Hook       string         `msgpack:"h,omitempty"`
	Action     string         `msgpack:"a"` // continue, skip, terminate
	Reason     string         `msgpack:"r,omitempty"`
	FailedOpen []string       `msgpack:"fo,omitempty"`

	Notes []events.HookNote `msgpack:"no,omitempty"`
}

// ReportHooks reports the decision of the hooks at one point.
type ReportHooks struct {
	Turn   content.TurnID `msgpack:"t"`
	Round  int            `msgpack:"r"`
	N      int            `msgpack:"n,omitempty"` // for ContextCompaction: the number of the mutation in the round
	Answer HookAnswer     `msgpack:"a"`
}

// ReportMutation reports the outcome of a mutator.
type ReportMutation struct {
	Turn     content.TurnID          `msgpack:"t"`
	Round    int                     `msgpack:"r,omitempty"`
	Finished events.MutationFinished `msgpack:"f"`
}

// ReportRecall reports what planning found.
type ReportRecall struct {
	Task  string         `msgpack:"t"`
	Items []content.Item `msgpack:"i,omitempty"`
	Error string         `msgpack:"e,omitempty"`
}

// ReportVerify reports the outcome of a verifier. A client sends it for its own function.
type ReportVerify struct {
	Task     string                `msgpack:"t"`
	Finished events.VerifyFinished `msgpack:"f"`
}

// ReportMemory reports whether the summary of a task was stored.
type ReportMemory struct {
	Task  string `msgpack:"t"`
	Error string `msgpack:"e,omitempty"`
}

// Kinds of timers.
const (
	TimerRetry     = "retry"
	TimerApproval  = "approval"
	TimerDetach    = "detach"
	TimerDeadline  = "deadline"
	TimerWallClock = "wall_clock"
)

// ReportTimer reports that a timer fired. The core checks the time again.
type ReportTimer struct {
	Kind string `msgpack:"k"`
	ID   string `msgpack:"id,omitempty"` // the approval or the place
}

func (ReportReply) command() kind        { return report("report_reply", events.LaneLocal) }
func (ReportModelFailed) command() kind  { return report("report_model_failed", events.LaneLocal) }
func (ReportModelStopped) command() kind { return report("report_model_stopped", events.LaneLocal) }
func (ReportResult) command() kind       { return report("report_result", events.LaneReport) }
func (ReportAttemptLost) command() kind  { return report("report_attempt_lost", events.LaneReport) }
func (ReportOvertaken) command() kind    { return report("report_overtaken", events.LaneReport) }
func (ReportPreflight) command() kind    { return report("report_preflight", events.LaneLocal) }
func (ReportQuestion) command() kind     { return report("report_gate", events.LaneReport) }
func (ReportHooks) command() kind        { return report("report_hooks", events.LaneLocal) }
func (ReportMutation) command() kind     { return report("report_mutation", events.LaneLocal) }
func (ReportRecall) command() kind       { return report("report_recall", events.LaneLocal) }
func (ReportVerify) command() kind       { return report("report_verify", events.LaneAsk) }
func (ReportMemory) command() kind       { return report("report_memory", events.LaneLocal) }
func (ReportTimer) command() kind        { return report("report_timer", events.LaneDue) }
