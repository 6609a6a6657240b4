package traces

import (
	"cmp"
	"context"
	"encoding/json"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/events/journal"
	"github.com/turnlog/turnlog/internal/tracing"
)

// session is what is open in a session.
type session struct {
	id  content.SessionID
	cfg *Config

	agent  events.AgentRef
	model  string
	parent content.SessionID
	node   string

	lineage Lineage
	turn    *turn             // nil: none is open
	last    trace.SpanContext // the last span of the previous turn
	calls   map[content.CallID]*call

	at    time.Time // time of the current entry
	spans []Span    // spans that it ended
}

// turn is the turn that is open.
type turn struct {
	id      content.TurnID
	trigger events.Origin
	in      trace.SpanContext           // of the sender, or only the trace
	part    int                         // the number of the span
	span    Span                        // open unless the turn waits
	waits   map[content.ApprovalID]bool // questions that hold the turn
	chat    *Span
	failure *events.RunFailed
}

// call is a tool call without an outcome.
type call struct {
	content.ToolCall

	turn       content.TurnID
	in         trace.SpanContext // the trace, and the span that the attempt is below
	background bool
	running    *Span
	before     trace.SpanContext // the attempt that ended with a question
}

// add takes an entry and returns the spans that end with it.
func (s *session) add(ctx context.Context, r journal.Record) []Span {
	s.at, s.spans = r.Entry.At.Std(), nil
	none := trace.ContextWithSpanContext(ctx, trace.SpanContext{}) // what reads the journal may be traced itself
	from := func() From { return FromContext(tracing.With(none, r.TraceParent, "")) }
	for _, e := range r.Entry.Events {
		s.lineage.Take(e, from)
		s.take(none, e)
	}
	if t := s.turn; t != nil && t.chat != nil && !t.chat.EndTime.IsZero() {
		s.end(t.chat)
		t.chat = nil
	}
	return s.spans
}

func (s *session) take(ctx context.Context, e events.Event) {
	switch e := e.(type) { //nolint:gochecksumtype // most events begin and end nothing
	case events.DriverClaimed:
		s.claim(e)
	case events.RunStarted:
		s.model, s.parent = e.Config.Model, e.Parent
		if e.Config.Agent != nil {
			s.agent = *e.Config.Agent
		}
	case events.ConfigChanged:
		s.model = e.Config.Model
	case events.ModelSwitched:
		s.model = e.Model
	case events.InputAccepted:
		if s.turn != nil {
			s.link()
		}
	case events.TurnStarted:
		s.start(ctx, e)
	case events.ModelCallStarted:
		s.ask(e)
	case events.ModelCallFailed:
		s.fail(e)
	case events.ReplyRecorded:
		s.reply(e)
	case events.UsageUpdated:
		if t := s.turn; t != nil && t.chat != nil && e.Source == "model" {
			t.chat.Attributes = append(t.chat.Attributes, usage(e.Usage)...)
		}
	case events.ToolCallRequested:
		s.calls[e.Call.ID] = &call{ToolCall: e.Call, turn: e.Turn}
	case events.ToolDispatched:
		s.dispatch(e)
	case events.ToolDetached:
		if c := s.calls[e.Call]; c != nil {
			c.background = true
		}
	case events.ToolAttemptLost:
		if c := s.calls[e.Call]; c != nil {
			s.stop(c, "lost", e.Reason)
		}
	case events.ApprovalRequired:
		s.question(e.Approval)
	case events.ApprovalResolved:
		s.decided(e)
	case events.ToolResultReceived:
		s.answer(e)
	case events.RunFailed:
		if s.turn != nil {
			s.turn.failure = &e
		}
	case events.TurnFinished:
		s.finish(e)
	}
}

// claim marks in the turn's span that another driver claimed the session.
func (s *session) claim(e events.DriverClaimed) {
	s.node = e.Node
	if s.turn != nil && len(s.turn.waits) == 0 {
		s.turn.span.Events = append(s.turn.span.Events, sdk.Event{Name: eventClaimed, Time: s.at, Attributes: []attribute.KeyValue{keyNode.String(e.Node)}})
	}
}

