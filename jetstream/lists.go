package jetstream

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/jetstream/internal/api"
)

// unlistedTTL is how long the marker of a removed session stays: long enough for replicas to
// receive it.
const unlistedTTL = 5 * time.Second

// List names the sessions that hold something a person must decide, so that finding them does
// not take reading every journal. A driver notes a session before it records the first such
// thing, and strikes it when the last one is settled: a session that has one is always listed,
// and a listed session has none only if its driver died in between. It is safe for concurrent
// use.
type List struct {
	bucket bucket[[]byte] // one empty value per session
	of     string         // what waits
}

// Approvals returns the list of sessions with pending approvals.
func (c *Cell) Approvals() *List {
	return &List{bucket: byteBucket(c, c.names.Approvals(), 0), of: "approvals"}
}

// DeadLetters returns the list of sessions with dead letters: calls whose workers were lost and
// that wait for a decision.
func (c *Cell) DeadLetters() *List {
	return &List{bucket: byteBucket(c, c.names.Dead(), 0), of: "dead letters"}
}

// Note puts a session on the list and returns the number of the note.
func (l *List) Note(ctx context.Context, s content.SessionID) (uint64, error) {
	if !content.IsToken(string(s)) {
		return 0, fmt.Errorf("note %s: %w: session %q", l.of, content.ErrBadID, s)
	}
	n, err := l.bucket.put(ctx, string(s), nil)
	if err != nil {
		return 0, fmt.Errorf("note %s of %s: %w", l.of, s, err)
	}
	return n, nil
}

// Strike removes a session from the list, unless it was noted again: then another driver knows
// better.
func (l *List) Strike(ctx context.Context, s content.SessionID, note uint64) error {
	if !content.IsToken(string(s)) {
		return fmt.Errorf("strike %s: %w: session %q", l.of, content.ErrBadID, s)
	}
	b := l.bucket
	b.ttl = unlistedTTL
	if err := b.deleteAt(ctx, string(s), note); err != nil && !api.IsConflict(err) {
		return fmt.Errorf("strike %s of %s: %w", l.of, s, err)
	}
	return nil
}

// Noted returns the number of the note about a session, 0 if it is not listed.
func (l *List) Noted(ctx context.Context, s content.SessionID) (uint64, error) {
	if !content.IsToken(string(s)) {
		return 0, nil
	}
	it, ok, err := l.bucket.get(ctx, string(s))
	if err != nil {
		return 0, fmt.Errorf("%s of %s: %w", l.of, s, err)
	}
	if !ok {
		return 0, nil
	}
	return it.Seq, nil
}

// Sessions returns the listed sessions, sorted: all that hold something pending, and some that
// recently did. Their journals say which.
func (l *List) Sessions(ctx context.Context) ([]content.SessionID, error) {
	items, err := l.bucket.scan(ctx, "*")
	if err != nil {
		return nil, fmt.Errorf("list sessions with %s: %w", l.of, err)
	}
	var out []content.SessionID
	for _, it := range items {
		out = append(out, content.SessionID(it.Key))
	}
	slices.Sort(out)
	return out, nil
}
