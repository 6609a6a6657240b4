package replay

import (
	"fmt"
	"slices"

	"github.com/turnlog/turnlog/commands"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/extension"
	"github.com/turnlog/turnlog/loop"
	"github.com/turnlog/turnlog/tool"
)

// shown returns events in the form in which they are compared.
func shown(evs []events.Event) (b []byte) {
	for _, ev := range evs {
		var err error
		if b, err = events.AppendEvent(b, ev); err != nil { // no journal has such an event
			b = fmt.Append(b, err)
		}
	}
	return b
}

// entry is an entry of a journal, from which its command is reconstructed.
type entry struct {
	was  *loop.State
	evs  []events.Event // without what a host adds to every command
	env  commands.Envelope
	owed []loop.Effect
}

// causeOf returns the command that caused an entry. A journal has only the events: the first one says what the command
// asks or reports, and what the session waited for says the rest.
func causeOf(was *loop.State, e events.Entry) commands.Envelope {
	after := was.Fork()
	after.Fold(e)
	x := entry{
		was: was, owed: loop.Pending(was),
		env: commands.Envelope{ID: e.Cause, Session: e.Session, At: e.At, Catalog: &after.Catalog},
	}
	for _, ev := range e.Events {
		switch ev := ev.(type) { //nolint:gochecksumtype // the others are what was decided
		case events.CommandSigned:
			x.env.Signed = &ev
			continue
		case events.SnapshotTaken:
			x.env.Snapshot = &ev
			continue
		case events.PolicyApplied:
			x.env.Policy = &ev.Policy
			continue
		case events.RoundStarted:
			if ev.Catalog != after.Catalog.Digest { // its changes are recorded with its model call
				c := after.Catalog
				c.Digest = ev.Catalog
				x.env.Catalog = &c
			}
		}
		x.evs = append(x.evs, ev)
	}
	if len(x.evs) > 0 {
		x.env.Command = x.command()
	}
	if x.env.Command == nil {
		x.env.Command = commands.Continue{} // it names no wait, so nothing follows
	}
	return x.env
}

// first returns the first event of a type.
func first[E events.Event](x *entry) (e E, ok bool) {
	for _, ev := range x.evs {
		if e, ok := ev.(E); ok {
			return e, true
		}
	}
	return e, false
}

// owes returns the first owed effect of a type.
func owes[E loop.Effect](x *entry) (e E, ok bool) {
	for _, o := range x.owed {
		if e, ok := o.(E); ok {
			return e, true
		}
	}
	return e, false
}

func (x *entry) by(by, user string) { x.env.By, x.env.User = by, user }

// command returns the command of the entry, or nil.
func (x *entry) command() commands.Command {
	if e, ok := first[events.CancelRequested](x); ok {
		if _, input := x.evs[0].(events.InputQueued); !input {
			x.by(e.By, e.User)
			return commands.Cancel{Scope: e.Scope, Call: e.Target, Reason: e.Reason}
		}
	}
	if e, ok := first[events.SessionClosed](x); ok {
		x.by(e.By, e.User)
		x.env.Hooks = x.answers()
		return commands.Close{Reason: e.Reason}
	}
	if e, ok := first[events.RunStarted](x); ok {
		return x.open(e)
	}
	if e, ok := first[events.ReplyRecorded](x); ok {
		return x.reply(e)
	}
	if _, ok := x.evs[0].(events.DriverClaimed); ok {
		return x.ask()
	}
	if c := x.timer(); c != nil {
		return c
	}
	if c := x.report(); c != nil {
		return c
	}
	return x.ask()
}

