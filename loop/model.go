package loop

import (
	"slices"
	"strconv"

	"github.com/turnlog/turnlog/commands"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
)

// Defaults of events.Retry.
const (
	defaultModelAttempts = 4
	defaultToolAttempts  = 3
	defaultLostAttempts  = 10
	defaultBackoff       = 500_000_000    // 500 ms
	defaultMaxBackoff    = 30_000_000_000 // 30 s
)

func orDefault[T int | content.Duration](v, def T) T {
	if v == 0 {
		return def
	}
	return v
}

// openAttempt reports whether the report is about the model attempt that is open now.
func (d *decision) openAttempt(m commands.ModelCall) bool {
	t := d.Turn
	return t != nil && t.Stage == StageModel && t.Calling && m == d.modelCall()
}

func (d *decision) reply(c commands.ReportReply) {
	if !d.openAttempt(c.ModelCall) {
		return
	}
	items, calls := d.replyItems(c)
	finish := replyReason(c.FinishReason, len(calls))
	stamp(items, finish, c.Usage)
	t := d.Turn
	for _, w := range c.Warnings[:min(len(c.Warnings), maxWarnings)] {
		d.warn(clip(w.Code, maxWarning), clip(w.Message, maxWarning), "")
	}
	d.emit(
		events.ReplyRecorded{
			Turn: t.ID, Round: t.Round, Attempt: t.Attempt, Items: items,
			FinishReason: finish, Model: c.Model, ResponseID: c.ResponseID, Invalid: invalid(finish, c.Invalid),
		},
		events.UsageUpdated{Turn: t.ID, Round: t.Round, Usage: c.Usage, Source: "model"},
	)
	for i, call := range calls {
		ev := events.ToolCallRequested{Turn: t.ID, Round: t.Round, Call: call}
		if i < len(c.Routing) {
			ev.Routing = c.Routing[i]
		}
		d.emit(ev)
	}
	d.checks, d.answers = c.Checks, slices.Clone(c.Hooks)
}

// maxWarnings is how many warnings that come with a reply are kept.
const maxWarnings = 8

// invalid is what is wrong with an answer, which is only a reply that is complete.
func invalid(finish content.FinishReason, problem string) string {
	if finish != content.Completed {
		return ""
	}
	return clip(problem, maxProblem)
}

// maxProblem is how much of what is wrong with an answer is kept.
const maxProblem = 2000

// replyReason is why a reply ended. Turns end for more reasons than replies do.
func replyReason(r content.FinishReason, calls int) content.FinishReason {
	switch r {
	case "":
		if calls > 0 {
			return content.ToolCalls
		}
		return content.Completed
	case content.Completed, content.ToolCalls, content.MaxTokens, content.Blocked, content.Compaction, content.Cancelled:
		return r
	case content.Limit, content.Terminated, content.Errored, content.Other:
		return content.Other
	default:
		return content.Other
	}
}

