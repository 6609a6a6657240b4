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

// CallReader explains the call that a name means.
type CallReader struct {
	name string
	fold fold
	seen sights
}

// NewCallReader returns a reader that looks for a call by any name that Turnlog prints: its id, its place, the
// id of one of its approvals, or the id that the provider gave it.
func NewCallReader(name string) *CallReader {
	return &CallReader{name: name, fold: newFold(func(c content.ToolCall) bool { return meant(name, c) != byNothing })}
}

// Named has the reader name people as the owners of their keys. Call it before the first Add.
func (r *CallReader) Named(by Owners) { r.fold.owners = by }

// Resume has the reader continue with a record further on, of a host that claimed the session in a given one. The model is
// that of replies that name theirs, no policy may ever have applied, and allowed are the tools that grants allow.
func (r *CallReader) Resume(claim journal.Record, allowed map[content.ApprovalID][]string) {
	f := &r.fold
	f.queue, f.inputs, f.turn, f.open, f.model, f.allowed, f.resumed = nil, nil, "", false, "", allowed, true
	if c, ok := events.ClaimOf(claim.Entry); ok {
		f.writer.Node = c.Node
	}
}

// Whole reports whether the reader knows where the calls come from that were found: not if it resumed too late for some
// input of their turns, or their replies do not name their models.
func (r *CallReader) Whole() bool {
	return !slices.ContainsFunc(r.fold.calls, func(c *Call) bool { return r.fold.short[c] })
}

// Seen reports whether models have seen the results of the calls that were found as they are now.
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

// Call returns the call. An id wins over the ids that providers gave, which they may give again.
func (r *CallReader) Call() (Call, error) {
	var found []*Call
	best := byNothing
	for _, c := range r.fold.calls {
		how := meant(r.name, content.ToolCall{ID: c.ID, Place: c.Place, ProviderID: c.Provider})
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

// meaning is how a name means a call.
type meaning int

const (
	byNothing meaning = iota
	byProvider
	byIdentity // its id, its place, or an approval's id
)

func meant(name string, c content.ToolCall) meaning {
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
