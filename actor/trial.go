package actor

import (
	"context"
	"math/rand/v2"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/internal/logfield"
	"github.com/turnlog/turnlog/jetstream"
)

// A session may end the whole process that drives it, with a command that takes all of its memory or by
// a bug that nothing recovers from. The next node would end the same way. So a node leaves a note where
// it may not survive: while one step for a session takes long, and from taking over a session whose last
// driver did not give it up until its inbox is handled. A note that is still there when another node takes
// the session is a breakage, and so is a panic. After two in a row the session is set aside.
//
// A node that is killed for another reason leaves notes about the few sessions that it had just begun to
// take over, or that were slow. Such a session is tried while the node takes over no other one, so that
// the second breakage is its own. If that cannot be, because takeovers wait for a stream, it takes more.
const (
	slowStep    = 50 * time.Millisecond  // without waiting for a stream
	noteTimeout = 250 * time.Millisecond // a note is a help, not a condition

	maxTrials = 32              // sessions that a node takes over at a time
	trialWait = 2 * time.Second // then a session is taken over without a note

	maxBackoff   = 10 * time.Minute // the longest pause before the next try
	maxBreakages = 8                // that a note lists
)

// trial is what the driver of a session notes about it. It belongs to the driver's goroutine, but for
// its timer.
type trial struct {
	node  *Node
	log   *zap.Logger
	slow  *time.Timer // fires in a slow step
	leave func()      // ends the session's place among those that are taken over; nil: it has none

	retry  jetstream.Retry // by whom the session is tried again, until that is recorded; belongs to the driver
	mu     slot            // guards the rest, and is held while the note is written
	note   jetstream.Trial // as far as it is known
	seq    uint64          // of the driver's stored note; 0: none
	inStep bool
	whole  bool // the session is being taken over: all of it is one step
}

func newTrial(n *Node, s content.SessionID, log *zap.Logger) *trial {
	return &trial{node: n, log: log, mu: make(slot, 1), note: jetstream.Trial{Session: s}}
}

// begin prepares for the steps of a driver that runs with ctx.
func (t *trial) begin(ctx context.Context) {
	t.slow = time.AfterFunc(time.Hour, func() { t.late(ctx) })
	t.slow.Stop()
}

// slot is a lock whose holder may wait for a stream. Unlike a mutex, it lets the time of a virtual-time test
// pass meanwhile.
type slot chan struct{}

// Lock takes the slot.
func (s slot) Lock() { s <- struct{}{} }

// Unlock frees the slot.
func (s slot) Unlock() { <-s }

// look reads the note, and reports whether the session is set aside.
func (t *trial) look(ctx context.Context) (aside bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	note, err := t.node.trials.Get(ctx, t.note.Session)
	if err != nil {
		t.node.sparse.Line(t.log, zap.WarnLevel, "notes about the session not read", zap.Error(err))
		return false
	}
	if note.Node == t.node.cfg.Name && note.Since >= t.node.began { // this process has survived, and could not remove the note
		note.Node, t.seq = "", note.Seq
	}
	broken := note.Node != ""
	if broken {
		note.Node, note.Broke = "", append(note.Broke, jetstream.Breakage{Node: note.Node, At: note.Since, Shared: note.Shared})
	}
	if note.Seq > 0 {
		t.again(ctx, &note)
	}
	if t.note = note; broken && note.Aside() {
		t.put(ctx)
		t.complain()
	}
	return note.Aside()
}

// again finds out whether somebody has the session tried again. The lock is held.
func (t *trial) again(ctx context.Context, note *jetstream.Trial) {
	retry, err := t.node.trials.Retried(ctx, note.Session)
	if err != nil {
		t.log.Warn("who has the session tried again is not known", zap.Error(err))
	}
	if t.retry = retry; retry.Seq > note.Seq && note.Aside() {
		note.Broke = nil
		t.note = *note
		t.put(ctx)
	}
	if note.RetriedBy != "" {
		t.retry, t.seq = jetstream.Retry{By: note.RetriedBy}, note.Seq
	}
}

// recorded removes what said who has the session tried again: its journal says it now.
func (t *trial) recorded(ctx context.Context) {
	if t.retry == (jetstream.Retry{}) {
		return
	}
	if t.retry.User != "" {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), noteTimeout)
		defer cancel()
		if err := t.node.trials.Recorded(ctx, t.note.Session, t.retry); err != nil {
			t.log.Warn("retry of the session stays noted", zap.Error(err))
		}
	}
	t.retry = jetstream.Retry{}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.note.RetriedBy = ""; t.note.Node != "" {
		t.put(ctx)
	} else {
		t.unmark(ctx)
	}
}

func (t *trial) complain() {
	t.log.Error("session is set aside: no node drives it until it is retried", zap.Any("broke", t.note.Broke))
}

