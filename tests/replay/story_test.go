package replay

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/turnlog/turnlog/agent"
	"github.com/turnlog/turnlog/commands"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/events/journal"
	"github.com/turnlog/turnlog/loop"
	"github.com/turnlog/turnlog/policy/permission"
	"github.com/turnlog/turnlog/session"
	"github.com/turnlog/turnlog/tool"
	"github.com/turnlog/turnlog/worker/task"
)

// story is a running session, in virtual time.
type story struct {
	t        *testing.T
	ctx      context.Context //nolint:containedctx // one for the whole story keeps its lines short
	id       content.SessionID
	journal  *journal.Memory
	registry *tool.Registry
	driver   *session.Session
	drivers  []*session.Session
}

// journalOf runs a story and returns its journal.
func journalOf(t *testing.T, id content.SessionID, tell func(*story)) *journal.Memory {
	t.Helper()
	j := journal.NewMemory()
	synctest.Test(t, func(t *testing.T) {
		reg, err := tool.NewRegistry("story", tools(t)...)
		if err != nil {
			t.Fatal(err)
		}
		s := &story{t: t, ctx: context.WithoutCancel(t.Context()), id: id, journal: j, registry: reg}
		tell(s)
		for _, d := range s.drivers {
			if err := d.Close(s.ctx); err != nil {
				t.Error(err)
			}
		}
	})
	return j
}

func tools(t *testing.T) []tool.Tool {
	t.Helper()
	type text struct {
		Text string `json:"text"`
	}
	type none struct{}
	var out []tool.Tool
	add := func(x tool.Tool, err error) {
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, x)
	}
	work := func(ctx context.Context, d time.Duration) (string, error) {
		select {
		case <-time.After(d):
			return "worked for " + d.String(), nil
		case <-ctx.Done():
			return "", context.Cause(ctx)
		}
	}
	add(tool.Func("echo", "Says it again.", func(_ context.Context, in text) (string, error) { return in.Text, nil }))
	add(tool.Func("fail", "Fails.", func(context.Context, none) (string, error) { return "", errors.New("no") }))
	add(tool.Func("hang", "Waits.", func(ctx context.Context, _ none) (string, error) {
		<-ctx.Done()
		return "", context.Cause(ctx)
	}))
	add(tool.Func("slow_read", "Reads.", func(ctx context.Context, _ none) (string, error) { return work(ctx, 2*time.Second) }, tool.ReadOnly()))
	add(tool.Func("background", "Works on.", func(ctx context.Context, _ none) (string, error) { return work(ctx, 10*time.Minute) },
		tool.WithSpec(func(s *tool.Spec) { s.Route = content.Background })))
	add(tool.Func("detaches", "Works on.", func(ctx context.Context, _ none) (string, error) { return work(ctx, 20*time.Minute) },
		tool.WithSpec(func(s *tool.Spec) { s.Route, s.DetachAfter = content.DetachSoon, time.Second })))
	return out
}

// start opens the session with a new driver.
func (s *story) start(c agent.Config) {
	s.t.Helper()
	c.Journal, c.Tools = s.journal, []tool.Source{s.registry}
	c.TaskManager, c.Policy = task.Async(task.AsyncConfig{}), permission.AllowAll()
	a, err := agent.New(c)
	if err != nil {
		s.t.Fatal(err)
	}
	if s.driver, err = a.Start(s.ctx, agent.SessionConfig{ID: s.id}); err != nil {
		s.t.Fatal(err)
	}
	s.drivers = append(s.drivers, s.driver)
}

func (s *story) pass(d time.Duration) { <-time.After(d) }

// want returns the next step, which must have the type S.
func want[S session.Step](s *story) S {
	s.t.Helper()
	step, err := s.driver.Next(s.ctx)
	got, ok := step.(S)
	if err != nil || !ok {
		s.t.Fatalf("%s: Next = %T, %v, want %T", s.id, step, err, got)
	}
	return got
}

func (s *story) awaiting() { s.t.Helper(); want[*session.AwaitingInput](s) }

// say waits until the session awaits input, and submits.
func (s *story) say(text string) {
	s.t.Helper()
	if err := want[*session.AwaitingInput](s).Submit(s.ctx, content.UserText(text)); err != nil {
		s.t.Fatal(err)
	}
	s.pass(time.Second)
}

func (s *story) afterTools() { s.t.Helper(); want[*session.AfterToolResult](s) }

