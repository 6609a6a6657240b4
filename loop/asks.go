package loop

import (
	"bytes"
	"cmp"
	"slices"

	"github.com/turnlog/turnlog/commands"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
)

func (d *decision) claim(c commands.Claim) {
	d.emit(events.DriverClaimed{Epoch: d.Epoch + 1, Node: c.Node, Token: c.Token, Lost: c.Lost, Tickets: c.Tickets, Key: c.Key, Keys: c.Keys, Checked: c.Checked, RetriedBy: c.RetriedBy, User: c.User})
	if !d.Opened {
		return
	}
	if c.Config != nil && c.Config.Digest != d.Config.Digest {
		d.emit(events.ConfigChanged{Config: *c.Config})
	}
	d.recordPolicy()
	if t := d.Turn; t != nil && t.Calling {
		d.modelLost()
	}
	for _, p := range c.Lost {
		if call, ok := d.CallAt(p); ok && call.Running() {
			d.loseAttempt(*call, "its host died", true)
		}
	}
}

// switchModel changes the model for the next call. A running call is not stopped.
func (d *decision) switchModel(c commands.SwitchModel) {
	if c.Model != d.Config.Model || !bytes.Equal(c.Data, d.Config.ModelData) {
		d.emit(events.ModelSwitched{Model: c.Model, Data: c.Data, By: d.env.By, User: d.env.User})
	}
}

// Brackets returns the hook point that a host must run before the command is decided: the start or the end of the
// session, if the command would open or close it.
func Brackets(s *State, env commands.Envelope) string {
	switch c := any(env.Command).(type) {
	case commands.OpenSession:
		if s.mayOpen(c) == nil && !s.Handled(env.ID) {
			return pointSessionStart
		}
	case commands.Close:
		if s.Opened && !s.Closed && s.mayClose() == nil && !s.Handled(env.ID) {
			return pointSessionEnd
		}
	}
	return ""
}

func (s *State) mayOpen(c commands.OpenSession) error {
	switch {
	case s.Closed:
		return commands.Refuse(commands.ReasonClosed, "session %s is closed", s.Session)
	case s.Opened:
		return commands.Refuse(commands.ReasonSessionExists, "session %s is open already", s.Session)
	}
	return commands.Validate(c)
}

func (d *decision) open(c commands.OpenSession) error {
	if err := d.mayOpen(c); err != nil {
		return err
	}
	for _, a := range d.env.Hooks {
		if a.Point == pointSessionStart && a.Action == actionTerminate {
			return commands.Refuse(commands.ReasonHookTerminated, "%s: %s", a.Hook, a.Reason)
		}
	}
	cfg := c.Config
	if d.env.Catalog != nil {
		cfg.Catalog = *d.env.Catalog
	}
	before, reply, results := c.Transcript, []content.Item(nil), []content.Item(nil)
	if c.Resume {
		before, reply, results = content.OpenRound(c.Transcript)
	}
	d.emit(events.RunStarted{
		Config: cfg, Transcript: before, Stepped: c.Stepped,
		Metadata: c.Metadata.WithoutReserved(), Parent: c.Parent, From: c.From, By: d.env.By, User: d.env.User,
	})
	d.recordPolicy()
	d.bracketHooks(pointSessionStart)
	queued := events.InputQueued{Items: content.Stripped(c.Input), Origin: events.FromHost, By: d.env.By, User: d.env.User}
	if c.Resume {
		d.resumeRound(reply, results)
		queued.OnBusy = events.Queue
	}
	if len(c.Input) > 0 {
		d.emit(queued)
	}
	return nil
}

// resumeRound opens a turn in the middle of a round. The reply and the known results come from another session.
// No attempt of this session came before them, so this is attempt 0. The other calls are checked and run here.
func (d *decision) resumeRound(reply, results []content.Item) {
	turn := content.TurnIDFor(d.Turns + 1)
	d.emit(
		events.TurnStarted{Turn: turn, Trigger: events.FromHost},
		events.RoundStarted{Turn: turn, Round: 1, Catalog: d.Catalog.Digest},
	)
	items, calls := d.replyItems(commands.ReportReply{Items: reply})
	d.emit(events.ReplyRecorded{Turn: turn, Round: 1, Items: items, FinishReason: content.ToolCalls})
	for i, call := range calls {
		ev := events.ToolCallRequested{Turn: turn, Round: 1, Call: call}
		if i < len(d.env.Routing) {
			ev.Routing = d.env.Routing[i]
		}
		d.emit(ev)
	}
	asked := content.Calls(reply)
	for _, r := range content.Results(results) {
		of := slices.IndexFunc(asked, func(c content.ToolCall) bool { return c.ID == r.CallID })
		r.CallID = calls[of].ID // the call may have another one here
		d.emit(events.ToolResultReceived{Turn: turn, Round: 1, Result: r})
	}
}

