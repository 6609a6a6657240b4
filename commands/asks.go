package commands

import (
	"encoding/json"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
)

// Claim makes a host the owner of the session. It is the first command of every
// owner, including one in process.
type Claim struct {
	Node   string          `msgpack:"n,omitempty"`
	Token  string          `msgpack:"t,omitempty"`
	Lost   []content.Place `msgpack:"l,omitempty"` // dispatched calls that were lost with the previous owner
	Config *events.Config  `msgpack:"c,omitempty"` // the host's configuration, in process only

	Tickets bool `msgpack:"tk,omitempty"` // the host issues and requires tickets for dispatches

	Key  string `msgpack:"k,omitempty"`  // the id of the key that signs the host's entries
	Keys uint64 `msgpack:"kv,omitempty"` // the version of the directory of keys that the host uses

	Checked uint64 `msgpack:"ck,omitempty"` // the last entry that this key signed, whose signature the host checked

	RetriedBy string `msgpack:"rb,omitempty"` // who retried the session, which was set aside
	User      string `msgpack:"us,omitempty"` // the same, verified
}

// OpenSession starts a session.
type OpenSession struct {
	Config     events.Config     `msgpack:"c"`
	Transcript []content.Item    `msgpack:"t,omitempty"`
	Input      []content.Item    `msgpack:"i,omitempty"` // queued immediately
	Stepped    bool              `msgpack:"st,omitempty"`
	Metadata   content.Metadata  `msgpack:"md,omitempty"`
	Parent     content.SessionID `msgpack:"p,omitempty"`
	From       string            `msgpack:"f,omitempty"`  // the entry of another session that it continues, as an events.EntryRef
	Resume     bool              `msgpack:"re,omitempty"` // Transcript ends in a round that continues: see content.OpenRound
}

// Origin returns the entry of another session that the session continues, if the driver must read the history up to
// that entry.
func (c OpenSession) Origin() (events.EntryRef, bool) {
	at, err := events.ParseEntryRef(c.From)
	return at, err == nil && !at.Hash.IsZero() && len(c.Transcript) == 0
}

// SubmitInput submits input.
type SubmitInput struct {
	Items   []content.Item      `msgpack:"i"`
	OnBusy  events.OnBusy       `msgpack:"b,omitempty"`
	Options *events.TurnOptions `msgpack:"o,omitempty"`
}

// Wait says what a session is waiting for.
type Wait string

// The waits. Continue ends WaitReady and WaitYield.
const (
	WaitWorking  Wait = "working"  // an effect is pending or running
	WaitApproval Wait = "approval" // a person must decide
	WaitYield    Wait = "yield"    // a round is complete
	WaitReady    Wait = "ready"    // a stepped session can continue
	WaitInput    Wait = "input"    // nothing to do
)

// Continue ends the wait of a stepped session, if the session is still in that wait.
type Continue struct {
	Turn  content.TurnID `msgpack:"t,omitempty"` // the open turn, empty when idle
	Round int            `msgpack:"r,omitempty"`
	Wait  Wait           `msgpack:"w"`
}

// ResolveApproval decides an approval: the one with the id, otherwise the oldest
// pending one of the call, otherwise the only pending one of the session.
type ResolveApproval struct {
	Approval content.ApprovalID `msgpack:"a,omitempty"`
	Call     content.CallID     `msgpack:"c,omitempty"`
	Approve  bool               `msgpack:"ok,omitempty"`
	Reason   string             `msgpack:"r,omitempty"`
	By       string             `msgpack:"b,omitempty"`
	Input    json.RawMessage    `msgpack:"in,omitempty"` // patched input; only with Approve
	Shown    string             `msgpack:"sh,omitempty"` // the digest of the question that the sender saw; the decision is refused if another one is pending
	Always   bool               `msgpack:"al,omitempty"` // with Approve, without Input: do not ask the same question about the same tool again
}

// AllowTools approves the calls of some tools in advance, for the rest of the session.
// It answers only questions of the session's rules.
type AllowTools struct {
	Tools []string `msgpack:"t"` // name patterns, see content.Matches
	By    string   `msgpack:"b,omitempty"`
}

// SettleDeadLetter retries or drops a call whose workers were lost and whose outcome
// is unknown.
type SettleDeadLetter struct {
	Call      content.CallID `msgpack:"c"`
	Retry     bool           `msgpack:"rt,omitempty"`
	MayRepeat bool           `msgpack:"mr,omitempty"` // with Retry: running the call twice is acceptable
	Reason    string         `msgpack:"r,omitempty"`
	By        string         `msgpack:"b,omitempty"`
}

// Scopes of Cancel.
const (
	ScopeTurn    = "turn"
	ScopeCall    = "call"
	ScopeSession = "session"
)

// Cancel ends a turn, a call or everything.
type Cancel struct {
	Scope  string         `msgpack:"s"`
	Call   content.CallID `msgpack:"c,omitempty"`
	Reason string         `msgpack:"r,omitempty"` // empty: user_cancelled
	Turn   content.TurnID `msgpack:"t,omitempty"` // with ScopeTurn: only this turn; empty: the open one
}

// DetachCall moves a running foreground call to the background.
type DetachCall struct {
	Call content.CallID `msgpack:"c"`
}

// SetNextTurnCache sets the cache request of the next model call.
type SetNextTurnCache struct {
	Cache content.CacheRequest `msgpack:"c"`
}

// SwitchModel changes the session's model, from its next call on.
type SwitchModel struct {
	Model string `msgpack:"m"`
	Data  []byte `msgpack:"d,omitempty"` // what opens it, in addition to its name
}

// StartTask starts work on a goal.
type StartTask struct {
	Task     string          `msgpack:"t,omitempty"`
	Spec     events.TaskSpec `msgpack:"s"`
	Baseline string          `msgpack:"b,omitempty"`
	Files    []content.Part  `msgpack:"f,omitempty"` // attached to the goal

	Options *events.TurnOptions `msgpack:"o,omitempty"`
}

// Close ends a session for good.
type Close struct {
	Reason string `msgpack:"r,omitempty"`
}

// Park releases an idle session. Only a driver of a deployment sends it, to itself, and says what
// will wake the session.
type Park struct {
	Timer bool `msgpack:"t,omitempty"`
	Calls int  `msgpack:"c,omitempty"`
}

func (Claim) command() kind            { return ask("claim", events.LaneLocal) }
func (OpenSession) command() kind      { return ask("open_session", events.LaneAsk) }
func (SubmitInput) command() kind      { return ask("submit_input", events.LaneAsk) }
func (Continue) command() kind         { return ask("continue", events.LaneAsk) }
func (ResolveApproval) command() kind  { return ask("resolve_approval", events.LaneDecide) }
func (AllowTools) command() kind       { return ask("allow_tools", events.LaneDecide) }
func (SettleDeadLetter) command() kind { return ask("settle_dead_letter", events.LaneDecide) }
func (Cancel) command() kind           { return ask("cancel", events.LaneAsk) }
func (DetachCall) command() kind       { return ask("detach_call", events.LaneAsk) }
func (SetNextTurnCache) command() kind { return ask("set_next_turn_cache", events.LaneAsk) }
func (SwitchModel) command() kind      { return ask("switch_model", events.LaneAsk) }
func (StartTask) command() kind        { return ask("start_task", events.LaneAsk) }
func (Close) command() kind            { return ask("close", events.LaneAsk) }
func (Park) command() kind             { return ask("park", events.LaneLocal) }
