package conformance

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/turnlog/turnlog/commands"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/events/journal"
	"github.com/turnlog/turnlog/loop"
	"github.com/turnlog/turnlog/session"
)

// hosted is a session and its journal.
type hosted struct {
	*session.Session
	journal journal.Journal
	fork    func(of *loop.State, head journal.Head) (*session.Session, error) // starts the fork of a state of the session
	end     func()                                                            // ends the session and what runs it
}

// player is the host of a scenario.
type player struct {
	hosted
	t    *testing.T
	ctx  context.Context //nolint:containedctx // the run's
	shop *workshop
	at   string
	last session.Step

	crash   bool // nodes die
	loses   bool // calls are lost with their node
	strayed bool // the model saw that a call's outcome is unknown, so the transcript may differ
}

// wrong reports what differs from the scenario.
func (p *player) wrong(format string, args ...any) {
	p.t.Helper()
	if p.loses && slices.ContainsFunc(eventLines(p.records(p.ID())), unknownOutcome) {
		p.strayed = true
		return
	}
	p.t.Errorf(format, args...)
}

func unknownOutcome(line string) bool {
	return strings.HasPrefix(line, "tool_result_received ") && strings.Contains(line, " unknown")
}

func (p *player) play(st step) {
	p.t.Helper()
	switch {
	case st.Submit != "":
		p.act(act{Submit: st.Submit, OnBusy: st.OnBusy, Only: st.Only})
	case st.Run != "":
		p.run(st)
	case st.Stream != "":
		p.stream(st)
	case st.Task != nil:
		p.check(p.Ask(p.ctx, st.Task.command()), st.Task.Refused)
	case st.Act != nil:
		p.act(*st.Act)
	case st.Wait > 0:
		<-time.After(st.Wait)
	case st.Until != "":
		p.until(st.Until)
	default:
		p.next(st)
	}
}

func (p *player) next(st step) {
	p.t.Helper()
	done := make(chan struct{})
	if st.Do != nil {
		go func() {
			defer close(done)
			p.until(st.When)
			<-time.After(st.After)
			p.act(*st.Do)
		}()
	} else {
		close(done)
	}
	if st.Do == nil { // otherwise the act may come first
		p.nextTooLate()
	}
	got, err := p.Next(p.ctx)
	<-done
	p.last = got
	text := describe(got, err)
	if !fits(text, st.Next, isApproval(got), err != nil) {
		p.wrong("%s: Next = %s, want %s", p.at, text, st.Next)
	}
	if a, ok := got.(*session.ApprovalRequest); ok && (a.CallID == "" || a.TaskID == "" || a.Digest == "" && a.RequestKind != loop.KindVerifier) {
		p.wrong("%s: the approval says too little of its call: %+v", p.at, a.Approval)
	}
	if y, ok := got.(*session.AfterToolResult); st.Items > 0 && (!ok || y.TranscriptLen != st.Items) {
		p.wrong("%s: Next = %+v, want a yield with %d items", p.at, got, st.Items)
	}
	if i, ok := got.(session.Interrupt); ok && i.IsBlocking() != isApproval(got) {
		p.wrong("%s: IsBlocking of %s = %t", p.at, text, i.IsBlocking())
	}
	if st.Result != nil {
		p.result(*st.Result, got)
	}
	p.spoil(got)
}

// nextTooLate calls Next with a context that has ended, which must do nothing.
func (p *player) nextTooLate() {
	p.t.Helper()
	ended, cancel := context.WithCancel(p.ctx)
	cancel()
	if _, err := p.Next(ended); !errors.Is(err, context.Canceled) {
		p.wrong("%s: Next with a context that has ended = %v", p.at, err)
	}
}

