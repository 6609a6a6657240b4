package jetstream

import (
	"context"
	"slices"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/jetstream/internal/api"
	"github.com/turnlog/turnlog/jetstream/internal/bucket"
	"github.com/turnlog/turnlog/jetstream/internal/layout"
)

// List names the sessions with something that a person must decide, so that finding them does not require
// reading every journal. A driver notes a session on the list before it records the first such thing, and
// strikes it off when the last one is settled. So every such session is listed. A listed session has
// nothing to decide only if its driver died in between. It is safe for concurrent use.
type List struct {
	bucket bucket.Bucket[[]byte] // one empty value per session
}

// Approvals returns the list of sessions with pending approvals.
func (c *Cell) Approvals() *List {
	return &List{bucket.OfBytes(c.api, "note of approval", c.names.Approvals(), 1)}
}

// DeadLetters returns the list of sessions with dead letters: calls that wait for a decision because their
// workers were lost.
func (c *Cell) DeadLetters() *List {
	return &List{bucket.OfBytes(c.api, "note of dead letter", c.names.Dead(), 1)}
}

// Note puts a session on the list and returns the number of the note.
func (l *List) Note(ctx context.Context, s content.SessionID) (uint64, error) {
	return l.bucket.Put(ctx, string(s), nil)
}

// Strike removes a session from the list unless another driver has noted it again.
func (l *List) Strike(ctx context.Context, s content.SessionID, note uint64) error {
	b := l.bucket
	b.TTL = layout.UnlistedTTL
	if err := b.Delete(ctx, string(s), note); !api.IsConflict(err) {
		return err
	}
	return nil
}

// Noted returns the number of the note about a session, or 0 if the session is not listed.
func (l *List) Noted(ctx context.Context, s content.SessionID) (uint64, error) {
	it, ok, err := l.bucket.Get(ctx, string(s))
	if !ok {
		return 0, err
	}
	return it.Seq, nil
}

// Sessions returns the listed sessions, sorted. Some may just have settled everything; only their journals
// tell.
func (l *List) Sessions(ctx context.Context) ([]content.SessionID, error) {
	items, err := l.bucket.Scan(ctx)
	var out []content.SessionID
	for _, it := range items {
		out = append(out, content.SessionID(it.Key))
	}
	slices.Sort(out)
	return out, err
}
