package actor

import (
	"context"
	"math/rand/v2"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/internal/logfield"
	"github.com/turnlog/turnlog/jetstream"
)

// Nodes look after one another: each keeps a record of the tokens that it holds,
// and whoever finds one dead hands them on before their leases lapse. Nothing
// depends on it but how long that takes.
const (
	recordAtOnce = 500 * time.Millisecond // behind a token that was taken
	recordEvery  = 5 * time.Second
	guardEvery   = time.Second // and as much again, at random
)

// record tells the other nodes which tokens this one holds, and answers their
// probes.
func (n *Node) record(ctx context.Context) error {
	nodes := n.cell.Nodes()
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return nodes.Answer(ctx, n.cfg.Name) })
	group.Go(func() error {
		due := time.Now()
		for pause(ctx, recordAtOnce) {
			held, moved := n.holds()
			if now := time.Now(); !moved && now.Before(due) {
				continue
			}
			due = time.Now().Add(recordEvery)
			if err := nodes.Record(ctx, n.cfg.Name, held); err != nil && ctx.Err() == nil {
				n.log.Warn("held tokens could not be recorded", zap.Error(err))
			}
		}
		return context.Cause(ctx)
	})
	err := group.Wait()
	forget, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	if ferr := nodes.Forget(forget, n.cfg.Name); ferr != nil {
		n.log.Debug("node record stays until it expires", zap.Error(ferr))
	}
	return err //nolint:wrapcheck // the cause of ctx
}

// holds lists the tokens, and whether there are some that were not listed before.
func (n *Node) holds() (held []jetstream.HeldToken, moved bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	moved, n.moved = n.moved, false
	for s, reply := range n.held {
		held = append(held, jetstream.HeldToken{Session: s, Reply: reply})
	}
	return held, moved
}

// guard looks for nodes that died.
func (n *Node) guard(ctx context.Context) error {
	var handed []jetstream.HeldToken                // in the round before
	for pause(ctx, guardEvery+rand.N(guardEvery)) { //nolint:gosec // jitter
		records, err := n.cell.Nodes().List(ctx)
		if err != nil {
			if ctx.Err() == nil {
				n.log.Warn("nodes could not be listed", zap.Error(err))
			}
			continue
		}
		living, dead := n.census(ctx, records)
		// The server may have given them to a node that hangs, whose requests still stand.
		n.handOn(living, handed)
		handed = nil
		for _, r := range dead {
			n.log.Warn("node is dead", zap.String("dead", r.Node), zap.Int("sessions", len(r.Held)))
			n.handOn(living, r.Held)
			handed = append(handed, r.Held...)
			if err := n.cell.Nodes().Forget(ctx, r.Node); err != nil {
				n.log.Warn("dead node could not be forgotten", zap.Error(err))
			}
		}
	}
	return context.Cause(ctx)
}

// census tells the sessions of living nodes from the nodes that are dead.
func (n *Node) census(ctx context.Context, records []jetstream.NodeRecord) (living map[content.SessionID]bool, dead []jetstream.NodeRecord) {
	living = make(map[content.SessionID]bool)
	for _, r := range records {
		if r.Node != n.cfg.Name && !n.cell.Nodes().Probe(ctx, r.Node) {
			dead = append(dead, r)
			continue
		}
		for _, h := range r.Held {
			living[h.Session] = true
		}
	}
	return living, dead
}

// handOn hands tokens back, but for those of sessions that a living node has by now.
func (n *Node) handOn(living map[content.SessionID]bool, tokens []jetstream.HeldToken) {
	for _, h := range tokens {
		if living[h.Session] || n.drives(h.Session) {
			continue
		}
		if err := n.runs.NakFor(h.Reply); err != nil {
			n.log.Warn("session could not be handed on", logfield.Session(h.Session), zap.Error(err))
		}
	}
}

func (n *Node) drives(s content.SessionID) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	_, held := n.held[s]
	return held
}
