// Package bundle makes the file of proofs for a session that leaves its deployment.
//
// The verifier has no server, so the file has everything that is needed to verify signatures: the newest logged version
// of the directory of keys, and the last one before the head of the session. For each revoked key of the session, it
// also has the first version with the revocation, the version before that, and the last head that the log had by then.
package bundle

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"

	"github.com/turnlog/turnlog/audit/headlog"
	"github.com/turnlog/turnlog/audit/keys"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/events/journal"
	"github.com/turnlog/turnlog/jetstream"
	"github.com/turnlog/turnlog/jetstream/heads"
	"github.com/turnlog/turnlog/jetstream/signers"
)

// Signers has the ids of the keys that signed parts of a journal.
type Signers map[string]bool

// Watch yields the records of a journal unchanged, and notes the keys.
func (s Signers) Watch(records iter.Seq2[journal.Record, error]) iter.Seq2[journal.Record, error] {
	return func(yield func(journal.Record, error) bool) {
		for r, err := range records {
			s[r.Signature.Key] = true
			for _, ev := range r.Entry.Events {
				switch ev := ev.(type) { //nolint:gochecksumtype // the others have no signature
				case events.CommandSigned:
					s[ev.Signature.Key] = true
				case events.ToolResultReceived:
					if ev.Signature != nil {
						s[ev.Signature.Key] = true
					}
				}
			}
			if !yield(r, err) {
				return
			}
		}
	}
}

// ErrHidden is returned by Of if the deployment does not have a logged version of the directory of keys. Audit the log.
var ErrHidden = errors.New("the deployment hides a logged version of the directory of keys")

// Of returns a proof with everything that is needed to verify it.
func Of(ctx context.Context, cell *jetstream.Cell, p headlog.Proof, by Signers) (headlog.File, error) {
	b := bundle{File: headlog.File{Heads: []headlog.Proof{p}}, by: by}
	if err := b.read(ctx, cell, p); err != nil || len(b.listings) == 0 {
		return b.File, err
	}
	if err := b.heads(p); err != nil {
		return b.File, err
	}
	return b.File, b.directories(p.Checkpoint)
}

type bundle struct {
	headlog.File

	by       Signers
	log      *headlog.Reader
	origin   string
	listings []headlog.Listing // by the root that signed the last one, in the order of the log
	at       []int64
	signed   map[events.Hash]signers.Version
	wanted   map[int]bool // listings
}

// read reads the leaves in the tree of a proof.
func (b *bundle) read(ctx context.Context, cell *jetstream.Cell, p headlog.Proof) error {
	store := heads.Of(cell)
	state, _, err := store.State(ctx)
	if err != nil {
		return err
	}
	at, err := headlog.Unverified(p.Checkpoint)
	if err != nil {
		return err
	}
	b.origin = at.Origin
	if b.log, err = store.Reader(ctx, state, at.Tree); err != nil {
		return err
	}
	all, where, err := state.Listings(b.log)
	if err != nil || len(all) == 0 {
		return err
	}
	root := all[len(all)-1].Root
	for i, l := range all {
		if l.Root == root {
			b.listings, b.at = append(b.listings, l), append(b.at, where[i])
		}
	}
	b.signed, b.wanted = map[events.Hash]signers.Version{}, map[int]bool{len(b.listings) - 1: true}
	for v, err := range signers.Versions(ctx, cell, root, 0) {
		if err != nil {
			return err
		}
		b.signed[v.Digest()] = v
	}
	for _, l := range b.listings {
		if b.signed[l.Hash].Directory == nil {
			return fmt.Errorf("%w: version %d", ErrHidden, l.Version)
		}
	}
	return nil
}

// ended returns the first version that ends a key in the same way as the newest one.
func (b *bundle) ended(k keys.Key) int {
	return slices.IndexFunc(b.listings, func(l headlog.Listing) bool {
		is, ok := b.signed[l.Hash].Lookup(k.ID())
		return ok && is.Revoked != nil && *is.Revoked == *k.Revoked
	})
}

// heads adds the heads that the log had before keys of the session were revoked, and marks the listings that they need.
func (b *bundle) heads(p headlog.Proof) error {
	var sizes []int64
	for _, k := range b.signed[b.listings[len(b.listings)-1].Hash].Keys {
		if k.Revoked == nil || !b.by[k.ID()] {
			continue
		}
		first := b.ended(k)
		size := b.at[first]
		b.wanted[first] = true
		if first > 0 {
			b.wanted[first-1] = true
		}
		if k.Revoked.Stolen {
			if size = k.Revoked.Size; k.Revoked.Log != b.origin {
				continue
			}
		}
		if size > 0 && size <= p.Index {
			sizes = append(sizes, size)
		}
	}
	last := map[int64]headlog.Proof{} // by size
	errDone := errors.New("done")
	err := b.log.Leaves(0, func(i int64, text []byte) error {
		if len(sizes) == 0 || i >= slices.Max(sizes) {
			return errDone
		}
		if l, err := headlog.ParseLeaf(text); err == nil && l.Session == p.Leaf.Session && l.Cell == p.Leaf.Cell {
			for _, size := range sizes {
				if i < size {
					last[size] = headlog.Proof{Leaf: l, Index: i, Checkpoint: p.Checkpoint}
				}
			}
		}
		return nil
	})
	if err != nil && !errors.Is(err, errDone) {
		return fmt.Errorf("look for earlier heads: %w", err)
	}
	for _, h := range last {
		if !slices.ContainsFunc(b.Heads, func(p headlog.Proof) bool { return p.Index == h.Index }) {
			if h.Hashes, err = b.log.Prove(h.Index); err != nil {
				return err
			}
			b.Heads = append(b.Heads, h)
		}
	}
	slices.SortFunc(b.Heads, func(a, b headlog.Proof) int { return int(b.Index - a.Index) })
	for _, h := range b.Heads {
		if n, _ := slices.BinarySearch(b.at, h.Index); n > 0 {
			b.wanted[n-1] = true
		}
	}
	return nil
}

// directories adds the versions of the directory that are wanted.
func (b *bundle) directories(checkpoint []byte) (err error) {
	for i, l := range b.listings {
		if !b.wanted[i] {
			continue
		}
		p := headlog.ListedProof{Listing: l, Signed: b.signed[l.Hash].Signed, Index: b.at[i], Checkpoint: checkpoint}
		if p.Hashes, err = b.log.Prove(p.Index); err != nil {
			return err
		}
		b.Listed = append(b.Listed, p)
	}
	return nil
}
