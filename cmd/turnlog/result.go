package main

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/turnlog/turnlog/audit/render"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/internal/cli"
	"github.com/turnlog/turnlog/loop"
)

// turnReport is what run -o json prints.
type turnReport struct {
	Session      content.SessionID    `json:"session"`
	Turn         content.TurnID       `json:"turn"`
	FinishReason content.FinishReason `json:"finish_reason"`
	Text         string               `json:"text"`
	Usage        usageReport          `json:"usage"`
	Rounds       int                  `json:"rounds"`
	ToolCalls    []callReport         `json:"tool_calls"`
	Approvals    []approvalReport     `json:"approvals"`       // what it waits for
	Limit        *limitReport         `json:"limit,omitempty"` // what ended it
	Journal      headReport           `json:"journal"`
}

// approvalReport is a question that a person has to answer.
type approvalReport struct {
	Call      content.CallID         `json:"call"`
	Tool      string                 `json:"tool"`
	Reason    content.ApprovalReason `json:"reason"`
	Summary   string                 `json:"summary"`
	Input     json.RawMessage        `json:"input"`
	Digest    string                 `json:"digest"`
	ExpiresAt *content.Time          `json:"expires_at"` // null: never
}

func approvalReportOf(a events.Approval) approvalReport {
	r := approvalReport{Call: a.CallID, Tool: a.Tool, Reason: a.Reason, Summary: a.Summary, Input: a.Input, Digest: a.Digest}
	if a.ExpiresAt != 0 {
		r.ExpiresAt = &a.ExpiresAt
	}
	return r
}

// limitReport is a limit that ended a turn.
type limitReport struct {
	Kind  events.LimitKind `json:"kind"`
	Limit int64            `json:"limit"`
	Used  int64            `json:"used"`
}

type usageReport struct {
	InputTokens  int64 `json:"input_tokens"`
	OutputTokens int64 `json:"output_tokens"`
}

// headReport is where the journal ended when the turn did.
type headReport struct {
	Seq  uint64      `json:"seq"`
	Hash events.Hash `json:"hash"`
}

// needsApproval is reported in place of a finish reason for a turn that waits for
// a person.
const needsApproval content.FinishReason = "needs_approval"

func (o *turnOutcome) report(session content.SessionID) turnReport {
	r := turnReport{
		Session: session, Turn: o.Turn, FinishReason: o.FinishReason, Text: o.text,
		Usage:  usageReport{InputTokens: o.Usage.InputTokens, OutputTokens: o.Usage.OutputTokens},
		Rounds: o.Rounds, ToolCalls: append([]callReport{}, o.calls...),
		Approvals: []approvalReport{}, Journal: headReport{Seq: o.head.Seq, Hash: o.head.Hash},
	}
	for _, a := range o.held {
		r.Approvals = append(r.Approvals, approvalReportOf(a))
		r.FinishReason = needsApproval
	}
	if l := o.limit; l != nil && o.FinishReason == content.Limit {
		r.Limit = &limitReport{Kind: l.Kind, Limit: l.Limit, Used: l.Used}
	}
	return r
}

// verdict is nil for a turn that completed, else what a person should be told,
// with the exit code. decide says how a call's approval is decided.
func (o *turnOutcome) verdict(decide func(content.CallID) string) error {
	switch {
	case len(o.held) > 0:
		a := o.held[0]
		more := ""
		if n := len(o.held) - 1; n > 0 {
			more = fmt.Sprintf(" (and %d more)", n)
		}
		return exitError(cli.CodeApproval, "%s (call %s) needs approval%s: %s: %s", a.Tool, a.CallID, more, question(a), decide(a.CallID))
	case o.limit != nil && o.FinishReason == content.Limit:
		return exitError(cli.CodeLimit, "%s", loop.LimitText(*o.limit))
	case o.failure != nil && o.failure.Class != "":
		return exitError(cli.CodeFailed, "the model call failed (%s): %s", o.failure.Class, o.failure.Message)
	case o.failure != nil && o.failure.Code == "invalid_output":
		return exitError(cli.CodeFailed, "the answer does not fit the agent's schema: %s", o.failure.Message)
	case o.failure != nil:
		return exitError(cli.CodeFailed, "%s", o.failure.Message)
	}
	return o.plainVerdict()
}

func (o *turnOutcome) plainVerdict() error {
	switch o.FinishReason {
	case content.Completed:
		return nil
	case content.Limit:
		return exitError(cli.CodeLimit, "a limit ended the turn")
	case content.MaxTokens:
		return exitError(cli.CodeLimit, "the reply was cut off at the model's token limit")
	case content.Cancelled:
		return exitError(cli.CodeCancelled, "cancelled: %s", cancelReason(o.Metadata))
	case content.Blocked:
		return exitError(cli.CodeFailed, "the model's provider blocked the reply")
	case content.Terminated:
		return exitError(cli.CodeFailed, "stopped by hook %s: %s",
			o.Metadata.Text(content.MetaHook), o.Metadata.Text(content.MetaHookReason))
	case content.Errored, content.Other, content.ToolCalls, content.Compaction:
	}
	return exitError(cli.CodeFailed, "the turn ended with %s", o.FinishReason)
}

// question is what an approval is about, in words.
func question(a events.Approval) string {
	if a.Summary != "" {
		return render.Style{}.Line(a.Summary)
	}
	return strings.ReplaceAll(string(a.Reason), "_", " ")
}

// cancelReason words a recorded reason for people.
func cancelReason(m content.Metadata) string {
	switch why := m.Text(content.MetaInterruptReason); why {
	case "deadline":
		return "its time was over"
	case "user_cancelled", "":
		return "interrupted"
	default:
		return render.Safe(why)
	}
}
