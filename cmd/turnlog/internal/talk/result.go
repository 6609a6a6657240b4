package talk

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/turnlog/turnlog/audit/render"
	"github.com/turnlog/turnlog/client"
	"github.com/turnlog/turnlog/client/report"
	"github.com/turnlog/turnlog/cmd/turnlog/internal/app"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/events/journal"
	"github.com/turnlog/turnlog/internal/cli"
	"github.com/turnlog/turnlog/session"
)

// outcome is the end of a turn, or its state while approvals are pending.
type outcome struct {
	*conversation

	turn  session.TurnResult
	ended bool
	goal  bool                // the input is a goal
	task  *session.TaskResult // nil: not over, or not a task
	held  []events.Approval   // pending
	err   error               // of the turn
}

// turnReport is what run -o json prints.
type turnReport struct {
	Session      content.SessionID    `json:"session"`
	Turn         content.TurnID       `json:"turn"`
	FinishReason content.FinishReason `json:"finish_reason"`
	Text         string               `json:"text"`
	Usage        report.Usage         `json:"usage"`
	Rounds       int                  `json:"rounds"`
	ToolCalls    []callReport         `json:"tool_calls"`
	Approvals    []report.Approval    `json:"approvals"`       // pending
	Error        string               `json:"error,omitempty"` // why the turn did not complete
	Limit        *limitReport         `json:"limit,omitempty"` // the limit that ended the turn
	Journal      report.Head          `json:"journal"`
}

// callReport is a tool call in a turn's report.
type callReport struct {
	ID         content.CallID `json:"id"`
	Name       string         `json:"name"`
	Status     string         `json:"status"` // ok, error, denied, cancelled or unknown; without a result waiting, needs_approval or running
	Route      string         `json:"route"`  // foreground, background or detach
	Attempts   int            `json:"attempts"`
	DurationMS int64          `json:"duration_ms"`
}

// limitReport is a limit that ended a turn.
type limitReport struct {
	Kind  events.LimitKind `json:"kind"`
	Limit int64            `json:"limit"`
	Used  int64            `json:"used"`
}

// callWaiting is the status of a call that has not started.
const callWaiting = "waiting"

// needsApproval is reported instead of a finish reason for a turn that waits for approval.
const needsApproval content.FinishReason = "needs_approval"

// print prints the outcome as JSON. For text output, the turn was already printed while it ran.
func (o *outcome) print(ctx context.Context, output string) error {
	if output == "text" {
		return nil
	}
	r, err := o.report(ctx)
	if err != nil {
		return err
	}
	if output == "jsonl" {
		r = map[string]any{"result": r}
	}
	return app.WriteJSON(o.Out, r)
}

// report reads the turn's calls from the journal.
func (o *outcome) report(ctx context.Context) (any, error) {
	r, err := o.turnReport(ctx)
	if !o.goal {
		return r, err
	}
	t := taskReport{
		Status: string(needsApproval), Error: r.Error, Text: r.Text, Session: r.Session, FilesChanged: []string{}, Approvals: r.Approvals, Usage: r.Usage,
	}
	if res := o.task; res != nil {
		t.Status, t.Verified, t.VerifyStatus, t.Cancelled = res.Status, res.Verified, res.VerifyStatus, res.Cancelled
		t.Attempts, t.Summary, t.FilesChanged = res.Attempts, res.Summary, append(t.FilesChanged, res.FilesChanged...)
	}
	return t, err
}

func (o *outcome) turnReport(ctx context.Context) (turnReport, error) {
	t := o.turn
	r := turnReport{
		Session: o.id, Turn: t.TurnID, FinishReason: t.FinishReason, Usage: report.Usage(t.Usage), Rounds: t.Rounds,
		ToolCalls: []callReport{}, Approvals: []report.Approval{}, Journal: report.HeadOf(o.session.Head()),
	}
	for _, a := range o.held {
		r.Approvals = append(r.Approvals, report.ApprovalOf(a))
		r.FinishReason = needsApproval
	}
	if err := o.verdict(); err != nil && o.ended {
		r.Error = err.Error()
	}
	if l := t.Limit; l != nil && t.FinishReason == content.Limit {
		r.Limit = &limitReport{Kind: l.Kind, Limit: l.Limit, Used: l.Used}
	}
	var last journal.Head
	for u, err := range o.session.History(ctx, t.TurnID) {
		if err != nil {
			return r, fmt.Errorf("read the turn: %w", err)
		}
		if u.Own {
			r.add(u.Event)
			last = u.Record.Head
		}
	}
	if o.ended {
		r.Journal = report.HeadOf(last)
	}
	return r, nil
}

