package agent

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/oklog/ulid/v2"
	"go.uber.org/zap"

	"github.com/turnlog/turnlog/commands"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/effect"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/journal"
	"github.com/turnlog/turnlog/loop"
	"github.com/turnlog/turnlog/model"
)

// Driver drives one session. It belongs to one goroutine, except where a method
// says otherwise.
type Driver struct {
	agent     *Agent
	facts     events.Config
	log       *zap.Logger
	stepper   *Stepper
	performer *effect.Performer
	news      chan struct{}   // something was decided from outside Next; one is enough
	held      []effect.Report // could not be decided yet; Next's alone

	mu      sync.Mutex // guards what follows; held while a command is decided
	state   *loop.State
	head    journal.Head
	catalog *effect.Catalog
	dead    error           // why nothing can be decided any more
	driving bool            // a Next is running
	gaveUp  bool            // effects were given up: the next Next reports them lost
	lost    []content.Place // the calls among them

	live sync.Mutex         // one event at a time reaches the observers
	tap  func(events.Event) // a stream that looks on, or nil
}

// ID is the session's id.
func (d *Driver) ID() content.SessionID { return d.state.Session }

// Next carries the session on to the next step. ctx is the caller's patience: its
// end stops local effects and leaves the turn open, and the following Next goes on
// as after a crash. A turn that ended with an error is returned as *ProviderError,
// *ToolError or *MutatorError; the session stays usable. ErrInvalidState says that
// an approval has to be decided first, or that another Next is running.
func (d *Driver) Next(ctx context.Context) (Step, error) {
	return d.next(ctx, context.WithoutCancel(ctx))
}

// next is Next for a facade, whose own context cancels the turn when it ends.
func (d *Driver) next(ctx, turn context.Context) (Step, error) {
	if err := d.enter(ctx); err != nil {
		return nil, err
	}
	defer d.leave()
	for {
		if err := d.takeArrived(ctx); err != nil {
			return nil, err
		}
		if err := d.cancelIfOver(ctx, turn); err != nil {
			return nil, err
		}
		step, cont, err := d.advance(ctx)
		switch {
		case err != nil || step != nil:
			return step, err
		case cont != nil:
			if err := d.command(ctx, *cont); err != nil {
				return nil, err
			}
			continue
		}
		if err := d.wait(ctx); err != nil {
			return nil, err
		}
	}
}

// enter refuses a second Next, reports effects that were given up, and refuses to
// pass an approval that is still undecided: time may have decided it meanwhile.
func (d *Driver) enter(ctx context.Context) error {
	if err := d.occupy(); err != nil {
		return err
	}
	err := d.reclaim(ctx)
	if err == nil && d.begin() != nil {
		if err = d.takeArrived(ctx); err == nil {
			err = d.begin()
		}
	}
	if err != nil {
		d.leave()
	}
	return err
}

func (d *Driver) occupy() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case d.dead != nil:
		return d.dead
	case d.driving:
		return &InvalidStateError{Op: "next", Reason: "busy", Detail: "another Next is running"}
	}
	d.driving = true
	return nil
}

func (d *Driver) begin() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.stepper.Begin(d.state)
}

// reclaim reports what was given up.
func (d *Driver) reclaim(ctx context.Context) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case d.dead != nil:
		return d.dead
	case !d.gaveUp:
		return nil
	}
	claim := commands.Claim{Node: "in-process", Lost: d.lost}
	if err := d.decideLocked(ctx, ulid.Make().String(), claim); err != nil {
		return err
	}
	d.gaveUp, d.lost = false, nil
	return nil
}

func (d *Driver) leave() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.driving = false
}

// advance makes what runs equal to what is owed and asks the stepper.
func (d *Driver) advance(ctx context.Context) (Step, *commands.Continue, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for {
		if d.dead != nil {
			return nil, nil, d.dead
		}
		owed := loop.Pending(d.state)
		stop, ok := d.unstarted(owed)
		if !ok {
			d.performer.Sync(owed) //nolint:contextcheck // effects outlive this Next if they run in the background
			return d.stepper.Advance(d.state)
		}
		if err := d.decideLocked(ctx, stop.Identity(), commands.ReportModelStopped{ModelCall: stop.ModelCall}); err != nil {
			return nil, nil, err
		}
	}
}

// unstarted finds the model call that was cancelled before it was made: nobody else
// would report that it has stopped.
func (d *Driver) unstarted(owed []loop.Effect) (loop.StopModel, bool) {
	for _, e := range owed {
		stop, ok := e.(loop.StopModel)
		if ok && d.performer.Starts([]loop.Effect{loop.CallModel{ModelCall: stop.ModelCall}}) && d.performer.Starts([]loop.Effect{stop}) {
			return stop, true
		}
	}
	return loop.StopModel{}, false
}

