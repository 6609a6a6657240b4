package tool

import (
	"context"
	"encoding/json"
	"time"

	"github.com/turnlog/turnlog/content"
)

// Permissions decide what a call may do, before anything of its round has
// started.
type Permissions interface {
	// Evaluate judges one request of a call. An error counts as a denial.
	Evaluate(ctx context.Context, r Request) (Verdict, error)
}

// Request is one thing that a call wants to do.
type Request struct {
	Session content.SessionID
	Call    content.ToolCall // with the effective input
	Spec    Spec
	Kind    string // for example filesystem.write, shell.command; empty: the call as such
	Summary string // for people
	Target  json.RawMessage
}

// Proposer is a tool that names what a call will do, so that policies can judge
// it; a tool without it makes one request with no kind.
type Proposer interface {
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

// Verdict is a policy's answer.
type Verdict struct {
	Ruling      Ruling
	Code        string                 // Deny: a stable code
	Message     string                 // Deny: for the model
	RequestKind string                 // Ask: which gate; empty: the request's kind
	Scope       string                 // Ask: what a lasting approval is about, beyond tool and kind; empty: what the request is about
	Reason      content.ApprovalReason // Ask
	Summary     string                 // Ask: for the person
	Metadata    content.Metadata       // Ask
	TTL         time.Duration          // Ask: how long a decision is awaited; zero: the session's default
	Also        []Verdict              // Ask: what else has to be asked; each is a gate of its own
}

// Key names the question of a verdict that asks.
func (v Verdict) Key() content.GateKey { return content.GateKey{Kind: v.RequestKind, Scope: v.Scope} }

// Questions lists what a verdict asks, each question by itself.
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

// AllowAll lets every call run.
type AllowAll struct{}

// Evaluate allows.
func (AllowAll) Evaluate(context.Context, Request) (Verdict, error) {
	return Verdict{Ruling: Allow}, nil
}
