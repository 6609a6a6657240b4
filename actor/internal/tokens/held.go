// Package tokens keeps the run tokens that a node holds.
//
// The one idea: the lease of a node stands for those of its sessions. A node's record is a heartbeat, and a list
// names its tokens. While both are confirmed, the server keeps the tokens that the list names for a long time, and
// nothing is sent for a session. A node that finds another dead returns the tokens that its list names, as they
// returned before by themselves. A token that no confirmed list names has the short lease, as do all while the
// record cannot be written, while a node of an earlier release runs, and while the node drains.
package tokens

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/internal/pause"
	"github.com/turnlog/turnlog/jetstream"
)

const (
	// BeatEvery is how often the record is written.
	BeatEvery = 4 * time.Second

	beatLost  = 5 * time.Second                                         // after that a record renews nothing that is not confirmed again: before a lease is stale
	beatTries = 2                                                       // without success, before all leases become short
	listEvery = 30 * time.Second                                        // the same list
	listLost  = jetstream.NodeTTL - jetstream.LongLease - 5*time.Second // after that an unconfirmed list names nothing: it must outlive the leases
	doubtFor  = 15 * time.Second                                        // after the node was taken for dead: others record what they have taken

	renewEvery = 2 * time.Second
	renewAgain = 250 * time.Millisecond // after a failure: connections return within seconds
)

// A taken token that no list names waits for its lease if the node dies, so it is listed at once. A list names all
// tokens: the more there are, the longer the pause after it. Tokens that could not be listed yet, for example because
// the records have no leader, are in the node's answer to each probe.
const (
	listPause    = 20 * time.Millisecond
	listShare    = 100 * time.Microsecond // for each token
	maxListPause = 500 * time.Millisecond
)

// Held are the tokens of a node. It is safe for concurrent use.
type Held struct {
	nodes *jetstream.Nodes
	self  jetstream.NodeRecord // without tokens
	log   *zap.Logger
	moved chan struct{} // holds one if the tokens have changed since they were listed

	mu      sync.Mutex // guards the rest
	all     map[*Lease]bool
	leases  map[content.SessionID]*Lease // the last one of each session
	left    []Left
	earlier bool                 // nodes of an earlier release run, which read no lists
	missing bool                 // a node does not see the record
	fewer   bool                 // a token was left since the list was written
	appends [2]jetstream.Appends // in the period before, and in this one
	since   time.Time            // when this period began

	// Of the goroutine that writes the record.
	entered bool               // the name is this process's
	leave   context.CancelFunc // ends the answers to probes
	asked   time.Time          // when another process last answered to the name
	tried   time.Time          // when the last record was sent
	beaten  time.Time          // the same of the last confirmed one; with the monotonic clock
	wrote   time.Time          // the same of the last confirmed list
	doubted time.Time          // when the node was last taken for dead
	empty   bool               // the list names nothing
	failed  int                // writes in a row that were not confirmed
}

// Left is a token that a driver left without a confirmed answer, and that the server may keep for a long time.
type Left struct {
	jetstream.HeldToken
	At time.Time // when it is to be with another driver
}

// New returns the tokens of a node, which are none. The record has its name and what else does not change.
func New(nodes *jetstream.Nodes, self jetstream.NodeRecord, log *zap.Logger) *Held {
	return &Held{
		nodes: nodes, self: self, log: log, moved: make(chan struct{}, 1), earlier: true, empty: true,
		all: make(map[*Lease]bool), leases: make(map[content.SessionID]*Lease), leave: func() {},
	}
}

// Hold keeps a token that was just given, until Leave.
func (h *Held) Hold(t Token) *Lease {
	l := newLease(t)
	h.mu.Lock()
	h.all[l], h.leases[t.Session()] = true, l
	h.mu.Unlock()
	signal(h.moved)
	return l
}

// Appended counts an entry of a session that was recorded, for the record.
func (h *Held) Appended(took time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.appends[1] = h.appends[1].And(jetstream.Appends{Count: 1, Mean: took, Slowest: took})
}

// recent returns the appends of the last seconds.
func (h *Held) recent(now time.Time) jetstream.Appends {
	h.mu.Lock()
	defer h.mu.Unlock()
	if now.Sub(h.since) >= BeatEvery {
		h.appends, h.since = [2]jetstream.Appends{h.appends[1]}, now
	}
	return h.appends[0].And(h.appends[1])
}

// Leave ends a lease, whose driver has ended.
func (h *Held) Leave(l *Lease) {
	l.Stop()
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.all, l)
	h.fewer = true
	s := l.token.Session()
	if h.leases[s] == l { // else another driver of this node has the session
		delete(h.leases, s)
	}
	if at, gone := l.token.Back(); !gone && l.isLong() {
		if at.IsZero() {
			at = time.Now()
		}
		h.left = append(h.left, Left{l.held(), at})
	}
}

// Sessions lists the sessions whose tokens the node holds.
func (h *Held) Sessions() []content.SessionID {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Collect(maps.Keys(h.leases))
}

