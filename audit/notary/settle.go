package notary

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"go.uber.org/zap"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/turnlog/turnlog/audit/headlog"
	"github.com/turnlog/turnlog/audit/witness"
	"github.com/turnlog/turnlog/jetstream/heads"
)

// storeTiles stores the tiles that the last append filled. The next writer has stored them before.
func (n *Notary) storeTiles(ctx context.Context) error {
	for _, t := range n.state.Due {
		if err := n.store.PutTile(ctx, t); err != nil {
			return err
		}
	}
	n.state.Due = nil
	return nil
}

// settle publishes the checkpoint of the log with cosignatures, and notes where its leaves are.
func (n *Notary) settle(ctx context.Context) error {
	at := n.state.Checkpoint()
	if at.N == 0 {
		return nil
	}
	published, err := n.publish(ctx, at)
	if err != nil {
		return err
	}
	n.published = published.N
	return n.index(ctx, published)
}

// publish returns the published checkpoint, which is at or a later one.
func (n *Notary) publish(ctx context.Context, at headlog.Checkpoint) (headlog.Checkpoint, error) {
	for {
		old, number, err := n.store.Checkpoint(ctx)
		if err != nil {
			return at, err
		}
		if number > 0 {
			was, err := headlog.Open(old, n.Key)
			if err != nil {
				return at, fmt.Errorf("%w: the published checkpoint: %w", ErrOtherLog, err)
			}
			if was.N > at.N || was == at {
				return was, nil
			}
		}
		signed, err := at.Sign(n.Signer)
		if err != nil {
			return at, err
		}
		lines, err := n.cosign(ctx, at, signed)
		if err != nil {
			return at, err
		}
		err = n.store.Publish(ctx, append(signed, bytes.Join(lines, nil)...), number)
		if err == nil {
			n.log.Info("checkpoint published", zap.Int64("size", at.N), zap.Int("cosignatures", len(lines)))
		}
		if !errors.Is(err, heads.ErrConflict) {
			return at, err
		}
	}
}

// cosign asks all witnesses at once. It returns their signatures, or an error if there are too few.
func (n *Notary) cosign(ctx context.Context, at headlog.Checkpoint, signed []byte) ([][]byte, error) {
	if len(n.Witnesses) == 0 {
		return nil, nil
	}
	r, err := n.store.Reader(ctx, n.state, at.Tree)
	if err != nil {
		return nil, fmt.Errorf("cosign: %w", err)
	}
	lines, errs := make([][]byte, len(n.Witnesses)), make([]error, len(n.Witnesses))
	var all sync.WaitGroup
	for i, w := range n.Witnesses {
		all.Go(func() { lines[i], errs[i] = w.Cosign(ctx, signed, r.ProveConsistency) })
	}
	all.Wait()
	var out [][]byte
	for i, line := range lines {
		if errs[i] == nil {
			out = append(out, line)
			continue
		}
		n.log.Warn("no cosignature", zap.Error(errs[i]))
		if refused, ok := errors.AsType[*witness.RefusedError](errs[i]); ok && refused.Diverged() {
			if err := n.compare(ctx, n.Witnesses[i]); err != nil {
				return nil, err
			}
		}
	}
	if len(out) < n.Quorum {
		return nil, fmt.Errorf("%d of %d witnesses cosigned %s, need %d", len(out), len(lines), at, n.Quorum)
	}
	return out, nil
}

// compare finds out whether a witness that refuses has seen another history of this log. It trusts only content
// that the log has signed.
func (n *Notary) compare(ctx context.Context, w *witness.Client) error {
	seen, err := w.Last(ctx, n.Key)
	if err != nil || seen == nil {
		return err
	}
	if seen.N > n.state.Tree.Size { // another notary may have been faster
		if err := n.reload(ctx); err != nil {
			return err
		}
		n.due(time.Now())
	}
	now := n.state.Checkpoint()
	r, err := n.store.Reader(ctx, n.state, now.Tree)
	if err == nil {
		err = continues(r, now, *seen)
	}
	if err != nil {
		return fmt.Errorf("witness %s: %w", w.Name(), err)
	}
	return nil
}

// index notes where the leaves are that a published checkpoint covers.
func (n *Notary) index(ctx context.Context, published headlog.Checkpoint) error {
	if n.indexed >= published.N || published.N > n.state.Tree.Size {
		return nil
	}
	r, err := n.store.Reader(ctx, n.state, tlog.Tree{N: published.N, Hash: published.Hash})
	if err == nil {
		err = r.Leaves(n.indexed, func(i int64, text []byte) error {
			l, err := headlog.ParseLeaf(text)
			if err != nil {
				return nil //nolint:nilerr // it is of another kind
			}
			return n.store.Record(ctx, i, l)
		})
	}
	if err != nil {
		return fmt.Errorf("store the positions of leaves: %w", err)
	}
	n.indexed = published.N
	return nil
}
