package loop

import (
	"fmt"
	"slices"
	"strings"

	"github.com/turnlog/turnlog/commands"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
)

func (d *decision) mutation(c commands.ReportMutation) {
	m := d.After
	if d.Turn != nil {
		m = d.Turn.Mut
	}
	f := c.Finished
	if !m.Open || m.Point != f.Point || m.current() != f.Mutator || c.Turn != d.lastTurn() || c.Round != d.round() {
		return
	}
	f.Turn = c.Turn
	if f.Dirty && f.Error == "" {
		f.Error = d.broken(f.Replacement)
	}
	if f.Error != "" {
		f.Dirty, f.Replacement, f.After = false, nil, f.Before // the candidate was not taken
	}
	d.emit(f)
	if f.Usage != (content.Usage{}) {
		d.emit(events.UsageUpdated{Turn: c.Turn, Round: d.round(), Usage: f.Usage, Source: "compaction"})
	}
	switch {
	case d.Turn != nil && d.cancelled():
	case f.Error == "":
		if f.Dirty && f.OldTokens > 0 && f.NewTokens >= f.OldTokens {
			d.warn("compaction_no_gain", fmt.Sprintf("%s made %d tokens of %d", f.Mutator, f.NewTokens, f.OldTokens), "")
		}
	case f.Point == pointAfterTurn:
		d.warn("mutation_failed", f.Mutator+": "+f.Error, "")
	default:
		d.finish(ending{reason: content.Errored, failure: &events.RunFailed{
			Turn: c.Turn, Code: codeMutatorFailed, Message: f.Mutator + " at " + f.Point + ": " + f.Error,
		}})
	}
}

// broken says why a candidate cannot become the transcript; empty: it can.
func (d *decision) broken(items []content.Item) string {
	if _, call, problem := Unpaired(items); problem != "" {
		return "call " + string(call) + " " + problem
	}
	for _, it := range items {
		for _, c := range it.Calls() {
			if !d.CallIDs.Has(c.ID) {
				return "call " + string(c.ID) + " was never made"
			}
		}
	}
	return ""
}

func (d *decision) round() int {
	if d.Turn != nil {
		return d.Turn.Round
	}
	return d.Last.Rounds
}

func (d *decision) hooks(c commands.ReportHooks) {
	if a := c.Answer; a.Point == pointSessionStart || a.Point == pointSessionEnd {
		d.sessionHooks(a)
		return
	}
	p, h := d.where()
	if p != atHooks || d.Turn.ID != c.Turn || d.Turn.Round != c.Round || h.point != c.Answer.Point || h.call != c.Answer.Call {
		return
	}
	if h.point == pointCompaction && c.N != len(d.Turn.Mut.Ran) {
		return
	}
	d.takeHook(c.Answer)
}

// sessionHooks records what the hooks said of a host that begins or ends with the
// session. Nothing follows from it here: a host that may not begin has not come.
func (d *decision) sessionHooks(a commands.HookAnswer) {
	if !d.Opened || d.Closed || !d.hasHook(a.Point) {
		return
	}
	d.emit(hookDecided(a))
	d.warnOpen(a)
}

// bracketHooks records what the host's hooks said of the session's start or end.
func (d *decision) bracketHooks(point string) {
	for _, a := range d.env.Hooks {
		if a.Point == point {
			d.sessionHooks(a)
		}
	}
}

// hookDecided is the record of what the hooks of a point said.
func hookDecided(a commands.HookAnswer) events.HookDecided {
	ev := events.HookDecided{
		Point: a.Point, Call: a.Call, Hook: a.Hook, Action: a.Action, Reason: a.Reason, FailedOpen: a.FailedOpen,
	}
	for _, n := range a.Notes {
		ev.Notes = append(ev.Notes, events.HookNote{Hook: n.Hook, Text: clip(n.Text, maxWarning)})
	}
	return ev
}

// warnOpen warns of the hooks that broke without stopping anything.
func (d *decision) warnOpen(a commands.HookAnswer) {
	for _, name := range a.FailedOpen {
		text := []string{name + " failed at " + a.Point}
		for _, n := range a.Notes {
			if n.Hook == name {
				text = append(text, clip(n.Text, maxWarning))
			}
		}
		d.warn("hook_failed_open", strings.Join(text, ": "), a.Call)
	}
}

// takeHook records what the hooks of a point decided and does what it says.
func (d *decision) takeHook(a commands.HookAnswer) {
	t := d.Turn
	ev := hookDecided(a)
	ev.Turn, ev.Round = t.ID, t.Round
	d.emit(ev)
	d.warnOpen(a)
	switch {
	case a.Action == actionTerminate:
		d.finish(ending{reason: content.Terminated, hook: &ev})
	case a.Action != actionSkip:
	case a.Point != pointPreTool:
		d.warn("skip_ignored", a.Hook+" asked to skip at "+a.Point, a.Call)
	default:
		if c, ok := d.State.Call(a.Call); ok {
			d.emitResult(*c, content.StatusSkipped, "", "Tool call skipped: "+a.Reason, false)
		}
	}
}

// overdue answers a call whose worker should have reported by now.
func (d *decision) overdue(c Call) {
	text := "Tool timed out after " + c.Routing.Timeout.String()
	d.emitResult(c, content.StatusError, codeTimeout, text, c.Answered())
	d.warnTool(c.ID, content.StatusError, text)
}

// timer takes in that a time has come, if it has and something still waits for it.
func (d *decision) timer(c commands.ReportTimer) {
	due := slices.ContainsFunc(Pending(&d.State), func(e Effect) bool {
		t, ok := e.(ArmTimer)
		return ok && t.Kind == c.Kind && t.ID == c.ID && t.At <= d.At
	})
	if !due {
		return
	}
	switch c.Kind {
	case commands.TimerRetry:
		if !d.limited(d.overRequests()) {
			d.callModel(d.Turn.Attempt + 1)
		}
	case commands.TimerApproval:
		d.expire(content.ApprovalID(c.ID))
	case commands.TimerDetach:
		if call, ok := d.CallAt(content.Place(c.ID)); ok {
			d.emit(events.ToolDetached{Call: call.ID, Placeholder: placeholder(call.Name)})
		}
	case commands.TimerDeadline:
		if call, ok := d.CallAt(content.Place(c.ID)); ok {
			d.overdue(*call)
		}
	case commands.TimerWallClock:
		d.limited(d.overTime())
	}
}
