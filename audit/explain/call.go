package explain

import (
	"encoding/json"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
)

// At names the entry that records something, and its time by the driver's clock.
type At struct {
	Seq  uint64       `json:"seq"`
	Time content.Time `json:"at"`
}

// Key is the id of the key that signed something, as the journal states it: package audit/signed checks the
// signature. It is empty if nothing is signed.
type Key string

// keyOf returns the key of a signature that an event records.
func keyOf(s *content.Signature) Key {
	if s == nil {
		return ""
	}
	return Key(s.Key)
}

// Person is someone who sent or decided something.
type Person struct {
	User string `json:"user,omitempty"` // verified by the NATS server
	By   string `json:"by,omitempty"`   // the name that the sender gave, not verified
	Key  Key    `json:"key,omitempty"`

	Owner string `json:"owner,omitempty"` // owner of the key according to the directory of keys; empty: no key, or unknown
}

// String returns the person's name from the directory of keys, or else from content.Sender. It may be empty.
func (p Person) String() string {
	if p.Owner != "" {
		return p.Owner
	}
	return content.Sender(p.User, p.By)
}

// Owners returns the name of a key's owner by the key's id; empty: unknown. The caller checks the signatures.
type Owners func(id string) string

// person returns who sent or decided something that may be signed.
func (o Owners) person(user, by string, key Key) Person {
	return Person{User: user, By: by, Key: key, Owner: o.of(key)}
}

// of returns the owner of a key, or "" if it is not known.
func (o Owners) of(key Key) string {
	if o == nil || key == "" {
		return ""
	}
	return o(string(key))
}

// Call is everything that a journal records about one tool call.
type Call struct {
	Session  content.SessionID `json:"session"`
	ID       content.CallID    `json:"call"`
	Place    content.Place     `json:"place"`
	Provider string            `json:"provider_id,omitempty"`
	Tool     string            `json:"tool"`
	Effects  string            `json:"effects"` // once, read_only or idempotent, as the tool declares
	Turn     content.TurnID    `json:"turn"`
	Round    int               `json:"round"`
	Status   content.Status    `json:"status"` // of its first result; empty: it has none

	Asked     Asked           `json:"asked"`
	Written   json.RawMessage `json:"written"`       // its arguments as the model wrote them
	Ran       json.RawMessage `json:"ran,omitempty"` // the arguments with which an approver replaced them
	Questions []Question      `json:"questions,omitempty"`
	Hooks     []Hook          `json:"hooks,omitempty"`
	Policy    *Policy         `json:"policy,omitempty"` // in force when it last started, or when it was refused
	Attempts  []Attempt       `json:"attempts,omitempty"`
	Orders    []Order         `json:"orders,omitempty"`
	Results   []Result        `json:"results,omitempty"`
	Seen      []Sight         `json:"seen,omitempty"`
}

// Asked is the origin of a call: the input, the turn and the model's reply.
type Asked struct {
	Opener  Person        `json:"opener"` // who opened the session
	Agent   string        `json:"agent,omitempty"`
	Trigger events.Origin `json:"trigger,omitempty"` // what started the turn
	Inputs  []Input       `json:"inputs,omitempty"`  // the turn's input until then
	Reply   At            `json:"reply"`
	Model   string        `json:"model,omitempty"` // as the provider reported it, or else as configured
	ID      string        `json:"response_id,omitempty"`
	Writer  Writer        `json:"writer"`
}

// Host is a node and its signing key.
type Host struct {
	Node  string `json:"node,omitempty"`
	Key   Key    `json:"key,omitempty"`
	Owner string `json:"owner,omitempty"` // owner of the key, see Person
}

// Writer is the driver that wrote something into the journal.
type Writer struct {
	Host

	Epoch uint64 `json:"epoch"`
}

// Input is input that a turn answers.
type Input struct {
	At

	Origin events.Origin `json:"origin"`
	From   Person        `json:"from"`
	Text   string        `json:"text"`
}

// Question is what a person was asked about a call.
type Question struct {
	At

	ID       content.ApprovalID     `json:"id"`
	Kind     string                 `json:"request_kind"`
	Scope    string                 `json:"scope,omitempty"`
	Reason   content.ApprovalReason `json:"reason,omitempty"`
	Summary  string                 `json:"summary,omitempty"`
	Asker    events.Asker           `json:"asker,omitempty"`
	Decision *Decision              `json:"decision,omitempty"` // nil: it is open
}