// ask returns the command of a client or of the host.
func (x *entry) ask() commands.Command {
	switch e := x.evs[0].(type) { //nolint:gochecksumtype // the others follow from reports, or from a Continue
	case events.DriverClaimed:
		c := commands.Claim{Node: e.Node, Token: e.Token, Lost: e.Lost, Tickets: e.Tickets, Key: e.Key, Keys: e.Keys, Checked: e.Checked, RetriedBy: e.RetriedBy, User: e.User}
		if changed, ok := first[events.ConfigChanged](x); ok {
			c.Config = &changed.Config
		}
		return c
	case events.InputQueued:
		x.by(e.By, e.User)
		if e.Task != nil {
			return commands.StartTask{Task: e.TaskName, Spec: *e.Task, Baseline: e.Baseline, Files: e.Items[0].Parts[1:], Options: e.Options}
		}
		return commands.SubmitInput{Items: e.Items, OnBusy: e.OnBusy, Options: e.Options}
	case events.ApprovalResolved:
		return x.decision(e)
	case events.ToolsAllowed:
		x.by(e.By, e.User)
		return commands.AllowTools{Tools: e.Tools, By: e.By}
	case events.DeadLetterSettled:
		x.by(e.By, e.User)
		return commands.SettleDeadLetter{Call: e.Call, Retry: e.Outcome == events.DeadRetried, MayRepeat: true, Reason: e.Reason, By: e.By}
	case events.ToolDetached:
		x.by(e.By, e.User)
		return commands.DetachCall{Call: e.Call}
	case events.CacheOverrideSet:
		return commands.SetNextTurnCache{Cache: e.Cache}
	case events.ModelSwitched:
		x.by(e.By, e.User)
		return commands.SwitchModel{Model: e.Model, Data: e.Data}
	case events.Parked:
		return commands.Park(e)
	}
	c := commands.Continue{Wait: loop.Waiting(x.was)}
	if t := x.was.Turn; t != nil {
		c.Turn, c.Round = t.ID, t.Round
	}
	return c
}

func (x *entry) open(e events.RunStarted) commands.Command {
	x.by(e.By, e.User)
	x.env.Hooks, x.env.Catalog = x.answers(), nil
	c := commands.OpenSession{Config: e.Config, Transcript: e.Transcript, Stepped: e.Stepped, Metadata: e.Metadata, Parent: e.Parent, From: e.From}
	if in, ok := first[events.InputQueued](x); ok {
		c.Input = in.Items
	}
	if reply, ok := first[events.ReplyRecorded](x); ok { // it continues the round of another session
		c.Resume = true
		c.Transcript = slices.Concat(c.Transcript, reply.Items)
		x.env.Routing = x.routing()
		for _, ev := range x.evs {
			if r, ok := ev.(events.ToolResultReceived); ok {
				c.Transcript = append(c.Transcript, content.ResultItem(r.Result))
			}
		}
	}
	return c
}

func (x *entry) decision(e events.ApprovalResolved) commands.Command {
	x.env.User = e.User
	c := commands.ResolveApproval{Approval: e.Approval, Call: e.Call, Approve: e.Outcome == events.Approved, Reason: e.Reason, By: e.By, Input: e.Input, Always: e.Always}
	if len(e.Input) == 0 {
		return c
	}
	if call, ok := x.was.Call(e.Call); ok {
		check := x.check(*call)
		check.Digest = e.Digest
		if e.Scope != "" {
			for _, a := range x.was.PendingApprovals() {
				if a.ID == e.Approval {
					check.Questions = append(check.Questions, commands.Question{RequestKind: a.RequestKind, Scope: e.Scope})
				}
			}
		}
		x.env.Checks = []commands.Check{check}
	}
	return c
}

// reply returns the report of a reply, or of the part that had arrived when it was stopped.
func (x *entry) reply(e events.ReplyRecorded) commands.Command {
	at := commands.ModelCall{Turn: e.Turn, Round: e.Round, Attempt: e.Attempt}
	usage, _ := first[events.UsageUpdated](x)
	if e.Interrupted {
		return commands.ReportModelStopped{ModelCall: at, Items: e.Items, Usage: usage.Usage}
	}
	c := commands.ReportReply{
		ModelCall: at, Items: e.Items, FinishReason: e.FinishReason, Usage: usage.Usage, Model: e.Model, ResponseID: e.ResponseID,
		Invalid: e.Invalid, Routing: x.routing(), Hooks: x.answers(),
	}
	for _, ev := range x.evs {
		if w, ok := ev.(events.Warning); ok {
			c.Warnings = append(c.Warnings, events.Warning{Code: w.Code, Message: w.Message})
			continue
		}
		break
	}
	if x.checked() {
		for _, ev := range x.evs {
			if r, ok := ev.(events.ToolCallRequested); ok {
				c.Checks = append(c.Checks, x.check(loop.Call{ToolCall: r.Call}))
			}
		}
	}
	return c
}

func (x *entry) routing() (all []content.Routing) {
	for _, ev := range x.evs {
		if r, ok := ev.(events.ToolCallRequested); ok {
			all = append(all, r.Routing)
		}
	}
	return all
}

// checked reports whether the entry has events that follow from checks of calls.
func (x *entry) checked() bool {
	return slices.ContainsFunc(x.evs, func(ev events.Event) bool {
		switch ev.(type) { //nolint:gochecksumtype // the others follow from something else
		case events.ApprovalRequired, events.ToolDispatched, events.ToolResultReceived:
			return true
		}
		return false
	})
}

