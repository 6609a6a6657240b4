package events

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/turnlog/turnlog/content"
)

// DriverClaimed records that a host took the session: the first entry of every
// journal and of every takeover. Every older driver is fenced by it.
type DriverClaimed struct {
	Epoch uint64          `msgpack:"e" json:"epoch"`
	Node  string          `msgpack:"n,omitempty" json:"node,omitempty"`
	Token string          `msgpack:"t,omitempty" json:"token,omitempty"` // where the run token can be naked on the holder's behalf
	Lost  []content.Place `msgpack:"l,omitempty" json:"lost,omitempty"`  // calls that died with the previous holder

	Tickets bool `msgpack:"tk,omitempty" json:"tickets,omitempty"` // a report about a call that is dispatched from here on counts only with the ticket of its dispatch
}

// Parked records that a deployment's driver let an idle session go. All commands
// up to the entry's cursors are handled.
type Parked struct{}

// RunStarted opens a session: once, never on resume.
type RunStarted struct {
	Config     Config            `msgpack:"c" json:"config"`
	Transcript []content.Item    `msgpack:"t,omitempty" json:"transcript,omitempty"` // passive starting state
	Stepped    bool              `msgpack:"st,omitempty" json:"stepped,omitempty"`   // only Continue passes its waits
	Metadata   content.Metadata  `msgpack:"md,omitempty" json:"metadata,omitempty"`
	Parent     content.SessionID `msgpack:"p,omitempty" json:"parent,omitempty"`
	From       string            `msgpack:"f,omitempty" json:"from,omitempty"` // session@seq of the snapshot it began with
}

// ConfigChanged records that a host with another configuration took over.
type ConfigChanged struct {
	Config Config `msgpack:"c" json:"config"`
}

// SessionClosed ends a session for good.
type SessionClosed struct {
	Reason string `msgpack:"r,omitempty" json:"reason,omitempty"`
}

// SessionDeleted records that a session was deleted, and its journal with it: the
// tombstone, the last entry of its session and after a while the only one. Nothing
// follows it, ever, so the session's id is not used again.
type SessionDeleted struct {
	By      string `msgpack:"b,omitempty" json:"by,omitempty"`
	Reason  string `msgpack:"r,omitempty" json:"reason,omitempty"`
	Expired bool   `msgpack:"x,omitempty" json:"expired,omitempty"` // it was kept for as long as the retention said
}

// Deletion is what a tombstone says: the session had Entries, the last of which had
// the hash Last.
type Deletion struct {
	By      string       `json:"by,omitempty"`
	Reason  string       `json:"reason,omitempty"`
	Expired bool         `json:"expired,omitempty"`
	At      content.Time `json:"at"`
	Entries uint64       `json:"entries"`
	Last    Hash         `json:"last_hash"`
}

// String says when a session was deleted, by whom and why, and what it was then.
func (d Deletion) String() string {
	what := "was deleted"
	if d.Expired {
		what = "expired and was deleted"
	}
	by := ""
	if d.By != "" {
		by = " by " + d.By
	}
	why := ""
	if d.Reason != "" {
		why = " (" + d.Reason + ")"
	}
	return fmt.Sprintf("%s at %s%s%s: %d entries, last hash %s", what, d.At, by, why, d.Entries, d.Last)
}

// DeletionOf returns what e says of the deletion of its session, and whether it is
// the tombstone.
func DeletionOf(e Entry) (Deletion, bool) {
	if len(e.Events) != 1 || e.Seq == 0 {
		return Deletion{}, false
	}
	d, ok := e.Events[0].(SessionDeleted)
	return Deletion{By: d.By, Reason: d.Reason, Expired: d.Expired, At: e.At, Entries: e.Seq - 1, Last: e.Prev}, ok
}

// Config is what a journal knows of its host's configuration: names, limits and
// digests, never code.
type Config struct {
	Digest    string `msgpack:"d,omitempty" json:"digest,omitempty"` // of the host's whole configuration
	Model     string `msgpack:"m,omitempty" json:"model,omitempty"`
	ModelData []byte `msgpack:"md,omitempty" json:"model_data,omitempty"` // what opening the model needs on any node, for example a script

	Agent *AgentRef `msgpack:"ag,omitempty" json:"agent,omitempty"` // nil: the session is of no agent that is written down

	Catalog     Catalog        `msgpack:"ca,omitempty" json:"catalog"`          // the tools on offer at the start
	Tools       []string       `msgpack:"tl,omitempty" json:"tools,omitempty"`  // patterns of what the session may use, the first that fits counts, and ! before one excludes; nil: all on offer
	Rules       []Rule         `msgpack:"ru,omitempty" json:"rules,omitempty"`  // what its calls may do; nil: what the host permits
	Routes      []RouteRule    `msgpack:"rt,omitempty" json:"routes,omitempty"` // how the loop waits for its calls; nil: as each tool asks
	MaxParallel int            `msgpack:"mp,omitempty" json:"max_parallel,omitempty"`
	FailRun     bool           `msgpack:"fr,omitempty" json:"fail_run,omitempty"` // a failing tool ends the turn
	Hooks       []Registration `msgpack:"h,omitempty" json:"hooks,omitempty"`
	Mutators    []Registration `msgpack:"mu,omitempty" json:"mutators,omitempty"`

	Limits        Limits                `msgpack:"l" json:"limits"`          // per turn
	SessionLimits Limits                `msgpack:"sl" json:"session_limits"` // over the session's life
	Retry         Retry                 `msgpack:"re" json:"retry"`
	Cache         *content.CacheRequest `msgpack:"cr,omitempty" json:"cache,omitempty"`
	Output        *Output               `msgpack:"out,omitempty" json:"output,omitempty"`         // nil: answers are free text
	ApprovalTTL   time.Duration         `msgpack:"at,omitempty" json:"approval_ttl_ns,omitempty"` // zero: approvals do not expire
	NotifyOnly    bool                  `msgpack:"no,omitempty" json:"notify_only,omitempty"`     // notifications alone do not start a turn
}

