package loop

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"slices"
	"strconv"

	"github.com/turnlog/turnlog/commands"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
)

// Defaults for a configuration's zero values.
const (
	defaultRepairs       = 2
	defaultModelPatience = 300_000_000_000 // 5 min
	defaultToolAttempts  = 3
	defaultLostAttempts  = 10
	defaultBackoff       = 500_000_000    // 500 ms
	defaultMaxBackoff    = 30_000_000_000 // 30 s
)

// isOpen reports whether the model attempt is the one that is running.
func (d *decision) isOpen(m commands.ModelCall) bool {
	t := d.Turn
	return t != nil && t.Stage == StageModel && t.Calling && m == d.modelCall()
}

func (d *decision) reply(c commands.ReportReply) {
	if !d.isOpen(c.ModelCall) {
		return
	}
	items, calls := d.replyItems(c)
	finish := c.FinishReason.OfReply(len(calls))
	stamp(items, finish, c.Usage)
	t := d.Turn
	for _, w := range c.Warnings[:min(len(c.Warnings), maxWarnings)] {
		d.warn(content.Clip(w.Code, maxWarning), content.Clip(w.Message, maxWarning), "")
	}
	ev := events.ReplyRecorded{
		Turn: t.ID, Round: t.Round, Attempt: t.Attempt, Items: items,
		FinishReason: finish, Model: c.Model, ResponseID: c.ResponseID,
	}
	if finish == content.Completed {
		ev.Invalid = content.Clip(c.Invalid, maxProblem)
	}
	d.emit(ev, events.UsageUpdated{Turn: t.ID, Round: t.Round, Usage: c.Usage, Source: "model"})
	for i, call := range calls {
		ev := events.ToolCallRequested{Turn: t.ID, Round: t.Round, Call: call}
		if i < len(c.Routing) {
			ev.Routing = c.Routing[i]
		}
		d.emit(ev)
	}
	d.checks, d.answers = c.Checks, slices.Clone(c.Hooks)
	limited := func(s scope) bool { return s.limits.CostMicros != 0 }
	if t.Round == 1 && c.Usage.TotalTokens() > 0 && c.Usage.CostMicros == 0 && slices.ContainsFunc(d.scopes(), limited) {
		d.warn(events.WarnCostUnknown, "the model's price is unknown, so the limit on cost does not count its calls", "")
	}
}

// replyItems gives the reply's calls their IDs and places.
func (d *decision) replyItems(c commands.ReportReply) ([]content.Item, []content.ToolCall) {
	items := content.CloneItems(c.Items)
	var calls []content.ToolCall
	taken := func(id content.CallID) bool {
		return d.CallIDs.Has(id) || slices.ContainsFunc(calls, func(c content.ToolCall) bool { return c.ID == id })
	}
	for i := range items {
		items[i].Kind = content.Assistant
		items[i].Metadata = items[i].Metadata.WithoutReserved()
		for j := range items[i].Parts {
			p := &items[i].Parts[j]
			if p.Call == nil {
				continue
			}
			call := *p.Call
			call.Place = content.PlaceOf(d.Turn.N, d.Turn.Round, len(calls)+1)
			call.ProviderID = cmp.Or(call.ProviderID, string(call.ID))
			call.ID = content.CallIDFor(call.ProviderID, call.Place, taken)
			for n := 2; taken(call.ID); n++ { // a model or an earlier session may have used the place as an ID
				call.ID = content.CallID(string(call.Place) + "-" + strconv.Itoa(n))
			}
			p.Call = &call
			calls = append(calls, call)
		}
	}
	return items, calls
}

// stamp puts finish reason and usage on the last item of a reply.
func stamp(items []content.Item, finish content.FinishReason, u content.Usage) {
	if n := len(items); n > 0 {
		items[n-1].FinishReason = finish
		items[n-1].Usage = &u
	}
}

// used records usage without a reply.
func (d *decision) used(u content.Usage, source string) {
	if u != (content.Usage{}) {
		turn, round := d.here()
		d.emit(events.UsageUpdated{Turn: turn, Round: round, Usage: u, Source: source})
	}
}