// start begins a turn.
func (s *session) start(ctx context.Context, e events.TurnStarted) {
	t := &turn{id: e.Turn, trigger: e.Trigger, in: s.lineage.in.Span, waits: map[content.ApprovalID]bool{}}
	in := sdk.SamplingParameters{ParentContext: trace.ContextWithRemoteSpanContext(ctx, t.in), Name: opAgent}
	if !t.in.IsValid() {
		t.in = trace.NewSpanContext(trace.SpanContextConfig{TraceID: traceOf(s.id, e.Turn)})
	}
	in.TraceID = t.in.TraceID()
	t.in = t.in.WithTraceFlags(t.in.TraceFlags().WithSampled(s.cfg.Sampler.ShouldSample(in).Decision == sdk.RecordAndSample))
	s.turn = t
	s.begin()
	t.link(s.last)
	s.link()
}

// link links the turn's span to the spans of commands whose input joined the turn.
func (s *session) link() {
	for _, from := range s.lineage.links {
		s.turn.link(from)
	}
	s.lineage.links = nil
}

// begin begins a span of the turn.
func (s *session) begin() {
	t := s.turn
	t.part++
	t.span = s.span(opAgent, s.agent.Name, trace.SpanKindInternal, t.in, spanOf(s.id, opAgent, t.id, t.part))
	t.span.Attributes = append(t.span.Attributes, keyTrigger.String(string(t.trigger)), keyTurn.String(string(t.id)), keyNode.String(s.node))
	if s.parent != "" {
		t.span.Attributes = append(t.span.Attributes, keyParent.String(string(s.parent)))
	}
}

func (t *turn) link(to trace.SpanContext) {
	if to.IsValid() {
		t.span.Links = append(t.span.Links, sdk.Link{SpanContext: to})
	}
}

// span returns a span that begins now.
func (s *session) span(operation, of string, kind trace.SpanKind, parent trace.SpanContext, id trace.SpanID) Span {
	out := Span{
		Name: strings.TrimSpace(operation + " " + of), SpanKind: kind, StartTime: s.at,
		SpanContext: trace.NewSpanContext(trace.SpanContextConfig{TraceID: parent.TraceID(), SpanID: id, TraceFlags: parent.TraceFlags()}),
		Attributes:  []attribute.KeyValue{keyOperation.String(operation), keyConversation.String(string(s.id)), keySession.String(string(s.id))},
	}
	if parent.HasSpanID() {
		out.Parent = parent
	}
	if s.agent.Name != "" {
		out.Attributes = append(out.Attributes, keyAgent.String(s.agent.Name))
	}
	if s.agent.Version != "" {
		out.Attributes = append(out.Attributes, keyAgentVersion.String(s.agent.Version))
	}
	return out
}

// end yields a span, unless its trace is not sampled.
func (s *session) end(span *Span) {
	if span.EndTime.IsZero() {
		span.EndTime = s.at
	}
	if span.SpanContext.IsSampled() {
		s.spans = append(s.spans, *span)
	}
}

// ask begins an attempt at a model call.
func (s *session) ask(e events.ModelCallStarted) {
	t := s.turn
	if t == nil {
		return
	}
	provider, model := modelOf(s.model)
	chat := s.span(opChat, cmp.Or(model, provider), trace.SpanKindClient, t.span.SpanContext, spanOf(s.id, opChat, e.Turn, e.Round, e.Attempt))
	chat.Attributes = append(chat.Attributes, keyProvider.String(provider), keyModel.String(cmp.Or(model, provider)),
		keyTurn.String(string(e.Turn)), keyRound.Int(e.Round), keyAttempt.Int(e.Attempt))
	t.chat = &chat
}

func (s *session) fail(e events.ModelCallFailed) {
	if t := s.turn; t != nil && t.chat != nil {
		failed(t.chat, string(e.Class), e.Message)
		t.chat.EndTime = s.at
	}
}

func (s *session) reply(e events.ReplyRecorded) {
	t := s.turn
	if t == nil || t.chat == nil {
		return
	}
	t.chat.EndTime = s.at
	t.chat.Attributes = append(t.chat.Attributes, keyFinish.StringSlice([]string{string(e.FinishReason)}))
	if e.Model != "" {
		t.chat.Attributes = append(t.chat.Attributes, keyReplyModel.String(e.Model))
	}
	if e.ResponseID != "" {
		t.chat.Attributes = append(t.chat.Attributes, keyReplyID.String(e.ResponseID))
	}
	if s.cfg.Content {
		text, _ := json.Marshal(e.Items) // items are always JSON
		t.chat.Attributes = append(t.chat.Attributes, keyMessages.String(string(text)))
	}
}

