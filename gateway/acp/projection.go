package acp

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"slices"
	"strings"

	sdk "github.com/coder/acp-go-sdk"

	"github.com/turnlog/turnlog/client/report"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/gateway/internal/stream"
)

// projection projects a stream that begins with the session onto what its editor gets. It yields sdk.SessionUpdate, and
// for requests stream.InputTaken, events.Approval, events.ApprovalResolved, turnEnd and events.Deletion.
type projection struct {
	folder string

	turns   stream.Turns
	named   bool            // the session has a title
	hasText bool            // this attempt has text or reasoning
	begun   []content.Place // the calls of this attempt
}

// turnEnd is the end of a turn.
type turnEnd struct {
	turn content.TurnID
	stream.Ended
}

// again tells the user that the text of the attempt so far does not count.
const again = "\n\n(The reply starts again.)\n\n"

// show takes an event of the stream.
func (p *projection) show(ev stream.Event, yield func(any)) {
	if ev.Entry != nil {
		for _, e := range ev.Entry.Entry.Events {
			if run, ok := e.(events.RunStarted); ok {
				p.before(run.Transcript, yield)
			}
		}
	}
	p.turns.Show(ev, func(s stream.Step) { p.step(s, yield) })
	if e, ok := any(ev.Live).(events.ToolProgress); ok {
		p.progress(e, yield)
	}
	if ev.Entry == nil {
		return
	}
	for _, e := range ev.Entry.Entry.Events {
		switch e := any(e).(type) {
		case events.ApprovalRequired:
			yield(e.Approval)
		case events.ApprovalResolved:
			yield(e)
		}
	}
	if d, ok := events.DeletionOf(ev.Entry.Entry); ok {
		yield(d)
	}
}

func (p *projection) step(s stream.Step, yield func(any)) {
	switch e := s.(type) {
	case stream.InputTaken:
		p.onInput(e, yield)
	case stream.AttemptBegan:
		p.hasText, p.begun = false, nil
	case stream.Grown:
		p.grow(e, yield)
	case stream.Voided:
		p.void(yield)
	case stream.Replied:
		p.rest(e.Reply.Items, yield)
	case stream.CallStarted:
		u := sdk.SessionToolCallUpdate{ToolCallId: sdk.ToolCallId(e.Call.Place), Status: new(sdk.ToolCallStatusInProgress)}
		if e.Patched {
			viewOf(e.Call.Tool, e.Call.Input(), p.folder).describe(&u)
		}
		yield(sdk.SessionUpdate{ToolCallUpdate: &u})
	case stream.CallAnswered:
		u := sdk.SessionToolCallUpdate{ToolCallId: sdk.ToolCallId(e.Call.Place), Content: contentOf(e.Result.Output)}
		if !e.Detached {
			p.answer(&u, e.Call.Tool, e.Call.Input(), e.Result)
		}
		yield(sdk.SessionUpdate{ToolCallUpdate: &u})
	case stream.Ended:
		yield(turnEnd{p.turns.Turn(), e})
	case stream.PartBegan, stream.PartPaused, stream.RoundBegan, stream.RoundEnded, stream.AttemptFailed, stream.Decided, stream.Joined, stream.Used:
	}
}

// onInput shows input. The first input of a user is the title of the session, as in lists.
func (p *projection) onInput(h stream.InputTaken, yield func(any)) {
	yield(h)
	if title := report.Title(h.Item.Text()); h.Item.Kind == content.User && !p.named && title != "" {
		p.named = true
		yield(sdk.SessionUpdate{SessionInfoUpdate: &sdk.SessionSessionInfoUpdate{Title: &title}})
	}
}

