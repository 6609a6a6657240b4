package session_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"
	"go.uber.org/zap"

	"github.com/turnlog/turnlog/actor"
	"github.com/turnlog/turnlog/agent"
	"github.com/turnlog/turnlog/client"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/engine"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/model"
	"github.com/turnlog/turnlog/model/scripted"
	"github.com/turnlog/turnlog/policy/permission"
	"github.com/turnlog/turnlog/session"
	"github.com/turnlog/turnlog/tool"
	"github.com/turnlog/turnlog/turnlogtest"
	"github.com/turnlog/turnlog/worker"
	"github.com/turnlog/turnlog/worker/task"
)

func TestMain(m *testing.M) { turnlogtest.Main(m) }

// hosts open the same session, one line apart.
var hosts = map[string]func(*testing.T, context.Context, string, events.Config, ...engine.Config) *session.Session{
	"in process":      inProcess,
	"in a deployment": deployed,
}

func inProcess(t *testing.T, ctx context.Context, script string, c events.Config, effects ...engine.Config) *session.Session { //nolint:revive // as for deployed
	t.Helper()
	code := slices.Concat(effects, []engine.Config{{}})[0]
	m, err := scripted.Parse("test", []byte(script))
	if err != nil {
		t.Fatal(err)
	}
	a, err := agent.New(agent.Config{
		Model: m, Tools: []tool.Source{registry(t)}, Policy: permission.AllowAll(), Rules: c.Rules, TaskManager: task.Async(task.AsyncConfig{}),
		Limits: c.Limits, Retry: c.Retry, Output: c.Output, OnToolError: map[bool]agent.ToolErrorPolicy{true: agent.FailRun}[c.FailRun],
		Hooks: code.Hooks, Mutators: code.Mutators,
	})
	if err != nil {
		t.Fatal(err)
	}
	s, err := a.Start(ctx, agent.SessionConfig{ID: "s"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close(context.WithoutCancel(ctx)) })
	return s
}

func deployed(t *testing.T, ctx context.Context, script string, c events.Config, effects ...engine.Config) *session.Session { //nolint:revive // the world takes both
	t.Helper()
	code := slices.Concat(effects, []engine.Config{{}})[0]
	w := turnlogtest.Empty(ctx, t, turnlogtest.Lease(5*time.Second))
	wk := w.Worker("w", worker.Config{Logger: zap.NewNop()}, func(*nats.Conn) []tool.Tool { return []tool.Tool{echo(t), slow(t)} })
	t.Cleanup(func() { wk.Drain(t) })
	node := w.Node(actor.Config{Effects: code, Models: func(name string, data []byte) (model.Model, error) { return scripted.Parse(name, data) }})
	t.Cleanup(func() { node.Drain(t) })
	c.Model, c.ModelData = "scripted:test", []byte(script)
	return w.Start("s", script, func(o *client.Options) { o.Config, o.Stepped = c, true })
}