// AgentRef says of which agent a session is, and in which version. A session holds the
// definition that it began with, so whatever becomes of the file, it stays the same.
type AgentRef struct {
	Name    string          `msgpack:"n" json:"name"`
	Version string          `msgpack:"v,omitempty" json:"version,omitempty"` // of the definition; in a command that names an agent: empty is the newest
	Data    json.RawMessage `msgpack:"d,omitempty" json:"data,omitempty"`    // the definition, in its canonical form; in a command: empty, the node finds it
	Local   bool            `msgpack:"l,omitempty" json:"local,omitempty"`   // the node that opened the session had it in a folder of its own, so nodes run its commands; without meaning in a command
}

// Rule says what becomes of calls of the tools that a pattern names. The first rule
// of a session that matches counts. With rules, the last one is {*, guard}, whether or
// not it is written down. What the host itself permits comes on top: whoever denies
// wins, and whoever asks is heard.
type Rule struct {
	Tool   string `msgpack:"t" json:"tool"` // a tool's name, in which * stands for any characters
	Action Action `msgpack:"a" json:"action"`
}

// Action is what a rule does. Anything but the four is a denial.
type Action string

// The actions of rules.
const (
	RuleAllow Action = "allow" // it runs, as far as the rules are concerned
	RuleAsk   Action = "ask"   // a person decides
	RuleDeny  Action = "deny"  // it does not run
	RuleGuard Action = "guard" // it runs if its tool declares that it only reads; else a person decides
)

// ToolsAllowed records that a person lets the calls of some tools run for the rest of
// the session. It answers the questions of the session's rules, and no others.
type ToolsAllowed struct {
	Grant content.ApprovalID `msgpack:"g" json:"grant"` // grant-1, grant-2, … in the session
	Tools []string           `msgpack:"t" json:"tools"` // their names, in which * stands for any characters
	By    string             `msgpack:"b,omitempty" json:"by,omitempty"`
}

// RouteRule says how the loop waits for calls of the tools that a pattern names, in
// place of what the tool asks for. The first rule of a session that matches counts.
type RouteRule struct {
	Tool        string        `msgpack:"t" json:"tool"` // a tool's name, in which * stands for any characters
	Route       content.Route `msgpack:"r,omitempty" json:"route,omitempty"`
	DetachAfter time.Duration `msgpack:"da,omitempty" json:"detach_after_ns,omitempty"` // of the route detach
}

// Output says what a session's answers have to look like.
type Output struct {
	Schema  json.RawMessage `msgpack:"s" json:"schema"`                      // JSON Schema of the answer
	Repairs int             `msgpack:"r,omitempty" json:"repairs,omitempty"` // rounds in which the model may correct an answer that does not fit; zero: 2, negative: none
}

// Registration names a hook or a mutator and the points where it stands.
type Registration struct {
	Name   string   `msgpack:"n" json:"name"`
	Points []string `msgpack:"p" json:"points"`
}

// Limits bound a turn or a session. Zero is unlimited, negative allows nothing.
type Limits struct {
	MaxRounds    int64         `msgpack:"mr,omitempty" json:"max_rounds,omitempty"`
	Requests     int64         `msgpack:"rq,omitempty" json:"requests,omitempty"`
	InputTokens  int64         `msgpack:"it,omitempty" json:"input_tokens,omitempty"`
	OutputTokens int64         `msgpack:"ot,omitempty" json:"output_tokens,omitempty"`
	TotalTokens  int64         `msgpack:"tt,omitempty" json:"total_tokens,omitempty"`
	ToolCalls    int64         `msgpack:"tc,omitempty" json:"tool_calls,omitempty"`
	CostMicros   int64         `msgpack:"co,omitempty" json:"cost_micros,omitempty"`
	WallClock    time.Duration `msgpack:"wc,omitempty" json:"wall_clock_ns,omitempty"`
}

// Retry says how often failed model calls and lost tool calls are tried.
type Retry struct {
	ModelAttempts int           `msgpack:"m,omitempty" json:"model_attempts,omitempty"`  // zero: 4
	ToolAttempts  int           `msgpack:"t,omitempty" json:"tool_attempts,omitempty"`   // zero: 3
	LostAttempts  int           `msgpack:"l,omitempty" json:"lost_attempts,omitempty"`   // zero: 10
	Backoff       time.Duration `msgpack:"b,omitempty" json:"backoff_ns,omitempty"`      // at most, before the first retry, doubled for each further one; zero: 500 ms
	MaxBackoff    time.Duration `msgpack:"mb,omitempty" json:"max_backoff_ns,omitempty"` // zero: 30 s
	AskLost       bool          `msgpack:"al,omitempty" json:"ask_lost,omitempty"`       // a person decides whether a lost call that may do harm is run again; else its outcome is unknown
}
