package report

import (
	"encoding/binary"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/internal/wire"
)

// What a row has of its session.
const (
	rowGone   = iota // nothing to list
	rowListed        // its Summary
	rowUnread        // only what it used; a list reads the session itself
)

// keptRow is a session in a page. It has its own encoding, since reflection would take several times as long.
type keptRow struct {
	Summary

	spent string // see account.encode

	kind, entries, turns, hasAgent int64
	agent, version                 string
}

// rowFrom returns the row of a session for a page.
func rowFrom(id content.SessionID, x indexed, spent string) keptRow {
	r := keptRow{Summary: Summary{Session: id}, spent: spent, kind: rowGone, entries: int64(x.entries)} //nolint:gosec // a count
	if x.row == nil {
		return r
	}
	r.Summary, r.kind, r.turns = *x.row, rowListed, int64(x.row.Turns)
	if a := x.row.Agent; a != nil {
		r.hasAgent, r.agent, r.version = 1, a.Name, a.Version
	}
	return r
}

// unread returns a short row for a session whose row would be larger than a page.
func (r *keptRow) unread() keptRow {
	small := keptRow{Summary: Summary{Session: r.Session}, kind: rowUnread, spent: r.spent}
	if len(r.spent) > pageSize/2 {
		var a account
		_ = wire.Unmarshal([]byte(r.spent), wire.Command, &a) // see account.encode
		small.spent = (&account{Seq: a.Seq, Fresh: a.Fresh, Partial: true}).encode()
	}
	return small
}

// indexed returns the row for an index.
func (r *keptRow) indexed() indexed {
	x := indexed{entries: uint64(r.entries)} //nolint:gosec // as it was written
	if r.kind != rowListed {
		return x
	}
	row := r.Summary
	row.Turns = int(r.turns)
	if r.hasAgent != 0 {
		row.Agent = &Agent{Name: r.agent, Version: r.version}
	}
	x.row = &row
	return x
}

// fields returns pointers to all fields of a row, in the order of a page.
func (r *keptRow) fields() (texts [13]*string, numbers [11]*int64) {
	u := &r.Usage
	texts = [...]*string{
		(*string)(&r.Session), &r.State, &r.Title, &r.agent, &r.version, &r.Model, &r.Owner, (*string)(&r.Parent), &r.From, &r.Folder, &u.Currency, &r.tools, &r.spent,
	}
	numbers = [...]*int64{
		&r.kind, &r.entries, &r.turns, &r.hasAgent, (*int64)(&r.Changed),
		&u.InputTokens, &u.OutputTokens, &u.ReasoningTokens, &u.CacheReadTokens, &u.CacheWriteTokens, &u.CostMicros,
	}
	return texts, numbers
}

// append appends the encoded row to a page.
func (r *keptRow) append(to []byte) []byte {
	texts, numbers := r.fields()
	for _, text := range texts {
		to = append(binary.AppendUvarint(to, uint64(len(*text))), *text...)
	}
	for _, n := range numbers {
		to = binary.AppendVarint(to, *n)
	}
	return to
}

// next decodes the row at a position, and returns the position of the next one.
func (r *keptRow) next(from string, raw []byte, at int) (int, error) {
	texts, numbers := r.fields()
	for _, text := range texts {
		size, n := binary.Uvarint(raw[at:])
		if n <= 0 || size > uint64(len(raw)-at-n) {
			return 0, errRow
		}
		at += n
		*text = from[at : at+int(size)] //nolint:gosec // it is within the text
		at += int(size)                 //nolint:gosec // likewise
	}
	for _, number := range numbers {
		value, n := binary.Varint(raw[at:])
		if n <= 0 {
			return 0, errRow
		}
		*number = value
		at += n
	}
	return at, nil
}