func registry(t *testing.T) *tool.Registry {
	t.Helper()
	r, err := tool.NewRegistry("own", echo(t), slow(t))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func echo(t *testing.T) tool.Tool {
	t.Helper()
	e, err := tool.Func("echo", "Echoes.", func(_ context.Context, in struct {
		Text string `json:"text"`
	},
	) (string, error) {
		return in.Text, nil
	}, tool.ReadOnly())
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// slow works for a minute, in the background.
func slow(t *testing.T) tool.Tool {
	t.Helper()
	f, err := tool.Func("slow", "Works.", func(context.Context, struct{}) (string, error) {
		<-time.After(time.Minute)
		return "worked", nil
	}, tool.ReadOnly(), tool.WithSpec(func(s *tool.Spec) { s.Route = content.Background }))
	if err != nil {
		t.Fatal(err)
	}
	return f
}

const echoes = `
replies:
  - calls: [{name: echo, input: {text: hi}}]
    delay: 1s
  - text: "first: {{.Prompt}}"
  - text: "second: {{.Prompt}}"
  - text: "third: {{.Prompt}}"
`

// A program gets the same results wherever its session runs.
func TestAProgramDoesTheSameInProcessAndInADeployment(t *testing.T) {
	asking := events.Config{Rules: []events.Rule{{Tool: "*", Action: events.RuleAsk}}}
	for name, tc := range map[string]struct {
		config  events.Config
		program func(context.Context, *session.Session) []string
		want    []string
	}{
		"run": {program: runTwice, want: []string{"first: one", "second: two"}},
		"wait for queued input beside input that steers": {program: queuedAndSteering, want: []string{
			"first: steer", "second: queued", "first: steer",
		}},
		"stream": {program: streamed, want: []string{
			"*events echo", "hi", "first: one",
		}},
		"step through a turn": {program: stepThrough, want: []string{"echo", "finished first: more"}},
		"approve": {config: asking, program: approve, want: []string{
			"pending echo", "first: one",
		}},
		"a new turn after a cancelled one": {config: asking, program: cancelAndGoOn, want: []string{
			"approval echo", "first: two", "idle 0",
		}},
		"refused while an approval is open": {config: asking, program: refusedWhileAsking, want: []string{
			"approval_pending", "pending input 0", "nothing_to_cancel",
		}},
		"task":                             {program: reached, want: []string{"done first: reach it"}},
		"task that a function verifies":    {program: verified, want: []string{"done third: Verification failed. Fix these errors and try again:\nnot 2 2"}},
		"task whose function is cancelled": {program: cancelVerifier, want: []string{"cancelled 1", "second: on"}},
		"follow a task": {program: followTask, want: []string{
			"task_started true", "turn_started true", "task_finished true", "done first: reach it",
		}},
		"leave a turn": {program: leave, want: []string{"interrupted before the turn ended", "first: one"}},
		"the history of a turn": {program: history, want: []string{
			"tool_call_requested", "tool_result_received", "turn_finished",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			for host, open := range hosts {
				t.Run(host, func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
						defer cancel()
						if got := tc.program(ctx, open(t, ctx, echoes, tc.config)); !slices.Equal(got, tc.want) {
							t.Errorf("got  %q\nwant %q", got, tc.want)
						}
					})
				})
			}
		})
	}
}

func runTwice(ctx context.Context, s *session.Session) (out []string) {
	for _, text := range []string{"one", "two"} {
		out = append(out, response(s.RunText(ctx, text)))
	}
	return out
}

// queuedAndSteering submits, at a yield, input for the next turn, then input that joins the open one.
func queuedAndSteering(ctx context.Context, s *session.Session) (out []string) {
	var turns []*session.Turn
	for _, in := range []session.Input{
		{Items: []content.Item{content.UserText("one")}},
		{Items: []content.Item{content.UserText("queued")}, OnBusy: session.Queue},
		{Items: []content.Item{content.UserText("steer")}},
	} {
		t, err := s.Submit(ctx, in)
		if err != nil {
			return append(out, err.Error())
		}
		if turns = append(turns, t); len(turns) > 1 {
			continue
		}
		if step, err := t.Next(ctx); err != nil {
			return append(out, fmt.Sprintf("%T, %v", step, err))
		}
	}
	for _, t := range turns {
		out = append(out, response(t.Wait(ctx)))
	}
	return out
}

func response(res *session.RunResult, err error) string {
	if err != nil {
		return "error: " + err.Error()
	}
	return res.Response
}

func streamed(ctx context.Context, s *session.Session) (out []string) {
	for ev, err := range s.Stream(ctx, content.UserText("one")) {
		switch ev := ev.(type) {
		case session.ToolUse:
			out = append(out, "*events "+ev.Call.Name)
		case session.ToolDone:
			out = append(out, ev.Result.Text())
		case session.MessageComplete:
			if text := ev.Item.Text(); text != "" {
				out = append(out, text)
			}
		case session.TextDelta, session.ReasoningDelta, session.Retry, session.UsageUpdate:
		case nil:
			out = append(out, "error: "+err.Error())
		}
	}
	return out
}

func stepThrough(ctx context.Context, s *session.Session) (out []string) {
	turn, err := s.Submit(ctx, session.Input{Items: []content.Item{content.UserText("one")}})
	for err == nil {
		var step session.Step
		step, err = turn.Next(ctx)
		switch step := step.(type) {
		case *session.AfterToolResult:
			out = append(out, step.Calls[0].Name)
			err = step.Submit(ctx, content.UserText("more"))
		case *session.Finished:
			return append(out, "finished "+step.Result.Text())
		case *session.ApprovalRequest, *session.AwaitingInput, nil:
			return append(out, fmt.Sprintf("%T %v", step, err))
		}
	}
	return append(out, "error: "+err.Error())
}

