// Package listing stores the data for lists of a cell's sessions in the cell, as pages. Package report
// defines their content.
//
// The one idea: reading a hundred large messages takes a server as long as reading a thousand small ones.
// Pages are stored with the snapshots, which the same programs write and read. Each page has its own key,
// so no writer replaces another one's page.
package listing

import (
	"context"
	"fmt"
	"iter"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/turnlog/turnlog/jetstream"
	"github.com/turnlog/turnlog/jetstream/internal/api"
	"github.com/turnlog/turnlog/jetstream/internal/bucket"
	"github.com/turnlog/turnlog/jetstream/internal/layout"
)

// Pages are the pages of a cell. They are safe for concurrent use.
type Pages struct {
	bucket bucket.Bucket[[]byte]
}

// Of returns the pages of a cell.
func Of(c *jetstream.Cell) Pages {
	name := layout.New(c.Namespace()).Snapshots()
	b := bucket.OfBytes(api.New(c.Conn()), "page of sessions", name, 1)
	b.Prefix = name.Key(layout.PageKeys)
	return Pages{b}
}

// Page is a page and its place in their order.
type Page struct {
	Seq  uint64
	At   time.Time // when it was added
	Data []byte
}

// After yields the pages after a place, in the order in which they were added.
func (p Pages) After(ctx context.Context, seq uint64) iter.Seq2[Page, error] {
	return func(yield func(Page, error) bool) {
		for m, err := range p.bucket.API.All(ctx, p.bucket.Stream, p.bucket.Prefix+"*", seq+1) {
			if err != nil {
				err = fmt.Errorf("list of sessions: %w", err)
			}
			if !m.Spoofed && !yield(Page{m.Seq, m.Time, m.Data}, err) || err != nil {
				return
			}
		}
	}
}

// Add adds a page and returns its place.
func (p Pages) Add(ctx context.Context, data []byte) (seq uint64, err error) {
	return p.bucket.Put(ctx, ulid.Make().String(), data)
}

// DropBefore removes the pages before a place.
func (p Pages) DropBefore(ctx context.Context, seq uint64) error {
	return p.bucket.API.Purge(ctx, p.bucket.Stream, p.bucket.Prefix+"*", seq)
}
