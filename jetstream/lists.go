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

// unlistedTTL is how long it stays known that a session is not on a list any more: long
// enough for replicas to hear of it.
const unlistedTTL = 5 * time.Second

// List keeps which sessions hold something that waits for a person, so that whoever
// decides need not read every journal. A driver notes a session before it records the
// first such thing, and strikes it out when the last one is settled: a session that has
// one is always listed, and one that is listed has none only if its driver died in
// between. It is safe for concurrent use.
type List struct {
	cell   *Cell
	bucket string
	of     string // what waits
}

// Approvals returns the cell's list of sessions with approvals that nobody has decided.
func (c *Cell) Approvals() *List {
	return &List{cell: c, bucket: c.names.approvalsBucket(), of: "approvals"}
}

// DeadLetters returns the cell's list of sessions with calls whose workers were lost, and
// about which nobody has decided what is to become of them.
func (c *Cell) DeadLetters() *List {
	return &List{cell: c, bucket: c.names.deadBucket(), of: "dead letters"}
}

// Note puts a session on the list and returns the number of the note.
func (l *List) Note(ctx context.Context, s content.SessionID) (uint64, error) {
	if !content.IsToken(string(s)) {
		return 0, fmt.Errorf("note %s: %w: session %q", l.of, content.ErrBadID, s)
	}
	n, err := l.write(ctx, s, nats.Header{})
	if err != nil {
		return 0, fmt.Errorf("note %s of %s: %w", l.of, s, err)
	}
	return n, nil
}

// Strike takes a session off the list, unless it was noted again: then another driver
// knows better.
func (l *List) Strike(ctx context.Context, s content.SessionID, note uint64) error {
	if !content.IsToken(string(s)) {
		return fmt.Errorf("strike %s: %w: session %q", l.of, content.ErrBadID, s)
	}
	h := nats.Header{}
	h.Set(headerOperation, "DEL")
	h.Set(jetstream.MsgTTLHeader, unlistedTTL.String())
	h.Set(headerGuard, strconv.FormatUint(note, 10))
	if _, err := l.write(ctx, s, h); err != nil && !isConflict(err) {
		return fmt.Errorf("strike %s of %s: %w", l.of, s, err)
	}
	return nil
}

func (l *List) write(ctx context.Context, s content.SessionID, h nats.Header) (seq uint64, err error) {
	err = patiently(ctx, func(ctx context.Context) error {
		seq, err = l.cell.publish(ctx, &nats.Msg{Subject: kvKey(l.bucket, string(s)), Header: h})
		return err
	})
	if err != nil && !isConflict(err) {
		err = l.cell.explain(ctx, kvStream(l.bucket), err)
	}
	return seq, err
}

// Noted returns the number of the note about a session; 0: it is not on the list.
func (l *List) Noted(ctx context.Context, s content.SessionID) (uint64, error) {
	if !content.IsToken(string(s)) {
		return 0, nil
	}
	m, err := l.cell.keyStored(ctx, l.bucket, string(s))
	switch {
	case isNotFound(err):
		return 0, nil
	case err != nil:
		return 0, fmt.Errorf("%s of %s: %w", l.of, s, err)
	}
	return m.Seq, nil
}

// Sessions lists the sessions that may have what waits, sorted: all that have, and some
// that had a moment ago. Their journals say which.
func (l *List) Sessions(ctx context.Context) ([]content.SessionID, error) {
	var out []content.SessionID
	for m, err := range l.cell.batchGet(ctx, kvStream(l.bucket), kvKey(l.bucket, "*"), 0) {
		if err != nil {
			return nil, fmt.Errorf("list sessions with %s: %w", l.of, err)
		}
		if !m.Aimed && !m.gone() {
			out = append(out, content.SessionID(strings.TrimPrefix(m.Subject, kvKey(l.bucket, ""))))
		}
	}
	slices.Sort(out)
	return out, nil
}