func approve(ctx context.Context, s *session.Session) (out []string) {
	_, err := s.RunText(ctx, "one")
	pending, ok := errors.AsType[*session.ApprovalPendingError](err)
	if !ok {
		return []string{fmt.Sprint(err)}
	}
	out = append(out, "pending "+pending.Approvals[0].Tool)
	if err := s.ResolveApproval(ctx, session.Decision{Call: pending.Approvals[0].CallID, Approve: true}); err != nil {
		return append(out, err.Error())
	}
	return append(out, response(s.Run(ctx)))
}

// The answer is that of the turn that took the input in, not of the one before.
func cancelAndGoOn(ctx context.Context, s *session.Session) (out []string) {
	turn, err := s.Submit(ctx, session.Input{Items: []content.Item{content.UserText("one")}})
	if err != nil {
		return []string{err.Error()}
	}
	step, err := turn.Next(ctx)
	ask, ok := step.(*session.ApprovalRequest)
	if !ok {
		return []string{fmt.Sprintf("%T %v", step, err)}
	}
	out = append(out, "approval "+ask.Tool)
	if err := s.Cancel(ctx, ""); err != nil {
		return append(out, err.Error())
	}
	out = append(out, response(s.RunText(ctx, "two")))
	return append(out, fmt.Sprintf("idle %d", len(s.Snapshot().PendingInput)))
}

// A refused Run has submitted nothing, so repeating it duplicates nothing.
func refusedWhileAsking(ctx context.Context, s *session.Session) (out []string) {
	if _, err := s.RunText(ctx, "one"); err == nil {
		return []string{"no approval is pending"}
	}
	reason := func(err error) string {
		e, ok := errors.AsType[*session.InvalidStateError](err)
		if !ok || !errors.Is(err, session.ErrInvalidState) {
			return fmt.Sprint(err)
		}
		return e.Reason
	}
	_, err := s.RunText(ctx, "two")
	out = append(out, reason(err), fmt.Sprintf("pending input %d", len(s.Snapshot().PendingInput)))
	if err := s.Cancel(ctx, ""); err != nil {
		return append(out, err.Error())
	}
	return append(out, reason(s.Cancel(ctx, "")))
}

func reached(ctx context.Context, s *session.Session) []string {
	res, err := s.RunTask(ctx, session.Task{Goal: "reach it"})
	if err != nil {
		return []string{err.Error()}
	}
	return []string{res.Status + " " + res.Summary}
}

// function is a verifier.
type function func(ctx context.Context) (bool, string, error)

func (f function) Verify(ctx context.Context, _ string) (bool, string, error) { return f(ctx) }

// verified works on a task whose work passes at the third attempt.
func verified(ctx context.Context, s *session.Session) []string {
	attempts := 0
	res, err := s.RunTask(ctx, session.Task{Goal: "reach it", MaxRetries: 2, Verifier: function(func(context.Context) (bool, string, error) {
		attempts++
		return attempts == 3, fmt.Sprint("not ", attempts), nil
	})})
	if err != nil {
		return []string{err.Error()}
	}
	return []string{fmt.Sprint(res.Status, " ", res.Summary, " ", res.Attempts-1)}
}

// cancelVerifier cancels a task while its function runs.
func cancelVerifier(ctx context.Context, s *session.Session) []string {
	limited, cancel := context.WithCancel(ctx)
	stopped := make(chan struct{})
	res, err := s.RunTask(limited, session.Task{Goal: "reach it", Verifier: function(func(ctx context.Context) (bool, string, error) {
		cancel()
		<-ctx.Done()
		close(stopped)
		return false, "", ctx.Err()
	})})
	if err != nil {
		return []string{err.Error()}
	}
	<-stopped
	next, err := s.RunText(ctx, "on")
	if err != nil {
		return []string{err.Error()}
	}
	return []string{fmt.Sprint(res.Status, " ", res.Attempts), next.Response}
}

