package loop

import (
	"fmt"
	"slices"
	"strings"

	"github.com/turnlog/turnlog/commands"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
)

// Points of hooks and mutators and the actions of hooks, as they are recorded.
const (
	pointLoop         = "loop_iteration"
	pointPreLlm       = "pre_llm_call"
	pointPostLlm      = "post_llm_call"
	pointPreTool      = "pre_tool_execution"
	pointPostTool     = "post_tool_execution"
	pointCompaction   = "context_compaction"
	pointSessionStart = "session_start"
	pointSessionEnd   = "session_end"

	pointBeforeModel = "before_model"
	pointAfterTool   = "after_tool_result"
	pointAfterTurn   = "after_turn_ended"

	actionSkip      = "skip"
	actionTerminate = "terminate"
)

func (d *decision) hooks(c commands.ReportHooks) {
	a := c.Answer
	if a.Point == pointSessionStart || a.Point == pointSessionEnd {
		d.sessionHooks(a)
		return
	}
	p, h := d.where()
	if p != atHooks || d.Turn.ID != c.Turn || d.Turn.Round != c.Round || h.Point != a.Point || h.Call != a.Call {
		return
	}
	if h.Point == pointCompaction && c.N != len(d.Turn.Mut.Ran) {
		return
	}
	d.takeHook(a)
}

// useAnswer uses the hooks' decision that came with the report, if there is one.
func (d *decision) useAnswer(h HookPoint) bool {
	i := slices.IndexFunc(d.answers, func(a commands.HookAnswer) bool { return a.Point == h.Point && a.Call == h.Call })
	if i < 0 {
		return false
	}
	a := d.answers[i]
	d.answers = slices.Delete(d.answers, i, i+1)
	d.takeHook(a)
	return true
}

// bracketHooks records what the host's hooks decided about the session's start or end.
func (d *decision) bracketHooks(point string) {
	for _, a := range d.env.Hooks {
		if a.Point == point {
			d.sessionHooks(a)
		}
	}
}

// sessionHooks records what the hooks decided about a host's start or end. Nothing follows from it here: a host
// that must not start has not started.
func (d *decision) sessionHooks(a commands.HookAnswer) {
	if d.Opened && !d.Closed && d.hasHook(a.Point) {
		d.recordHook(hookDecided(a), a)
	}
}

// takeHook records what the hooks of a point decided and acts on it.
func (d *decision) takeHook(a commands.HookAnswer) {
	ev := hookDecided(a)
	ev.Turn, ev.Round = d.Turn.ID, d.Turn.Round
	d.recordHook(ev, a)
	switch {
	case a.Action == actionTerminate:
		d.finish(ending{reason: content.Terminated, hook: &ev})
	case a.Action != actionSkip:
	case a.Point != pointPreTool:
		d.warn("skip_ignored", a.Hook+" asked to skip at "+a.Point, a.Call)
	default:
		if c, ok := d.Call(a.Call); ok {
			d.answer(*c, content.StatusSkipped, "", "Tool call skipped: "+a.Reason)
		}
	}
}

func hookDecided(a commands.HookAnswer) events.HookDecided {
	ev := events.HookDecided{
		Point: a.Point, Call: a.Call, Hook: a.Hook, Action: a.Action, Reason: a.Reason, FailedOpen: a.FailedOpen,
	}
	for _, n := range a.Notes {
		ev.Notes = append(ev.Notes, events.HookNote{Hook: n.Hook, Text: content.Clip(n.Text, maxWarning)})
	}
	return ev
}

// recordHook records a decision, and warns of the hooks that failed open.
func (d *decision) recordHook(ev events.HookDecided, a commands.HookAnswer) {
	d.emit(ev)
	for _, name := range a.FailedOpen {
		text := []string{name + " failed at " + a.Point}
		for _, n := range ev.Notes {
			if n.Hook == name {
				text = append(text, n.Text)
			}
		}
		d.warn("hook_failed_open", strings.Join(text, ": "), a.Call)
	}
}

// startMutator starts the next mutator of a point.
func (d *decision) startMutator(m Mutating) {
	name := d.Config.Mutators[d.nextMutator(m)].Name
	turn, _ := d.here()
	d.emit(events.MutationStarted{Turn: turn, Mutator: name, Point: m.Point})
}

func (d *decision) mutation(c commands.ReportMutation) {
	f := c.Finished
	m := *d.mutating(f.Point)
	if !m.Open || m.Point != f.Point || m.current() != f.Mutator {
		return
	}
	if turn, round := d.here(); c.Turn != turn || c.Round != round {
		return
	}
	f.Turn = c.Turn
	if f.Dirty && f.Error == "" {
		f.Error = d.broken(f.Replacement)
	}
	if f.Error != "" {
		f.Dirty, f.Replacement, f.After = false, nil, f.Before // the candidate is discarded
	}
	d.emit(f)
	d.used(f.Usage, "compaction")
	switch {
	case d.cancelled():
	case f.Error == "":
		if f.Dirty && f.OldTokens > 0 && f.NewTokens >= f.OldTokens {
			d.warn("compaction_no_gain", fmt.Sprintf("%s made %d tokens of %d", f.Mutator, f.NewTokens, f.OldTokens), "")
		}
	case f.Point == pointAfterTurn:
		d.warn("mutation_failed", f.Mutator+": "+f.Error, "")
	default:
		d.fail(codeMutatorFailed, "", f.Mutator+" at "+f.Point+": "+f.Error)
	}
}

// broken says why a candidate cannot become the transcript, or returns "".
func (d *decision) broken(items []content.Item) string {
	if _, call, problem := content.Unpaired(items); problem != "" {
		return "call " + string(call) + " " + problem
	}
	for _, c := range content.Calls(items) {
		if !d.CallIDs.Has(c.ID) {
			return "call " + string(c.ID) + " was never made"
		}
	}
	return ""
}
