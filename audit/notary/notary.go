// Package notary writes the log of heads of a cell.
//
// A [Notary] follows the journals of all sessions, without a consumer. It appends a leaf for a session when a turn
// ends, when the session parks or is deleted, and otherwise at most a minute after a new entry. Then it stores the
// full tiles, gets cosignatures of witnesses for the checkpoint, publishes the checkpoint, and records where the
// newest leaf of each session is.
//
// Only the append is guarded, and it is one message. If a notary stops at any point, the next one finds in the log
// what remains to be done and where to continue reading the journals. Several notaries may run: one append wins, and
// the others read what it logged and continue from there. A notary never continues a log that does not continue what
// it, or the published checkpoint, has shown before. So there is only one tree.
//
// A [Notary] is owned by the goroutine that calls Run. Heads of the last minute may be logged twice after a
// restart; nothing is left out.
package notary

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"go.uber.org/zap"
	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"
	"golang.org/x/sync/errgroup"

	"github.com/turnlog/turnlog/audit/headlog"
	"github.com/turnlog/turnlog/audit/witness"
	"github.com/turnlog/turnlog/jetstream"
	"github.com/turnlog/turnlog/jetstream/heads"
)

const (
	// Within is how long an entry waits at most until it is logged, if its session does not come to rest.
	Within = time.Minute

	gather   = time.Second      // how long due heads wait for more heads, so that they share a checkpoint
	retry    = 5 * time.Second  // after an error, and for what another notary may have left undone
	recent   = 1 << 12          // leaves that are read back, to log none of them twice
	patience = 15 * time.Second // to read the log when Run begins
)

// ErrRewritten is returned by Run if the log does not extend a tree that it published before: its streams were
// changed or restored from an older copy. Do not sign it. Keep it as it is for an audit, and begin another log,
// with another key.
var ErrRewritten = errors.New("the log of heads was rolled back or rewritten")

// ErrOtherLog is returned by Run if the cell has the log of another name or key. Use that key, or another cell.
var ErrOtherLog = errors.New("the cell has a different log")

// Config is what a notary needs besides its cell.
type Config struct {
	Signer    note.Signer   // of checkpoints; its name is the origin of the log
	Key       note.Verifier // of Signer
	Witnesses []*witness.Client
	Quorum    int // how many witnesses must cosign a checkpoint before it is published

	// KeysRoot is the public key of the root of the directory of keys. Its versions are logged before the heads
	// that depend on them. Empty: they are not logged.
	KeysRoot string

	Report func(Status) // called after each attempt to log and publish; nil: no report
}

// Status is how far a notary has come.
type Status struct {
	Size      int64 // leaves of the log
	Published int64 // leaves that the published checkpoint covers
	Waiting   int   // heads that are not logged yet
	Err       error // why the attempt failed; nil: it did not
}

// Notary writes the log of a cell.
type Notary struct {
	Config

	cell  *jetstream.Cell
	store *heads.Store
	log   *zap.Logger

	state     headlog.State
	published int64 // the size of the published checkpoint
	listings  listings
	number    uint64 // of the state in the store
	indexed   int64
	pending   pending

	wake  time.Time // when to append or to settle next; zero: nothing is due
	pause time.Time // after an error, n wakes no earlier
}

// New returns a notary of a cell.
func New(cell *jetstream.Cell, cfg Config, log *zap.Logger) (*Notary, error) {
	if cfg.Quorum < 0 || cfg.Quorum > len(cfg.Witnesses) {
		return nil, fmt.Errorf("a quorum of %d is impossible with %d witnesses", cfg.Quorum, len(cfg.Witnesses))
	}
	return &Notary{Config: cfg, cell: cell, store: heads.Of(cell), log: log, pending: newPending(), listings: newListings()}, nil
}

// Run writes the log until ctx ends, or until a permanent error.
func (n *Notary) Run(ctx context.Context) error {
	from, err := n.begin(ctx)
	if err != nil {
		return err
	}
	moves := make(chan move)
	group, running := errgroup.WithContext(ctx)
	group.Go(func() error { return n.follow(running, from, moves) })
	signed := make(chan struct{}, 1) // one notice is as good as several
	if n.KeysRoot != "" {
		group.Go(func() error { return n.followKeys(running, signed) })
	}
	group.Go(func() error { return n.write(running, moves, signed) })
	if err := group.Wait(); ctx.Err() == nil {
		return err //nolint:wrapcheck // of follow or write
	}
	return nil
}