func followTask(ctx context.Context, s *session.Session) (out []string) {
	turn, err := s.SubmitTask(ctx, session.Task{Goal: "reach it"})
	if err != nil {
		return []string{err.Error()}
	}
	for u, err := range turn.Updates(ctx) {
		if err != nil {
			return append(out, err.Error())
		}
		switch kind := events.KindOf(u.Event); kind {
		case events.KindTaskStarted, events.KindTurnStarted, events.KindTaskFinished:
			out = append(out, fmt.Sprint(kind, " ", u.Own))
		default:
		}
	}
	res, err := turn.WaitTask(ctx)
	if err != nil {
		return append(out, err.Error())
	}
	return append(out, res.Status+" "+res.Summary)
}

// Abandoning a turn does not cancel it.
func leave(ctx context.Context, s *session.Session) (out []string) {
	turn, err := s.Submit(ctx, session.Input{Items: []content.Item{content.UserText("one")}})
	if err != nil {
		return []string{err.Error()}
	}
	for _, err := range turn.Updates(ctx) {
		if turn.Close(); err != nil {
			out = append(out, err.Error())
		}
	}
	return append(out, response(s.Run(ctx)))
}

func history(ctx context.Context, s *session.Session) (out []string) {
	for _, text := range []string{"one", "two"} {
		if _, err := s.RunText(ctx, text); err != nil {
			return []string{err.Error()}
		}
	}
	for u, err := range s.History(ctx, "turn-1") {
		if err != nil {
			return append(out, err.Error())
		}
		switch kind := events.KindOf(u.Event); kind {
		case events.KindToolCallRequested, events.KindToolResultReceived, events.KindTurnFinished:
			out = append(out, string(kind))
		default:
		}
	}
	return out
}

const notified = `
replies:
  - calls: [{name: slow, input: {}}]
  - text: "answer to {{.Prompt}}"
    repeat: true
`

// The outcome of a background call has arrived when the second input is submitted. It is
// merged neither with that input nor with its answer, and precedes the third input.
func TestRunReturnsTheAnswerToItsInputNotToANotification(t *testing.T) {
	t.Parallel()
	for host, open := range hosts {
		t.Run(host, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
				defer cancel()
				s := open(t, ctx, notified, events.Config{})
				got := []string{response(s.RunText(ctx, "first"))}
				if err := s.Calls().WaitIdle(ctx); err != nil {
					t.Fatal(err)
				}
				got = append(got, response(s.RunText(ctx, "second")), response(s.RunText(ctx, "third")))
				want := []string{"answer to first", "answer to second", "answer to third"}
				if !slices.Equal(got, want) || s.Snapshot().LastTurn.TurnID != "turn-4" {
					t.Errorf("got %q in %s", got, s.Snapshot().LastTurn.TurnID)
				}
			})
		})
	}
}

type approver func(context.Context, events.Approval) (bool, string, error)

func (f approver) Approve(ctx context.Context, a events.Approval) (bool, string, error) {
	return f(ctx, a)
}

// The context of an approver ends when its approval is decided elsewhere, and the next Run
// asks an approver that failed again.
func TestAnApproverIsAskedUntilTheApprovalIsDecided(t *testing.T) {
	m, err := scripted.Parse("test", []byte(echoes))
	if err != nil {
		t.Fatal(err)
	}
	var s *session.Session
	asked := 0
	a, err := agent.New(agent.Config{
		Model: m, Tools: []tool.Source{registry(t)}, Rules: []events.Rule{{Tool: "*", Action: events.RuleAsk}},
		Approver: approver(func(ctx context.Context, a events.Approval) (bool, string, error) {
			if asked++; asked == 1 {
				return false, "", errors.New("no network")
			}
			if err := s.ResolveApproval(ctx, session.Decision{Call: a.CallID, Approve: true}); err != nil {
				t.Error(err)
			}
			<-ctx.Done()
			return false, "", context.Cause(ctx)
		}),
	})
	if err != nil {
		t.Fatal(err)
	}
	if s, err = a.Start(t.Context(), agent.SessionConfig{}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.RunText(t.Context(), "one"); err == nil || err.Error() != "no network" {
		t.Errorf("Run = %v, want the approver's error", err)
	}
	if got := response(s.Run(t.Context())); got != "first: one" || asked != 2 {
		t.Errorf("Run = %s after %d questions", got, asked)
	}
}