// cancelIfOver cancels the open turn if the context that it runs for has ended.
func (d *Driver) cancelIfOver(ctx, turn context.Context) error {
	if turn.Err() == nil {
		return nil
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.dead != nil || d.state.Turn == nil || d.state.Turn.Cancel != nil {
		return d.dead
	}
	return d.decideLocked(ctx, ulid.Make().String(), commands.Cancel{Scope: commands.ScopeTurn, Reason: contextReason(turn)})
}

// wait takes in the next report, or notices that somebody else decided something.
func (d *Driver) wait(ctx context.Context) error {
	select {
	case r := <-d.performer.Reports():
		return d.take(ctx, r)
	case <-d.news:
		return nil
	case <-ctx.Done():
		return d.giveUp(context.Cause(ctx))
	}
}

// takeArrived takes in the reports that have come already.
func (d *Driver) takeArrived(ctx context.Context) error {
	for len(d.held) > 0 {
		r := d.held[0]
		d.held = d.held[1:]
		if err := d.take(ctx, r); err != nil {
			return err
		}
	}
	for {
		select {
		case r := <-d.performer.Reports():
			if err := d.take(ctx, r); err != nil {
				return err
			}
		default:
			return nil
		}
	}
}

// take decides on a report. Effects report once, so one that cannot be decided now,
// say because a tool source is down, is kept for the following Next.
func (d *Driver) take(ctx context.Context, r effect.Report) error {
	err := d.decide(ctx, r.Cause, r.Command)
	if err != nil {
		d.held = append([]effect.Report{r}, d.held...)
	}
	return err
}

// giveUp stops local effects; background calls go on. The following Next reports
// the others lost.
func (d *Driver) giveUp(cause error) error {
	background, places := d.running()
	stopped := d.performer.Stop(cause, func(id string) bool { return background[id] })
	d.mu.Lock()
	defer d.mu.Unlock()
	d.gaveUp = true
	for _, id := range stopped {
		if p, ok := places[id]; ok {
			d.lost = append(d.lost, p)
		}
	}
	return cause
}

// running lists the tool calls that are owed, by identity: those in the background,
// and the places of the others.
func (d *Driver) running() (background map[string]bool, places map[string]content.Place) {
	d.mu.Lock()
	defer d.mu.Unlock()
	background, places = make(map[string]bool), make(map[string]content.Place)
	for _, e := range loop.Pending(d.state) {
		switch t, ok := e.(loop.RunTool); {
		case !ok:
		case t.Call.Placeholder != "":
			background[e.Identity()] = true
		default:
			places[e.Identity()] = t.Call.Place
		}
	}
	return background, places
}

func (d *Driver) command(ctx context.Context, c commands.Command) error {
	return refusal(commands.NameOf(c), d.decide(ctx, ulid.Make().String(), c))
}

// Ask takes an ask from any goroutine. Step handles use it; a refusal is an
// *InvalidStateError.
func (d *Driver) Ask(ctx context.Context, c commands.Command) error {
	err := d.command(ctx, c)
	select {
	case d.news <- struct{}{}:
	default:
	}
	return err
}

func (d *Driver) decide(ctx context.Context, cause string, c commands.Command) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.dead != nil {
		return d.dead
	}
	return d.decideLocked(ctx, cause, c)
}

// decideLocked is the whole life of a command: decide, append, fold, show. After
// an append that is not certainly written the driver is dead: a fresh one reads
// what became of it.
func (d *Driver) decideLocked(ctx context.Context, cause string, c commands.Command) error {
	if err := d.sample(ctx); err != nil {
		return err
	}
	env := commands.Envelope{
		ID: cause, Session: d.state.Session, At: content.TimeOf(time.Now()), Command: c, Catalog: d.catalog.Facts(),
	}
	if r, ok := c.(commands.ResolveApproval); ok && r.Input != nil {
		env.Checks = d.checkPatched(ctx, r)
	}
	evs, err := loop.Decide(d.state, env)
	if err != nil || len(evs) == 0 {
		return err
	}
	entry := events.Entry{
		Session: d.state.Session, Cause: cause, At: max(env.At, d.state.At), Epoch: epochOf(evs, d.state.Epoch), Events: evs,
	}
	// The caller's patience must not leave the outcome of a write unknown.
	next, err := d.agent.cfg.Journal.Append(context.WithoutCancel(ctx), d.head, entry)
	if err != nil {
		d.dead = fmt.Errorf("append %s after %d: %w", d.state.Session, d.head.Seq, err)
		d.performer.Cancel(d.dead)
		return d.dead
	}
	entry.Seq, d.head = next.Seq, next
	before := len(d.state.Transcript)
	d.state.Fold(entry)
	d.show(entry, before)
	return nil
}

// epochOf is the epoch that an entry is written under: the one it claims, if it
// does.
func epochOf(evs []events.Event, now uint64) uint64 {
	if c, ok := evs[0].(events.DriverClaimed); ok {
		return c.Epoch
	}
	return now
}

// sample looks at what the tool sources offer now.
func (d *Driver) sample(ctx context.Context) error {
	cat, err := effect.NewCatalog(ctx, d.agent.cfg.Tools, d.agent.cfg.Collision, nil, nil)
	if err != nil {
		return err
	}
	d.catalog = cat
	return nil
}