// dispatch begins an attempt at a call, below the span of the turn. A call in the background may begin after its turn.
func (s *session) dispatch(e events.ToolDispatched) {
	c := s.calls[e.Call]
	if c == nil {
		return
	}
	if s.turn != nil && s.turn.id == c.turn {
		c.in = s.turn.span.SpanContext
	}
	if !c.in.IsValid() {
		return
	}
	run := s.span(opTool, c.Name, trace.SpanKindInternal, c.in, callSpan(s.id, e.Place, e.Attempt))
	run.Attributes = append(run.Attributes, keyTool.String(c.Name), keyToolType.String("function"), keyCall.String(string(c.ID)),
		keyTurn.String(string(c.turn)), keyPlace.String(string(e.Place)), keyAttempt.Int(e.Attempt))
	if e.Queue != "" {
		run.Attributes = append(run.Attributes, keyQueue.String(e.Queue))
	}
	if s.cfg.Content {
		input := c.Input
		if len(e.Input) > 0 {
			input = e.Input
		}
		run.Attributes = append(run.Attributes, keyArguments.String(string(input)))
	}
	if c.before.IsValid() {
		run.Links = append(run.Links, sdk.Link{SpanContext: c.before})
	}
	c.running, c.background = &run, c.background || e.Route == content.Background
}

// stop ends the running attempt. class is "" if nothing failed.
func (s *session) stop(c *call, class, why string) {
	if c.running == nil {
		return
	}
	if class != "" {
		failed(c.running, class, why)
	}
	s.end(c.running)
	c.running = nil
}

// question ends the spans that must not include the wait for a decision.
func (s *session) question(a events.Approval) {
	c := s.calls[a.CallID]
	if c != nil && c.running != nil {
		c.running.Attributes = append(c.running.Attributes, keyApproval.String(string(a.ID)))
		c.before = c.running.SpanContext
		s.stop(c, "", "")
	}
	t := s.turn
	if t == nil || t.id != a.Turn || c != nil && c.background {
		return
	}
	if len(t.waits) == 0 {
		t.span.Attributes = append(t.span.Attributes, keyApproval.String(string(a.ID)))
		s.end(&t.span)
	}
	t.waits[a.ID] = true
}

// decided begins another span of the turn when no question blocks it any more.
func (s *session) decided(e events.ApprovalResolved) {
	t := s.turn
	if t == nil || !t.waits[e.Approval] {
		return
	}
	if delete(t.waits, e.Approval); len(t.waits) == 0 {
		s.resume()
	}
}

// resume begins another span of the turn, which links to the previous one.
func (s *session) resume() {
	before := s.turn.span.SpanContext
	s.begin()
	s.turn.link(before)
}

func (s *session) answer(e events.ToolResultReceived) {
	c := s.calls[e.Result.CallID]
	if c == nil {
		return
	}
	delete(s.calls, e.Result.CallID)
	if c.running == nil {
		return
	}
	if e.Duration > 0 {
		c.running.Attributes = append(c.running.Attributes, keyRan.Int64(e.Duration.Milliseconds()))
	}
	class, why := "", ""
	if e.Result.IsError {
		class = cmp.Or(e.Result.Code, string(e.Result.Status))
	}
	if s.cfg.Content {
		why = e.Result.Text()
		c.running.Attributes = append(c.running.Attributes, keyResult.String(why))
	}
	s.stop(c, class, why)
}

func (s *session) finish(e events.TurnFinished) {
	t := s.turn
	if t == nil {
		return
	}
	if len(t.waits) > 0 { // it was cancelled while it waited
		s.resume()
	}
	t.span.Attributes = append(t.span.Attributes, keyFinish.StringSlice([]string{string(e.FinishReason)}))
	t.span.Attributes = append(t.span.Attributes, usage(e.Usage)...)
	if f := t.failure; f != nil {
		failed(&t.span, cmp.Or(f.Code, string(f.Class)), f.Message)
	}
	if t.chat != nil { // cancelled
		s.end(t.chat)
	}
	s.end(&t.span)
	s.last, s.turn = t.span.SpanContext, nil
}

func failed(span *Span, class, why string) {
	span.Attributes = append(span.Attributes, keyError.String(class))
	span.Status = sdk.Status{Code: codes.Error, Description: why}
}

func usage(u content.Usage) (all []attribute.KeyValue) {
	for _, x := range []struct {
		key attribute.Key
		n   int64
	}{
		{keyInput, u.InputTokens},
		{keyOutput, u.OutputTokens},
		{keyReasoning, u.ReasoningTokens},
		{keyCacheRead, u.CacheReadTokens},
		{keyCacheWrite, u.CacheWriteTokens},
		{keyCost, u.CostMicros},
	} {
		if x.n != 0 {
			all = append(all, x.key.Int64(x.n))
		}
	}
	return all
}
