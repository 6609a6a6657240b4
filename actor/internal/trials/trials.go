// Package trials detects sessions that crash the nodes that drive them, and sets those sessions aside.
//
// A session may end the whole process that drives it, with a command that takes all of its memory or
// through a bug that nothing recovers from. The next node would end the same way. So a node writes a note
// when it may not survive: while one step for a session takes long, and while it takes over a session that
// its last driver did not give up, until the inbox is handled. If another node takes the session while the
// note is still there, and the process that wrote the note does not answer, that counts as a crash. A panic
// also counts. After two in a row, the session is set aside.
//
// A node that is killed for another reason leaves notes about the few sessions that it was taking over, or
// that were slow. When such a session is tried again, the node takes over no other one, so that a second
// crash is certainly caused by that session. If that is not possible, because takeovers wait for a stream,
// more crashes are needed.
package trials

import (
	"context"
	"slices"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sync/semaphore"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/internal/sparselog"
	"github.com/turnlog/turnlog/jetstream"
	"github.com/turnlog/turnlog/jetstream/trials"
)

const (
	slowStep    = 50 * time.Millisecond  // not counting time spent waiting for a stream
	noteTimeout = 250 * time.Millisecond // a session can be driven without a note

	maxTrials = 32              // sessions that a node takes over at a time
	trialWait = 2 * time.Second // after that a session is taken over without a note

	maxBackoff   = 10 * time.Minute // the longest pause before the next try
	maxBreakages = 8                // breakages that a note lists
)

// Node is what the trials of one node share.
type Node struct {
	cell      *jetstream.Cell
	notes     *trials.Trials
	name      string
	process   string              // differs for each process with the name
	takeovers *semaphore.Weighted // sessions whose last driver may have died
	sparse    *sparselog.Log
}

// New returns what the trials of a node share. The process differs for each process with the node's name.
func New(cell *jetstream.Cell, name, process string, sparse *sparselog.Log) *Node {
	return &Node{
		cell: cell, notes: trials.Of(cell), name: name, process: process,
		takeovers: semaphore.NewWeighted(maxTrials), sparse: sparse,
	}
}

// Aside reports whether a session is set aside.
func (n *Node) Aside(ctx context.Context, s content.SessionID) (bool, error) {
	note, err := n.notes.Get(ctx, s)
	return err == nil && note.Aside(), err
}

// lives reports whether the process that wrote a note is still there: it could not remove the note, or a
// replica has not removed it yet. A note of an earlier release does not name the process.
func (n *Node) lives(ctx context.Context, note trials.Trial) bool {
	if note.Process == "" || note.Process == n.process {
		return note.Process != ""
	}
	_, process, _ := n.cell.Nodes().Ask(ctx, note.Node)
	return process == note.Process
}

// Trial is what a session's driver notes about it. It belongs to the driver's goroutine, except for its
// timer.
type Trial struct {
	node  *Node
	log   *zap.Logger
	slow  *time.Timer // fires if a step is slow
	leave func()      // frees the session's place among the takeovers; nil: it has none

	retry  trials.Retry // who had the session tried again, until the journal records it; belongs to the driver
	mu     slot         // guards the rest, and is held while the note is written
	note   trials.Trial // the note as last known
	seq    uint64       // of the stored note that this driver wrote; 0: none
	inStep bool
	whole  bool // the whole takeover counts as one step
}

// Of returns the trial of a session whose driver logs to log.
func (n *Node) Of(s content.SessionID, log *zap.Logger) *Trial {
	return &Trial{node: n, log: log, mu: make(slot, 1), note: trials.Trial{Session: s}}
}

// Begin prepares for the steps of a driver that runs with ctx.
func (t *Trial) Begin(ctx context.Context) {
	t.slow = time.AfterFunc(time.Hour, func() { t.late(ctx) })
	t.slow.Stop()
}

// slot is a lock whose holder may wait for a stream. Unlike a mutex, it lets virtual time pass in tests while
// it is held.
type slot chan struct{}

// Lock takes the slot.
func (s slot) Lock() { s <- struct{}{} }

// Unlock frees the slot.
func (s slot) Unlock() { <-s }

// Look reads the note, and reports whether the session is set aside.
func (t *Trial) Look(ctx context.Context) (aside bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	note, err := t.node.notes.Get(ctx, t.note.Session)
	if err != nil {
		t.node.sparse.Line(t.log, zap.WarnLevel, "notes about the session not read", zap.Error(err))
		return false
	}
	if note.Node != "" && t.node.lives(ctx, note) {
		note.Node, t.seq = "", note.Seq
	}
	broken := note.Node != ""
	if broken {
		note.Node, note.Broke = "", append(note.Broke, trials.Breakage{Node: note.Node, At: note.Since, Shared: note.Shared})
	}
	if note.Seq > 0 {
		t.again(ctx, &note)
	}
	if t.note = note; broken && note.Aside() {
		t.put(ctx)
		t.logSetAside()
	}
	return note.Aside()
}

