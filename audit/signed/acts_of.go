package signed

import (
	"bytes"
	"cmp"
	"reflect"
	"slices"
	"strings"

	"github.com/turnlog/turnlog/audit/keys"
	"github.com/turnlog/turnlog/audit/statement"
	"github.com/turnlog/turnlog/commands"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/engine"
	"github.com/turnlog/turnlog/events"
)

// act is an event that only a sender causes.
type act struct {
	what     string    // "": the event is not an act
	role     keys.Role // the role of keys that sign it
	by, user string    // the names in the journal
	named    bool      // it has a name
	driver   bool      // a driver may do the same by itself
	agrees   func(commands.Command) bool
}

// agreeing returns a function that checks whether a command of type C agrees with an event.
func agreeing[C commands.Command](agrees func(C) bool) func(commands.Command) bool {
	return func(c commands.Command) bool {
		of, ok := c.(C)
		return ok && agrees(of)
	}
}

// person returns the act of a person that the journal names.
func person(what string, role keys.Role, by, user string, agrees func(commands.Command) bool) act {
	return act{what: what, role: role, by: by, user: user, named: true, agrees: agrees}
}

// actOf returns the act that an event records, and what a command must say to have caused it.
func (a *acts) actOf(ev any) act {
	switch ev := ev.(type) {
	case events.RunStarted:
		return person("sessions", keys.Client, ev.By, ev.User, agreeing(func(c commands.OpenSession) bool { return opened(c, ev) }))
	case events.InputQueued:
		if fromSender(ev.Origin) {
			return person("input", keys.Client, ev.By, ev.User, func(c commands.Command) bool { return queued(c, ev) })
		}
	case events.CancelRequested:
		return person("cancels", keys.Client, ev.By, ev.User, func(c commands.Command) bool { return cancelled(c, ev) })
	case events.ToolDetached:
		if ev.By == "" && ev.User == "" { // it took too long
			return act{}
		}
		return person("detached calls", keys.Client, ev.By, ev.User, agreeing(func(c commands.DetachCall) bool { return c.Call == ev.Call }))
	case events.ModelSwitched:
		return person("models", keys.Client, ev.By, ev.User, agreeing(func(c commands.SwitchModel) bool {
			return c.Model == ev.Model && bytes.Equal(c.Data, ev.Data)
		}))
	case events.CacheOverrideSet:
		return act{what: "cache requests", role: keys.Client, agrees: agreeing(func(c commands.SetNextTurnCache) bool { return same(c.Cache, ev.Cache) })}
	case events.SessionClosed:
		return person("closes", keys.Client, ev.By, ev.User, agreeing(func(c commands.Close) bool { return c.Reason == ev.Reason }))
	case events.ApprovalResolved:
		if ev.Grant == "" && (ev.Outcome == events.Approved || ev.Outcome == events.Denied) {
			return person("decisions", keys.Approver, ev.By, ev.User, agreeing(func(c commands.ResolveApproval) bool { return a.decided(c, ev) }))
		}
	case events.ToolsAllowed:
		return person("tools allowed", keys.Approver, ev.By, ev.User, agreeing(func(c commands.AllowTools) bool {
			return !slices.ContainsFunc(ev.Tools, func(t string) bool { return !slices.Contains(c.Tools, t) })
		}))
	case events.DeadLetterSettled:
		return person("settled calls", keys.Approver, ev.By, ev.User, agreeing(func(c commands.SettleDeadLetter) bool {
			return c.Call == ev.Call && c.Retry == (ev.Outcome == events.DeadRetried) && c.Reason == ev.Reason
		}))
	case events.VerifyFinished:
		return a.verdict(ev)
	}
	return act{}
}

// verdict returns the act of a task's verifier: a client's function, or else a worker or the node itself.
func (a *acts) verdict(ev events.VerifyFinished) act {
	reached := ev.Status == "passed" || ev.Status == "failed"
	agrees := func(f events.VerifyFinished) bool {
		return f.Attempt == ev.Attempt && f.Success == ev.Success && f.Exit == ev.Exit && strings.HasSuffix(f.Output, ev.Output)
	}
	switch {
	case !reached:
		return act{}
	case a.gate:
		return person("verdicts", keys.Client, ev.By, ev.User, agreeing(func(c commands.ReportVerify) bool { return agrees(c.Finished) }))
	}
	return act{what: "verdicts", role: keys.Worker, driver: true, agrees: func(c commands.Command) bool {
		r, ok := c.(commands.ReportResult)
		return !ok || agrees(engine.Verdict(ev.Attempt, r.Outcome)) // or there is none: the worker was lost, or asks
	}}
}

// fromSender reports whether a sender sent the input. Otherwise a driver did, whose input follows from other events.
func fromSender(o events.Origin) bool {
	return o != events.FromVerifier && o != events.FromNotification && o != events.FromSchema
}