// begin reads the log, and returns from where to follow the journals.
func (n *Notary) begin(ctx context.Context) (from jetstream.Cursor, err error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	n.state = headlog.NewState(n.Signer.Name())
	if err := n.reload(ctx); err != nil {
		return from, err
	}
	if n.state.Tree.Size > 0 {
		n.wake = time.Now()
	}
	if len(n.state.Position) > 0 {
		if err := json.Unmarshal(n.state.Position, &from); err != nil {
			return from, fmt.Errorf("%w: position of the notary: %w", heads.ErrDamaged, err)
		}
	}
	n.pending.last = from
	n.log.Info("log of heads opened", zap.String("origin", n.state.Origin), zap.Int64("size", n.state.Tree.Size),
		zap.Uint64("position", from.Position), zap.Int("witnesses", len(n.Witnesses)))
	return from, nil
}

// permanent reports whether retrying cannot help.
func permanent(err error) bool {
	for _, e := range []error{ErrRewritten, ErrFalseLeaf, ErrOtherLog, ErrNeedsRoot, heads.ErrDamaged, jetstream.ErrNotProvisioned, jetstream.ErrNoJetStream} {
		if errors.Is(err, e) {
			return true
		}
	}
	_, denied := jetstream.Denied(err)
	return denied
}

// write appends and settles what is due, as the only user of n.
func (n *Notary) write(ctx context.Context, moves <-chan move, signed <-chan struct{}) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		timer.Stop()
		if !n.wake.IsZero() {
			timer.Reset(max(time.Until(n.wake), 0))
		}
		select {
		case <-ctx.Done():
			return nil
		case m := <-moves:
			n.due(n.pending.add(m, time.Now()))
			continue
		case <-signed:
			if err := n.readKeys(ctx); err != nil || len(n.listings.unlogged) > 0 {
				n.due(time.Now())
			}
			continue
		case <-timer.C:
		}
		n.wake = time.Time{}
		err := n.append(ctx)
		if err == nil {
			err = n.settle(ctx)
		}
		if n.Report != nil && ctx.Err() == nil {
			n.Report(Status{Size: n.state.Checkpoint().N, Published: n.published, Waiting: len(n.pending.heads), Err: err})
		}
		switch {
		case ctx.Err() != nil:
			return nil
		case permanent(err):
			return err
		case err != nil:
			n.log.Warn("log of heads incomplete", zap.Error(err), zap.Int("waiting", len(n.pending.heads)))
			n.pause = time.Now().Add(retry)
			n.due(n.pause)
		}
		n.due(n.pending.next())
	}
}

// due makes sure that n wakes at a time.
func (n *Notary) due(at time.Time) {
	if at.IsZero() {
		return
	}
	if at.Before(n.pause) {
		at = n.pause
	}
	if n.wake.IsZero() || at.Before(n.wake) {
		n.wake = at
	}
}

// append logs the heads that are due. If another notary was faster, it continues from that one's state.
func (n *Notary) append(ctx context.Context) error {
	for {
		due := n.pending.due(time.Now())
		// This follows the choice of heads, so it reads every version that a driver used when it wrote them.
		if err := n.readKeys(ctx); err != nil {
			return err
		}
		more, err := n.commit(ctx, due)
		if err != nil || !more {
			return err
		}
	}
}

// commit logs heads, and reports whether it must be tried again because another notary has written.
func (n *Notary) commit(ctx context.Context, due []head) (again bool, err error) {
	for {
		if err := n.storeTiles(ctx); err != nil || len(due)+len(n.listings.unlogged) == 0 {
			return false, err
		}
		listed := n.listings.next(n.state.Tree.Room())
		batch := due[:min(len(due), n.state.Tree.Room()-len(listed))]
		next, err := n.after(listed, batch)
		if err != nil {
			return false, err
		}
		number, err := n.store.Commit(ctx, next, n.number)
		if err != nil {
			n.due(time.Now().Add(retry)) // the other notary may stop before it has settled that
			conflict := errors.Is(err, heads.ErrConflict)
			// After an unknown outcome, the log says whether the append happened.
			if loadErr := n.reload(ctx); loadErr != nil || !conflict {
				return false, errors.Join(err, loadErr)
			}
			return true, nil
		}
		n.state, n.number = next, number
		n.pending.logged(batch)
		n.listings.logged(listed...)
		due = due[len(batch):]
	}
}

