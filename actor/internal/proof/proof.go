// Package proof makes a node refuse entries, commands and reports that are wrongly signed, or unsigned
// although a signature is required.
//
// The one idea: it stands between the cell and everything that folds or decides, so nothing forged has an
// effect. It needs the root of the cell's keys, and follows the directory that the root signs. Without a root
// it checks nothing.
package proof

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"time"

	"go.uber.org/zap"

	"github.com/turnlog/turnlog/audit/keys"
	"github.com/turnlog/turnlog/audit/signed"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events/journal"
	"github.com/turnlog/turnlog/jetstream"
	"github.com/turnlog/turnlog/jetstream/signers"
)

// Guard checks what a node reads. A nil Guard checks nothing. It is safe for concurrent use.
type Guard struct {
	cell      *jetstream.Cell
	directory *signers.Directory
	own       *keys.Signer
	log       *zap.Logger
	forged    func(what string)
}

// ErrNotListed is returned by Open if the directory does not list the node's own key as a driver's.
var ErrNotListed = errors.New("the node's key cannot sign entries")

// Open returns the guard of a node, which trusts the keys that root signed. own is the node's key, or nil.
// forged counts what is refused, by kind.
func Open(ctx context.Context, cell *jetstream.Cell, root string, own *keys.Signer, log *zap.Logger, forged func(what string)) (*Guard, error) {
	if root == "" {
		return nil, nil //nolint:nilnil // it checks nothing
	}
	d, err := signers.Open(ctx, cell, root)
	if err != nil {
		return nil, err
	}
	g := &Guard{cell: cell, directory: d, own: own, log: log, forged: forged}
	return g, g.checkOwn()
}

// checkOwn returns an error if others would refuse what this node signs, now or before the directory is read
// again.
func (g *Guard) checkOwn() error {
	if g.own == nil {
		return nil
	}
	text := keys.Text("turnlog-self/v1")
	if _, err := g.directory.Newest().Check(g.own.Sign(text), text, content.TimeOf(time.Now().Add(2*signers.Refreshed)), keys.Driver); err != nil {
		return fmt.Errorf("%w: %w (turnlog keys add driver:NAME --public %s)", ErrNotListed, err, g.own.Public())
	}
	return nil
}

// Follow reads newer directories until ctx ends. It returns ErrNotListed when the node's own key is revoked.
func (g *Guard) Follow(ctx context.Context) error {
	if g == nil {
		return nil
	}
	version := g.Version()
	return g.directory.Follow(ctx, func(err error) error {
		if err != nil {
			g.log.Warn("directory of keys not read", zap.Error(err))
		}
		if now := g.Version(); now != version {
			version = now
			g.log.Info("directory of keys read", zap.Uint64("version", now))
		}
		return g.checkOwn()
	})
}

// Version returns the version of the directory that the guard uses, or 0.
func (g *Guard) Version() uint64 {
	if g == nil {
		return 0
	}
	return g.directory.Newest().Version
}

// Journal returns the cell's journal with checks. A read ends with journal.ErrDamaged at an entry that is not
// signed as it must be.
func (g *Guard) Journal(j *jetstream.Journal) journal.Journal {
	if g == nil {
		return j
	}
	return &guarded{Journal: j, guard: g}
}

// Checked returns the last entry, among those that a guarded journal has read and checked, with a signature
// by the node's key. Only the goroutine that reads the journal may call it. It returns 0 if there is none.
func Checked(j journal.Journal) uint64 {
	if g, ok := j.(*guarded); ok {
		return g.own
	}
	return 0
}

type guarded struct {
	*jetstream.Journal

	guard *Guard
	own   uint64 // see Checked; for the session that was read last
}

// Read yields the entries after a sequence number. The signatures of earlier entries are checked, too.
func (j *guarded) Read(ctx context.Context, s content.SessionID, after uint64) iter.Seq2[journal.Record, error] {
	return func(yield func(journal.Record, error) bool) {
		for r, err := range j.ReadFrom(ctx, s, journal.Head{}) {
			if (err != nil || r.Seq > after) && !yield(r, err) {
				return
			}
		}
	}
}