// start begins to take over the session. If it has broken a node before, no other one is taken over
// meanwhile.
func (t *trial) start(ctx context.Context, first bool) {
	weight := int64(1)
	switch {
	case len(t.note.Broke) > 0:
		weight = maxTrials
	case first: // its last driver gave it up in order
		return
	}
	wait, cancel := context.WithTimeout(ctx, trialWait)
	defer cancel()
	alone := t.node.takeovers.Acquire(wait, weight) == nil
	if alone {
		t.leave = func() { t.node.takeovers.Release(weight) }
	} else if weight == 1 {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.whole = true
	t.mark(ctx, !alone || weight == 1)
}

// survived ends the takeover: the session is read, and its inbox handled.
func (t *trial) survived(ctx context.Context) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.whole {
		return
	}
	t.over()
	t.note.Broke = slices.DeleteFunc(t.note.Broke, func(b jetstream.Breakage) bool { return b.Error == "" || b.Unreadable })
	t.unmark(ctx)
}

// finish removes the driver's note before the token is given up. A session that parks has broken nothing.
func (t *trial) finish(ctx context.Context, parked bool) {
	t.slow.Stop()
	t.mu.Lock()
	defer t.mu.Unlock()
	t.over()
	if parked {
		t.note.Broke = nil
	}
	if t.seq != 0 && (t.note.Node != "" || parked) {
		t.unmark(ctx)
	}
}

// over ends the takeover. The lock is held.
func (t *trial) over() {
	t.whole, t.inStep = false, false
	if t.leave != nil {
		t.leave()
		t.leave = nil
	}
}

// broke records that the session broke its driver. It reports whether the session is set aside now, and
// else how long to wait: at first as long as after a crashed node, then twice as long each time.
func (t *trial) broke(ctx context.Context, err error, unreadable bool, lease time.Duration) (aside bool, wait time.Duration) {
	why := err.Error()
	if sealed, sealErr := t.node.cell.IsSealed(ctx, t.note.Session); sealed || sealErr != nil {
		why = "see the log of the node: the session is sealed" // the error may have content of it
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.over()
	t.note.Node = ""
	t.note.Broke = append(t.note.Broke, jetstream.Breakage{
		Node: t.node.cfg.Name, At: content.TimeOf(time.Now()), Error: why, Unreadable: unreadable,
	})
	if more := len(t.note.Broke) - maxBreakages; more > 0 {
		t.note.Broke = t.note.Broke[more:]
	}
	t.put(ctx)
	if t.note.Aside() {
		t.complain()
	}
	return t.note.Aside(), min(lease<<(len(t.note.Broke)-1), maxBackoff)
}

// step begins a step of the driver.
func (t *trial) step() {
	t.mu.Lock()
	t.inStep = true
	t.mu.Unlock()
	t.slow.Reset(slowStep)
}

// stepped ends a step. It costs no write unless the step was slow.
func (t *trial) stepped(ctx context.Context) {
	t.slow.Stop()
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.inStep = false; t.note.Node != "" && !t.whole {
		t.unmark(ctx)
	}
}

// waiting interrupts a step that waits for a stream, until the returned function is called.
func (t *trial) waiting() (done func()) {
	if !t.slow.Stop() {
		return func() {}
	}
	return func() { t.slow.Reset(slowStep) }
}

// late notes that a step takes long.
func (t *trial) late(ctx context.Context) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.inStep && t.note.Node == "" {
		t.mark(ctx, false)
	}
}

// mark stores that the node may not survive, because of this session or perhaps of another one. The lock is held.
func (t *trial) mark(ctx context.Context, shared bool) {
	t.note.Node, t.note.Since, t.note.Shared = t.node.cfg.Name, content.TimeOf(time.Now()), shared
	t.put(ctx)
}

// unmark stores that the node has survived. The lock is held.
func (t *trial) unmark(ctx context.Context) {
	t.note.Node = ""
	if len(t.note.Broke) > 0 {
		t.put(ctx)
		return
	}
	if t.seq == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), noteTimeout)
	defer cancel()
	if err := t.node.trials.Clear(ctx, t.note.Session, t.seq); err != nil {
		t.node.sparse.Line(t.log, zap.WarnLevel, "note about the session stays", zap.Error(err))
	}
	t.seq = 0
}

// put stores the note. The lock is held.
func (t *trial) put(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), noteTimeout)
	defer cancel()
	if seq, err := t.node.trials.Put(ctx, t.note); err != nil {
		t.node.sparse.Line(t.log, zap.WarnLevel, "session is driven without a note about it", zap.Error(err))
	} else {
		t.seq = seq
	}
}

// wakeOrphans wakes sessions that have commands and no token, unless they are set aside.
func (n *Node) wakeOrphans(ctx context.Context, orphans []content.SessionID) {
	first := 0
	if len(orphans) > maxWoken { // they may be postponed by other nodes: none is always the last
		first = rand.N(len(orphans) - maxWoken + 1) //nolint:gosec // no secret
	}
	for _, s := range orphans[first:min(first+maxWoken, len(orphans))] {
		if note, err := n.trials.Get(ctx, s); err == nil && note.Aside() {
			continue
		}
		if err := n.runs.Wake(ctx, s); err != nil {
			n.log.Warn("session not woken", logfield.Session(s), zap.Error(err))
		}
	}
}
