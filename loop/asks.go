package loop

import (
	"slices"

	"github.com/turnlog/turnlog/commands"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
)

// maxInputItems bounds one submission; larger inputs come as several.
const maxInputItems = 1000

// maxQueued bounds the submissions that wait for their turns, and with them what a
// State costs.
const maxQueued = 256

func (d *decision) claim(c commands.Claim) {
	d.emit(events.DriverClaimed{Epoch: d.Epoch + 1, Node: c.Node, Token: c.Token, Lost: c.Lost, Tickets: c.Tickets})
	if !d.Opened {
		return
	}
	if c.Config != nil && c.Config.Digest != d.Config.Digest {
		d.emit(events.ConfigChanged{Config: *c.Config})
	}
	if t := d.Turn; t != nil && t.Calling {
		d.modelLost()
	}
	for _, p := range c.Lost {
		if call, ok := d.CallAt(p); ok && call.Running() {
			d.loseAttempt(call, "its host died")
		}
	}
}

// Brackets returns the point whose hooks a host asks before the command is decided: that of
// the session's start or end, if the command would open or close the session.
func Brackets(s *State, env commands.Envelope) string {
	if s.Handled(env.ID) || s.Deleted != nil {
		return ""
	}
	switch c := env.Command.(type) { //nolint:gochecksumtype // the others neither open nor close
	case commands.OpenSession:
		if s.mayOpen(c) == nil {
			return pointSessionStart
		}
	case commands.Close:
		if s.Opened && !s.Closed && s.mayClose() == nil {
			return pointSessionEnd
		}
	}
	return ""
}

// mayOpen refuses an ask that cannot open the session.
func (s *State) mayOpen(c commands.OpenSession) error {
	switch {
	case s.Closed:
		return refuse(ReasonClosed, "session %s is closed", s.Session)
	case s.Opened:
		return refuse(ReasonSessionExists, "session %s is open already", s.Session)
	}
	if err := checkPairs(c.Transcript); err != nil {
		return err
	}
	if len(c.Input) > 0 {
		return checkInput(c.Input)
	}
	return nil
}

func (d *decision) open(c commands.OpenSession) error {
	if err := d.mayOpen(c); err != nil {
		return err
	}
	for _, a := range d.env.Hooks {
		if a.Point == pointSessionStart && a.Action == actionTerminate {
			return refuse(ReasonHookTerminated, "%s: %s", a.Hook, a.Reason)
		}
	}
	cfg := c.Config
	if d.env.Catalog != nil {
		cfg.Catalog = *d.env.Catalog
	}
	d.emit(events.RunStarted{
		Config: cfg, Transcript: c.Transcript, Stepped: c.Stepped,
		Metadata: c.Metadata.WithoutReserved(), Parent: c.Parent, From: c.From,
	})
	d.bracketHooks(pointSessionStart)
	if len(c.Input) > 0 {
		d.emit(events.InputQueued{Items: stripped(c.Input), Origin: events.FromHost})
	}
	return nil
}

func (d *decision) submit(c commands.SubmitInput) error {
	if err := checkInput(c.Items); err != nil {
		return err
	}
	if err := checkOptions(c.Options); err != nil {
		return err
	}
	busy := d.Turn != nil || d.Task != nil
	if busy && c.OnBusy == events.Reject {
		return refuse(ReasonBusy, "a turn is open")
	}
	if len(d.Queue) >= maxQueued {
		return refuse(ReasonQueueFull, "%d inputs wait already; send more once the session has come to them", len(d.Queue))
	}
	d.emit(events.InputQueued{Items: stripped(c.Items), Origin: events.FromHost, OnBusy: c.OnBusy, Options: c.Options})
	if busy && c.OnBusy == events.Interrupt && !d.cancelling() {
		d.cancelTurn(commands.ScopeTurn, "interrupted_by_input")
	}
	return nil
}

// cancelling reports whether a cancel waits for what is running.
func (s *State) cancelling() bool { return s.Turn != nil && s.Turn.Cancel != nil }

// idle reports whether nothing is under way: no turn, no task, none of the
// mutators that follow a turn.
func (s *State) idle() bool {
	p := s.whereIdle()
	return s.Turn == nil && s.Task == nil && p != atMutator && p != atAfterTurn
}

// checkInput refuses items that no host may hand in.
func checkInput(items []content.Item) error {
	if len(items) == 0 {
		return refuse(ReasonEmptyInput, "there is no item in the input")
	}
	if len(items) > maxInputItems {
		return refuse(ReasonTooLarge, "%d items in one input, at most %d", len(items), maxInputItems)
	}
	for i, it := range items {
		switch it.Kind {
		case content.System, content.Developer, content.User, content.Context:
		case content.Assistant, content.Tool, content.Notification:
			return refuse(ReasonBadItem, "item %d is of kind %q; input is system, developer, user or context", i+1, it.Kind)
		default:
			return refuse(ReasonBadItem, "item %d is of unknown kind %q", i+1, it.Kind)
		}
		if len(it.Parts) == 0 {
			return refuse(ReasonBadItem, "item %d has no part", i+1)
		}
		if slices.ContainsFunc(it.Parts, func(p content.Part) bool { return p.Call != nil || p.Result != nil }) {
			return refuse(ReasonBadItem, "item %d holds a tool call or a result", i+1)
		}
	}
	return nil
}