// check returns the result of the check of a call.
func (x *entry) check(c loop.Call) commands.Check {
	k := commands.Check{Place: c.Place, Digest: c.Digest}
	for _, ev := range x.evs {
		switch ev := ev.(type) { //nolint:gochecksumtype // the others follow from something else
		case events.ApprovalRequired:
			if a := ev.Approval; a.CallID == c.ID {
				k.Digest, k.Questions = a.Digest, append(k.Questions, x.question(a))
			}
		case events.ToolResultReceived:
			r := ev.Result
			if r.CallID == c.ID && ev.Attempt == 0 && (r.Status == content.StatusError || r.Status == content.StatusDenied) {
				k.Refusal = &commands.Refusal{Status: r.Status, Code: r.Code, Message: r.Text()}
			}
		}
	}
	return k
}

func (x *entry) question(a events.Approval) commands.Question {
	q := commands.Question{RequestKind: a.RequestKind, Scope: a.Scope, Reason: a.Reason, Summary: a.Summary, Metadata: a.Metadata, Asker: a.Asker}
	if a.ExpiresAt != 0 {
		q.TTL = a.ExpiresAt.Sub(x.env.At)
	}
	return q
}

// answers returns the decisions of hooks.
func (x *entry) answers() (all []commands.HookAnswer) {
	for _, ev := range x.evs {
		if h, ok := ev.(events.HookDecided); ok {
			all = append(all, commands.HookAnswer{
				Point: h.Point, Call: h.Call, Hook: h.Hook, Action: h.Action, Reason: h.Reason, FailedOpen: h.FailedOpen, Notes: h.Notes,
			})
		}
	}
	return all
}

// timer returns the report of the timer that caused the entry, or nil.
func (x *entry) timer() commands.Command {
	var kind string
	switch e := x.evs[0].(type) { //nolint:gochecksumtype // no timer leads to the others
	case events.ApprovalResolved:
		if e.Outcome == events.Expired {
			kind = commands.TimerApproval
		}
	case events.ToolDetached:
		if e.By+e.User == "" {
			kind = commands.TimerDetach
		}
	case events.ToolResultReceived:
		if e.Attempt == 0 && e.Result.Code == "timeout" {
			kind = commands.TimerDeadline
		}
	case events.ModelCallStarted:
		kind = commands.TimerRetry
	case events.LimitReached:
		kind = commands.TimerWallClock
		if e.Kind != events.LimitWallClock {
			kind = commands.TimerRetry
		}
	}
	for _, o := range x.owed {
		t, ok := o.(loop.ArmTimer)
		if ok && t.Kind == kind && t.At <= x.env.At && x.about(t) {
			return commands.ReportTimer{Kind: t.Kind, ID: t.ID}
		}
	}
	return nil
}

// about reports whether a timer and the first event are about the same thing.
func (x *entry) about(t loop.ArmTimer) bool {
	var of content.CallID
	switch e := x.evs[0].(type) { //nolint:gochecksumtype // the other timers are the only ones of their kind
	case events.ApprovalResolved:
		return t.ID == string(e.Approval)
	case events.ToolDetached:
		of = e.Call
	case events.ToolResultReceived:
		of = e.Result.CallID
	default:
		return true
	}
	c, ok := x.was.CallAt(content.Place(t.ID))
	return ok && c.ID == of
}