// spoil changes what the session has handed out: it must have its own copy.
func (p *player) spoil(got session.Step, more ...[]content.Item) {
	s := p.Snapshot()
	lists := slices.Concat(more, [][]content.Item{s.Transcript, s.PendingInput})
	if f, ok := got.(*session.Finished); ok {
		lists = append(lists, f.Result.Items)
	}
	for _, items := range lists {
		for i := range items {
			for j := range items[i].Parts {
				part := &items[i].Parts[j]
				part.Text = "spoiled"
				if part.Call != nil {
					part.Call.Name, part.Call.Input[0] = "spoiled", 'x'
				}
				if part.Result != nil {
					part.Result.Output = append(part.Result.Output[:0], content.TextPart("spoiled"))
				}
			}
		}
	}
}

func (p *player) run(st step) {
	p.t.Helper()
	res, err := p.RunText(p.ctx, st.Run)
	var got session.Step
	if err == nil {
		got = &session.Finished{Result: res.Turn}
	}
	if text := describe(got, err); !fits(text, st.Next, false, err != nil) {
		p.wrong("%s: Run = %s, want %s", p.at, text, st.Next)
	}
	if st.Result != nil {
		p.result(*st.Result, got)
	}
	if res != nil {
		p.spoil(got, res.Messages())
	}
}

// stream shows a stream, as a reader that cannot remove a complete message.
func (p *player) stream(st step) {
	p.t.Helper()
	shown, now, retries := "", "", 0
	for ev, err := range p.Stream(p.ctx, content.UserText(st.Stream)) {
		if err != nil {
			p.wrong("%s: the stream ended with %v", p.at, err)
			return
		}
		switch ev := ev.(type) { //nolint:gochecksumtype // the others show no text of an answer
		case session.TextDelta:
			now += ev.Text
		case session.Retry:
			now, retries = "", retries+1
		case session.MessageComplete:
			if all := ev.Item.Text(); !strings.HasPrefix(all, now) { // the last deltas may come too late
				p.wrong("%s: the stream said %q of the message %q", p.at, now, all)
			}
			shown, now = shown+ev.Item.Text(), ""
		}
	}
	if shown != st.Shown || retries < st.Retries || retries > st.Retries && !p.crash {
		p.wrong("%s: the stream said %q with %d retries, want %q with %d", p.at, shown, retries, st.Shown, st.Retries)
	}
}

// fits reports whether Next returned what a scenario wants: all of it, all but the text of an
// answer, or the beginning of an approval or an error.
func fits(text, want string, approval, failed bool) bool {
	return text == want || strings.HasPrefix(text, want+":") || approval && says(text, want) || failed && strings.HasPrefix(text, want)
}

func isApproval(s session.Step) bool {
	_, ok := s.(*session.ApprovalRequest)
	return ok
}

// describe returns the result of Next in the syntax of scenarios.
func describe(st session.Step, err error) string {
	if err != nil {
		return "error: " + err.Error()
	}
	switch st := st.(type) {
	case *session.AwaitingInput:
		return "awaiting_input"
	case *session.AfterToolResult:
		return "after_tool_result"
	case *session.ApprovalRequest:
		return "approval " + st.Tool + " " + st.RequestKind
	case *session.Finished:
		text := "finished " + string(st.Result.FinishReason)
		if answer := st.Result.Text(); answer != "" {
			text += ": " + answer
		}
		return text
	}
	return fmt.Sprintf("%T", st)
}

// until waits for an event in the journal, or for a result that it may not follow because its call was lost.
func (p *player) until(begins string) {
	var seen []journal.Record
	for rec, err := range p.journal.Follow(p.ctx, p.ID(), 0) {
		if err != nil {
			p.wrong("%s: follow: %v", p.at, err)
			return
		}
		seen = append(seen, rec)
		if slices.ContainsFunc(eventLines(seen), func(line string) bool { return says(line, begins) || p.loses && unknownOutcome(line) }) {
			return
		}
	}
}

func (p *player) act(a act) {
	p.t.Helper()
	p.check(p.perform(a), a.Refused)
}

