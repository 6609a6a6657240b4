package jetstream

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/turnlog/turnlog/content"
)

// approvalsGone is how long it stays known that a session has no open approvals any
// more: long enough for replicas to hear of it.
const approvalsGone = 5 * time.Second

// Approvals keeps which sessions have approvals that nobody has decided, so that
// whoever decides need not read every journal. A driver notes a session before it
// records a question, and strikes it out when the last one is answered: a session that
// has one is always listed, and one that is listed has none only if its driver died in
// between. It is safe for concurrent use.
type Approvals struct {
	cell *Cell
}

// Approvals returns the cell's list of open approvals.
func (c *Cell) Approvals() *Approvals { return &Approvals{cell: c} }

// Note puts a session on the list and returns the number of the note.
func (a *Approvals) Note(ctx context.Context, s content.SessionID) (uint64, error) {
	if !content.IsToken(string(s)) {
		return 0, fmt.Errorf("note approvals: %w: session %q", content.ErrBadID, s)
	}
	n, err := a.write(ctx, s, nats.Header{})
	if err != nil {
		return 0, fmt.Errorf("note approvals of %s: %w", s, err)
	}
	return n, nil
}

// Strike takes a session off the list, unless it was noted again: then another driver
// knows better.
func (a *Approvals) Strike(ctx context.Context, s content.SessionID, note uint64) error {
	if !content.IsToken(string(s)) {
		return fmt.Errorf("strike approvals: %w: session %q", content.ErrBadID, s)
	}
	h := nats.Header{}
	h.Set(headerOperation, "DEL")
	h.Set(jetstream.MsgTTLHeader, approvalsGone.String())
	h.Set(headerGuard, strconv.FormatUint(note, 10))
	if _, err := a.write(ctx, s, h); err != nil && !isConflict(err) {
		return fmt.Errorf("strike approvals of %s: %w", s, err)
	}
	return nil
}

func (a *Approvals) write(ctx context.Context, s content.SessionID, h nats.Header) (seq uint64, err error) {
	bucket := a.cell.names.approvalsBucket()
	err = patiently(ctx, func(ctx context.Context) error {
		seq, err = a.cell.publish(ctx, &nats.Msg{Subject: kvKey(bucket, string(s)), Header: h})
		return err
	})
	if err != nil && !isConflict(err) {
		err = a.cell.explain(ctx, kvStream(bucket), err)
	}
	return seq, err
}

// Noted returns the number of the note about a session; 0: it is not on the list.
func (a *Approvals) Noted(ctx context.Context, s content.SessionID) (uint64, error) {
	if !content.IsToken(string(s)) {
		return 0, nil
	}
	m, err := a.cell.keyStored(ctx, a.cell.names.approvalsBucket(), string(s))
	switch {
	case isNotFound(err):
		return 0, nil
	case err != nil:
		return 0, fmt.Errorf("approvals of %s: %w", s, err)
	}
	return m.Seq, nil
}

// Sessions lists the sessions that may have open approvals, sorted: all that have, and
// some that had a moment ago. Their journals say which.
func (a *Approvals) Sessions(ctx context.Context) ([]content.SessionID, error) {
	var out []content.SessionID
	bucket := a.cell.names.approvalsBucket()
	for m, err := range a.cell.batchGet(ctx, kvStream(bucket), kvKey(bucket, "*"), 0) {
		if err != nil {
			return nil, fmt.Errorf("list open approvals: %w", err)
		}
		if !m.Aimed && !isMarker(m.Header) {
			out = append(out, content.SessionID(strings.TrimPrefix(m.Subject, kvKey(bucket, ""))))
		}
	}
	slices.Sort(out)
	return out, nil
}