// grow shows a piece of a reply.
func (p *projection) grow(g stream.Grown, yield func(any)) {
	piece := g.Piece
	switch {
	case g.Call != nil && piece.Op == content.BeginPart:
		p.begun = append(p.begun, g.Call.Place)
		yield(sdk.StartToolCall(sdk.ToolCallId(g.Call.Place), piece.Tool, sdk.WithStartKind(kindOf(piece.Tool)), sdk.WithStartStatus(sdk.ToolCallStatusPending)))
	case g.Call != nil && piece.Op == content.CommitPart:
		u := sdk.SessionToolCallUpdate{ToolCallId: sdk.ToolCallId(g.Call.Place)}
		viewOf(g.Call.Tool, g.Call.Input(), p.folder).describe(&u)
		yield(sdk.SessionUpdate{ToolCallUpdate: &u})
	case piece.Op != content.AppendPart:
	case piece.Kind == content.TextKind:
		p.hasText = true
		yield(sdk.UpdateAgentMessageText(piece.Text))
	case piece.Kind == content.ReasoningKind:
		p.hasText = true
		yield(sdk.UpdateAgentThoughtText(piece.Text))
	}
}

// void takes back an attempt as far as the protocol can: it has no way to remove what was shown.
func (p *projection) void(yield func(any)) {
	if p.hasText {
		yield(sdk.UpdateAgentMessageText(again))
	}
	for _, place := range p.begun {
		yield(sdk.UpdateToolCall(sdk.ToolCallId(place), sdk.WithUpdateStatus(sdk.ToolCallStatusFailed),
			sdk.WithUpdateContent([]sdk.ToolCallContent{sdk.ToolContent(sdk.TextBlock("This call was not made: the reply starts again."))})))
	}
	p.hasText, p.begun = false, nil
}

// rest shows the parts of a reply that have no pieces.
func (p *projection) rest(items []content.Item, yield func(any)) {
	for _, it := range items {
		for _, part := range it.Parts {
			if part.Kind == content.TextKind {
				continue
			}
			for _, b := range blocksOf([]content.Part{part}) {
				yield(sdk.UpdateAgentMessage(b))
			}
		}
	}
}

// progress shows what a tool says about a running call.
func (p *projection) progress(e events.ToolProgress, yield func(any)) {
	for _, c := range p.turns.Calls() {
		if c.ID == e.Call && e.Text != "" {
			text := sdk.ToolContent(sdk.TextBlock(e.Text))
			yield(sdk.UpdateToolCall(sdk.ToolCallId(c.Place), sdk.WithUpdateContent(append(viewOf(c.Tool, c.Input(), p.folder).diffs, text))))
		}
	}
}

// answer completes an update with the result of a call. For an editing tool it shows the changes instead of the result's text.
func (p *projection) answer(u *sdk.SessionToolCallUpdate, tool, input string, r content.ToolResult) {
	u.Status, u.RawOutput = new(sdk.ToolCallStatusCompleted), outputOf(r)
	diffs := viewOf(tool, input, p.folder).diffs
	switch {
	case r.Status.IsError():
		u.Status, u.Content = new(sdk.ToolCallStatusFailed), append(diffs, u.Content...)
	case len(diffs) > 0:
		u.Content = diffs
	}
}

// before shows the transcript with which a session began, for example a fork.
func (p *projection) before(items []content.Item, yield func(any)) {
	calls := map[content.CallID]content.ToolCall{}
	for _, it := range items {
		switch it.Kind {
		case content.User:
			p.onInput(stream.InputTaken{Item: it}, yield)
		case content.Assistant, content.Tool:
			for _, part := range it.Parts {
				p.earlier(part, calls, yield)
			}
		case content.System, content.Developer, content.Context, content.Notification:
		}
	}
}

// earlier shows a part of a reply or of results from before the session. Its calls have places of another session.
func (p *projection) earlier(part content.Part, calls map[content.CallID]content.ToolCall, yield func(any)) {
	id := func(id content.CallID) sdk.ToolCallId { return "before-" + sdk.ToolCallId(id) }
	switch {
	case part.Kind == content.ReasoningKind:
		yield(sdk.UpdateAgentThoughtText(part.Text))
	case part.Call != nil:
		c := *part.Call
		calls[c.ID] = c
		var u sdk.SessionToolCallUpdate
		viewOf(c.Name, string(c.Input), p.folder).describe(&u)
		yield(sdk.SessionUpdate{ToolCall: &sdk.SessionUpdateToolCall{
			ToolCallId: id(c.ID), Title: *u.Title, Kind: kindOf(c.Name), Status: sdk.ToolCallStatusPending, RawInput: u.RawInput, Locations: u.Locations, Content: u.Content,
		}})
	case part.Result != nil:
		c := calls[part.Result.CallID]
		u := sdk.SessionToolCallUpdate{ToolCallId: id(c.ID), Content: contentOf(part.Result.Output)}
		p.answer(&u, c.Name, string(c.Input), *part.Result)
		yield(sdk.SessionUpdate{ToolCallUpdate: &u})
	default:
		for _, b := range blocksOf([]content.Part{part}) {
			yield(sdk.UpdateAgentMessage(b))
		}
	}
}