// Len returns how many sessions these are.
func (h *Held) Len() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.leases)
}

// Has reports whether the session is one of them.
func (h *Held) Has(s content.SessionID) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.leases[s] != nil
}

// Left returns the tokens that were left since the last call.
func (h *Held) Left() (left []Left) {
	h.mu.Lock()
	defer h.mu.Unlock()
	left, h.left = h.left, nil
	return left
}

// Beside reports whether nodes of an earlier release run.
func (h *Held) Beside(earlier bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.earlier != earlier {
		h.earlier = earlier
		signal(h.moved)
	}
}

// IsOwn reports whether a record is that of this process.
func (h *Held) IsOwn(r jetstream.NodeRecord) bool { return r.Process == h.self.Process }

// Unrecorded has the record written again: a node does not see it.
func (h *Held) Unrecorded() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.missing = true
	signal(h.moved)
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// Run keeps the record, answers probes and renews the leases until ctx ends. Then no record names the tokens, and
// they have the short lease.
func (h *Held) Run(ctx context.Context) error {
	for changed := true; ; {
		ok := h.write(ctx, changed)
		wait := renewEvery
		if !h.renew(h.footing()) || !ok {
			wait = renewAgain
		}
		if changed {
			pause.For(ctx, min(listPause+time.Duration(h.Len())*listShare, maxListPause))
		}
		select {
		case <-h.moved:
			changed = true
		case <-time.After(wait):
			changed = changed && !ok
		case <-ctx.Done():
			h.end(ctx)
			return context.Cause(ctx)
		}
	}
}