func (d *decision) submit(c commands.SubmitInput) error {
	busy := d.Turn != nil || d.Task != nil
	if busy && c.OnBusy == events.Reject {
		return commands.Refuse(commands.ReasonBusy, "a turn is open")
	}
	if err := d.roomFor(c.Items); err != nil {
		return err
	}
	d.emit(events.InputQueued{Items: content.Stripped(c.Items), Origin: events.FromHost, OnBusy: c.OnBusy, Options: c.Options, By: d.env.By, User: d.env.User})
	if busy && c.OnBusy == events.Interrupt && !d.cancelling() {
		d.cancelTurn(commands.ScopeTurn, "interrupted_by_input")
	}
	return nil
}

// passWait lets a stepped session continue from its current wait, if the command names that wait.
func (d *decision) passWait(c commands.Continue) {
	w, t := Waiting(&d.State), d.Turn
	if c.Wait != w || w != commands.WaitReady && w != commands.WaitYield {
		return
	}
	d.pass = t == nil && c.Turn == "" || t != nil && c.Turn == t.ID && c.Round == t.Round
}

func (d *decision) cancel(c commands.Cancel) error {
	reason := cmp.Or(c.Reason, "user_cancelled")
	switch c.Scope {
	case commands.ScopeCall:
		return d.cancelCall(c.Call, reason)
	case commands.ScopeSession:
		d.cancelTurn(commands.ScopeSession, reason)
		for _, b := range d.callsWhere(Call.InBackground) {
			d.callCancelled(b)
		}
		return nil
	}
	switch open := d.openTurn(); {
	case open == "":
		return commands.Refuse(commands.ReasonNothingToCancel, "no turn is open")
	case c.Turn != "" && c.Turn != open:
		return commands.Refuse(commands.ReasonNothingToCancel, "%s is not open: %s is", c.Turn, open)
	}
	if !d.cancelling() {
		d.cancelTurn(commands.ScopeTurn, reason)
	}
	return nil
}

// openTurn is the open turn, or the one that the open task will get.
func (s *State) openTurn() content.TurnID {
	switch {
	case s.Turn != nil:
		return s.Turn.ID
	case s.Task != nil:
		return content.TurnIDFor(s.Turns + 1)
	}
	return ""
}

// cancelTurn records the cancel. A running model, mutator or verifier is stopped first, and its report ends the
// turn. Otherwise the turn ends at once. A task that is still being planned gets a turn to end in.
func (d *decision) cancelTurn(scope, reason string) {
	if d.Turn == nil && d.Task != nil {
		d.startTurn()
	}
	d.emit(events.CancelRequested{Scope: scope, Reason: reason, By: d.env.By, User: d.env.User})
	if d.Turn != nil && !d.stopsFirst() && !d.Turn.Mut.Open {
		d.cancelled()
	}
}

func (s *State) mayClose() error {
	stopping := s.cancelling() && s.Turn.Cancel.Scope == commands.ScopeSession
	if !s.idle() && !stopping {
		return commands.Refuse(commands.ReasonBusy, "a turn is open; cancel the session first")
	}
	return nil
}

func (d *decision) closeSession(c commands.Close) error {
	if err := d.mayClose(); err != nil {
		return err
	}
	for _, b := range d.callsWhere(Call.InBackground) {
		if d.undecided(b.ID) { // and will stay so
			d.callCancelled(b)
		}
	}
	d.bracketHooks(pointSessionEnd)
	d.emit(events.SessionClosed{Reason: c.Reason, By: d.env.By, User: d.env.User})
	return nil
}

// park is refused while something is outstanding that needs this process.
func (d *decision) park(c commands.Park) error {
	if !d.Parkable() {
		return commands.Refuse(commands.ReasonBusy, "the session is working")
	}
	d.emit(events.Parked(c))
	return nil
}

// joins reports whether queued input is merged now: at a round boundary only steering input, at the start of a turn
// everything except tasks, which get their own turns.
func joins(q events.InputQueued, steering bool) bool {
	return q.Task == nil && (!steering || q.OnBusy == events.Steer)
}