// add adds an event of the turn. It comes as any, since a switch over events.Event must have
// all kinds.
func (r *turnReport) add(ev any) {
	switch ev := ev.(type) {
	case events.ReplyRecorded:
		if n := len(ev.Items); n > 0 {
			r.Text = ev.Items[n-1].Text()
		}
		if ev.Invalid != "" {
			r.Text = "" // it was rejected
		}
	case events.ToolCallRequested:
		r.ToolCalls = append(r.ToolCalls, callReport{
			ID: ev.Call.ID, Name: ev.Call.Name, Status: callWaiting, Route: report.RouteName(ev.Routing.Route),
		})
	case events.ToolDispatched:
		if c := r.call(ev.Call); c != nil {
			c.Attempts, c.Route, c.Status = ev.Attempt, report.RouteName(ev.Route), "running"
		}
	case events.ApprovalRequired:
		if c := r.call(ev.Approval.CallID); c != nil {
			c.Status = string(needsApproval)
		}
	case events.ApprovalResolved:
		if c := r.call(ev.Call); c != nil {
			c.Status = callWaiting
		}
	case events.ToolDetached:
		if c := r.call(ev.Call); c != nil && c.Route == report.RouteName(content.Foreground) {
			c.Route = string(content.Background)
		}
	case events.ToolResultReceived:
		if c := r.call(ev.Result.CallID); c != nil && !ev.Late {
			c.Status, c.DurationMS = ev.Result.Status.Public(), ev.Duration.Milliseconds()
		}
	}
}

func (r *turnReport) call(id content.CallID) *callReport {
	i := slices.IndexFunc(r.ToolCalls, func(c callReport) bool { return c.ID == id })
	if i < 0 {
		return nil
	}
	return &r.ToolCalls[i]
}

// verdict returns nil for a completed turn or a finished task, otherwise an error with the
// exit code.
func (o *outcome) verdict() error {
	e, exhausted := errors.AsType[*session.VerifyExhaustedError](o.err)
	switch {
	case o.task == nil || o.task.Status == session.TaskCancelled:
		return o.turnVerdict()
	case o.task.Status == session.TaskDone:
		return nil
	case exhausted:
		return app.Failed(cli.CodeFailed, "verification failed after %s: %s", render.Plural(o.task.Attempts, "attempt", "attempts"), lastLine(e.Output))
	}
	err := o.turnVerdict()
	if err == nil {
		err = fmt.Errorf("the task is %s", o.task.Status)
	}
	return &cli.ExitError{Code: cli.CodeFailed, Err: err}
}

func (o *outcome) turnVerdict() error {
	if len(o.held) > 0 {
		a := o.held[0]
		more := ""
		if n := len(o.held) - 1; n > 0 {
			more = fmt.Sprintf(" (and %d more)", n)
		}
		how := fmt.Sprintf("see \"turnlog approvals show %[1]s\", and decide with \"turnlog approve %[1]s\" or \"turnlog deny %[1]s\"",
			fmt.Sprintf("%s %s%s", o.id, a.CallID, o.place))
		switch {
		case o.store != "":
			how = fmt.Sprintf("continue the session at a terminal, \"turnlog chat --session %s%s\"", o.id, o.place)
		case o.local:
			how = "this session is lost: run the command at a terminal to decide, or give --yes or --allow"
		case errors.Is(o.err, client.ErrForbidden):
			how = fmt.Sprintf("this user cannot approve: an approver decides with \"turnlog approve %s %s\"", o.id, a.CallID)
		}
		return app.Failed(cli.CodeApproval, "%s (call %s) needs approval%s: %s: %s", a.Tool, a.CallID, more, report.QuestionOf(a), how)
	}
	switch o.turn.FinishReason {
	case content.Completed:
		return nil
	case content.Limit:
		return &cli.ExitError{Code: cli.CodeLimit, Err: o.err}
	case content.MaxTokens:
		return app.Failed(cli.CodeLimit, "the reply was cut off at the model's token limit")
	case content.Cancelled:
		return app.Failed(cli.CodeCancelled, "cancelled: %s", cancelReason(o.turn.Metadata))
	case content.Blocked:
		return app.Failed(cli.CodeFailed, "the model's provider blocked the reply")
	case content.Errored, content.Terminated, content.Other, content.ToolCalls, content.Compaction:
	}
	if o.err != nil {
		return &cli.ExitError{Code: cli.CodeFailed, Err: o.err}
	}
	return app.Failed(cli.CodeFailed, "the turn ended with %s", o.turn.FinishReason)
}

// cancelReason describes a recorded reason.
func cancelReason(m content.Metadata) string {
	switch reason := m.Text(content.MetaInterruptReason); reason {
	case "deadline":
		return "it reached its time limit"
	case "user_cancelled", "":
		return "interrupted"
	default:
		return render.Safe(reason)
	}
}

// lastLine returns the last line of a text that is not blank.
func lastLine(text string) string {
	text = strings.TrimSpace(text)
	return render.Safe(text[strings.LastIndexByte(text, '\n')+1:])
}

// ended gives the errors of an abandoned turn their exit code.
func ended(err error) error {
	if app.IsInterrupt(err) || errors.Is(err, session.ErrLeft) {
		return &cli.ExitError{Code: cli.CodeCancelled, Err: err}
	}
	return err
}
