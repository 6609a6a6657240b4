package events

import (
	"encoding/json"
	"time"

	"github.com/turnlog/turnlog/content"
)

// ToolCallRequested records a call of a reply, with complete arguments and its
// routing.
type ToolCallRequested struct {
	Turn    content.TurnID   `msgpack:"t" json:"turn"`
	Round   int              `msgpack:"r" json:"round"`
	Call    content.ToolCall `msgpack:"c" json:"call"`
	Routing content.Routing  `msgpack:"ro" json:"routing"`
}

// Approval is one question to a person about one call.
type Approval struct {
	ID          content.ApprovalID     `msgpack:"id" json:"id"`
	CallID      content.CallID         `msgpack:"c" json:"call_id"`
	TaskID      content.TaskID         `msgpack:"tk" json:"task_id"`
	Turn        content.TurnID         `msgpack:"t" json:"turn"`
	Round       int                    `msgpack:"r" json:"round"`
	Tool        string                 `msgpack:"n" json:"tool"`
	Input       json.RawMessage        `msgpack:"in,omitempty" json:"input,omitempty"` // the effective input
	Digest      string                 `msgpack:"d,omitempty" json:"digest,omitempty"` // SHA-256 of its canonical form
	RequestKind string                 `msgpack:"k" json:"request_kind"`
	Scope       string                 `msgpack:"sc,omitempty" json:"scope,omitempty"` // limits a lasting approval, in addition to tool and kind
	Reason      content.ApprovalReason `msgpack:"re" json:"reason"`
	Summary     string                 `msgpack:"s,omitempty" json:"summary,omitempty"`
	Metadata    content.Metadata       `msgpack:"md,omitempty" json:"metadata,omitempty"`
	ExpiresAt   content.Time           `msgpack:"x,omitempty" json:"expires_at,omitempty"`
	Asker       Asker                  `msgpack:"as,omitempty" json:"asker,omitempty"`
}

// CallSummary returns the summary of a question about a call as a whole: its tool and its input.
func CallSummary(tool string, input json.RawMessage) string { return tool + " " + string(input) }

// Asker is the source of a question about a call. The zero value is a policy of the
// host or the worker.
type Asker string

// The askers other than policies.
const (
	AskedByRules Asker = "rules" // only the policy's or the session's rules: ToolsAllowed answers it
	AskedByTurn  Asker = "turn"  // the turn's rules: earlier approvals do not answer it
)

// QuestionCall is the kind of a question about a call itself, whatever it does.
const QuestionCall = "tool.call"

// ApprovalRequired records a question that waits for a person's decision.
type ApprovalRequired struct {
	Approval Approval `msgpack:"a" json:"approval"`
}

// Outcome is the outcome of an approval.
type Outcome string

// The outcomes of approvals.
const (
	Approved          Outcome = "approved"
	Denied            Outcome = "denied"
	Expired           Outcome = "expired"
	ApprovalCancelled Outcome = "cancelled"
	Moot              Outcome = "moot" // no longer needed: another question was denied, or the call was answered
)

// ApprovalResolved records the outcome of an approval, once.
type ApprovalResolved struct {
	Approval content.ApprovalID `msgpack:"a" json:"approval"`
	Call     content.CallID     `msgpack:"c" json:"call"`
	Outcome  Outcome            `msgpack:"o" json:"outcome"`
	By       string             `msgpack:"b,omitempty" json:"by,omitempty"`
	User     string             `msgpack:"us,omitempty" json:"user,omitempty"` // verified, see content.Sender
	Reason   string             `msgpack:"r,omitempty" json:"reason,omitempty"`
	Input    json.RawMessage    `msgpack:"in,omitempty" json:"input,omitempty"`  // patched input
	Digest   string             `msgpack:"d,omitempty" json:"digest,omitempty"`  // of the approved input
	Scope    string             `msgpack:"sc,omitempty" json:"scope,omitempty"`  // of the question with patched input
	Always   bool               `msgpack:"al,omitempty" json:"always,omitempty"` // for the rest of the session: the same question about the same tool is not asked again
	Grant    content.ApprovalID `msgpack:"g,omitempty" json:"grant,omitempty"`   // the lasting approval or the grant that answered instead of a person

	Signature *content.Signature `msgpack:"sg,omitempty" json:"signature,omitempty"` // not written: see CommandSigned
}

