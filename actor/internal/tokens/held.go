// Package tokens keeps the run tokens that a node holds.
//
// The one idea: one lease of the node replaces the leases of its sessions. A node writes a record as its
// heartbeat, and a list that names its tokens. While both are confirmed, the server keeps the listed tokens
// for a long time, and the node sends nothing for single sessions. If another node finds this one dead, it
// returns the listed tokens, because their long leases would expire late. A token that no confirmed list
// names has the short lease. So do all tokens while the record cannot be written, while a node of an earlier
// release runs, and while the node drains.
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

	beatLost  = 5 * time.Second                                         // after that, a record renews nothing until it is confirmed again: before a lease is stale
	beatTries = 2                                                       // failed writes before all leases become short
	listEvery = 30 * time.Second                                        // how often the list is written
	listLost  = jetstream.NodeTTL - jetstream.LongLease - 5*time.Second // after that, an unconfirmed list names nothing: it must outlive the leases
	doubtFor  = 15 * time.Second                                        // after other nodes declared this node dead: by then they have recorded what they took

	renewEvery = 2 * time.Second
	renewAgain = 250 * time.Millisecond // pause after a failure: connections return within seconds
)

// If the node dies, a token that no list names has to wait for its lease, so new tokens are listed at once. A
// list names all tokens; the more there are, the longer the pause after it. A token that could not be listed
// yet, for example because the records have no leader, is in the node's answer to each probe.
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
	moved chan struct{} // has a value if the tokens changed since they were listed

	mu      sync.Mutex // guards the rest
	all     map[*Lease]bool
	leases  map[content.SessionID]*Lease // the last lease of each session
	left    []Left
	earlier bool                 // nodes of an earlier release run, which read no lists
	missing bool                 // a node reports that it does not see the record
	fewer   bool                 // a token was left since the list was written
	appends [2]jetstream.Appends // in the last period, and in this one
	since   time.Time            // when this period began

	// These belong to the goroutine that writes the record.
	entered bool               // this process has the node's name
	leave   context.CancelFunc // stops answering probes
	asked   time.Time          // when another process last answered for this name
	tried   time.Time          // when the record was last sent
	beaten  time.Time          // when the last confirmed record was sent; with the monotonic clock
	wrote   time.Time          // when the last confirmed list was sent
	doubted time.Time          // when the node was last taken for dead
	empty   bool               // the list names nothing
	failed  int                // unconfirmed writes in a row
}

// Left is a token that a driver gave up without a confirmed answer, and that the server may keep for a long
// time.
type Left struct {
	jetstream.HeldToken
	At time.Time // when another driver should have it
}

// New returns a node without tokens. self has the node's name and the other fields of its record that do not
// change.
func New(nodes *jetstream.Nodes, self jetstream.NodeRecord, log *zap.Logger) *Held {
	return &Held{
		nodes: nodes, self: self, log: log, moved: make(chan struct{}, 1), earlier: true, empty: true,
		all: make(map[*Lease]bool), leases: make(map[content.SessionID]*Lease), leave: func() {},
	}
}

// Hold keeps a new token until Leave.
func (h *Held) Hold(t Token) *Lease {
	l := newLease(t)
	h.mu.Lock()
	h.all[l], h.leases[t.Session()] = true, l
	h.mu.Unlock()
	signal(h.moved)
	return l
}

// Appended counts an entry that was written, for the record.
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

// Leave ends a lease whose driver has ended.
func (h *Held) Leave(l *Lease) {
	l.Stop()
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.all, l)
	h.fewer = true
	s := l.token.Session()
	if h.leases[s] == l { // otherwise another driver of this node has the session
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

// Len returns the number of sessions whose tokens the node holds.
func (h *Held) Len() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.leases)
}

// Has reports whether the node holds the session's token.
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

// SetEarlierNodes records whether nodes of an earlier release run.
func (h *Held) SetEarlierNodes(earlier bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.earlier != earlier {
		h.earlier = earlier
		signal(h.moved)
	}
}

// IsOwn reports whether this process wrote a record.
func (h *Held) IsOwn(r jetstream.NodeRecord) bool { return r.Process == h.self.Process }

