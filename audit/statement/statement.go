// Package statement defines what is signed: the text of every statement that a key of a deployment signs.
//
// The signer computes a statement from what it is about to send. Everyone who checks it computes it again, from
// what arrived or from what the journal records. So only the signature itself must be stored. Each text names its
// purpose, the cell and the session (see package audit/keys). Digests replace content of any size.
package statement

import (
	"strconv"

	"github.com/turnlog/turnlog/audit/keys"
	"github.com/turnlog/turnlog/commands"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/internal/wire"
	"github.com/turnlog/turnlog/tool"
)

// Entry returns the statement of a driver about an entry: that it wrote the entry with this number and hash
// and, through the chain, that all earlier entries precede it.
func Entry(cell string, s content.SessionID, seq uint64, hash events.Hash) []byte {
	return keys.Text("turnlog-entry/v1", cell, string(s), number(seq), hash.String())
}

// Call is an attempt at a call in the form in which its worker got it.
type Call struct {
	Session content.SessionID
	Call    content.CallID
	Place   content.Place
	Attempt int
	Tool    string
	Input   string // the digest of the effective input
}

// Result returns the statement of a worker about a result: that it ran this attempt at this call with this input,
// and got this result at this time.
func Result(cell string, c Call, at content.Time, result string) []byte {
	return keys.Text("turnlog-result/v2", cell, string(c.Session), string(c.Call), string(c.Place), strconv.Itoa(c.Attempt), c.Tool, c.Input, number(uint64(at)), result) //nolint:gosec // a time, as bits
}

// ResultDigest returns the digest of a result: the parts that the model sees, the status and the metadata. The
// call's name and metadata that a worker may not set do not count, since the journal sets or drops them. Neither
// do changed paths, which a journal has only for tools that declare that they write.
func ResultDigest(r content.ToolResult) string {
	r = r.Reported("", "")
	return Encoded(content.ToolResult{Status: r.Status, Output: r.Output, Code: r.Code, Metadata: r.Metadata})
}

// Command returns the statement of a command's sender: that it sends this complete command, under this ID and at
// the envelope's time.
func Command(cell string, e commands.Envelope) []byte {
	said, input := Outline(e.Command)
	raw, err := commands.Marshal(said)
	if err != nil { // nor can it be sent
		raw = nil
	}
	return Recorded(cell, e.Session, e.ID, events.CommandSigned{Command: commands.NameOf(e.Command), Said: raw, At: e.At}, input)
}

// Recorded returns the same statement as Command, from what a journal records: the entry's cause as the ID, the
// command without its input, and the input in the entry.
func Recorded(cell string, s content.SessionID, id string, c events.CommandSigned, input []content.Item) []byte {
	return keys.Text("turnlog-command/v2", cell, string(s), id, c.Command, number(uint64(c.At)), digest(c.Said), Items(input)) //nolint:gosec // a time, as bits
}

// Outline returns a command without its input, and the input. The input may be large, and its entry has it.
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

// Roles returns the roles whose keys may sign a command. Besides the first role, drivers may sign what they send to the
// session of a sub-agent when its call has ended: a cancel or a denial. A driver never approves.
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

// Schedule returns the statement of a schedule's sender: that it sends the schedule's commands at the schedule's times.
// The definition is the stored form of the schedule, without the signature.
func Schedule(cell string, definition []byte) []byte {
	return keys.Text("turnlog-schedule/v1", cell, digest(definition))
}

// Task returns the statement of a driver about a task: that the session dispatched it with this ticket.
func Task(cell, subject, ticket string, body []byte) []byte {
	return keys.Text("turnlog-task/v1", cell, subject, ticket, digest(body))
}

// Stop returns the statement of a driver that tells workers to stop a call.
func Stop(cell, subject string, body []byte) []byte {
	return keys.Text("turnlog-stop/v1", cell, subject, digest(body))
}

// Items returns the digest of input. It covers kinds, parts and metadata; a journal sets the rest of an item.
func Items(items []content.Item) string {
	said := make([]content.Item, len(items))
	for i, it := range items {
		said[i] = content.Item{Kind: it.Kind, Parts: it.Parts, Metadata: it.Metadata.WithoutReserved()}
	}
	return Encoded(said)
}

// Shown returns the digest of everything that a person sees in a question.
func Shown(a events.Approval) string {
	a.Digest = tool.Digest(a.Input) // the digest of the shown arguments, even if the question has another one
	return Encoded(a)
}

// Asked returns the question that a decision answers: the one that it names, or the oldest one of its call, or
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

// Encoded returns the digest of a value's wire format.
func Encoded(v any) string {
	raw, err := wire.Marshal(v, wire.Entry)
	if err != nil { // no message can hold it either
		raw = nil
	}
	return digest(raw)
}

func digest(b []byte) string { return events.HashOf(b).String() }

func number(n uint64) string { return strconv.FormatUint(n, 10) }
