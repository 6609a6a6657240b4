package notary

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"go.uber.org/zap"

	"github.com/turnlog/turnlog/audit/headlog"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/internal/pause"
	"github.com/turnlog/turnlog/jetstream/signers"
)

// ErrNeedsRoot is returned by Run if the log has versions of the directory of keys, but the notary does not know their root. If
// it logged heads without versions, later versions would look backdated.
var ErrNeedsRoot = errors.New("the directory of keys is logged: give the notary the public key of its root (--keys-root)")

// listings tracks the versions of the directory of keys in the cell.
type listings struct {
	read     uint64 // the last message of the stream with them
	unlogged []headlog.Listing
	known    map[events.Hash]bool // false: it is not logged
	last     uint64               // the version that was logged last
}

func newListings() listings { return listings{known: map[events.Hash]bool{}} }

// logged notes that versions were logged, in their order.
func (l *listings) logged(some ...headlog.Listing) {
	for _, s := range some {
		l.known[s.Hash], l.last = true, s.Version
	}
	l.unlogged = slices.DeleteFunc(slices.Clone(l.unlogged), func(s headlog.Listing) bool { return l.known[s.Hash] })
}

// next returns the next versions to log, in order.
func (l *listings) next(room int) []headlog.Listing {
	out, before := slices.Clone(l.unlogged[:min(len(l.unlogged), room)]), l.last
	for i := range out {
		out[i].Before, before = before, out[i].Version
	}
	return out
}

// followKeys signals when there may be another version of the directory of keys.
func (n *Notary) followKeys(ctx context.Context, signed chan<- struct{}) error {
	for {
		select {
		case signed <- struct{}{}:
		case <-ctx.Done():
			return nil
		}
		if !pause.For(ctx, signers.Refreshed) {
			return nil
		}
	}
}

// readKeys reads the versions that were published meanwhile.
func (n *Notary) readKeys(ctx context.Context) error {
	if n.KeysRoot == "" {
		return nil
	}
	for v, err := range signers.Versions(ctx, n.cell, n.KeysRoot, n.listings.read) {
		if err != nil {
			return err
		}
		n.listings.read = v.Seq
		l := headlog.ListingOf(v.Directory, n.KeysRoot, 0)
		if _, known := n.listings.known[l.Hash]; !known {
			n.listings.known[l.Hash] = false
			n.listings.unlogged = append(n.listings.unlogged, l)
			n.log.Info("new version of the directory of keys to log", zap.Uint64("version", l.Version))
		}
	}
	return nil
}

// relist notes which versions a state of the log has.
func (n *Notary) relist(r *headlog.Reader, state headlog.State) error {
	if len(state.Listed) > 0 && n.KeysRoot == "" {
		return ErrNeedsRoot
	}
	all, _, err := state.Listings(r)
	if err != nil {
		return fmt.Errorf("read the log of heads: %w", err)
	}
	n.listings.logged(slices.DeleteFunc(all, func(l headlog.Listing) bool { return l.Root != n.KeysRoot })...)
	return nil
}

// confirmListing compares a leaf that is not the head of a session with the published directories: only existing versions
// may be signed.
func (n *Notary) confirmListing(ctx context.Context, leaf []byte) error {
	l, err := headlog.ParseListing(leaf)
	if err != nil || l.Root != n.KeysRoot {
		return nil //nolint:nilerr // it is of another kind
	}
	if err := n.readKeys(ctx); err != nil {
		return err
	}
	if _, published := n.listings.known[l.Hash]; !published {
		return fmt.Errorf("%w: version %d of the directory of keys, which the cell does not have", ErrFalseLeaf, l.Version)
	}
	return nil
}