func stripped(items []content.Item) []content.Item {
	out := slices.Clone(items)
	for i := range out {
		out[i].Metadata = out[i].Metadata.WithoutReserved()
		out[i].ID, out[i].CreatedAt, out[i].Usage, out[i].FinishReason = "", 0, nil, ""
	}
	return out
}

// checkPairs refuses a transcript in which a call has no result, two, or a result
// no call before it.
func checkPairs(items []content.Item) error {
	if i, call, problem := Unpaired(items); problem != "" {
		return refuse(ReasonBadTranscript, "item %d: call %s: %s", i+1, call, problem)
	}
	return nil
}

// passWait lets a stepped session pass the wait that holds it, if the command
// names that one.
func (d *decision) passWait(c commands.Continue) {
	w := d.waiting()
	if c.Wait != w || w != commands.WaitReady && w != commands.WaitYield {
		return
	}
	if t := d.Turn; t == nil && c.Turn != "" || t != nil && (c.Turn != t.ID || c.Round != t.Round) {
		return
	}
	d.pass = true
}

func (d *decision) cancel(c commands.Cancel) error {
	reason := c.Reason
	if reason == "" {
		reason = "user_cancelled"
	}
	switch c.Scope {
	case commands.ScopeCall:
		return d.cancelCall(c.Call, reason)
	case commands.ScopeSession:
		d.cancelTurn(commands.ScopeSession, reason)
		for _, b := range d.behind() {
			d.resolveAll(b.ID, events.ApprovalCancelled)
			d.emitResult(b, content.StatusCancelled, "", textCancelled, true)
		}
		return nil
	default:
		if d.Turn == nil && d.Task == nil {
			return refuse(ReasonNothingToCancel, "no turn is open")
		}
		if !d.cancelling() {
			d.cancelTurn(commands.ScopeTurn, reason)
		}
		return nil
	}
}

// cancelTurn records the cancel. What is running is stopped first and its report
// closes the turn; everything else ends at once. A task that is still being planned
// gets its turn in order to end in it.
func (d *decision) cancelTurn(scope, reason string) {
	if d.Turn == nil && d.Task != nil {
		d.startTurn()
	}
	d.emit(events.CancelRequested{Scope: scope, Reason: reason, By: d.env.By})
	t := d.Turn
	if t == nil || t.Calling || t.Mut.Open || t.Stage == StageVerify && d.Task.Running {
		return
	}
	d.finish(ending{reason: content.Cancelled})
}

func (d *decision) cancelCall(id content.CallID, reason string) error {
	c, ok := d.Call(id)
	switch {
	case !ok && d.CallIDs.Has(id):
		return refuse(ReasonAlreadyFinished, "call %s is over", id)
	case !ok:
		return refuse(ReasonUnknownCall, "no call %s", id)
	case c.Status != "" && !c.Retried():
		return refuse(ReasonAlreadyFinished, "call %s is %s", id, c.Status)
	}
	call := *c
	d.emit(events.CancelRequested{Scope: commands.ScopeCall, Target: id, Reason: reason, By: d.env.By})
	d.resolveAll(call.ID, events.ApprovalCancelled)
	d.emitResult(call, content.StatusCancelled, "", textCancelled, call.Answered())
	return nil
}

func (d *decision) detach(c commands.DetachCall) error {
	call, ok := d.Call(c.Call)
	switch {
	case !ok && d.CallIDs.Has(c.Call):
		return refuse(ReasonNotRunning, "call %s is over", c.Call)
	case !ok:
		return refuse(ReasonUnknownCall, "no call %s", c.Call)
	case call.beside():
		return refuse(ReasonAlreadyBackground, "call %s is in the background already", c.Call)
	case !call.Running():
		return refuse(ReasonNotRunning, "call %s is not running", c.Call)
	}
	d.emit(events.ToolDetached{Call: call.ID, Placeholder: placeholder(call.Name)})
	return nil
}

func (d *decision) setCache(c commands.SetNextTurnCache) error {
	if !c.Cache.Valid() {
		return refuse(ReasonInvalidCache, "unknown mode, retention or breakpoint")
	}
	d.emit(events.CacheOverrideSet{Cache: c.Cache})
	return nil
}

// mayClose refuses to close a session that is at work.
func (s *State) mayClose() error {
	if stopping := s.cancelling() && s.Turn.Cancel.Scope == commands.ScopeSession; !s.idle() && !stopping {
		return refuse(ReasonBusy, "a turn is open; cancel the session first")
	}
	return nil
}

func (d *decision) closeSession(c commands.Close) error {
	if err := d.mayClose(); err != nil {
		return err
	}
	for _, b := range d.behind() {
		if d.undecided(b.ID) { // nobody will decide
			d.resolveAll(b.ID, events.ApprovalCancelled)
			d.emitResult(b, content.StatusCancelled, "", textCancelled, true)
		}
	}
	d.bracketHooks(pointSessionEnd)
	d.emit(events.SessionClosed{Reason: c.Reason})
	return nil
}

// park is refused while something is outstanding that needs this process.
func (d *decision) park() error {
	if !d.Parkable() {
		return refuse(ReasonBusy, "the session is working")
	}
	d.emit(events.Parked{})
	return nil
}