// Decider describes who decided. An approval that a grant answers names the person who decided the grant.
func (e ApprovalResolved) Decider() string { return content.Sender(e.User, e.By) }

// ToolDispatched records that a call may start, before it does.
type ToolDispatched struct {
	Call    content.CallID  `msgpack:"c" json:"call"`
	Place   content.Place   `msgpack:"p" json:"place"`
	Attempt int             `msgpack:"a" json:"attempt"`
	Route   content.Route   `msgpack:"r,omitempty" json:"route,omitempty"`
	Queue   string          `msgpack:"q,omitempty" json:"queue,omitempty"`
	Digest  string          `msgpack:"d,omitempty" json:"input_digest,omitempty"`
	Input   json.RawMessage `msgpack:"in,omitempty" json:"input,omitempty"` // the effective input, if patched

	Approved []content.QuestionKey `msgpack:"ap,omitempty" json:"approved,omitempty"` // questions that are answered

	Deadline content.Time `msgpack:"dl,omitempty" json:"deadline,omitempty"`
	DetachAt content.Time `msgpack:"da,omitempty" json:"detach_at,omitempty"`

	Because []Ground `msgpack:"bc,omitempty" json:"because,omitempty"` // why it may start; none: not recorded, or nothing restricts the session
}

// ToolAttemptLost records that the worker of an attempt was lost.
type ToolAttemptLost struct {
	Call    content.CallID `msgpack:"c" json:"call"`
	Attempt int            `msgpack:"a" json:"attempt"`
	Reason  string         `msgpack:"r,omitempty" json:"reason,omitempty"`
}

// Settlement is a person's decision about a dead letter.
type Settlement string

// The settlements.
const (
	DeadRetried Settlement = "retried" // run it again; its dispatch follows
	DeadDropped Settlement = "dropped" // do not run it again
)

// DeadLetterSettled records a person's decision about a call whose workers were lost
// and whose outcome is unknown.
type DeadLetterSettled struct {
	Call    content.CallID `msgpack:"c" json:"call"`
	Outcome Settlement     `msgpack:"o" json:"outcome"`
	By      string         `msgpack:"b,omitempty" json:"by,omitempty"`
	User    string         `msgpack:"us,omitempty" json:"user,omitempty"` // verified, see content.Sender
	Reason  string         `msgpack:"r,omitempty" json:"reason,omitempty"`
}

// ToolDetached records that a call continues in the background. Placeholder is its
// result for now.
type ToolDetached struct {
	Call        content.CallID `msgpack:"c" json:"call"`
	Placeholder string         `msgpack:"p" json:"placeholder"`
	By          string         `msgpack:"b,omitempty" json:"by,omitempty"`    // who asked for it
	User        string         `msgpack:"us,omitempty" json:"user,omitempty"` // verified, see content.Sender
}

// ToolProgress is live only: the progress of a running tool.
type ToolProgress struct {
	Call  content.CallID `msgpack:"c" json:"call"`
	Text  string         `msgpack:"t,omitempty" json:"text,omitempty"`
	Share float64        `msgpack:"s,omitempty" json:"share,omitempty"` // 0 to 1; 0: unknown
}

// ToolResultReceived records the result of a call. A second result has Late set and
// becomes a notification.
type ToolResultReceived struct {
	Turn         content.TurnID     `msgpack:"t" json:"turn"`
	Round        int                `msgpack:"r" json:"round"`
	Result       content.ToolResult `msgpack:"rs" json:"result"`
	Attempt      int                `msgpack:"a,omitempty" json:"attempt,omitempty"`
	Duration     time.Duration      `msgpack:"d,omitempty" json:"duration_ns,omitempty"`
	Late         bool               `msgpack:"l,omitempty" json:"late,omitempty"`
	ChangedPaths []string           `msgpack:"cp,omitempty" json:"changed_paths,omitempty"`
	Auth         json.RawMessage    `msgpack:"au,omitempty" json:"auth,omitempty"` // the authorization that the tool needs

	Signature *content.Signature `msgpack:"sg,omitempty" json:"signature,omitempty"` // of the worker; nil: none
	SignedAt  content.Time       `msgpack:"sa,omitempty" json:"signed_at,omitempty"` // by the worker's clock
}