// ReadFrom yields the entries after head. An error after the last entry may be about any of them.
func (j *guarded) ReadFrom(ctx context.Context, s content.SessionID, head journal.Head) iter.Seq2[journal.Record, error] {
	return j.read(ctx, s, head, math.MaxUint64)
}

// ReadTo yields the entries through a sequence number, and checks their last signatures.
func (j *guarded) ReadTo(ctx context.Context, s content.SessionID, seq uint64) iter.Seq2[journal.Record, error] {
	return j.read(ctx, s, journal.Head{}, seq)
}

func (j *guarded) read(ctx context.Context, s content.SessionID, head journal.Head, to uint64) iter.Seq2[journal.Record, error] {
	return func(yield func(journal.Record, error) bool) {
		if head.Seq == 0 {
			j.own = 0
		}
		check := signed.Entries{Keys: j.guard.directory.Newest()}
		all := j.checked(until(to, j.Journal.ReadFrom(ctx, s, head)), s, &check)
		for r, err := range all {
			if !yield(r, err) || err != nil {
				return
			}
		}
		faults := check.End()
		if faults = append(faults, check.Arrived()...); to < math.MaxUint64 && len(faults) > 0 && errors.Is(faults[0], signed.ErrNoClaim) {
			for _, err := range j.read(ctx, s, journal.Head{}, math.MaxUint64) { // the claim of the move may come later
				if err != nil {
					yield(journal.Record{}, err)
					return
				}
			}
			return
		}
		if err := j.refuse(s, faults); err != nil {
			yield(journal.Record{}, err)
			return
		}
		if err := j.guard.checkVersion(ctx, check.Version); err != nil {
			yield(journal.Record{}, fmt.Errorf("read %s: %w", s, err))
			return
		}
		j.own = max(j.own, check.Checked(j.guard.own.ID()))
	}
}

// until yields the entries through a sequence number.
func until(seq uint64, all iter.Seq2[journal.Record, error]) iter.Seq2[journal.Record, error] {
	return func(yield func(journal.Record, error) bool) {
		for r, err := range all {
			if err == nil && r.Seq > seq || !yield(r, err) {
				return
			}
		}
	}
}

// Follow yields the entries after a sequence number, and new ones as they are written. It checks every
// signature, since there is no last one.
func (j *guarded) Follow(ctx context.Context, s content.SessionID, after uint64) iter.Seq2[journal.Record, error] {
	return j.checked(j.Journal.Follow(ctx, s, after), s, &signed.Entries{Keys: j.guard.directory.Newest(), Every: true})
}

// checked yields entries until one is not signed as it must be.
func (j *guarded) checked(all iter.Seq2[journal.Record, error], s content.SessionID, check *signed.Entries) iter.Seq2[journal.Record, error] {
	return func(yield func(journal.Record, error) bool) {
		for r, err := range all {
			if err == nil {
				err = j.refuse(s, check.Add(r))
			}
			if !yield(r, err) || err != nil {
				return
			}
		}
	}
}

// refuse counts the faults and returns the first one as an error.
func (j *guarded) refuse(s content.SessionID, faults []*signed.FaultError) error {
	if len(faults) == 0 {
		return nil
	}
	j.guard.forged("entry")
	return fmt.Errorf("%w: %s, %w", journal.ErrDamaged, s, faults[0])
}

// checkVersion returns an error if a driver used a later version of the directory than the cell has.
func (g *Guard) checkVersion(ctx context.Context, version uint64) error {
	if version > g.Version() {
		if err := g.directory.Refresh(ctx); err != nil {
			return err
		}
	}
	if now := g.Version(); version > now {
		return fmt.Errorf("%w: its last driver used version %d, and the cell has version %d: publish the newest one", keys.ErrRolledBack, version, now)
	}
	return nil
}