// Decision is the outcome of a question.
type Decision struct {
	At

	Outcome events.Outcome     `json:"outcome"`
	Decider Person             `json:"decider"`
	Reason  string             `json:"reason,omitempty"`
	Always  bool               `json:"always,omitempty"`  // for the rest of the session
	Input   json.RawMessage    `json:"input,omitempty"`   // the decider's new arguments
	Grant   content.ApprovalID `json:"grant,omitempty"`   // what answered instead of a person
	Allowed []string           `json:"allowed,omitempty"` // the tools that the grant allows; none: it is an approval for always
}

// Hook is what the hooks of a point decided about a call.
type Hook struct {
	At

	Point      string            `json:"point"`
	Hook       string            `json:"hook,omitempty"` // which one decided; empty: all continued
	Action     string            `json:"action"`
	Reason     string            `json:"reason,omitempty"`
	FailedOpen []string          `json:"failed_open,omitempty"`
	Notes      []events.HookNote `json:"notes,omitempty"`
}

// Policy is the policy of the session's host.
type Policy struct {
	At

	Name   string `json:"name,omitempty"`
	Digest string `json:"digest"`
}

// Attempt is one start of a call.
type Attempt struct {
	At

	N            int             `json:"attempt"`
	Route        content.Route   `json:"route,omitempty"`
	Queue        string          `json:"queue,omitempty"` // empty: the node's own tools
	Writer       Writer          `json:"writer"`
	Worker       Key             `json:"worker,omitempty"`
	Runner       string          `json:"worker_owner,omitempty"` // owner of the worker's key, see Person
	Digest       string          `json:"input_digest,omitempty"`
	Because      []events.Ground `json:"because"`                // nil: not recorded
	Unrestricted bool            `json:"unrestricted,omitempty"` // no policy and no rules applied
	Lost         *Loss           `json:"lost,omitempty"`
}

// Loss is the loss of the worker of an attempt.
type Loss struct {
	At

	Reason string `json:"reason,omitempty"`
}

// Order is a person's order about a call: cancel it, move it to the background, or retry or drop a dead
// letter.
type Order struct {
	At

	Action string `json:"action"`          // cancelled, detached, retried, dropped
	Scope  string `json:"scope,omitempty"` // turn or session: what was cancelled, with the call
	From   Person `json:"from"`
	Reason string `json:"reason,omitempty"`
}

// Result is the result of a call.
type Result struct {
	At

	Status    content.Status `json:"status"`
	Code      string         `json:"code,omitempty"`
	Text      string         `json:"text"`
	Bytes     int            `json:"bytes"`             // size of the text
	Others    int            `json:"others,omitempty"`  // number of parts that are not text
	Attempt   int            `json:"attempt,omitempty"` // 0: the core answered, no attempt reported
	Took      int64          `json:"duration_ns,omitempty"`
	Late      bool           `json:"late,omitempty"`      // the call had been answered already
	Cut       bool           `json:"truncated,omitempty"` // its worker cut the output
	Changed   []string       `json:"changed_paths,omitempty"`
	Worker    Key            `json:"worker,omitempty"`
	Runner    string         `json:"worker_owner,omitempty"` // see Attempt
	Responder Writer         `json:"writer"`
}

// Form is the form in which the transcript has a call's result.
type Form string

// The forms.
const (
	FormFull        Form = "full"        // unchanged
	FormPlaceholder Form = "placeholder" // a note that the call runs in the background
	FormNotice      Form = "notice"      // a notification, after a placeholder or another answer
	FormChanged     Form = "changed"     // a mutator replaced its text
	FormGone        Form = "gone"        // removed, for example by a compaction
)

// Sight is a model call that saw a call's result in a different form than the previous model call.
type Sight struct {
	At

	Turn    content.TurnID `json:"turn"`
	Round   int            `json:"round"`
	Form    Form           `json:"form"`
	Through string         `json:"through,omitempty"` // the mutator or the task that changed or removed it
}
