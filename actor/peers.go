package actor

import (
	"context"
	"math/rand/v2"
	"sync"
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
//
// A token that is in no record waits for its lease when its node dies, so one that was
// taken is recorded at once. A record names all tokens: the more there are, the
// longer the pause behind it.
const (
	recordEvery    = 5 * time.Second
	recordPause    = 20 * time.Millisecond
	recordShare    = 100 * time.Microsecond // for each token
	maxRecordPause = 500 * time.Millisecond
)

// How often a node looks at the others, and as much again at random. The more there are,
// the more look at each.
const (
	guardPause = 250 * time.Millisecond // and for each node
	guardShare = 25 * time.Millisecond
	maxGuard   = time.Second
)

// record tells the other nodes which tokens this one holds, and answers their
// probes.
func (n *Node) record(ctx context.Context) error {
	nodes := n.cell.Nodes()
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return nodes.Answer(ctx, n.cfg.Name) })
	group.Go(func() error {
		for failed := false; ; {
			held := n.holds()
			err := nodes.Record(ctx, n.cfg.Name, held)
			if err != nil && !failed && ctx.Err() == nil {
				n.log.Warn("held tokens could not be recorded", zap.Error(err))
			}
			if failed = err != nil; failed {
				n.recordSoon()
			}
			pause(ctx, min(recordPause+time.Duration(len(held))*recordShare, maxRecordPause))
			select {
			case <-n.moved:
			case <-time.After(recordEvery):
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}
	})
	err := group.Wait()
	forget, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	if ferr := nodes.Forget(forget, n.cfg.Name); ferr != nil {
		n.log.Debug("node record stays until it expires", zap.Error(ferr))
	}
	return err //nolint:wrapcheck // the cause of ctx
}

// recordSoon has the tokens recorded again, beside other work.
func (n *Node) recordSoon() {
	select {
	case n.moved <- struct{}{}:
	default: // they will be
	}
}

// holds lists the tokens.
func (n *Node) holds() (held []jetstream.HeldToken) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for s, reply := range n.held {
		held = append(held, jetstream.HeldToken{Session: s, Reply: reply})
	}
	return held
}

// guard looks for nodes that died.
func (n *Node) guard(ctx context.Context) error {
	var handed []jetstream.HeldToken // in the round before
	wait := guardPause
	for pause(ctx, wait+rand.N(wait)) { //nolint:gosec // jitter
		records, err := n.cell.Nodes().List(ctx)
		if err != nil {
			if ctx.Err() == nil {
				n.log.Warn("nodes could not be listed", zap.Error(err))
			}
			continue
		}
		wait = min(guardPause+time.Duration(len(records))*guardShare, maxGuard)
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
	lives, known := n.probe(ctx, records), false
	for i, r := range records {
		known = known || r.Node == n.cfg.Name
		if !lives[i] {
			dead = append(dead, r)
			continue
		}
		for _, h := range r.Held {
			living[h.Session] = true
		}
	}
	if !known { // somebody took this node for dead
		n.recordSoon()
	}
	return living, dead
}

// probe reports which nodes live. One that hangs takes a while to be told, so all are
// asked at once.
func (n *Node) probe(ctx context.Context, records []jetstream.NodeRecord) []bool {
	lives := make([]bool, len(records))
	var asked sync.WaitGroup
	for i, r := range records {
		asked.Go(func() { lives[i] = r.Node == n.cfg.Name || n.cell.Nodes().Probe(ctx, r.Node) })
	}
	asked.Wait()
	return lives
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