// response returns the response to the prompts of the turn.
func (e turnEnd) response() (*sdk.PromptResponse, error) {
	u := e.Usage
	out := &sdk.PromptResponse{StopReason: sdk.StopReasonEndTurn, Usage: &sdk.Usage{
		InputTokens: int(u.InputTokens), OutputTokens: int(u.OutputTokens), TotalTokens: int(u.TotalTokens()),
		ThoughtTokens: new(int(u.ReasoningTokens)), CachedReadTokens: new(int(u.CacheReadTokens)), CachedWriteTokens: new(int(u.CacheWriteTokens)),
	}}
	switch e.Reason {
	case content.Completed, content.ToolCalls, content.Compaction, content.Other:
	case content.MaxTokens:
		out.StopReason = sdk.StopReasonMaxTokens
	case content.Limit:
		out.StopReason = sdk.StopReasonMaxTurnRequests
	case content.Blocked:
		out.StopReason = sdk.StopReasonRefusal
	case content.Cancelled:
		out.StopReason = sdk.StopReasonCancelled
	case content.Errored, content.Terminated:
		why := "the turn failed"
		if e.Failed != nil {
			why += ": " + e.Failed.Message
		}
		return nil, errors.New(why)
	}
	return out, nil
}

// blocksOf returns what an editor can show of parts.
func blocksOf(parts []content.Part) (all []sdk.ContentBlock) {
	for _, p := range parts {
		switch {
		case p.Kind == content.TextKind:
			all = append(all, sdk.TextBlock(p.Text))
		case p.Kind == content.StructuredKind:
			all = append(all, sdk.TextBlock("```json\n"+string(p.Data)+"\n```"))
		case p.Media == nil:
		case len(p.Media.Bytes) > 0 && strings.HasPrefix(p.Media.MIME, "image/"):
			all = append(all, sdk.ImageBlock(base64.StdEncoding.EncodeToString(p.Media.Bytes), p.Media.MIME))
		case len(p.Media.Bytes) > 0 && strings.HasPrefix(p.Media.MIME, "audio/"):
			all = append(all, sdk.AudioBlock(base64.StdEncoding.EncodeToString(p.Media.Bytes), p.Media.MIME))
		case p.Name != "":
			all = append(all, sdk.TextBlock("["+p.Name+"]"))
		}
	}
	return all
}

// contentOf returns what an editor can show of the output of a tool. Data next to a text is for programs: see outputOf.
func contentOf(parts []content.Part) (all []sdk.ToolCallContent) {
	is := func(k content.PartKind) func(content.Part) bool {
		return func(p content.Part) bool { return p.Kind == k }
	}
	if slices.ContainsFunc(parts, is(content.TextKind)) {
		parts = slices.DeleteFunc(slices.Clone(parts), is(content.StructuredKind))
	}
	for _, b := range blocksOf(parts) {
		all = append(all, sdk.ToolContent(b))
	}
	return all
}

// outputOf returns the data of a result, or else its text.
func outputOf(r content.ToolResult) any {
	for _, p := range r.Output {
		if p.Kind == content.StructuredKind {
			return p.Data
		}
	}
	return jsonOr(r.Text())
}

// jsonOr returns a text as JSON if it is valid JSON, otherwise as text.
func jsonOr(text string) any {
	if json.Valid([]byte(text)) {
		return json.RawMessage(text)
	}
	return text
}
