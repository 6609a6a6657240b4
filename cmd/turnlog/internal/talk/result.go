package talk

import (
	"errors"
	"fmt"

	"github.com/turnlog/turnlog/audit/render"
	"github.com/turnlog/turnlog/cmd/turnlog/internal/app"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/internal/cli"
)

// turnReport is what run -o json prints.
type turnReport struct {
	Session      content.SessionID    `json:"session"`
	Turn         content.TurnID       `json:"turn"`
	FinishReason content.FinishReason `json:"finish_reason"`
	Text         string               `json:"text"`
	Usage        app.Usage            `json:"usage"`
	Rounds       int                  `json:"rounds"`
	ToolCalls    []callReport         `json:"tool_calls"`
	Approvals    []app.Approval       `json:"approvals"`       // pending
	Limit        *limitReport         `json:"limit,omitempty"` // that ended it
	Journal      app.Head             `json:"journal"`
}

// limitReport is a limit that ended a turn.
type limitReport struct {
	Kind  events.LimitKind `json:"kind"`
	Limit int64            `json:"limit"`
	Used  int64            `json:"used"`
}

// needsApproval is reported instead of a finish reason for a turn that waits for approval.
const needsApproval content.FinishReason = "needs_approval"

func (o *turnOutcome) report(session content.SessionID) turnReport {
	r := turnReport{
		Session: session, Turn: o.Turn, FinishReason: o.FinishReason, Text: o.text,
		Usage:  app.UsageOf(o.Usage),
		Rounds: o.Rounds, ToolCalls: append([]callReport{}, o.calls...),
		Approvals: []app.Approval{}, Journal: app.HeadOf(o.head),
	}
	for _, a := range o.held {
		r.Approvals = append(r.Approvals, app.ApprovalOf(a))
		r.FinishReason = needsApproval
	}
	if l := o.limit; l != nil && o.FinishReason == content.Limit {
		r.Limit = &limitReport{Kind: l.Kind, Limit: l.Limit, Used: l.Used}
	}
	return r
}

// verdict returns nil for a turn that completed, else an error with the exit code. decide
// says how to decide a call's approval.
func (o *turnOutcome) verdict(decide func(content.CallID) string) error {
	switch {
	case len(o.held) > 0:
		a := o.held[0]
		more := ""
		if n := len(o.held) - 1; n > 0 {
			more = fmt.Sprintf(" (and %d more)", n)
		}
		return app.Failed(cli.CodeApproval, "%s (call %s) needs approval%s: %s: %s", a.Tool, a.CallID, more, app.Question(a), decide(a.CallID))
	case o.limit != nil && o.FinishReason == content.Limit:
		return app.Failed(cli.CodeLimit, "%s", o.limit.Text())
	case o.failure != nil && o.failure.Class != "":
		return app.Failed(cli.CodeFailed, "the model call failed (%s): %s", o.failure.Class, o.failure.Message)
	case o.failure != nil && o.failure.Code == "invalid_output":
		return app.Failed(cli.CodeFailed, "the answer does not fit the agent's schema: %s", o.failure.Message)
	case o.failure != nil:
		return app.Failed(cli.CodeFailed, "%s", o.failure.Message)
	}
	return o.plainVerdict()
}

func (o *turnOutcome) plainVerdict() error {
	switch o.FinishReason {
	case content.Completed:
		return nil
	case content.Limit:
		return app.Failed(cli.CodeLimit, "a limit ended the turn")
	case content.MaxTokens:
		return app.Failed(cli.CodeLimit, "the reply was cut off at the model's token limit")
	case content.Cancelled:
		return app.Failed(cli.CodeCancelled, "cancelled: %s", cancelReason(o.Metadata))
	case content.Blocked:
		return app.Failed(cli.CodeFailed, "the model's provider blocked the reply")
	case content.Terminated:
		return app.Failed(cli.CodeFailed, "stopped by hook %s: %s",
			o.Metadata.Text(content.MetaHook), o.Metadata.Text(content.MetaHookReason))
	case content.Errored, content.Other, content.ToolCalls, content.Compaction:
	}
	return app.Failed(cli.CodeFailed, "the turn ended with %s", o.FinishReason)
}

// cancelReason describes a recorded reason.
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

// ended gives the errors of an abandoned turn their exit code.
func ended(err error) error {
	if app.IsInterrupt(err) || errors.Is(err, errLeft) {
		return &cli.ExitError{Code: cli.CodeCancelled, Err: err}
	}
	return err
}
