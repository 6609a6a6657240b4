package explain_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/turnlog/turnlog/commands"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/events/journal"
	"github.com/turnlog/turnlog/loop"
	"github.com/turnlog/turnlog/policy/permission"
	"github.com/turnlog/turnlog/tool"
)

// story is a session that the core decides, command by command, a second apart.
type story struct {
	t       testing.TB
	state   *loop.State
	policy  *events.Policy
	records []journal.Record
	head    journal.Head
}

// begin opens a session of ada under a policy.
func begin(t testing.TB, cfg events.Config, rules ...events.Rule) *story {
	t.Helper()
	p := permission.Deploy("v3", rules...).For()
	s := &story{t: t, state: loop.New("s-1"), policy: &p}
	s.do("", commands.Claim{Node: "n1"})
	s.do("ada", commands.OpenSession{Config: cfg})
	return s
}

func (s *story) do(user string, c commands.Command) {
	s.t.Helper()
	s.decide(commands.Envelope{Command: c, User: user})
}

func (s *story) decide(env commands.Envelope) {
	s.t.Helper()
	n := len(s.records) + 1
	env.ID, env.Session, env.Policy = fmt.Sprintf("cmd-%d", n), s.state.Session, s.policy
	env.At = content.TimeOf(time.Date(2026, 1, 2, 3, 4, n, 0, time.UTC))
	evs, err := loop.Decide(s.state, env)
	if err != nil || len(evs) == 0 {
		s.t.Fatalf("%s led to %v, %v", commands.NameOf(env.Command), evs, err)
	}
	epoch := s.state.Epoch
	if claim, ok := evs[0].(events.DriverClaimed); ok {
		epoch = claim.Epoch
	}
	s.append(events.Entry{Session: s.state.Session, Cause: env.ID, At: env.At, Epoch: epoch, Events: evs})
}

func (s *story) append(e events.Entry) {
	s.t.Helper()
	e, payload, head, err := journal.Link(s.head, e)
	if err != nil {
		s.t.Fatal(err)
	}
	s.head = head
	s.records = append(s.records, journal.Record{Head: head, Entry: e, Payload: payload})
	s.state.Fold(e)
}

// say sends input of a user.
func (s *story) say(user, text string) {
	s.t.Helper()
	s.do(user, commands.SubmitInput{Items: []content.Item{content.UserText(text)}})
}

// reply is the model's, with calls of tools, whose effects are known.
func (s *story) reply(text string, calls ...content.ToolCall) {
	s.t.Helper()
	turn := s.state.Turn
	parts := []content.Part{content.TextPart(text)}
	var routing []content.Routing
	for _, c := range calls {
		r := content.Routing{Known: true, Queue: "default", Digest: tool.Digest(c.Input)}
		if c.Name == "read" {
			r.Effects = content.ReadOnly
		}
		parts, routing = append(parts, content.CallPart(c)), append(routing, r)
	}
	s.do("", commands.ReportReply{
		ModelCall: commands.ModelCall{Turn: turn.ID, Round: turn.Round, Attempt: turn.Attempt},
		Items:     []content.Item{content.NewItem(content.Assistant, parts...)}, Routing: routing, Model: "demo-1",
	})
}

// preflight checks the calls of the round: those with a question ask it.
func (s *story) preflight(questions ...commands.Question) {
	s.t.Helper()
	var checks []commands.Check
	for i, c := range s.state.Turn.Calls {
		k := commands.Check{Place: c.Place, Digest: c.Digest}
		if i < len(questions) && questions[i].RequestKind != "" {
			k.Questions = questions[i : i+1]
		}
		checks = append(checks, k)
	}
	s.do("", commands.ReportPreflight{Turn: s.state.Turn.ID, Round: s.state.Turn.Round, Checks: checks})
}

func (s *story) result(place content.Place, attempt int, text string) {
	s.t.Helper()
	c, _ := s.state.CallAt(place)
	s.do("", commands.ReportResult{Place: place, Attempt: attempt, Queue: "default", Outcome: tool.Result{
		Result: content.NewResult(c.ID, c.Name, content.StatusOK, text), Duration: 12 * time.Millisecond,
	}})
}

func call(id, name, input string) content.ToolCall {
	return content.ToolCall{ID: content.CallID(id), ProviderID: id, Name: name, Input: []byte(input)}
}

func question(summary string) commands.Question {
	return commands.Question{
		RequestKind: events.QuestionCall, Reason: content.PolicyRequiresConfirmation, Summary: summary, Asker: events.AskedByRules,
	}
}

// patched approves a call with other arguments.
func (s *story) patched(user string, id content.CallID, input string) {
	s.t.Helper()
	c, _ := s.state.Call(id)
	s.decide(commands.Envelope{
		User: user, Command: commands.ResolveApproval{Call: id, Approve: true, Input: []byte(input), Reason: "only that"},
		Checks: []commands.Check{{Place: c.Place, Digest: tool.Digest([]byte(input))}},
	})
}
