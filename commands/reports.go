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

// ReportReply brings a model's whole reply, with what the edge could already
// answer about it.
type ReportReply struct {
	ModelCall
	Items        []content.Item       `msgpack:"i,omitempty"`
	FinishReason content.FinishReason `msgpack:"fr,omitempty"`
	Usage        content.Usage        `msgpack:"u"`
	Model        string               `msgpack:"m,omitempty"`
	ResponseID   string               `msgpack:"id,omitempty"`
	Invalid      string               `msgpack:"iv,omitempty"` // why the answer does not fit the session's schema
	Routing      []content.Routing    `msgpack:"ro,omitempty"` // one per call of the reply, in order
	Checks       []Check              `msgpack:"ch,omitempty"` // nil: preflight is still owed
	Hooks        []HookAnswer         `msgpack:"h,omitempty"`
	Warnings     []events.Warning     `msgpack:"w,omitempty"` // of what the model was to be shown and was not
}

// Check is the preflight of one call: lookup, patch, schema, then permissions.
type Check struct {
	Place   content.Place `msgpack:"p"`
	Refusal *Refusal      `msgpack:"r,omitempty"` // nil: it may run, once its gates are approved
	Gates   []Gate        `msgpack:"g,omitempty"`
	Digest  string        `msgpack:"d,omitempty"` // of the effective input
}

// Refusal says why a call cannot run.
type Refusal struct {
	Status  content.Status `msgpack:"s"` // error or denied
	Code    string         `msgpack:"c"`
	Message string         `msgpack:"m"` // for the model
}

// Gate is a question that a person has to answer before a call runs.
type Gate struct {
	RequestKind string                 `msgpack:"k"`
	Scope       string                 `msgpack:"sc,omitempty"` // what a lasting approval is about, beyond tool and kind
	Reason      content.ApprovalReason `msgpack:"r"`
	Summary     string                 `msgpack:"s,omitempty"`
	Metadata    content.Metadata       `msgpack:"md,omitempty"`
	TTL         time.Duration          `msgpack:"ttl,omitempty"` // zero: the session's
	Asker       events.Asker           `msgpack:"as,omitempty"`
}

// GatesOf are the gates that a verdict asks for.
func GatesOf(v tool.Verdict) []Gate {
	var out []Gate
	for _, q := range v.Questions() {
		out = append(out, Gate{
			RequestKind: q.RequestKind, Scope: q.Scope, Reason: q.Reason, Summary: q.Summary, Metadata: q.Metadata, TTL: q.TTL,
		})
	}
	return out
}

// ReportModelFailed says that an attempt brought no reply.
type ReportModelFailed struct {
	ModelCall
	Class      content.ErrorClass `msgpack:"c"`
	Code       string             `msgpack:"co,omitempty"`
	Message    string             `msgpack:"m,omitempty"`
	RetryAfter time.Duration      `msgpack:"ra,omitempty"`
	Usage      content.Usage      `msgpack:"u"`
}

// ReportModelStopped brings what had come of a reply when it was stopped.
type ReportModelStopped struct {
	ModelCall
	Items []content.Item `msgpack:"i,omitempty"`
	Usage content.Usage  `msgpack:"u"`
}

// ReportResult brings a call's outcome.
type ReportResult struct {
	Place   content.Place `msgpack:"p"`
	Attempt int           `msgpack:"a"`
	Queue   string        `msgpack:"q,omitempty"`
	Outcome tool.Result   `msgpack:"o"`
	Hooks   []HookAnswer  `msgpack:"h,omitempty"`
}

// ReportAttemptLost says that whoever ran an attempt is gone.
type ReportAttemptLost struct {
	Place   content.Place `msgpack:"p"`
	Attempt int           `msgpack:"a"`
	Queue   string        `msgpack:"q,omitempty"`
	Reason  string        `msgpack:"r,omitempty"`
}

// ReportOvertaken says that a worker got a task of a driver that was replaced, and does not
// run it. If the call still has to run, the session's driver dispatches it anew. Nothing
// of that is for the core, so it decides to nothing.
type ReportOvertaken struct {
	Place   content.Place `msgpack:"p"`
	Attempt int           `msgpack:"a"`
	Task    uint64        `msgpack:"n"` // its number in the stream of tasks
}

// ReportPreflight brings the checks of the calls that wait for them.
type ReportPreflight struct {
	Turn   content.TurnID `msgpack:"t"`
	Round  int            `msgpack:"r"`
	Checks []Check        `msgpack:"c"`
	Hooks  []HookAnswer   `msgpack:"h,omitempty"`
}

// ReportGate says that a running call needs an approval that nobody could foresee.
// Nothing of it has run; once it is approved it is dispatched again.
type ReportGate struct {
	Place   content.Place `msgpack:"p"`
	Attempt int           `msgpack:"a"`
	N       int           `msgpack:"n,omitempty"` // approvals that the attempt came with
	Gate    Gate          `msgpack:"g"`
	Also    []Gate        `msgpack:"al,omitempty"` // what else has to be approved
}

// HookAnswer is what the hooks of one point decided.
type HookAnswer struct {
	Point      string         `msgpack:"p"`
	Call       content.CallID `msgpack:"c,omitempty"`
	Hook       string         `msgpack:"h,omitempty"`
	Action     string         `msgpack:"a"` // continue, skip, terminate
	Reason     string         `msgpack:"r,omitempty"`
	FailedOpen []string       `msgpack:"fo,omitempty"`

	Notes []events.HookNote `msgpack:"no,omitempty"`
}

// ReportHooks brings the answer of the hooks of one point.
type ReportHooks struct {
	Turn   content.TurnID `msgpack:"t"`
	Round  int            `msgpack:"r"`
	N      int            `msgpack:"n,omitempty"` // ContextCompaction: which of the round's mutations it follows
	Answer HookAnswer     `msgpack:"a"`
}

// ReportMutation brings what a mutator did.
type ReportMutation struct {
	Turn     content.TurnID          `msgpack:"t"`
	Round    int                     `msgpack:"r,omitempty"`
	Finished events.MutationFinished `msgpack:"f"`
}

// ReportRecall brings what planning found.
type ReportRecall struct {
	Task  string         `msgpack:"t"`
	Items []content.Item `msgpack:"i,omitempty"`
	Error string         `msgpack:"e,omitempty"`
}

// ReportVerify brings a gate's answer.
type ReportVerify struct {
	Task     string                `msgpack:"t"`
	Finished events.VerifyFinished `msgpack:"f"`
}

// ReportMemory says that the task's summary was stored, or not.
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

// ReportTimer says that a timer fired. It may be early; the core checks again.
type ReportTimer struct {
	Kind string `msgpack:"k"`
	ID   string `msgpack:"id,omitempty"` // the approval or the place
}

func (ReportReply) command()        {}
func (ReportModelFailed) command()  {}
func (ReportModelStopped) command() {}
func (ReportResult) command()       {}
func (ReportAttemptLost) command()  {}
func (ReportOvertaken) command()    {}
func (ReportPreflight) command()    {}
func (ReportGate) command()         {}
func (ReportHooks) command()        {}
func (ReportMutation) command()     {}
func (ReportRecall) command()       {}
func (ReportVerify) command()       {}
func (ReportMemory) command()       {}
func (ReportTimer) command()        {}
