package audit

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/turnlog/turnlog/commands"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/loop"
	"github.com/turnlog/turnlog/policy/permission"
	"github.com/turnlog/turnlog/tool"
)

// Whatever comes in, in whatever order, stale and repeated too: what the core
// writes keeps every promise.
func TestRandomSessionsKeepEveryPromise(t *testing.T) {
	t.Parallel()
	written := map[events.Kind]bool{}
	for seed := range uint64(250) {
		m := monkey{rand: rand.New(rand.NewPCG(seed, 1)), driven: &driven{t: t, state: loop.New("s-1")}}
		m.run(60)
		if found := Check(m.records); len(found) > 0 {
			for _, r := range m.records {
				t.Logf("%d %s %v", r.Seq, m.sentAs[r.Entry.Cause], r.Entry.Kinds())
			}
			t.Fatalf("seed %d: %v", seed, found)
		}
		for _, r := range m.records {
			for _, k := range r.Entry.Kinds() {
				written[k] = true
			}
		}
	}
	for _, k := range events.Kinds() {
		if events.Journaled(k) && k != events.KindToolCatalogChanged && k != events.KindSessionDeleted && !written[k] {
			t.Errorf("no session wrote a %s", k)
		}
	}
}

// monkey sends a session what its effects ask for, and much besides.
type monkey struct {
	*driven
	rand   *rand.Rand
	sentAs map[string]string
	calls  []content.Place
}

func (m *monkey) run(steps int) {
	m.sentAs = map[string]string{}
	m.send(commands.Claim{})
	m.send(commands.OpenSession{Config: m.config(), Stepped: m.chance(4)})
	for range steps {
		m.sent += m.rand.IntN(3)
		owed := loop.Pending(m.state)
		switch {
		case len(owed) > 0 && !m.chance(4):
			m.answer(owed[m.rand.IntN(len(owed))])
		case m.chance(2) && m.state.Stepped:
			c := commands.Continue{Wait: loop.Waiting(m.state)}
			if t := m.state.Turn; t != nil {
				c.Turn, c.Round = t.ID, t.Round
			}
			m.send(c)
		default:
			m.send(m.ask())
		}
	}
}

func (m *monkey) send(c commands.Command) {
	m.sentAs[fmt.Sprintf("cmd-%d", m.sent+1)] = commands.NameOf(c)
	_ = m.try(c) // asks may be refused
}

func (m *monkey) chance(n int) bool { return m.rand.IntN(n) == 0 }

func pick[T any](m *monkey, from ...T) T { return from[m.rand.IntN(len(from))] }

func (m *monkey) config() events.Config {
	c := events.Config{
		MaxParallel: m.rand.IntN(4) - 1, FailRun: m.chance(6), ApprovalTTL: content.Duration(m.rand.IntN(2)) * 5 * time.Second,
		Retry: events.Retry{ModelAttempts: 2, ToolAttempts: 2, LostAttempts: 2},
	}
	if m.chance(2) {
		c.Limits = events.Limits{MaxRounds: int64(m.rand.IntN(4)), Requests: int64(m.rand.IntN(6)), ToolCalls: int64(m.rand.IntN(6)), InputTokens: int64(m.rand.IntN(60))}
	}
	if m.chance(5) {
		c.SessionLimits = events.Limits{Requests: int64(5 + m.rand.IntN(9))}
	}
	if m.chance(2) {
		c.Rules = []events.Rule{{Tool: "free", Action: events.RuleAsk}, {Tool: "later", Action: events.RuleDeny}, {Tool: "*", Action: events.RuleAllow}}
	}
	if m.chance(3) {
		c.Hooks = []events.Registration{{Name: "h", Points: []string{
			pick(m, "loop_iteration", "pre_llm_call"), "post_llm_call", "pre_tool_execution", "post_tool_execution", "context_compaction",
		}}}
	}
	if m.chance(3) {
		c.Mutators = []events.Registration{{Name: "m1"}, {Name: "m2"}}
	}
	return c
}