func (d *Driver) checkPatched(ctx context.Context, r commands.ResolveApproval) []commands.Check {
	for _, a := range d.state.Undecided() {
		if r.Approval != "" && a.ID != r.Approval || r.Call != "" && a.CallID != r.Call {
			continue
		}
		if c, ok := d.state.Call(a.CallID); ok {
			return []commands.Check{d.agent.runner.CheckPatched(ctx, d.state.Session, d.catalog, *c, r.Input)}
		}
	}
	return nil
}

// Decision decides an approval.
type Decision struct {
	Approve bool
	Reason  string
	By      string // "": the host process
}

func (v Decision) command() commands.ResolveApproval {
	return commands.ResolveApproval{Approve: v.Approve, Reason: v.Reason, By: v.By}
}

// ResolveApproval decides the only undecided approval; with none or several it
// returns ErrInvalidState.
func (d *Driver) ResolveApproval(ctx context.Context, v Decision) error {
	return d.Ask(ctx, v.command())
}

// ResolveApprovalFor decides a call's oldest undecided approval.
func (d *Driver) ResolveApprovalFor(ctx context.Context, call content.CallID, v Decision) error {
	c := v.command()
	c.Call = call
	return d.Ask(ctx, c)
}

// ResolveApprovalForWithPatchedInput approves a call's oldest undecided approval
// with other arguments. The transcript keeps the model's.
func (d *Driver) ResolveApprovalForWithPatchedInput(ctx context.Context, call content.CallID, input []byte) error {
	return d.Ask(ctx, commands.ResolveApproval{Call: call, Approve: true, Input: input})
}

// SetNextTurnCache sets the cache request of the next model call only. Any
// goroutine may call it.
func (d *Driver) SetNextTurnCache(ctx context.Context, c model.CacheRequest) error {
	return d.Ask(ctx, commands.SetNextTurnCache{Cache: c})
}

// OnBusy says what becomes of input that arrives while a turn is open.
type OnBusy = events.OnBusy

// The policies for concurrent input.
const (
	Steer         = events.Steer     // joins at the next round boundary
	Queue         = events.Queue     // starts the next turn
	InterruptTurn = events.Interrupt // cancels the open turn, then runs
	Reject        = events.Reject    // is refused: ErrInvalidState
)

// Send brings input from any goroutine.
func (d *Driver) Send(ctx context.Context, b OnBusy, items ...content.Item) error {
	return d.Ask(ctx, commands.SubmitInput{Items: items, OnBusy: b})
}

// Cancel ends the open turn, from any goroutine. The empty reason is
// user_cancelled. Without an open turn it returns ErrInvalidState.
func (d *Driver) Cancel(ctx context.Context, reason string) error {
	return d.Ask(ctx, commands.Cancel{Scope: commands.ScopeTurn, Reason: reason})
}

// Close stops driving. The session stays as it is and can be started again.
func (d *Driver) Close(context.Context) error {
	d.mu.Lock()
	if d.dead == nil || !errors.Is(d.dead, ErrClosed) {
		d.dead = ErrClosed
	}
	driving := d.driving
	d.mu.Unlock()
	if driving {
		select {
		case d.news <- struct{}{}:
		default:
		}
		d.performer.Cancel(ErrClosed)
		return nil
	}
	d.performer.Cancel(ErrClosed)
	d.performer.Stop(ErrClosed, nil)
	return nil
}

// Snapshot is a copy of what the session is at a moment.
type Snapshot struct {
	SessionID        content.SessionID `json:"session_id"`
	Seq              uint64            `json:"seq"`
	Hash             events.Hash       `json:"hash"`
	Transcript       []content.Item    `json:"transcript"`
	PendingInput     []content.Item    `json:"pending_input,omitempty"`
	PendingApprovals []events.Approval `json:"pending_approvals,omitempty"`
	Turn             content.TurnID    `json:"turn,omitempty"`
	Round            int               `json:"round,omitempty"`
	Usage            content.Usage     `json:"usage"`
	LastTurn         *TurnResult       `json:"last_turn,omitempty"`
}

// Snapshot returns what the session is now. Any goroutine may call it.
func (d *Driver) Snapshot() Snapshot {
	d.mu.Lock()
	defer d.mu.Unlock()
	return SnapshotOf(d.state, d.head.Hash)
}

// SnapshotOf projects a state.
func SnapshotOf(s *loop.State, hash events.Hash) Snapshot {
	f := s.Fork()
	snap := Snapshot{
		SessionID: f.Session, Seq: f.Seq, Hash: hash, Transcript: slices.Clip(f.Transcript),
		PendingApprovals: f.Undecided(), Usage: f.Used.Usage,
	}
	for _, q := range f.Queue {
		snap.PendingInput = append(snap.PendingInput, q.Items...)
	}
	if f.Turn != nil {
		snap.Turn, snap.Round = f.Turn.ID, f.Turn.Round
	}
	if f.Last != nil {
		r := resultOf(f.Last)
		snap.LastTurn = &r
	}
	return snap
}