func (d *decision) modelFailed(c commands.ReportModelFailed) {
	if !d.isOpen(c.ModelCall) {
		return
	}
	t := d.Turn
	c.Class = cmp.Or(c.Class, content.ClassOther)
	ev := events.ModelCallFailed{
		Turn: t.ID, Round: t.Round, Attempt: t.Attempt,
		Class: c.Class, Code: c.Code, Message: c.Message, RetryAfter: c.RetryAfter,
	}
	until := cmp.Or(t.RetryUntil, d.At.Add(cmp.Or(d.Config.Retry.ModelPatience, defaultModelPatience)))
	next := d.At.Add(max(c.RetryAfter, d.jitter(d.backoff(t.Attempt))))
	attempts := d.Config.Retry.ModelAttempts
	retry := c.Class.Retryable() && t.Cancel == nil && next <= until &&
		(attempts == 0 || t.Attempt-t.Lost < attempts) && d.over(events.LimitRequests) == nil
	if retry {
		ev.RetryAt, ev.RetryUntil = next, until
	}
	d.emit(ev)
	d.used(c.Usage, "model")
	switch {
	case retry:
		d.warn("model_retry", c.Message, "")
	case !d.cancelled():
		d.fail(cmp.Or(c.Code, string(c.Class)), c.Class, c.Message)
	}
}

// backoff doubles with every attempt.
func (d *decision) backoff(attempt int) content.Duration {
	b := cmp.Or(d.Config.Retry.Backoff, defaultBackoff)
	limit := cmp.Or(d.Config.Retry.MaxBackoff, defaultMaxBackoff)
	for range attempt - 1 {
		if b *= 2; b >= limit {
			return limit
		}
	}
	return min(b, limit)
}

// jitter returns part of a pause, so sessions that failed together do not retry together. It is computed from a
// hash of the attempt's place.
func (d *decision) jitter(pause content.Duration) content.Duration {
	const shares = 1000
	hash := fnv.New32a()
	_, _ = fmt.Fprintf(hash, "%s/%s/%d/%d", d.Session, d.Turn.ID, d.Turn.Round, d.Turn.Attempt)
	return pause / shares * content.Duration(hash.Sum32()%shares+1)
}

func (d *decision) modelStopped(c commands.ReportModelStopped) {
	if !d.isOpen(c.ModelCall) || d.Turn.Cancel == nil {
		return
	}
	t := d.Turn
	d.stage = d.interrupted()
	items := content.CloneItems(c.Items)
	for i := range items {
		items[i].Kind = content.Assistant
		items[i].Parts = slices.DeleteFunc(items[i].Parts, func(p content.Part) bool { return p.Call != nil })
		items[i].Metadata = d.interruption(items[i].Metadata.WithoutReserved())
	}
	items = slices.DeleteFunc(items, func(it content.Item) bool { return len(it.Parts) == 0 })
	if len(items) > 0 {
		stamp(items, content.Cancelled, c.Usage)
		d.emit(events.ReplyRecorded{
			Turn: t.ID, Round: t.Round, Attempt: t.Attempt, Items: items,
			FinishReason: content.Cancelled, Interrupted: true,
		})
	}
	d.used(c.Usage, "model")
	d.cancelled()
}

// modelLost handles a model attempt that died with its host.
func (d *decision) modelLost() {
	t := d.Turn
	d.emit(events.ModelCallFailed{
		Turn: t.ID, Round: t.Round, Attempt: t.Attempt, Class: content.ClassLost, Message: "the host died during the call",
		RetryUntil: t.RetryUntil,
	})
	switch {
	case d.cancelled():
	case t.Lost >= cmp.Or(d.Config.Retry.LostAttempts, defaultLostAttempts):
		d.fail("lost", content.ClassLost, "every attempt died with its host")
	case !d.limited(events.LimitRequests):
		d.callModel(t.Attempt + 1)
	}
}