// after returns the state after versions of the directory of keys, and a batch of heads.
func (n *Notary) after(listed []headlog.Listing, batch []head) (headlog.State, error) {
	texts, at := make([][]byte, 0, len(listed)+len(batch)), slices.Clone(n.state.Listed)
	for i, l := range listed {
		texts = append(texts, l.Text())
		at = append(at, headlog.ListedAt{Version: l.Version, Index: n.state.Tree.Size + int64(i)})
	}
	for _, h := range batch {
		texts = append(texts, h.leaf(n.cell.Namespace()).Text())
	}
	next, err := n.state.Append(texts)
	if err != nil {
		return next, err
	}
	next.Indexed, next.Listed = n.indexed, at
	if len(batch) == 0 {
		return next, nil
	}
	if next.Position, err = json.Marshal(batch[len(batch)-1].resume); err != nil {
		return next, fmt.Errorf("position of the notary: %w", err)
	}
	return next, nil
}

// reload reads the state of the log, which must continue the one that n knows and the published checkpoint.
func (n *Notary) reload(ctx context.Context) error {
	// Read the checkpoint first: the state that is read later continues it, even if another notary writes meanwhile.
	signed, published, err := n.store.Checkpoint(ctx)
	if err != nil {
		return err
	}
	state, number, err := n.store.State(ctx)
	if err != nil {
		return err
	}
	if number == 0 && (n.number > 0 || published > 0) {
		return fmt.Errorf("%w: the notary's state is missing", ErrRewritten)
	}
	if number == 0 {
		return nil
	}
	if state.Origin != n.Signer.Name() {
		return fmt.Errorf("%w: its origin is %s, not %s", ErrOtherLog, state.Origin, n.Signer.Name())
	}
	r, err := n.store.Reader(ctx, state, state.Checkpoint().Tree)
	if err == nil {
		err = continues(r, state.Checkpoint(), n.state.Checkpoint())
	}
	signedTo := n.state.Tree.Size // of the leaves up to there, n or another notary has said that they are true
	if err == nil && published > 0 {
		var at headlog.Checkpoint
		if at, err = headlog.Open(signed, n.Key); err != nil {
			return fmt.Errorf("%w: the published checkpoint: %w", ErrOtherLog, err)
		}
		err = continues(r, state.Checkpoint(), at)
		signedTo = max(signedTo, at.N)
	}
	if err != nil {
		return err
	}
	// Heads that other notaries logged correctly need no second leaf.
	err = r.Leaves(min(signedTo, max(n.state.Tree.Size, state.Tree.Size-recent)), func(i int64, text []byte) error {
		l, err := headlog.ParseLeaf(text)
		switch {
		case err != nil && i >= signedTo:
			return n.confirmListing(ctx, text)
		case err != nil:
			return nil //nolint:nilerr // it is of another kind
		case i >= signedTo:
			if err := n.confirm(ctx, l); err != nil {
				return err
			}
		}
		n.pending.known(l)
		return nil
	})
	if err != nil {
		return fmt.Errorf("read the log of heads: %w", err)
	}
	if err := n.relist(r, state); err != nil {
		return err
	}
	n.state, n.number, n.indexed = state, number, max(n.indexed, state.Indexed)
	return nil
}

// continues checks that a tree continues an earlier one.
func continues(r *headlog.Reader, now, before headlog.Checkpoint) error {
	if before.N > now.N {
		return fmt.Errorf("%w: it was %s before, and now it is %s", ErrRewritten, before, now)
	}
	proof, err := r.ProveConsistency(before.N)
	if err == nil && before.N > 0 && tlog.CheckTree(proof, now.N, now.Hash, before.N, before.Hash) != nil {
		err = fmt.Errorf("%w: it was %s before, and %s does not extend that", ErrRewritten, before, now)
	}
	return err
}