func queued(c commands.Command, ev events.InputQueued) bool {
	switch c := c.(type) { //nolint:gochecksumtype // the others have no input
	case commands.OpenSession:
		return ev.Origin == events.FromHost && ev.Task == nil && ev.Options == nil && (ev.OnBusy == "" || c.Resume)
	case commands.SubmitInput:
		return ev.Origin == events.FromHost && ev.Task == nil && c.OnBusy == ev.OnBusy && same(c.Options, ev.Options)
	case commands.StartTask:
		if ev.Task == nil || ev.Origin != events.FromTask {
			return false
		}
		spec := *ev.Task
		if len(c.Spec.Verifier) == 0 && !c.Spec.VerifierFunc { // the session's agent may have one
			spec.Verifier, spec.MaxRetries = c.Spec.Verifier, c.Spec.MaxRetries
		}
		return same(spec, c.Spec) && c.Task == ev.TaskName && c.Baseline == ev.Baseline && same(c.Options, ev.Options)
	}
	return false
}

func cancelled(c commands.Command, ev events.CancelRequested) bool {
	switch c := c.(type) { //nolint:gochecksumtype // the others cancel nothing
	case commands.SubmitInput:
		return c.OnBusy == events.Interrupt && ev.Scope == commands.ScopeTurn
	case commands.Cancel:
		return cmp.Or(c.Scope, commands.ScopeTurn) == ev.Scope && c.Call == ev.Target && cmp.Or(c.Reason, "user_cancelled") == ev.Reason
	}
	return false
}

// decided compares a decision, and the question that its sender saw, with the journal. The sender of a denial for a parent
// saw no question.
func (a *acts) decided(c commands.ResolveApproval, ev events.ApprovalResolved) bool {
	approve := c.Approve || len(c.Input) > 0
	shown := c.Shown == statement.Shown(a.asked[ev.Approval]) || c.Shown == "" && !approve
	return shown && c.Approval == ev.Approval && (c.Call == "" || c.Call == ev.Call) && approve == (ev.Outcome == events.Approved) &&
		c.Always == ev.Always && bytes.Equal(c.Input, ev.Input) && c.Reason == ev.Reason
}

// opened compares the command with the session that it opened. An agent adds its prompt and settings, and a node adds its
// tools and hooks. A fork has the history and, except for model and agent, the settings of its origin: its sender signed
// the hash of the entry, and audit/origin compares the two.
func opened(c commands.OpenSession, ev events.RunStarted) bool {
	if _, fork := c.Origin(); fork {
		got, asked := ev.Config, c.Config
		model := asked.Model == "" || asked.Model == got.Model && bytes.Equal(asked.ModelData, got.ModelData)
		agent := asked.Agent == nil || configured(asked, got)
		return model && agent && c.Stepped == ev.Stepped && c.Parent == ev.Parent && c.From == ev.From && same(c.Metadata.WithoutReserved(), ev.Metadata)
	}
	before := c.Transcript
	if c.Resume {
		before, _, _ = content.OpenRound(c.Transcript)
	}
	added := len(ev.Transcript) - len(before)
	if added < 0 || added > 0 && c.Config.Agent == nil || statement.Items(ev.Transcript[added:]) != statement.Items(before) {
		return false
	}
	return c.Stepped == ev.Stepped && c.Parent == ev.Parent && c.From == ev.From && same(c.Metadata.WithoutReserved(), ev.Metadata) && configured(c.Config, ev.Config)
}

func configured(asked, got events.Config) bool {
	asked.Digest, asked.Catalog, asked.Hooks, asked.Mutators = got.Digest, got.Catalog, got.Hooks, got.Mutators
	if asked.Agent == nil {
		return same(asked, got)
	}
	a, g := asked.Agent, got.Agent
	switch {
	case g == nil || a.Name != g.Name || a.Version != "" && a.Version != g.Version || len(a.Data) > 0 && !bytes.Equal(a.Data, g.Data):
		return false
	case asked.Model != "" && (asked.Model != got.Model || !bytes.Equal(asked.ModelData, got.ModelData)):
		return false
	case len(got.Rules) < len(asked.Rules) || len(got.Routes) < len(asked.Routes) || asked.NotifyOnly != got.NotifyOnly:
		return false
	}
	return same(asked.Rules, got.Rules[:len(asked.Rules)]) && same(asked.Routes, got.Routes[:len(asked.Routes)]) &&
		got.Limits.And(asked.Limits) == got.Limits && got.SessionLimits.And(asked.SessionLimits) == got.SessionLimits
}

// same compares values as the wire has them.
func same(a, b any) bool {
	return reflect.DeepEqual(a, b) || statement.Encoded(a) == statement.Encoded(b)
}
