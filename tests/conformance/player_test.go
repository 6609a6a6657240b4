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

	"github.com/turnlog/turnlog/agent"
	"github.com/turnlog/turnlog/client"
	"github.com/turnlog/turnlog/commands"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/events/journal"
)

// session is what all shapes have in common.
type session interface {
	Next(ctx context.Context) (agent.Step, error)
	Ask(ctx context.Context, c commands.Command) error
	Submit(ctx context.Context, b events.OnBusy, items ...content.Item) error
	Cancel(ctx context.Context, reason string) error
	CancelCall(ctx context.Context, call content.CallID, reason string) error
	DetachCall(ctx context.Context, call content.CallID) error
	ResolveApproval(ctx context.Context, call content.CallID, v agent.Decision) error
	ApproveWithInput(ctx context.Context, call content.CallID, input json.RawMessage, by string) error
	Grant(ctx context.Context, patterns ...string) error
	Snapshot() agent.Snapshot
	Journal() journal.Journal
}

// player is the host of a scenario.
type player struct {
	session
	t    *testing.T
	ctx  context.Context //nolint:containedctx // the run's
	shop *workshop
	at   string
	last agent.Step
}

func (p *player) play(st step) {
	p.t.Helper()
	switch {
	case st.Submit != "":
		p.act(act{Submit: st.Submit, OnBusy: st.OnBusy, Only: st.Only})
	case st.Task != nil:
		p.check(p.Ask(p.ctx, st.Task.command()), st.Task.Refused)
	case st.Act != nil:
		p.act(*st.Act)
	case st.Wait > 0:
		<-time.After(st.Wait)
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
	got, err := p.Next(p.ctx)
	<-done
	p.last = got
	text := describe(got, err)
	if !fits(text, st.Next, isApproval(got), err != nil) {
		p.t.Errorf("%s: Next = %s, want %s", p.at, text, st.Next)
	}
	if a, ok := got.(*agent.ApprovalRequest); ok && (a.CallID == "" || a.TaskID == "" || a.Digest == "") {
		p.t.Errorf("%s: the approval says too little of its call: %+v", p.at, a.Approval)
	}
	if y, ok := got.(*agent.AfterToolResult); st.Items > 0 && (!ok || y.TranscriptLen != st.Items) {
		p.t.Errorf("%s: Next = %+v, want a yield with %d items", p.at, got, st.Items)
	}
	if i, ok := got.(agent.Interrupt); ok && i.IsBlocking() != isApproval(got) {
		p.t.Errorf("%s: IsBlocking of %s = %t", p.at, text, i.IsBlocking())
	}
	if st.Result != nil {
		p.result(*st.Result, got)
	}
}

// fits reports whether Next returned what a scenario says: the whole of it, all but
// the text of an answer, or the beginning of an approval or an error.
func fits(text, want string, approval, failed bool) bool {
	return text == want || strings.HasPrefix(text, want+":") || approval && says(text, want) || failed && strings.HasPrefix(text, want)
}

func isApproval(s agent.Step) bool {
	_, ok := s.(*agent.ApprovalRequest)
	return ok
}

// describe says what Next returned, in the words of scenarios.
func describe(st agent.Step, err error) string {
	if err != nil {
		return "error: " + err.Error()
	}
	switch st := st.(type) {
	case *agent.AwaitingInput:
		return "awaiting_input"
	case *agent.AfterToolResult:
		return "after_tool_result"
	case *agent.ApprovalRequest:
		return "approval " + st.Tool + " " + st.RequestKind
	case *agent.Finished:
		text := "finished " + string(st.Result.FinishReason)
		if answer := st.Result.Text(); answer != "" {
			text += ": " + answer
		}
		return text
	}
	return fmt.Sprintf("%T", st)
}

// until waits for an event in the journal.
func (p *player) until(begins string) {
	var seen []journal.Record
	for rec, err := range p.Journal().Follow(p.ctx, id, 0) {
		if err != nil {
			p.t.Errorf("%s: follow: %v", p.at, err)
			return
		}
		seen = append(seen, rec)
		if slices.ContainsFunc(said(seen), func(line string) bool { return says(line, begins) }) {
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
		return p.CancelCall(p.ctx, p.call(a.CancelCall), a.Reason)
	case a.Detach != "":
		return p.DetachCall(p.ctx, p.call(a.Detach))
	case a.Approve != "" && a.Input != "":
		return p.ApproveWithInput(p.ctx, p.call(a.Approve), json.RawMessage(a.Input), "tester")
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
	if o := a.Only.options(); o != nil {
		return p.Ask(p.ctx, commands.SubmitInput{Items: []content.Item{it}, OnBusy: a.OnBusy, Options: o})
	}
	if a.By == "" {
		return p.Submit(p.ctx, a.OnBusy, it)
	}
	switch st := p.last.(type) { //nolint:gochecksumtype // the others take no input
	case *agent.AwaitingInput:
		return st.Submit(p.ctx, it)
	case *agent.AfterToolResult:
		return st.Submit(p.ctx, it)
	}
	return fmt.Errorf("%T has no Submit", p.last)
}

func (p *player) resolve(a act) error {
	v := agent.Decision{Approve: a.Approve != "", Reason: a.Reason, Always: a.Always, By: "tester"}
	switch a.By {
	case "only":
		return p.ResolveApproval(p.ctx, "", v)
	case "handle":
		h, ok := p.last.(*agent.ApprovalRequest)
		switch {
		case !ok:
			return fmt.Errorf("%T is no approval", p.last)
		case v.Always:
			return h.ApproveAlways(p.ctx)
		case v.Approve:
			return h.Approve(p.ctx)
		case v.Reason != "":
			return h.DenyWithReason(p.ctx, v.Reason)
		}
		return h.Deny(p.ctx)
	}
	return p.ResolveApproval(p.ctx, p.call(a.Approve+a.Deny), v)
}

// check compares what became of an act with what should have.
func (p *player) check(err error, refused string) {
	p.t.Helper()
	if code := refusal(err); code != refused {
		p.t.Errorf("%s: %v, want it refused as %q", p.at, err, refused)
	}
}

// refusal is the code with which something was turned down.
func refusal(err error) string {
	if state, ok := errors.AsType[*agent.InvalidStateError](err); ok {
		return state.Reason
	}
	if refused, ok := errors.AsType[*client.RefusedError](err); ok {
		return refused.Reason
	}
	if err != nil {
		return err.Error()
	}
	return ""
}

// call finds the last call of a tool.
func (p *player) call(name string) content.CallID {
	found := content.CallID("no-such-call")
	for _, rec := range p.records() {
		for _, ev := range rec.Entry.Events {
			if r, ok := ev.(events.ToolCallRequested); ok && r.Call.Name == name {
				found = r.Call.ID
			}
		}
	}
	return found
}

func (p *player) records() []journal.Record {
	p.t.Helper()
	var out []journal.Record
	for rec, err := range p.Journal().Read(context.WithoutCancel(p.ctx), id, 0) {
		if err != nil {
			p.t.Fatalf("read the journal: %v", err)
		}
		out = append(out, rec)
	}
	return out
}