func (p *player) perform(a act) error {
	switch {
	case a.Submit != "":
		return p.submit(a)
	case a.Cancel == commands.ScopeSession:
		return p.Ask(p.ctx, commands.Cancel{Scope: commands.ScopeSession, Reason: a.Reason})
	case a.Cancel != "":
		return p.Cancel(p.ctx, a.Reason)
	case a.CancelCall != "":
		return p.Calls().Cancel(p.ctx, p.call(a.CancelCall), a.Reason)
	case a.Detach != "":
		return p.Calls().Detach(p.ctx, p.call(a.Detach))
	case a.Approve != "" && a.Input != "" && a.By == "":
		return p.ResolveApproval(p.ctx, session.Decision{
			Call: p.call(a.Approve), Approve: true, Input: json.RawMessage(a.Input), By: "tester",
		})
	case a.Approve != "" || a.Deny != "":
		return p.resolve(a)
	case len(a.Allow) > 0:
		return p.Grant(p.ctx, a.Allow...)
	case a.Cache != "":
		return p.Ask(p.ctx, commands.SetNextTurnCache{Cache: content.CacheRequest{Mode: a.Cache}})
	case a.Close != "":
		return p.Ask(p.ctx, commands.Close{Reason: a.Close})
	case a.Offer != "":
		p.shop.reveal(a.Offer)
	}
	return nil
}

func (p *player) submit(a act) error {
	it := content.UserText(a.Submit)
	if a.Kind != "" {
		it = content.NewItem(a.Kind, content.TextPart(a.Submit))
	}
	if a.By == "" {
		return p.Ask(p.ctx, commands.SubmitInput{Items: []content.Item{it}, OnBusy: a.OnBusy, Options: a.Only.options()})
	}
	switch st := p.last.(type) { //nolint:gochecksumtype // the others take no input
	case *session.AwaitingInput:
		return st.Submit(p.ctx, it)
	case *session.AfterToolResult:
		return st.Submit(p.ctx, it)
	}
	return fmt.Errorf("%T has no Submit", p.last)
}

func (p *player) resolve(a act) error {
	v := session.Decision{Approve: a.Approve != "", Reason: a.Reason, Always: a.Always, By: "tester"}
	switch a.By {
	case "only":
		return p.ResolveApproval(p.ctx, v)
	case "handle":
		h, ok := p.last.(*session.ApprovalRequest)
		switch {
		case !ok:
			return fmt.Errorf("%T is no approval", p.last)
		case v.Always:
			return h.ApproveAlways(p.ctx)
		case a.Input != "":
			return h.ApproveWithInput(p.ctx, json.RawMessage(a.Input))
		case v.Approve:
			return h.Approve(p.ctx)
		case v.Reason != "":
			return h.DenyWithReason(p.ctx, v.Reason)
		}
		return h.Deny(p.ctx)
	}
	v.Call = p.call(a.Approve + a.Deny)
	return p.ResolveApproval(p.ctx, v)
}

// check compares the error of an act with the refusal that the scenario wants.
func (p *player) check(err error, refused string) {
	p.t.Helper()
	if code := refusal(err); code != refused {
		p.wrong("%s: %v, want it refused as %q", p.at, err, refused)
	}
}

// refusal returns the reason of a refusal.
func refusal(err error) string {
	if refused, ok := errors.AsType[*session.InvalidStateError](err); ok {
		return refused.Reason
	}
	if err != nil {
		return err.Error()
	}
	return ""
}

// call returns the last call of a tool.
func (p *player) call(name string) content.CallID {
	found := content.CallID("no-such-call")
	for _, rec := range p.records(p.ID()) {
		for _, ev := range rec.Entry.Events {
			if r, ok := ev.(events.ToolCallRequested); ok && r.Call.Name == name {
				found = r.Call.ID
			}
		}
	}
	return found
}

func (p *player) records(of content.SessionID) []journal.Record {
	p.t.Helper()
	var out []journal.Record
	for rec, err := range p.journal.Read(context.WithoutCancel(p.ctx), of, 0) {
		if err != nil {
			p.t.Fatalf("read the journal: %v", err)
		}
		out = append(out, rec)
	}
	return out
}