// replyItems gives the reply's calls their ids and places.
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
			if call.ProviderID == "" {
				call.ProviderID = string(call.ID)
			}
			call.ID = content.CallIDFor(call.ProviderID, call.Place, taken)
			for n := 2; taken(call.ID); n++ { // the place is an id already, from a model or a session before this one
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

func (d *decision) modelFailed(c commands.ReportModelFailed) {
	if !d.openAttempt(c.ModelCall) {
		return
	}
	t := d.Turn
	if c.Class == "" {
		c.Class = content.ClassOther
	}
	ev := events.ModelCallFailed{
		Turn: t.ID, Round: t.Round, Attempt: t.Attempt,
		Class: c.Class, Code: c.Code, Message: c.Message, RetryAfter: c.RetryAfter,
	}
	retry := c.Class.Retryable() && t.Cancel == nil &&
		t.Attempt-t.Lost < orDefault(d.Config.Retry.ModelAttempts, defaultModelAttempts) &&
		d.overRequests() == nil
	if retry {
		ev.RetryAt = d.At.Add(max(c.RetryAfter, d.jitter(d.backoff(t.Attempt))))
	}
	d.emit(ev)
	if c.Usage != (content.Usage{}) {
		d.emit(events.UsageUpdated{Turn: t.ID, Round: t.Round, Usage: c.Usage, Source: "model"})
	}
	switch {
	case retry:
		d.warn("model_retry", c.Message, "")
	case t.Cancel != nil:
		d.finish(ending{reason: content.Cancelled})
	default:
		d.modelGaveUp(c.Class, c.Code, c.Message)
	}
}

// backoff doubles with every attempt.
func (d *decision) backoff(attempt int) content.Duration {
	r := d.Config.Retry
	b := orDefault(r.Backoff, defaultBackoff)
	limit := orDefault(r.MaxBackoff, defaultMaxBackoff)
	for range attempt - 1 {
		if b *= 2; b >= limit {
			return limit
		}
	}
	return min(b, limit)
}

// jitter takes a share of a pause, so that sessions that failed together are not
// tried again together. The share is spread over all of it, and computed from what
// no two attempts have in common: an FNV-1a hash.
func (d *decision) jitter(pause content.Duration) content.Duration {
	const offset, prime, shares = 2166136261, 16777619, 1000
	hash := uint32(offset)
	for _, b := range []byte(string(d.Session) + "/" + string(d.Turn.ID) + "/" + strconv.Itoa(d.Turn.Round) + "/" + strconv.Itoa(d.Turn.Attempt)) {
		hash = (hash ^ uint32(b)) * prime
	}
	return pause / shares * content.Duration(hash%shares+1)
}

func (d *decision) modelGaveUp(class content.ErrorClass, code, message string) {
	if code == "" {
		code = string(class)
	}
	d.finish(ending{reason: content.Errored, failure: &events.RunFailed{
		Turn: d.Turn.ID, Code: code, Class: class, Message: message,
	}})
}

func (d *decision) modelStopped(c commands.ReportModelStopped) {
	if !d.openAttempt(c.ModelCall) || d.Turn.Cancel == nil {
		return
	}
	t := d.Turn
	if len(c.Items) > 0 {
		items := content.CloneItems(c.Items)
		for i := range items {
			items[i].Kind = content.Assistant
			items[i].Parts = slices.DeleteFunc(items[i].Parts, func(p content.Part) bool { return p.Call != nil })
			items[i].Metadata = items[i].Metadata.WithoutReserved().
				With(content.MetaInterrupted, true).
				With(content.MetaInterruptReason, t.Cancel.Reason).
				With(content.MetaInterruptStage, "model")
		}
		items = slices.DeleteFunc(items, func(it content.Item) bool { return len(it.Parts) == 0 })
		if len(items) > 0 {
			stamp(items, content.Cancelled, c.Usage)
			d.emit(events.ReplyRecorded{
				Turn: t.ID, Round: t.Round, Attempt: t.Attempt, Items: items,
				FinishReason: content.Cancelled, Interrupted: true,
			})
		}
	}
	if c.Usage != (content.Usage{}) {
		d.emit(events.UsageUpdated{Turn: t.ID, Round: t.Round, Usage: c.Usage, Source: "model"})
	}
	d.finish(ending{reason: content.Cancelled})
}

// modelLost takes in that a model attempt died with its host.
func (d *decision) modelLost() {
	t := d.Turn
	d.emit(events.ModelCallFailed{
		Turn: t.ID, Round: t.Round, Attempt: t.Attempt, Class: content.ClassLost, Message: "the host died during the call",
	})
	switch {
	case t.Cancel != nil:
		d.finish(ending{reason: content.Cancelled})
	case t.Lost >= orDefault(d.Config.Retry.LostAttempts, defaultLostAttempts):
		d.modelGaveUp(content.ClassLost, "lost", "every attempt died with its host")
	case d.overRequests() != nil:
		d.limited(d.overRequests())
	default:
		d.callModel(t.Attempt + 1)
	}
}
