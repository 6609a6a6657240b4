package tool

import (
	"context"
	"encoding/json"
	"time"

	"github.com/turnlog/turnlog/content"
)

// Permissions decide what a call may do, before any call of its round starts.
type Permissions interface {
	// Evaluate rules on one request of a call. An error counts as a denial. Running calls ask again
	// about what they do (Call.Permit), so Evaluate may be called from several goroutines.
	Evaluate(ctx context.Context, r Request) (Verdict, error)
}

// Request is one thing that a call is about to do.
type Request struct {
	Session content.SessionID
	Call    content.ToolCall // with the effective input
	Spec    Spec
	Kind    string // for example filesystem.write or shell.command; empty: the call as a whole
	Summary string // for people
	Target  json.RawMessage
}

// Proposer is a tool that lists what a call will do, for policies to rule on. Any
// other tool makes one request without a kind.
type Proposer interface {
	// Propose lists the requests of a call. It returns an error if the input is not usable.
	Propose(ctx context.Context, c Call) ([]Request, error)
}

// Ruling is the kind of a [Verdict].
type Ruling int

// The rulings.
const (
	NoOpinion Ruling = iota
	Allow
	Deny
	Ask // a person decides
)

// Verdict is a policy's answer to a request.
type Verdict struct {
	Ruling      Ruling
	Code        string                 // Deny: a stable code
	Message     string                 // Deny: for the model
	RequestKind string                 // Ask: the kind of question; empty: the request's kind
	Scope       string                 // Ask: what a lasting approval covers, beyond tool and kind; empty: what the request is about
	Reason      content.ApprovalReason // Ask
	Summary     string                 // Ask: for the person
	Metadata    content.Metadata       // Ask
	TTL         time.Duration          // Ask: how long to wait for a decision; zero: the session's default
	Also        []Verdict              // Ask: further questions, each decided on its own
}

// Key identifies the question of a verdict that asks.
func (v Verdict) Key() content.QuestionKey {
	return content.QuestionKey{Kind: v.RequestKind, Scope: v.Scope}
}

// Questions lists every question that a verdict asks.
func (v Verdict) Questions() []Verdict {
	also := v.Also
	v.Also = nil
	out := []Verdict{v}
	for _, a := range also {
		a.Ruling = Ask
		out = append(out, a.Questions()...)
	}
	return out
}

// AllowAll allows every call.
type AllowAll struct{}

// Evaluate allows.
func (AllowAll) Evaluate(context.Context, Request) (Verdict, error) {
	return Verdict{Ruling: Allow}, nil
}
