package commands

import (
	"encoding/json"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
)

// Claim takes the session for a host: the first command of every takeover, also
// in process.
type Claim struct {
	Node   string          `msgpack:"n,omitempty"`
	Token  string          `msgpack:"t,omitempty"`
	Lost   []content.Place `msgpack:"l,omitempty"` // dispatched calls that died with the previous holder
	Config *events.Config  `msgpack:"c,omitempty"` // the host's own, if hosts bring it (in process)

	Tickets bool `msgpack:"tk,omitempty"` // the host gives every dispatch a ticket, and asks for it
}

// OpenSession starts a session.
type OpenSession struct {
	Config     events.Config     `msgpack:"c"`
	Transcript []content.Item    `msgpack:"t,omitempty"`
	Input      []content.Item    `msgpack:"i,omitempty"` // queued at once
	Stepped    bool              `msgpack:"st,omitempty"`
	Metadata   content.Metadata  `msgpack:"md,omitempty"`
	Parent     content.SessionID `msgpack:"p,omitempty"`
	From       string            `msgpack:"f,omitempty"`
}

// SubmitInput brings input.
type SubmitInput struct {
	Items   []content.Item      `msgpack:"i"`
	OnBusy  events.OnBusy       `msgpack:"b,omitempty"`
	Options *events.TurnOptions `msgpack:"o,omitempty"`
}

// Wait names what holds a session back.
type Wait string

// The waits. Continue passes WaitReady and WaitYield.
const (
	WaitWorking  Wait = "working"  // an effect is owed or running
	WaitApproval Wait = "approval" // a person has to decide
	WaitYield    Wait = "yield"    // a round is complete
	WaitReady    Wait = "ready"    // only Continue is missing
	WaitInput    Wait = "input"    // nothing to do
)

// Continue passes the wait that holds a stepped session, if it still is that one.
type Continue struct {
	Turn  content.TurnID `msgpack:"t,omitempty"` // the open turn, empty when idle
	Round int            `msgpack:"r,omitempty"`
	Wait  Wait           `msgpack:"w"`
}

// ResolveApproval decides an approval: the one with that id, else the call's
// oldest undecided one, else the only one of the session.
type ResolveApproval struct {
	Approval content.ApprovalID `msgpack:"a,omitempty"`
	Call     content.CallID     `msgpack:"c,omitempty"`
	Approve  bool               `msgpack:"ok,omitempty"`
	Reason   string             `msgpack:"r,omitempty"`
	By       string             `msgpack:"b,omitempty"`
	Input    json.RawMessage    `msgpack:"in,omitempty"` // patched input; implies Approve
	Always   bool               `msgpack:"al,omitempty"` // with Approve, without Input: the same question about the same tool is not asked again
}

// AllowTools lets the calls of some tools run for the rest of the session, as far as
// the session's rules are asked: a decision in advance.
type AllowTools struct {
	Tools []string `msgpack:"t"` // their names, in which * stands for any characters
	By    string   `msgpack:"b,omitempty"`
}

// SettleDeadLetter decides about a call whose workers were lost and whose outcome is
// unknown: it runs once more, or nobody will run it again.
type SettleDeadLetter struct {
	Call      content.CallID `msgpack:"c"`
	Retry     bool           `msgpack:"rt,omitempty"`
	MayRepeat bool           `msgpack:"mr,omitempty"` // with Retry: it is known that what the call did may be done twice
	Reason    string         `msgpack:"r,omitempty"`
	By        string         `msgpack:"b,omitempty"`
}

// Scopes of Cancel.
const (
	ScopeTurn    = "turn"
	ScopeCall    = "call"
	ScopeSession = "session"
)

// Cancel asks for the end of a turn, a call or everything.
type Cancel struct {
	Scope  string         `msgpack:"s"`
	Call   content.CallID `msgpack:"c,omitempty"`
	Reason string         `msgpack:"r,omitempty"` // empty: user_cancelled
}

// DetachCall sends a running foreground call to the background.
type DetachCall struct {
	Call content.CallID `msgpack:"c"`
}

// SetNextTurnCache sets the cache request of the next model call.
type SetNextTurnCache struct {
	Cache content.CacheRequest `msgpack:"c"`
}

// StartTask starts a task with a gate.
type StartTask struct {
	Task     string          `msgpack:"t,omitempty"`
	Spec     events.TaskSpec `msgpack:"s"`
	Baseline string          `msgpack:"b,omitempty"`
	Files    []content.Part  `msgpack:"f,omitempty"` // that come with the goal

	Options *events.TurnOptions `msgpack:"o,omitempty"`
}

// Close ends a session for good.
type Close struct {
	Reason string `msgpack:"r,omitempty"`
}

// Park lets an idle session go; a deployment's driver gives it to itself.
type Park struct{}

func (Claim) command()            {}
func (OpenSession) command()      {}
func (SubmitInput) command()      {}
func (Continue) command()         {}
func (ResolveApproval) command()  {}
func (AllowTools) command()       {}
func (SettleDeadLetter) command() {}
func (Cancel) command()           {}
func (DetachCall) command()       {}
func (SetNextTurnCache) command() {}
func (StartTask) command()        {}
func (Close) command()            {}
func (Park) command()             {}
