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
// this came out, at this time.
func Result(cell string, c Call, at content.Time, result string) []byte {
	return keys.Text("turnlog-result/v2", cell, string(c.Session), string(c.Call), string(c.Place), strconv.Itoa(c.Attempt), c.Tool, c.Input, number(uint64(at)), result) //nolint:gosec // a time, as bits
}

// ResultDigest returns the digest of a result: what the model sees of it, its status and its metadata. The
// journal may leave out metadata that a worker may not set, and names the call itself, so these do not count.
// Nor do changed paths, which a journal has of tools alone that declare that they write.
func ResultDigest(r content.ToolResult) string {
	r = r.Reported("", "")
	return Encoded(content.ToolResult{Status: r.Status, Output: r.Output, Code: r.Code, Metadata: r.Metadata})
}

// Command is what the sender of a command says: that it sends all of this command, under this ID and at the
// envelope's time.
func Command(cell string, e commands.Envelope) []byte {
	said, input := Outline(e.Command)
	raw, err := commands.Marshal(said)
	if err != nil { // nor can it be sent
		raw = nil
	}
	return Recorded(cell, e.Session, e.ID, events.CommandSigned{Command: commands.NameOf(e.Command), Said: raw, At: e.At}, input)
}

// Recorded is Command, of what a journal records of it: the entry's cause as the ID, the command without its input,
// and the input that the entry has.
func Recorded(cell string, s content.SessionID, id string, c events.CommandSigned, input []content.Item) []byte {
	return keys.Text("turnlog-command/v2", cell, string(s), id, c.Command, number(uint64(c.At)), digest(c.Said), Items(input)) //nolint:gosec // a time, as bits
}

// Outline returns a command without its input, which may be large and which its entry has, and that input.
func Outline(c commands.Command) (commands.Command, []content.Item) {
	switch c := c.(type) { //nolint:gochecksumtype // the others have no input
	case commands.SubmitInput:
		input := c.Items
		c.Items = nil
		return c, input
	case commands.OpenSession:
		input := c.Input
		c.Input = nil
		return c, input
	case commands.StartTask:
		goal := content.UserText(c.Spec.Goal)
		goal.Parts = append(goal.Parts, c.Files...)
		c.Files = nil
		return c, []content.Item{goal}
	}
	return c, nil
}

// Roles returns whose keys may sign a command: those of the first role, and those of drivers what one sends to the
// session of a sub-agent when the call that it works for has ended: a cancel, and a denial. A driver never approves.
func Roles(c commands.Command) []keys.Role {
	roles := []keys.Role{keys.Client}
	switch commands.LaneOf(c) { //nolint:exhaustive // the others are not sent
	case events.LaneDecide:
		roles[0] = keys.Approver
	case events.LaneReport:
		roles[0] = keys.Worker
	}
	decision, decides := c.(commands.ResolveApproval)
	_, cancels := c.(commands.Cancel)
	if cancels || decides && !decision.Approve && len(decision.Input) == 0 {
		roles = append(roles, keys.Driver)
	}
	return roles
}

// Schedule is what the sender of a schedule says: that it sends what the schedule says, when it says. The definition
// is the schedule as it is stored, without the signature.
func Schedule(cell string, definition []byte) []byte {
	return keys.Text("turnlog-schedule/v1", cell, digest(definition))
}

// Task is what the driver of a session says with a task: that the session dispatched this, with this ticket.
func Task(cell, subject, ticket string, body []byte) []byte {
	return keys.Text("turnlog-task/v1", cell, subject, ticket, digest(body))
}

// Stop is what a driver says when it has workers stop a call.
func Stop(cell, subject string, body []byte) []byte {
	return keys.Text("turnlog-stop/v1", cell, subject, digest(body))
}

// Items returns the digest of input: of its kinds, parts and metadata. A journal sets the rest of an item.
func Items(items []content.Item) string {
	said := make([]content.Item, len(items))
	for i, it := range items {
		said[i] = content.Item{Kind: it.Kind, Parts: it.Parts, Metadata: it.Metadata.WithoutReserved()}
	}
	return Encoded(said)
}

// Shown returns the digest of all that a person is asked.
func Shown(a events.Approval) string {
	a.Digest = tool.Digest(a.Input) // of the arguments that are shown, whatever the question says
	return Encoded(a)
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

// Encoded returns the digest of a value as the wire has it.
func Encoded(v any) string {
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