func (s *story) finished(r content.FinishReason) {
	s.t.Helper()
	if got := want[*session.Finished](s).Result.FinishReason; got != r {
		s.t.Errorf("%s: finished %s, want %s", s.id, got, r)
	}
}

func (s *story) approval(decide func(*session.ApprovalRequest) error) {
	s.t.Helper()
	if err := decide(want[*session.ApprovalRequest](s)); err != nil {
		s.t.Fatal(err)
	}
}

func (s *story) ask(c commands.Command) {
	s.t.Helper()
	if err := s.driver.Ask(s.ctx, c); err != nil {
		s.t.Fatal(err)
	}
}

func (s *story) sendTo(b session.OnBusy, text string) {
	s.t.Helper()
	s.ask(commands.SubmitInput{Items: []content.Item{content.UserText(text)}, OnBusy: b})
}

// impatient steps until its deadline.
func (s *story) impatient(d time.Duration) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.ctx, d)
	defer cancel()
	if _, err := s.driver.Next(ctx); !errors.Is(err, context.DeadlineExceeded) {
		s.t.Fatalf("%s: Next = %v", s.id, err)
	}
}

// meanwhile sends a command while Next waits.
func (s *story) meanwhile(d time.Duration, c commands.Command) {
	driver := s.driver
	time.AfterFunc(d, func() {
		if err := driver.Ask(s.ctx, c); err != nil {
			s.t.Error(err)
		}
	})
}

// restful steps until there is nothing to do.
func (s *story) restful() {
	s.t.Helper()
	for range 20 {
		step, err := s.driver.Next(s.ctx)
		if err != nil {
			s.t.Fatal(err)
		}
		if _, ok := step.(*session.AwaitingInput); ok {
			return
		}
	}
	s.t.Errorf("%s: never at rest", s.id)
}

// taskWithGate sends each command itself, since its verifier runs elsewhere.
func taskWithGate(s *story) {
	state, head, n := loop.New(s.id), journal.Head{}, 0
	send := func(c commands.Command) {
		s.t.Helper()
		n++
		s.pass(time.Second)
		env := commands.Envelope{ID: fmt.Sprintf("command-%d", n), Session: s.id, At: content.TimeOf(time.Now()), Command: c}
		evs, err := loop.Decide(state, env)
		if err != nil || len(evs) == 0 {
			s.t.Fatalf("%s: Decide(%s) = %v, %v", s.id, commands.NameOf(c), evs, err)
		}
		entry := events.Entry{Session: s.id, Cause: env.ID, At: env.At, Epoch: 1, Events: evs}
		if head, err = s.journal.Append(s.ctx, head, entry); err != nil {
			s.t.Fatal(err)
		}
		entry.Seq = head.Seq
		state.Fold(entry)
	}
	reply := func(text string) commands.ReportReply {
		return commands.ReportReply{
			ModelCall: commands.ModelCall{Turn: state.Turn.ID, Round: state.Turn.Round, Attempt: 1},
			Items:     []content.Item{content.AssistantText(text)}, FinishReason: content.Completed,
			Usage: content.Usage{InputTokens: 5, OutputTokens: 5},
		}
	}
	send(commands.Claim{Node: "story"})
	send(commands.OpenSession{Config: events.Config{Model: "story"}, Transcript: []content.Item{content.SystemText("You fix things.")}})
	send(commands.StartTask{Spec: events.TaskSpec{Goal: "make it pass", Verifier: []string{"make", "test"}, MaxRetries: 1}})
	send(commands.ReportRecall{Task: "task-turn-1", Items: []content.Item{content.NewItem(content.Context, content.TextPart("it failed before"))}})
	send(reply("I think it passes"))
	send(commands.ReportVerify{Task: "task-turn-1", Finished: events.VerifyFinished{Attempt: 1, Exit: 2, Output: "one test fails"}})
	send(reply("now it does"))
	send(commands.ReportVerify{Task: "task-turn-1", Finished: events.VerifyFinished{Attempt: 2, Success: true, Output: "ok"}})
	send(commands.ReportMemory{Task: "task-turn-1"})
	send(commands.StartTask{Spec: events.TaskSpec{Goal: "and another", VerifierFunc: true}})
	send(commands.ReportRecall{Task: "task-turn-2"})
	send(reply("here it is"))
	send(commands.ReportVerify{Task: "task-turn-2", Finished: events.VerifyFinished{Attempt: 1, Output: "no"}})
}