// Unrecorded makes the node write its record again, because another node does not see it.
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

// Run writes the record, answers probes and renews the leases until ctx ends. After that no record names the
// tokens, and they have the short lease.
func (h *Held) Run(ctx context.Context) error {
	for changed := true; ; {
		ok := h.write(ctx, changed)
		wait := renewEvery
		if !h.renew(h.basis()) || !ok {
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
	h.renew(basis{shorten: true})
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
		if wait = renewEvery; !h.renew(basis{shorten: true}) {
			wait = renewAgain
		}
	}
}

var errNamesake = errors.New("another process uses this node's name: give each node a different name")

// enter takes the node's name. If the record is from an earlier process, its tokens are returned. While that
// process is alive, this one writes no record: other nodes use the name to ask whether a process is alive and
// what it holds.
func (h *Held) enter(ctx context.Context) error {
	if time.Since(h.asked) < BeatEvery {
		return errNamesake
	}
	r, stands, err := h.nodes.Standing(ctx, h.self.Node)
	if err != nil {
		return err
	}
	if stands && r.Process != h.self.Process {
		if _, _, alive := h.nodes.Ask(ctx, h.self.Node); alive {
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
	if err := h.nodes.Answer(answers, h.self.Node, h.self.Process, h.unlisted); err != nil {
		leave()
		return err
	}
	h.entered, h.leave, h.tried = true, leave, time.Time{}
	return nil
}

// write writes the record and the list if they changed or are due, and reports whether the last ones are
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
		if err := h.writeRecord(ctx, held); err != nil {
			return err
		}
		h.setListed(held)
		return h.unlist(ctx)
	}
	var held []jetstream.HeldToken // without a list, the record names them
	var err error
	if since := time.Since(h.wrote); changed || h.empty || h.failed > 0 || since >= listEvery || fewer && since >= BeatEvery {
		if err = h.list(ctx); err != nil {
			held = h.All()
		}
	}
	if due || err != nil {
		err = errors.Join(err, h.writeRecord(ctx, held))
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

// writeRecord writes the record. If another process changed it, other nodes declared this node dead.
func (h *Held) writeRecord(ctx context.Context, held []jetstream.HeldToken) error {
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

var errReplaced = errors.New("another process took over this node's name, because this node seemed dead")

// replaced finds out who changed the record: this process, whose write was not acknowledged; a node that took
// it for dead; or another process that took its name and returned its tokens.
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
	h.log.Warn("other nodes declared this node dead")
	h.doubted = time.Now()
	h.giveUp(ctx)
	if earlier, _, _ := h.state(); earlier {
		return nil
	}
	return h.list(ctx) // the list may be gone, too
}

// loseAll gives the name up to another process, which has returned this one's tokens.
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

// giveUp ends the leases of sessions that other nodes took later.
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

// basis returns what renewals are based on now.
func (h *Held) basis() (b basis) {
	h.mu.Lock()
	earlier := h.earlier
	h.mu.Unlock()
	if !earlier && h.entered && time.Since(h.beaten) < beatLost && time.Since(h.wrote) < listLost {
		at := h.beaten
		b.confirmed = &at
	}
	// The first failed write may mean that the process was suspended, and that others have its tokens.
	b.shorten = earlier || h.failed >= beatTries
	return b
}

// renew renews the leases, and reports whether all succeeded.
func (h *Held) renew(b basis) bool {
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
		if err := e.renew(b, e.listed); err != nil {
			failed = err
		}
	}
	if failed != nil {
		h.log.Warn("run tokens could not be renewed", zap.Error(failed))
	}
	return failed == nil
}

// All lists the tokens. The listed ones come first, since the server may keep those for a long time.
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

// split returns the tokens that a confirmed list names, and the others. The caller holds mu.
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

// setListed marks the tokens that the list names.
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

// state reports whether nodes of an earlier release run, whether a node missed the record since the last
// call, and whether the list names tokens that were left.
func (h *Held) state() (earlier, missing, fewer bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	missing, h.missing = h.missing, false
	return h.earlier, missing, h.fewer
}