// again finds out whether someone retried the session. The caller holds mu.
func (t *Trial) again(ctx context.Context, note *trials.Trial) {
	retry, err := t.node.notes.Retried(ctx, note.Session)
	if err != nil {
		t.log.Warn("retries of the session could not be read", zap.Error(err))
	}
	if t.retry = retry; retry.Seq > note.Seq && note.Aside() {
		note.Broke = nil
		t.note = *note
		t.put(ctx)
	}
	if note.RetriedBy != "" {
		t.retry, t.seq = trials.Retry{By: note.RetriedBy}, note.Seq
	}
}

// Recorded removes the note of who retried the session, since its journal now says so.
func (t *Trial) Recorded(ctx context.Context) {
	if t.retry == (trials.Retry{}) {
		return
	}
	if t.retry.User != "" {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), noteTimeout)
		defer cancel()
		if err := t.node.notes.Recorded(ctx, t.note.Session, t.retry); err != nil {
			t.log.Warn("recorded retry of the session not removed", zap.Error(err))
		}
	}
	t.retry = trials.Retry{}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.note.RetriedBy = ""; t.note.Node != "" {
		t.put(ctx)
	} else {
		t.unmark(ctx)
	}
}

// RetriedBy returns who retried the session, until the journal records it.
func (t *Trial) RetriedBy() trials.Retry { return t.retry }

func (t *Trial) logSetAside() {
	t.log.Error("session set aside: no node drives it until it is retried", zap.Any("broke", t.note.Broke))
}

// Start begins to take over the session. If the session has broken a node before, the node takes over no
// other one at the same time.
func (t *Trial) Start(ctx context.Context, first bool) {
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

// Survived ends the takeover, after the session was read and its inbox handled.
func (t *Trial) Survived(ctx context.Context) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.whole {
		return
	}
	t.over()
	t.note.Broke = slices.DeleteFunc(t.note.Broke, func(b trials.Breakage) bool { return b.Error == "" || b.Unreadable })
	t.unmark(ctx)
}

// Finish removes the driver's note before the token is given up. A session that parks broke nothing.
func (t *Trial) Finish(ctx context.Context, parked bool) {
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

// over ends the takeover. The caller holds mu.
func (t *Trial) over() {
	t.whole, t.inStep = false, false
	if t.leave != nil {
		t.leave()
		t.leave = nil
	}
}

// Broke records that the session broke its driver. It reports whether the session is now set aside, and
// otherwise how long to wait: first as long as after a crashed node, then twice as long each time.
func (t *Trial) Broke(ctx context.Context, err error, unreadable bool, lease time.Duration) (aside bool, wait time.Duration) {
	why := err.Error()
	if sealed, sealErr := t.node.cell.IsSealed(ctx, t.note.Session); sealed || sealErr != nil {
		why = "see the log of the node: the session is sealed" // the error may contain the session's content
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.over()
	t.note.Node = ""
	t.note.Broke = append(t.note.Broke, trials.Breakage{
		Node: t.node.name, At: content.TimeOf(time.Now()), Error: why, Unreadable: unreadable,
	})
	if more := len(t.note.Broke) - maxBreakages; more > 0 {
		t.note.Broke = t.note.Broke[more:]
	}
	t.put(ctx)
	if t.note.Aside() {
		t.logSetAside()
	}
	return t.note.Aside(), min(lease<<(len(t.note.Broke)-1), maxBackoff)
}

// Step begins a step of the driver.
func (t *Trial) Step() {
	t.mu.Lock()
	t.inStep = true
	t.mu.Unlock()
	t.slow.Reset(slowStep)
}

// Stepped ends a step. It writes nothing unless the step was slow.
func (t *Trial) Stepped(ctx context.Context) {
	t.slow.Stop()
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.inStep = false; t.note.Node != "" && !t.whole {
		t.unmark(ctx)
	}
}

// Pause stops the clock of a step that waits for a stream, and reports whether it ran.
func (t *Trial) Pause() (ran bool) { return t.slow.Stop() }

// Resume starts the clock again, if it ran.
func (t *Trial) Resume(ran bool) {
	if ran {
		t.slow.Reset(slowStep)
	}
}

// late writes a note because a step takes long.
func (t *Trial) late(ctx context.Context) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.inStep && t.note.Node == "" {
		t.mark(ctx, false)
	}
}

// mark stores that the node may not survive, because of this session, or perhaps another one if shared. The
// caller holds mu.
func (t *Trial) mark(ctx context.Context, shared bool) {
	t.note.Node, t.note.Process, t.note.Since, t.note.Shared = t.node.name, t.node.process, content.TimeOf(time.Now()), shared
	t.put(ctx)
}

// unmark stores that the node survived. The caller holds mu.
func (t *Trial) unmark(ctx context.Context) {
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
	if err := t.node.notes.Clear(ctx, t.note.Session, t.seq); err != nil {
		t.node.sparse.Line(t.log, zap.WarnLevel, "note about the session stays", zap.Error(err))
	}
	t.seq = 0
}

// put stores the note. The caller holds mu.
func (t *Trial) put(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), noteTimeout)
	defer cancel()
	if seq, err := t.node.notes.Put(ctx, t.note); err != nil {
		t.node.sparse.Line(t.log, zap.WarnLevel, "session is driven without a note about it", zap.Error(err))
	} else {
		t.seq = seq
	}
}