// end makes all leases short, then deletes the record.
func (h *Held) end(ctx context.Context) {
	h.renew(footing{shorten: true})
	h.leave()
	if !h.entered {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	if err := h.nodes.Forget(ctx, h.self.Node); err != nil {
		h.log.Debug("node record stays until it expires", zap.Error(err))
	}
}

// Keep renews the leases until ctx ends, without a record.
func (h *Held) Keep(ctx context.Context) {
	for wait := renewEvery; pause.For(ctx, wait); {
		if wait = renewEvery; !h.renew(footing{shorten: true}) {
			wait = renewAgain
		}
	}
}

var errNamesake = errors.New("another process answers to this node's name: give each its own")

// enter takes the node's name. The record may be that of an earlier process, whose tokens are returned. While that
// one is alive, this one has no record: by the name others ask whether it is alive and what it holds.
func (h *Held) enter(ctx context.Context) error {
	if time.Since(h.asked) < BeatEvery {
		return errNamesake
	}
	r, stands, err := h.nodes.Standing(ctx, h.self.Node)
	if err != nil {
		return err
	}
	if stands && r.Process != h.self.Process {
		if _, alive := h.nodes.Ask(ctx, h.self.Node); alive {
			h.asked = time.Now()
			return errNamesake
		}
		h.mu.Lock()
		for _, t := range r.Held {
			h.left = append(h.left, Left{HeldToken: t})
		}
		h.mu.Unlock()
	}
	answers, leave := context.WithCancel(ctx)
	if err := h.nodes.Answer(answers, h.self.Node, h.unlisted); err != nil {
		leave()
		return err
	}
	h.entered, h.leave, h.tried = true, leave, time.Time{}
	return nil
}

// write writes the record and the list if they changed or it is time, and reports whether the last ones are
// confirmed.
func (h *Held) write(ctx context.Context, changed bool) bool {
	err := h.tryWrite(ctx, changed)
	switch {
	case err == nil:
		h.failed = 0
		return true
	case h.failed == 0 && ctx.Err() == nil:
		h.log.Warn("held tokens not recorded", zap.Error(err))
	}
	h.failed++
	return false
}

func (h *Held) tryWrite(ctx context.Context, changed bool) error {
	if !h.entered {
		if err := h.enter(ctx); err != nil {
			return err
		}
	}
	earlier, missing, fewer := h.state()
	due := time.Since(h.tried) >= BeatEvery || h.failed > 0 || missing
	if earlier {
		if !changed && !due && h.empty {
			return nil
		}
		held := h.All()
		if err := h.beat(ctx, held); err != nil {
			return err
		}
		h.setListed(held)
		return h.unlist(ctx)
	}
	var held []jetstream.HeldToken // if there is no list, the record names them
	var err error
	if since := time.Since(h.wrote); changed || h.empty || h.failed > 0 || since >= listEvery || fewer && since >= BeatEvery {
		if err = h.list(ctx); err != nil {
			held = h.All()
		}
	}
	if due || err != nil {
		err = errors.Join(err, h.beat(ctx, held))
	}
	return err
}

// list writes the list.
func (h *Held) list(ctx context.Context) error {
	r, at := h.self, time.Now()
	h.mu.Lock()
	h.fewer = false
	h.mu.Unlock()
	r.Held = h.All()
	named, err := h.nodes.Name(ctx, r)
	if err == nil {
		h.wrote, h.empty = at, false
		h.setListed(named)
	}
	return err
}

// unlist empties the list, because nodes of an earlier release run and it is not kept.
func (h *Held) unlist(ctx context.Context) error {
	if h.empty {
		return nil
	}
	_, err := h.nodes.Name(ctx, h.self)
	h.empty = err == nil
	return err
}

// beat writes the record. If another process has changed it, the node was taken for dead.
func (h *Held) beat(ctx context.Context, held []jetstream.HeldToken) error {
	r, at := h.self, time.Now()
	r.Held, h.tried = held, at
	r.Appends = h.recent(at)
	if time.Since(h.doubted) < doubtFor && !h.doubted.IsZero() {
		h.giveUp(ctx)
	}
	err := h.nodes.Record(ctx, r)
	if errors.Is(err, jetstream.ErrReplaced) {
		if err = h.replaced(ctx); err == nil {
			err = h.nodes.Record(ctx, r)
		}
	}
	if err == nil {
		h.beaten = at
	}
	return err
}

var errReplaced = errors.New("another process has this node's name, since this one seemed to be dead")

// replaced finds out who changed the record: this process, whose write was not acknowledged; a node that took it for
// dead; or another process that took its name, and returned its tokens.
func (h *Held) replaced(ctx context.Context) error {
	now, stands, err := h.nodes.Standing(ctx, h.self.Node)
	switch {
	case err != nil:
		return err
	case stands && now.Process == h.self.Process:
		return nil
	case stands:
		h.loseAll()
		return errReplaced
	}
	h.log.Warn("node was taken for dead")
	h.doubted = time.Now()
	h.giveUp(ctx)
	if earlier, _, _ := h.state(); earlier {
		return nil
	}
	return h.list(ctx) // it may be gone, too
}

// loseAll leaves the name to another process, which returned the tokens of this one.
func (h *Held) loseAll() {
	h.mu.Lock()
	all := slices.Collect(maps.Keys(h.all))
	h.mu.Unlock()
	for _, l := range all {
		l.replaced()
	}
	h.leave()
	h.entered = false
}

// giveUp ends the leases of sessions that other nodes have taken later.
func (h *Held) giveUp(ctx context.Context) {
	records, err := h.nodes.List(ctx)
	if err != nil {
		h.log.Warn("nodes not listed", zap.Error(err))
		return
	}
	for _, r := range records {
		if r.Node == h.self.Node {
			continue
		}
		for _, t := range r.Held {
			h.mu.Lock()
			l := h.leases[t.Session]
			h.mu.Unlock()
			if l != nil && t.Delivery() > l.held().Delivery() {
				l.replaced()
			}
		}
	}
}

// footing returns what renewals rest on now.
func (h *Held) footing() (f footing) {
	h.mu.Lock()
	earlier := h.earlier
	h.mu.Unlock()
	if !earlier && h.entered && time.Since(h.beaten) < beatLost && time.Since(h.wrote) < listLost {
		at := h.beaten
		f.confirmed = &at
	}
	// The first failure may be that of a process that was suspended, and others may have its tokens.
	f.shorten = earlier || h.failed >= beatTries
	return f
}

// renew renews the leases, and reports whether none failed.
func (h *Held) renew(f footing) bool {
	type entry struct {
		*Lease
		listed bool
	}
	h.mu.Lock()
	all := make([]entry, 0, len(h.all))
	for l := range h.all {
		all = append(all, entry{l, l.listed})
	}
	h.mu.Unlock()
	var failed error
	for _, e := range all {
		if err := e.renew(f, e.listed); err != nil {
			failed = err
		}
	}
	if failed != nil {
		h.log.Warn("run tokens could not be renewed", zap.Error(failed))
	}
	return failed == nil
}

// All lists the tokens, first those that are listed already: the server may keep them for a long time.
func (h *Held) All() []jetstream.HeldToken {
	h.mu.Lock()
	defer h.mu.Unlock()
	first, rest := h.split()
	return append(first, rest...)
}

// unlisted lists the tokens that no confirmed list names.
func (h *Held) unlisted() []jetstream.HeldToken {
	h.mu.Lock()
	defer h.mu.Unlock()
	_, rest := h.split()
	return rest
}

// split lists the tokens that a confirmed list names, and the others. The lock is held.
func (h *Held) split() (listed, rest []jetstream.HeldToken) {
	for _, l := range h.leases {
		if l.listed {
			listed = append(listed, l.held())
		} else {
			rest = append(rest, l.held())
		}
	}
	return listed, rest
}

// setListed notes which tokens the list names.
func (h *Held) setListed(named []jetstream.HeldToken) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for l := range h.all {
		l.listed = false
	}
	for _, t := range named {
		if l := h.leases[t.Session]; l != nil && l.token.Reply() == t.Reply {
			l.listed = true
		}
	}
}

// state reports whether nodes of an earlier release run, whether the record was missed since the last call, and
// whether the list names tokens that were left.
func (h *Held) state() (earlier, missing, fewer bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	missing, h.missing = h.missing, false
	return h.earlier, missing, h.fewer
}