func (m *monkey) ask() commands.Command {
	text := []content.Item{content.UserText(fmt.Sprint("text ", m.sent))}
	switch m.rand.IntN(22) {
	case 0, 1, 2, 3:
		c := commands.SubmitInput{Items: text, OnBusy: pick(m, events.Steer, events.Queue, events.Interrupt, events.Reject)}
		if m.chance(4) {
			c.Options = m.options()
		}
		return c
	case 4:
		return commands.Cancel{Scope: pick(m, commands.ScopeTurn, commands.ScopeSession)}
	case 5:
		return commands.Cancel{Scope: commands.ScopeCall, Call: m.anyCall()}
	case 6, 7, 8:
		return commands.ResolveApproval{Approve: m.chance(2)}
	case 9:
		return commands.DetachCall{Call: m.anyCall()}
	case 10:
		return commands.StartTask{Spec: events.TaskSpec{Goal: "g", GateFunc: m.chance(2), MaxRetries: m.rand.IntN(2)}}
	case 11:
		config := m.state.Config
		config.Digest = fmt.Sprint("d", m.rand.IntN(3))
		return commands.Claim{Lost: m.calls, Config: &config}
	case 12:
		return commands.Park{}
	case 13:
		return m.outcome(m.anyPlace(), 1+m.rand.IntN(2))
	case 14:
		return commands.ReportGate{Place: m.anyPlace(), Attempt: 1, Gate: commands.Gate{RequestKind: "late"}}
	case 15:
		return commands.SetNextTurnCache{Cache: content.CacheRequest{Mode: "required"}}
	case 18, 19:
		c := commands.SettleDeadLetter{Call: m.anyCall(), Retry: !m.chance(4), MayRepeat: true, By: "ann"}
		if dead := m.state.DeadLetters(); len(dead) > 0 {
			c.Call = pick(m, dead...).ID
		}
		return c
	case 17:
		return commands.AllowTools{Tools: []string{pick(m, "free", "gated", "ruled", "*")}, By: "ann"}
	case 16:
		if m.chance(5) {
			return commands.Close{Reason: "done"}
		}
	}
	return commands.ReportAttemptLost{Place: m.anyPlace(), Attempt: 1 + m.rand.IntN(2), Queue: "q"}
}

func (m *monkey) options() *events.TurnOptions {
	return &events.TurnOptions{
		Limits: &events.Limits{Requests: int64(m.rand.IntN(6)), ToolCalls: int64(m.rand.IntN(6))},
		Rules:  [][]events.Rule{{{Tool: pick(m, "free", "gated", "slow"), Action: pick(m, events.RuleAsk, events.RuleDeny)}}},
	}
}

func (m *monkey) anyPlace() content.Place { return pick(m, append(m.calls, "t1-r1-c1")...) }

func (m *monkey) anyCall() content.CallID {
	if t := m.state.Turn; t != nil && len(t.Calls) > 0 {
		return pick(m, t.Calls...).ID
	}
	return content.CallID(m.anyPlace())
}

// answer does what an effect asks for, one way or another.
func (m *monkey) answer(e loop.Effect) {
	switch e := e.(type) {
	case loop.CallModel:
		m.send(m.model(e.ModelCall))
	case loop.StopModel:
		m.send(pick[commands.Command](m, m.model(e.ModelCall), commands.ReportModelStopped{
			ModelCall: e.ModelCall, Items: []content.Item{content.AssistantText("I was")}, Usage: content.Usage{InputTokens: 2},
		}))
	case loop.Preflight:
		m.send(m.judge(e))
	case loop.RunTool:
		m.send(m.outcome(e.Call.Place, e.Call.Attempt))
	case loop.StopTool:
		m.send(m.outcome(e.Place, 1))
	case loop.RunHooks:
		m.send(commands.ReportHooks{Turn: e.Turn, Round: e.Round, N: e.N, Answer: m.hook(e.Point, e.Call)})
	case loop.RunMutator:
		f := events.MutationFinished{Mutator: e.Mutator, Point: e.Point, Usage: content.Usage{InputTokens: int64(m.rand.IntN(3))}}
		switch m.rand.IntN(8) {
		case 0:
			f.Error = "no"
		case 1, 2:
			f.Dirty, f.Replacement = true, []content.Item{content.SystemText("so far"), content.UserText("go on")}
		}
		m.send(commands.ReportMutation{Turn: e.Turn, Round: e.Round, Finished: f})
	case loop.ArmTimer:
		m.sent += m.rand.IntN(20)
		m.send(commands.ReportTimer{Kind: e.Kind, ID: e.ID})
	case loop.Recall:
		m.send(commands.ReportRecall{Task: e.Task, Items: []content.Item{content.NewItem(content.Context, content.TextPart("known"))}})
	case loop.Verify:
		m.send(commands.ReportVerify{Task: e.Task, Finished: events.VerifyFinished{Attempt: e.Attempt, Success: m.chance(2), Output: "FAIL"}})
	case loop.StopVerify:
		m.send(commands.ReportVerify{Task: e.Task, Finished: events.VerifyFinished{Attempt: e.Attempt}})
	case loop.StoreMemory:
		m.send(commands.ReportMemory{Task: e.Task})
	}
}

