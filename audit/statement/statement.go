// Package statement says what is signed: the text of every statement that a key of a deployment makes.
//
// The one idea: a statement is computed by the one who signs it, from what it is about to send, and again by
// each who checks it, from what arrived or from what the journal records. So nothing but the signature itself
// has to be stored or believed. Each text names its purpose, the cell and the session (package
// audit/keys says how), and digests stand for content of any size.
package statement

import (
	"crypto/sha256"
	"encoding/hex"
	"strconv"

	"github.com/turnlog/turnlog/audit/keys"
	"github.com/turnlog/turnlog/commands"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/internal/wire"
	"github.com/turnlog/turnlog/tool"
)

// Entry is what the driver of a session says with an entry: that it wrote the entry with this number and
// hash, and by the chain all entries before.
func Entry(cell string, s content.SessionID, seq uint64, hash events.Hash) []byte {
	return keys.Text("turnlog-entry/v1", cell, string(s), number(seq), hash.String())
}

// Call is an attempt at a call, as its worker got it.
type Call struct {
	Session content.SessionID
	Call    content.CallID
	Place   content.Place
	Attempt int
	Tool    string
	Input   string // the digest of the effective input
}

// Result is what a worker says with a result: that it ran this attempt at this call with this input, and that
// this came out.
func Result(cell string, c Call, result string) []byte {
	return keys.Text("turnlog-result/v1", cell, string(c.Session), string(c.Call), string(c.Place), strconv.Itoa(c.Attempt), c.Tool, c.Input, result)
}

// ResultDigest returns the digest of a result: what the model sees of it, its status and its metadata. The
// journal may leave out metadata that a worker may not set, and names the call itself, so these do not count.
func ResultDigest(r content.ToolResult) string {
	return encoded(content.ToolResult{Status: r.Status, Output: r.Output, Code: r.Code, Metadata: r.Metadata.WithoutReserved()})
}

// Command is what a client or an approver says with a command: that it sends this content under this ID.
func Command(cell string, s content.SessionID, id, name, said string) []byte {
	return keys.Text("turnlog-command/v1", cell, string(s), id, name, said)
}

// Of returns the statement of an envelope.
func Of(cell string, e commands.Envelope) []byte {
	return Command(cell, e.Session, e.ID, commands.NameOf(e.Command), Content(e.Command))
}

// Content returns the digest of what a sender says with a command. For input and decisions it follows from the
// events that the command causes, see [Input] and [Resolved].
func Content(c commands.Command) string {
	switch c := c.(type) { //nolint:gochecksumtype // the others are signed as they are encoded
	case commands.SubmitInput:
		return Items(c.Items)
	case commands.OpenSession:
		return Items(c.Input)
	case commands.StartTask:
		goal := content.UserText(c.Spec.Goal)
		goal.Parts = append(goal.Parts, c.Files...)
		return Items([]content.Item{goal})
	case commands.ResolveApproval:
		return Decision{
			Approval: c.Approval, Call: c.Call, Approve: c.Approve || len(c.Input) > 0, Always: c.Always,
			Shown: c.Shown, Input: patched(c.Input), Reason: c.Reason,
		}.digest()
	}
	return encoded(c)
}

// Items returns the digest of input: of its kinds, parts and metadata. A journal sets the rest of an item.
func Items(items []content.Item) string {
	said := make([]content.Item, len(items))
	for i, it := range items {
		said[i] = content.Item{Kind: it.Kind, Parts: it.Parts, Metadata: it.Metadata.WithoutReserved()}
	}
	return encoded(said)
}

// Decision is a decision about an approval.
type Decision struct {
	Approval content.ApprovalID
	Call     content.CallID
	Approve  bool
	Always   bool
	Shown    string // see [Shown]
	Input    string // the digest of the arguments that replace the shown ones; "": none do
	Reason   string
}

func (d Decision) digest() string {
	return digest(keys.Text("decision", string(d.Approval), string(d.Call), strconv.FormatBool(d.Approve), strconv.FormatBool(d.Always), d.Shown, d.Input, d.Reason))
}

// Shown returns the digest of what a person is asked: the call's tool and arguments, and the question.
func Shown(a events.Approval) string {
	return digest(keys.Text("approval", string(a.ID), string(a.CallID), a.Tool, a.Digest, a.RequestKind, a.Scope, string(a.Reason), a.Summary))
}

// Asked returns the question that a decision answers: the one that it names, else the oldest of its call, else
// the only one.
func Asked(pending []events.Approval, c commands.ResolveApproval) (events.Approval, bool) {
	if c.Approval == "" && c.Call == "" && len(pending) > 1 {
		return events.Approval{}, false
	}
	for _, a := range pending {
		if (c.Approval == "" || a.ID == c.Approval) && (c.Call == "" || a.CallID == c.Call) {
			return a, true
		}
	}
	return events.Approval{}, false
}

// Input returns the statement of input, from what the journal records of it: the event, the entry's cause as id,
// and whether the entry opens the session.
func Input(cell string, s content.SessionID, id string, opens bool, in events.InputQueued) []byte {
	name := commands.NameOf(commands.SubmitInput{})
	switch {
	case in.Task != nil:
		name = commands.NameOf(commands.StartTask{})
	case opens:
		name = commands.NameOf(commands.OpenSession{})
	}
	return Command(cell, s, id, name, Items(in.Items))
}

// Resolved returns the statement of a decision, from what the journal records of it and of the question.
func Resolved(cell string, s content.SessionID, id string, asked events.Approval, r events.ApprovalResolved) []byte {
	return Command(cell, s, id, commands.NameOf(commands.ResolveApproval{}), Decision{
		Approval: r.Approval, Call: r.Call, Approve: r.Outcome == events.Approved, Always: r.Always,
		Shown: Shown(asked), Input: patched(r.Input), Reason: r.Reason,
	}.digest())
}

func patched(input []byte) string {
	if len(input) == 0 {
		return ""
	}
	return tool.Digest(input)
}

// encoded returns the digest of a value as the wire has it.
func encoded(v any) string {
	raw, err := wire.Marshal(v, wire.Entry)
	if err != nil { // no message can hold it either
		raw = nil
	}
	return digest(raw)
}

func digest(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

func number(n uint64) string { return strconv.FormatUint(n, 10) }
