package loop

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
)

// advance moves the session forward until it owes an effect or must wait.
func (d *decision) advance() {
	for d.step() {
	}
}

// step does what the position requires. It returns false if the session owes an effect or must wait.
func (d *decision) step() bool {
	p, hook := d.where()
	switch p {
	case atNothing, atInput, atPlanning, atMutator, atModel, atStopping, atRetry, atApproval, atWaitTools, atVerify, atReport:
		return false
	case atHooks:
		return d.useAnswer(hook)
	case atStart:
		if d.Task == nil && !d.passes() {
			return false
		}
		d.start()
	case atAfterTurn:
		d.startMutator(d.After)
	case atMutate:
		point := pointBeforeModel
		if d.Turn.Stage == StageReplied {
			point = pointAfterTool
		}
		d.startMutator(d.Turn.Mut.at(point))
	case atTop:
		d.startRound()
	case atYield:
		return d.boundary()
	case atCall:
		if !d.limited(events.LimitRequests) { // the limits may have changed since the round started
			d.callModel(1)
		}
	case atDeadTail:
		d.endTurn(content.Completed)
	case atReply:
		d.actOnReply()
	case atPreflight:
		return d.checkCalls()
	case atHeld:
		if !d.passes() {
			return false
		}
		d.dispatchNext()
	case atTools:
		d.dispatchNext()
	case atFailedTool:
		i := slices.IndexFunc(d.Turn.Calls, Call.failsRun)
		d.fail(codeToolFailed, "", d.Turn.Calls[i].failure())
	case atRoundEnd:
		d.finishRound()
	}
	return true
}

// passes reports whether a stepped session may continue. Each Continue allows one wait to pass.
func (d *decision) passes() bool {
	if d.Stepped && !d.pass {
		return false
	}
	d.pass = false
	return true
}

// start opens a queued task or a turn. A task's notes are recalled before its goal is merged.
func (d *decision) start() {
	i := d.queuedTask()
	if d.Task != nil || i < 0 {
		d.startTurn()
		return
	}
	q := d.Queue[i]
	name := cmp.Or(q.TaskName, "task-"+string(content.TurnIDFor(d.Turns+1)))
	d.emit(events.TaskStarted{Task: name, Spec: *q.Task, Baseline: q.Baseline})
}

// startTurn opens a turn. A task's turn starts with its goal alone, any other with the pending input.
func (d *decision) startTurn() {
	pending := d.pendingInput(false)
	if d.Task != nil {
		q := d.Queue[d.queuedTask()]
		pending = []events.InputAccepted{{Items: q.Items, Origin: q.Origin, Options: q.Options}}
	}
	turn, first := content.TurnIDFor(d.Turns+1), pending[0]
	options := d.within(first.Options)
	first.Turn, first.Options = turn, nil
	d.emit(first, events.TurnStarted{Turn: turn, Trigger: first.Origin, Options: options})
	for _, in := range pending[1:] {
		in.Turn = turn
		d.emit(in)
	}
}

// pendingInput returns what joins a turn now: queued input, and the notifications that waited for it.
// Notifications that start turns by themselves alternate with input: if the last merge took input and left some
// pending, they come first.
func (d *decision) pendingInput(steering bool) []events.InputAccepted {
	var in events.InputAccepted
	for _, q := range d.Queue {
		if joins(q, steering) {
			in.Origin = cmp.Or(in.Origin, q.Origin)
			in.Items = append(in.Items, q.Items...)
			in.Options = in.Options.And(q.Options)
		}
	}
	notices := events.InputAccepted{Origin: events.FromNotification}
	for _, n := range d.Notices {
		notices.Items = append(notices.Items, n.Item)
	}
	if d.notifies() && d.NoticesFirst {
		in.Items = nil
	} else if d.notifies() && len(in.Items) > 0 {
		notices.Items = nil
	}
	var all []events.InputAccepted
	for _, next := range [...]events.InputAccepted{in, notices} {
		if len(next.Items) > 0 {
			all = append(all, next)
		}
	}
	return all
}

// boundary ends a complete round: queued input joins, then the next round may start. A stepped session yields
// here, except after a provider's compaction.
func (d *decision) boundary() bool {
	if d.Turn.Reply != content.Compaction && !d.passes() {
		return false
	}
	d.steer()
	d.startRound()
	return true
}

// steer merges pending input into the open turn. The input's options restrict the rest of the turn.
func (d *decision) steer() {
	for _, in := range d.pendingInput(true) {
		in.Turn = d.Turn.ID
		if in.Options != nil {
			in.Options = d.Turn.Options.And(d.within(in.Options))
		}
		d.emit(in)
	}
}

// startRound starts a round if the limits allow one. The limit on rounds is checked first, so the tools of the
// last allowed round still run.
func (d *decision) startRound() {
	if d.limited(events.LimitRounds) || d.limited(consumed(events.LimitRequests)...) {
		return
	}
	catalog := d.Catalog.Digest
	if d.env.Catalog != nil {
		catalog = d.env.Catalog.Digest // which the round's request will show
	}
	d.emit(events.RoundStarted{Turn: d.Turn.ID, Round: d.Turn.Round + 1, Catalog: catalog})
}

func (d *decision) finishRound() {
	d.emit(events.RoundFinished{Turn: d.Turn.ID, Round: d.Turn.Round, TranscriptLen: len(d.Transcript)})
}

// callModel records a model call, after the catalog changes that the request includes.
func (d *decision) callModel(attempt int) {
	t := d.Turn
	cache := t.Cache
	if d.Bytes > maxTranscript {
		text := fmt.Sprintf("the transcript has %d MiB, at most %d: compact it or start another session", d.Bytes>>20, maxTranscript>>20)
		d.fail(string(content.ClassTooLong), content.ClassTooLong, text)
		return
	}
	if attempt == 1 {
		if d.env.Catalog != nil {
			for _, change := range d.Catalog.Changes(*d.env.Catalog) {
				d.emit(change)
			}
		}
		if cache = d.CacheOverride; cache == nil {
			cache = d.Config.Cache
		}
	}
	d.emit(events.ModelCallStarted{
		Turn: t.ID, Round: t.Round, Attempt: attempt,
		TranscriptLen: len(d.Transcript), Catalog: d.Catalog.Digest, Cache: cache,
	})
}