func (m *monkey) model(c commands.ModelCall) commands.Command {
	usage := content.Usage{InputTokens: int64(m.rand.IntN(20)), OutputTokens: 1}
	if m.chance(6) {
		return commands.ReportModelFailed{ModelCall: c, Class: pick(m, content.ClassServer, content.ClassAuth), Usage: usage}
	}
	r := commands.ReportReply{ModelCall: c, Usage: usage}
	parts := []content.Part{content.TextPart("hm")}
	for n := range m.rand.IntN(4) {
		name := pick(m, "free", "gated", "safe", "later", "safe_later", "forbidden", "slow", "detaching")
		parts = append(parts, content.CallPart(content.ToolCall{ID: pick[content.CallID](m, "", "same", "ä"), Name: name, Input: []byte(`{}`)}))
		r.Routing = append(r.Routing, routingOf(name))
		m.calls = append(m.calls, content.PlaceOf(m.state.Turn.N, c.Round, n+1))
	}
	r.Items = []content.Item{content.NewItem(content.Assistant, parts...)}
	if m.chance(8) {
		r.FinishReason = pick(m, content.Compaction, content.MaxTokens, content.ToolCalls, content.Blocked)
	}
	return r
}

func (m *monkey) judge(e loop.Preflight) commands.Command {
	r := commands.ReportPreflight{Turn: e.Turn, Round: e.Round}
	for _, c := range e.Calls {
		check := commands.Check{Place: c.Place, Digest: "d-" + c.Name}
		switch c.Name {
		case "gated":
			check.Gates = []commands.Gate{{RequestKind: "one"}, {RequestKind: "two"}}
		case "forbidden":
			check.Refusal = &commands.Refusal{Status: content.StatusDenied, Code: "no", Message: "no"}
		}
		ruledOn(&check, e.Rules, c)
		r.Checks = append(r.Checks, check)
	}
	if e.Hooks {
		for _, c := range e.Calls {
			r.Hooks = append(r.Hooks, m.hook("pre_tool_execution", c.ID))
		}
	}
	return r
}

// ruledOn adds to a check what the rules say of the call.
func ruledOn(check *commands.Check, rules loop.Rules, c loop.Call) {
	about := tool.Request{Call: c.ToolCall, Spec: tool.Spec{Name: c.Name, Effects: c.Routing.Effects}}
	gate := func(p tool.Permissions, asker events.Asker) {
		switch v, _ := p.Evaluate(context.Background(), about); v.Ruling {
		case tool.Deny:
			check.Refusal = &commands.Refusal{Status: content.StatusDenied, Code: "rule", Message: "no"}
		case tool.Ask:
			check.Gates = append(check.Gates, commands.Gate{RequestKind: permission.KindCall, Asker: asker})
		case tool.Allow, tool.NoOpinion:
		}
	}
	for _, list := range rules.Turn {
		gate(permission.Narrowing(list), events.AskedByTurn)
	}
	gate(permission.Rules(rules.Session), events.AskedByRules)
}

func (m *monkey) hook(point string, call content.CallID) commands.HookAnswer {
	return commands.HookAnswer{
		Point: point, Call: call, Hook: "h", Reason: "no",
		Action: pick(m, "continue", "continue", "continue", "continue", "skip", "skip", "terminate"),
	}
}

func (m *monkey) outcome(p content.Place, attempt int) commands.Command {
	s := pick(m, content.StatusOK, content.StatusOK, content.StatusError, content.StatusCancelled)
	return commands.ReportResult{Place: p, Attempt: attempt, Queue: "q", Outcome: tool.Result{Result: content.NewResult("", "", s, "out")}}
}