// report returns the report of an effect, or nil.
func (x *entry) report() commands.Command {
	if p, ok := owes[loop.Preflight](x); ok && x.preflighted() {
		c := commands.ReportPreflight{Turn: p.Turn, Round: p.Round, Hooks: x.answers()}
		for _, call := range p.Calls {
			c.Checks = append(c.Checks, x.check(call))
		}
		return c
	}
	usage, used := first[events.UsageUpdated](x)
	switch e := x.evs[0].(type) { //nolint:gochecksumtype // the others are no reports
	case events.ModelCallFailed:
		return commands.ReportModelFailed{
			ModelCall: commands.ModelCall{Turn: e.Turn, Round: e.Round, Attempt: e.Attempt},
			Class:     e.Class, Code: e.Code, Message: e.Message, RetryAfter: e.RetryAfter, Usage: usage.Usage,
		}
	case events.HookDecided:
		c := commands.ReportHooks{Answer: x.answers()[0]}
		if h, ok := owes[loop.RunHooks](x); ok && h.Point == e.Point {
			c.Turn, c.Round, c.N = h.Turn, h.Round, h.N
		}
		return c
	case events.MutationFinished:
		m, _ := owes[loop.RunMutator](x)
		return commands.ReportMutation{Turn: m.Turn, Round: m.Round, Finished: e}
	case events.MemoryRecalled:
		return x.recall(e)
	case events.VerifyFinished:
		if t := x.was.Task; t != nil && t.Running {
			return commands.ReportVerify{Task: t.Name, Finished: e}
		}
	case events.MemoryStored:
		if t := x.was.Task; t != nil {
			return commands.ReportMemory{Task: t.Name, Error: e.Error}
		}
	case events.ToolAttemptLost:
		if c, ok := x.was.Call(e.Call); ok {
			_, again := first[events.ToolDispatched](x)
			return commands.ReportAttemptLost{Place: c.Place, Attempt: e.Attempt, Queue: c.Routing.Queue, Reason: e.Reason, Last: !again}
		}
	case events.ApprovalRequired:
		return x.lateQuestion(e.Approval)
	}
	if c := x.results(); c != nil {
		return c
	}
	m, stopping := owes[loop.StopModel](x)
	switch {
	case stopping && used && usage.Source != "child":
		return commands.ReportModelStopped{ModelCall: m.ModelCall, Usage: usage.Usage}
	case used && usage.Call != "":
		return x.wasted(usage)
	case stopping:
		return commands.ReportModelStopped{ModelCall: m.ModelCall}
	}
	return nil
}

// preflighted reports whether the entry follows from the checks of calls.
func (x *entry) preflighted() bool {
	switch e := x.evs[0].(type) { //nolint:gochecksumtype // the others follow from something else
	case events.ApprovalRequired, events.ToolDispatched:
		return true
	case events.ToolResultReceived:
		return e.Attempt == 0
	case events.HookDecided:
		return e.Point == string(extension.PreToolExecution)
	case events.LimitReached:
		return true
	}
	return false
}

func (x *entry) recall(e events.MemoryRecalled) commands.Command {
	c := commands.ReportRecall{Items: e.Items}
	if t := x.was.Task; t != nil {
		c.Task = t.Name
	}
	if w, ok := first[events.Warning](x); ok {
		c.Error = w.Message
	}
	return c
}

func (x *entry) lateQuestion(a events.Approval) commands.Command {
	call, ok := x.was.Call(a.CallID)
	if !ok {
		return nil
	}
	c := commands.ReportQuestion{Place: call.Place, Attempt: call.Attempt, N: len(call.Approved), Question: x.question(a)}
	for _, ev := range x.evs[1:] {
		if more, ok := ev.(events.ApprovalRequired); ok {
			c.Also = append(c.Also, x.question(more.Approval))
		}
	}
	return c
}

// results returns the report of the entry's results, or nil.
func (x *entry) results() commands.Command {
	var all []commands.ReportResult
	for i, ev := range x.evs {
		e, ok := ev.(events.ToolResultReceived)
		if !ok || e.Attempt == 0 {
			continue
		}
		call, known := x.was.Call(e.Result.CallID)
		if !known {
			continue
		}
		c := commands.ReportResult{
			Place: call.Place, Attempt: e.Attempt, Queue: call.Routing.Queue, Signature: e.Signature, SignedAt: e.SignedAt,
			Outcome: tool.Result{Result: e.Result, Duration: e.Duration, ChangedPaths: e.ChangedPaths, Auth: e.Auth},
		}
		if i+1 < len(x.evs) {
			if u, ok := x.evs[i+1].(events.UsageUpdated); ok {
				c.Outcome.Usage, c.Outcome.Counts = u.Usage, tool.Counts{Requests: u.Requests, ToolCalls: u.ToolCalls}
			}
		}
		all = append(all, c)
	}
	if len(all) == 0 {
		return nil
	}
	all[0].Hooks = x.answers()
	x.env.Also = all[1:]
	return all[0]
}

// wasted returns the report of a call that was answered before, so that only its usage counts.
func (x *entry) wasted(u events.UsageUpdated) commands.Command {
	for _, o := range x.owed {
		s, ok := o.(loop.StopTool)
		if ok && s.Call == u.Call {
			return commands.ReportResult{
				Place: s.Place, Attempt: s.Attempt, Queue: s.Queue,
				Outcome: tool.Result{Usage: u.Usage, Counts: tool.Counts{Requests: u.Requests, ToolCalls: u.ToolCalls}},
			}
		}
	}
	return nil
}
