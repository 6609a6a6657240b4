package explain

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/events/journal"
)

// Errors of CallReader.Call.
var (
	// ErrNoCall is returned if the journal has no call of that name.
	ErrNoCall = errors.New("no such call")
	// ErrSeveral is returned if several calls have that name. The error lists their places and ids: use
	// one that only one of them has.
	ErrSeveral = errors.New("several calls have that name")
)

// CallReader explains the call with a given name.
type CallReader struct {
	name string
	fold fold
	seen sights
}

// NewCallReader returns a reader that finds a call by any name that Turnlog prints: its id, its place, the id of
// one of its approvals, or the provider's id.
func NewCallReader(name string) *CallReader {
	return &CallReader{name: name, fold: newFold(func(c content.ToolCall) bool { return meaningOf(name, c) != byNothing })}
}

// Named makes the reader name people by the owners of their keys. Call it before the first Add.
func (r *CallReader) Named(by Owners) { r.fold.owners = by }

// Resume makes the reader skip records and continue later. claim is the record in which the current host claimed the session,
// and allowed has the tools that grants allow. The model is known only for replies that name it. Use Resume only if no policy
// ever applied.
func (r *CallReader) Resume(claim journal.Record, allowed map[content.ApprovalID][]string) {
	f := &r.fold
	f.queue, f.inputs, f.turn, f.open, f.model, f.allowed, f.resumed = nil, nil, "", false, "", allowed, true
	if c, ok := events.ClaimOf(claim.Entry); ok {
		f.writer.Node = c.Node
	}
}

// Whole reports whether the reader knows the origin of the calls that it found. It does not if it resumed too late for some
// input of their turns, or if their replies do not name their models.
func (r *CallReader) Whole() bool {
	return !slices.ContainsFunc(r.fold.calls, func(c *Call) bool { return r.fold.short[c] })
}

// Seen reports whether models have seen the results of the calls that were found in their current form.
func (r *CallReader) Seen() bool {
	for _, s := range r.seen.calls {
		if late := slices.ContainsFunc(s.call.Results, func(r Result) bool { return r.Late }); s.shown != s.now || late && s.now != FormNotice {
			return false
		}
	}
	return true
}

// Add reads the next record. It returns the error of a record that cannot be read.
func (r *CallReader) Add(rec journal.Record) error {
	if rec.Err != nil {
		return fmt.Errorf("entry %d: %w", rec.Seq, rec.Err)
	}
	r.fold.begin(rec)
	for _, ev := range rec.Entry.Events {
		known := len(r.fold.calls)
		r.fold.note(ev)
		for _, c := range r.fold.calls[known:] {
			r.seen.follow(c)
		}
		r.seen.note(r.fold.at, ev)
	}
	return nil
}

// Call returns the call. A call's own id wins over a provider's id, which a provider may use again.
func (r *CallReader) Call() (Call, error) {
	var found []*Call
	best := byNothing
	for _, c := range r.fold.calls {
		how := meaningOf(r.name, content.ToolCall{ID: c.ID, Place: c.Place, ProviderID: c.Provider})
		switch {
		case how > best:
			best, found = how, []*Call{c}
		case how == best:
			found = append(found, c)
		}
	}
	switch len(found) {
	case 0:
		return Call{}, fmt.Errorf("%w: %s", ErrNoCall, r.name)
	case 1:
		return *found[0], nil
	}
	var all []string
	for _, c := range found {
		all = append(all, fmt.Sprintf("%s (%s, %s of %s)", c.Place, c.ID, c.Tool, c.Turn))
	}
	return Call{}, fmt.Errorf("%w: %s means %s", ErrSeveral, r.name, strings.Join(all, " and "))
}

// meaning says how a name matches a call.
type meaning int

const (
	byNothing meaning = iota
	byProvider
	byIdentity // its id, its place, or an approval's id
)

func meaningOf(name string, c content.ToolCall) meaning {
	switch place, isApproval := approvalOf(name); {
	case name == string(c.ID), name == string(c.Place), isApproval && place == c.Place:
		return byIdentity
	case name == c.ProviderID && name != "":
		return byProvider
	}
	return byNothing
}

// approvalOf returns the place of the call that an approval is about.
func approvalOf(name string) (content.Place, bool) {
	i := strings.LastIndex(name, "-g")
	if i < 0 {
		return "", false
	}
	_, err := strconv.ParseUint(name[i+2:], 10, 32)
	return content.Place(name[:i]), err == nil
}
