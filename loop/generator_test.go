package loop_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/turnlog/turnlog/commands"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/internal/testing/looptest"
	"github.com/turnlog/turnlog/loop"
	"github.com/turnlog/turnlog/tool"
)

// dice turns bytes into choices. Once the bytes are used up, every throw is zero.
type dice struct{ rest []byte }

func (d *dice) empty() bool { return len(d.rest) == 0 }

// throw returns a number below n.
func (d *dice) throw(n int) int {
	if d.empty() || n <= 1 {
		return 0
	}
	b := d.rest[0]
	d.rest = d.rest[1:]
	return int(b) % n
}

// once returns true one time in n, and false when no bytes are left.
func (d *dice) once(n int) bool { return !d.empty() && d.throw(n) == n-1 }

func pick[T any](d *dice, of ...T) T { return of[d.throw(len(of))] }

// generator generates commands that mostly make sense in the session's state: the report of
// a pending effect, the Continue that the session waits for, sometimes an ask, and sometimes
// a late, repeated or meaningless command.
type generator struct {
	*looptest.Session
	dice

	sentBefore []commands.Envelope

	// What the test tracks by itself.
	allowed      map[content.Place]bool  // by a preflight
	judged       map[content.CallID]bool // by hooks
	waiting      int                     // items of input that are queued
	reconfigured bool
	parked       bool
}

func (g *generator) config() events.Config {
	cfg := events.Config{
		MaxParallel: pick(&g.dice, 0, 2, -1, 3), FailRun: g.once(4), NotifyOnly: g.once(6),
		ApprovalTTL: pick(&g.dice, 0, time.Minute), Retry: events.Retry{ModelAttempts: pick(&g.dice, 0, 1), LostAttempts: pick(&g.dice, 0, 2)},
	}
	cfg.Limits, cfg.SessionLimits = g.limits(), g.limits()
	for _, p := range []string{
		"loop_iteration", "pre_llm_call", "post_llm_call", "pre_tool_execution", "post_tool_execution", "context_compaction",
	} {
		if g.once(4) {
			cfg.Hooks = append(cfg.Hooks, events.Registration{Name: "h-" + p, Points: []string{p}})
		}
	}
	for _, name := range []string{"m1", "m2"} {
		if g.once(4) {
			cfg.Mutators = append(cfg.Mutators, events.Registration{Name: name, Points: pick(&g.dice, nil, []string{"before_model"}, []string{"after_tool_result", "after_turn_ended"})})
		}
	}
	return cfg
}

func (g *generator) limits() events.Limits {
	if !g.once(3) {
		return events.Limits{}
	}
	return events.Limits{
		MaxRounds: pick(&g.dice, int64(0), 1, 3, -1), Requests: pick(&g.dice, int64(0), 2, 4), InputTokens: pick(&g.dice, int64(0), 10),
		ToolCalls: pick(&g.dice, int64(0), 3, -1), CostMicros: pick(&g.dice, int64(0), 20), WallClock: pick(&g.dice, 0, time.Minute, -time.Second),
	}
}

// next returns the next command to send.
func (g *generator) next() commands.Envelope {
	if g.once(3) {
		g.At = g.At.Add(pick(&g.dice, time.Millisecond, time.Second, time.Minute, time.Hour))
	}
	if g.once(8) {
		g.Offers = pick(&g.dice, nil, &events.Catalog{Digest: "a"}, &events.Catalog{
			Digest: "b", Sources: []events.CatalogSource{{Name: "s", Tools: []events.ToolRef{{Name: "t", Digest: "1"}}}},
		})
	}
	if g.once(10) {
		g.Policy = pick(&g.dice, nil, &events.Policy{Digest: "open"}, policyOf("guard"), policyOf("ask"), policyOf("deny"), policyOf("allow"))
	}
	var env commands.Envelope
	switch n := g.throw(16); {
	case n < 9:
		env = g.Envelope(g.expected())
	case n < 13:
		env = g.ask()
	case n < 15 && len(g.sentBefore) > 0:
		env = g.sentBefore[g.throw(len(g.sentBefore))]
		if g.once(2) {
			env = g.Envelope(env.Command)
		}
	default:
		env = g.Envelope(g.nonsense())
	}
	g.sentBefore = append(g.sentBefore, env)
	return env
}

func policyOf(a events.Action) *events.Policy {
	return &events.Policy{Digest: string(a), Rules: [][]events.Rule{{{Tool: "*", Action: a}}}}
}

// expected returns the report of a pending effect, the Continue that the session waits for,
// or input.
func (g *generator) expected() commands.Command {
	owed := loop.Pending(g.Live)
	if len(owed) > 0 && !g.once(5) {
		return g.answer(owed[g.throw(len(owed))])
	}
	switch wait := loop.Waiting(g.Live); wait {
	case commands.WaitYield, commands.WaitReady:
		return g.continueNow(wait)
	case commands.WaitApproval:
		return commands.ResolveApproval{Call: g.Live.PendingApprovals()[0].CallID, Approve: !g.once(3), Reason: "r"}
	case commands.WaitWorking, commands.WaitInput:
	}
	if g.once(6) {
		task := g.person().Task()
		if g.once(2) {
			task.Spec.Verifier, task.Spec.VerifierFunc = []string{"check"}, false
		}
		return task
	}
	return g.submit()
}

func (g *generator) continueNow(w commands.Wait) commands.Continue {
	c := commands.Continue{Wait: w}
	if g.Live.Turn != nil {
		c.Turn, c.Round = g.Live.Turn.ID, g.Live.Turn.Round
	}
	return c
}

func (g *generator) submit() commands.Command { return g.complete(g.person().Submit()) }

// complete adds what a client may say about input besides its text.
func (g *generator) complete(c commands.SubmitInput) commands.Command {
	kind := pick(&g.dice, content.User, content.User, content.User, content.System, content.Context, content.Assistant)
	c.Items = []content.Item{content.NewItem(kind, content.TextPart("in"))}
	if g.once(6) {
		c.Options = &events.TurnOptions{Sequential: g.once(2)}
		if l := g.limits(); g.once(2) {
			c.Options.Limits = &l
		}
		if g.once(2) {
			c.Options.Rules = [][]events.Rule{{{Tool: pick(&g.dice, "none", "no_*", ""), Action: events.RuleDeny}}} // the generated checks ignore rules
		}
	}
	return c
}

// answer returns a report of an effect.
func (g *generator) answer(e loop.Effect) commands.Command {
	switch e := e.(type) {
	case loop.CallModel:
		if g.once(4) {
			return commands.ReportModelFailed{
				ModelCall: e.ModelCall, Class: pick(&g.dice, content.ClassNetwork, content.ClassAuth, content.ClassRateLimit, content.ClassLost, ""),
				RetryAfter: pick(&g.dice, 0, time.Second), Usage: g.usage(),
			}
		}
		return g.reply(e.ModelCall)
	case loop.StopModel:
		if g.once(3) {
			return g.reply(e.ModelCall)
		}
		c := commands.ReportModelStopped{ModelCall: e.ModelCall, Usage: g.usage()}
		if g.once(2) {
			c.Items = []content.Item{content.AssistantText("par")}
		}
		return c
	case loop.Preflight:
		return commands.ReportPreflight{Turn: e.Turn, Round: e.Round, Checks: g.checks(e.Calls), Hooks: g.hookAnswers(e.Calls)}
	case loop.RunTool:
		return g.toolReport(e.Call)
	case loop.StopTool:
		c := commands.ReportResult{Place: e.Place, Attempt: 1, Queue: e.Queue}
		c.Outcome.Result = content.NewResult(e.Call, "", pick(&g.dice, content.StatusCancelled, content.StatusOK), "stopped")
		return c
	case loop.RunHooks:
		return commands.ReportHooks{Turn: e.Turn, Round: e.Round, N: e.N, Answer: g.hookAnswer(e.Point, e.Call)}
	case loop.RunMutator:
		return g.mutation(e)
	case loop.ArmTimer:
		if !g.once(4) {
			g.At = max(g.At, e.At)
		}
		return commands.ReportTimer{Kind: e.Kind, ID: e.ID}
	case loop.Recall:
		return commands.ReportRecall{Task: e.Task, Items: pick(&g.dice, nil, []content.Item{content.NewItem(content.Context, content.TextPart("m"))}, []content.Item{{Kind: "x"}})}
	case loop.Verify:
		return commands.ReportVerify{Task: e.Task, Finished: events.VerifyFinished{Attempt: e.Attempt, Success: !g.once(2), Output: "o"}}
	case loop.StopVerify:
		return commands.ReportVerify{Task: e.Task, Finished: events.VerifyFinished{Attempt: e.Attempt, Success: g.once(2)}}
	case loop.StoreMemory:
		return commands.ReportMemory{Task: e.Task, Error: pick(&g.dice, "", "no")}
	}
	panic(fmt.Sprintf("no answer to %T", e))
}

func (g *generator) usage() content.Usage {
	return content.Usage{InputTokens: int64(g.throw(6)), CostMicros: int64(g.throw(8))}
}

func (g *generator) reply(m commands.ModelCall) commands.Command {
	c := commands.ReportReply{ModelCall: m, Usage: g.usage(), FinishReason: pick(&g.dice, "", "", "", "", content.Compaction, content.MaxTokens,
		content.Blocked, content.ToolCalls, content.Cancelled, content.Errored)}
	it := content.NewItem(content.Assistant)
	for range g.throw(4) {
		id := pick(&g.dice, "", "x", "y", string(content.PlaceOf(1, 2, 1)), fmt.Sprintf("c%d", g.throw(100)))
		it.Parts = append(it.Parts, content.CallPart(content.ToolCall{ID: content.CallID(id), Name: "t", Input: json.RawMessage(`{}`)}))
		c.Routing = append(c.Routing, content.Routing{
			Known: true, Queue: pick(&g.dice, "", "q"), Effects: pick(&g.dice, content.Once, content.ReadOnly),
			Route: pick(&g.dice, content.Foreground, content.Foreground, content.Background, content.DetachSoon), DetachAfter: time.Second, Quiet: g.once(4), Manual: g.once(4),
			Exclusive: g.once(4), Writes: g.once(2), Timeout: pick(&g.dice, 0, 10*time.Second),
		})
	}
	if text := pick(&g.dice, "say", ""); text != "" {
		it.Parts = append(it.Parts, content.TextPart(text))
	}
	if g.once(6) {
		c.Invalid = "bad"
	}
	if len(it.Parts) > 0 {
		c.Items = []content.Item{it}
	}
	if g.once(3) && g.Live.Turn != nil {
		for i := range c.Routing {
			c.Checks = append(c.Checks, g.check(content.PlaceOf(g.Live.Turn.N, m.Round, i+1)))
		}
	}
	if g.once(2) {
		c.Hooks = []commands.HookAnswer{g.hookAnswer("post_llm_call", "")}
	}
	return c
}

func (g *generator) checks(calls []loop.Call) []commands.Check {
	var out []commands.Check
	for _, c := range calls {
		if !g.once(10) {
			out = append(out, g.check(c.Place))
		}
	}
	return out
}

func (g *generator) check(p content.Place) commands.Check {
	k := commands.Check{Place: p}
	switch g.throw(5) {
	case 3:
		k.Refusal = &commands.Refusal{Status: pick(&g.dice, content.StatusError, content.StatusDenied, ""), Code: "c", Message: "m"}
	case 4:
		for range 1 + g.throw(2) {
			k.Questions = append(k.Questions, g.gate())
		}
	}
	return k
}

func (g *generator) gate() commands.Question {
	return commands.Question{
		RequestKind: pick(&g.dice, "a", "b", "c"), Scope: pick(&g.dice, "", "", "s"), Reason: content.EscalatedRisk, TTL: pick(&g.dice, 0, time.Second),
		Asker: pick(&g.dice, "", "", events.AskedByRules, events.AskedByTurn),
	}
}

func (g *generator) hookAnswers(calls []loop.Call) []commands.HookAnswer {
	if len(calls) == 0 || g.once(6) {
		return nil
	}
	return []commands.HookAnswer{g.hookAnswer("pre_tool_execution", calls[0].ID), g.hookAnswer("post_tool_execution", calls[0].ID)}
}

func (g *generator) hookAnswer(point string, call content.CallID) commands.HookAnswer {
	a := commands.HookAnswer{Point: point, Call: call, Action: "continue"}
	if g.once(5) {
		a.Hook, a.Action, a.Reason = "h", pick(&g.dice, "skip", "terminate", "?"), "r"
	}
	if g.once(6) {
		a.FailedOpen = []string{"f"}
	}
	return a
}

func (g *generator) toolReport(c loop.Call) commands.Command {
	attempt := c.Attempt
	if g.once(8) {
		attempt = g.throw(4)
	}
	switch g.throw(8) {
	case 5, 6:
		return commands.ReportAttemptLost{Place: c.Place, Attempt: attempt, Queue: c.Routing.Queue}
	case 7:
		gate := commands.ReportQuestion{Place: c.Place, Attempt: attempt, N: len(c.Approved), Question: g.gate()}
		if g.once(4) {
			gate.Also = []commands.Question{g.gate()}
		}
		return gate
	}
	status := pick(&g.dice, content.StatusOK, content.StatusOK, content.StatusOK, content.StatusError, content.StatusDenied, content.StatusUnknown,
		content.StatusCancelled, content.StatusLimit, "")
	res := content.NewResult(c.ID, c.Name, status, "out")
	res.Code = pick(&g.dice, "", "model_retry")
	return commands.ReportResult{
		Place: c.Place, Attempt: attempt, Queue: c.Routing.Queue,
		Outcome: tool.Result{Result: res, ChangedPaths: []string{"b", "a"}[:g.throw(3)], Usage: pick(&g.dice, content.Usage{}, content.Usage{}, g.usage())}, Hooks: g.hookAnswers([]loop.Call{c}),
	}
}

func (g *generator) mutation(e loop.RunMutator) commands.Command {
	f := events.MutationFinished{Mutator: e.Mutator, Point: e.Point, Usage: g.usage()}
	items := g.Live.Transcript
	switch g.throw(7) {
	case 3:
		f.Error = "no"
	case 4:
		f.Dirty, f.Replacement = true, append(slices.Clone(items), content.UserText("note"))
	case 5:
		f.Dirty, f.Replacement, f.OldTokens = true, slices.Clone(items[g.throw(len(items)+1):]), 5
	case 6:
		f.Dirty, f.Replacement = true, []content.Item{content.UserText("sum")}
	}
	return commands.ReportMutation{Turn: e.Turn, Round: e.Round, Finished: f}
}

func (g *generator) person() looptest.Person { return looptest.Person{Throw: g.throw} }

// ask returns a command that the session does not wait for: of a person, a host or a stepper.
func (g *generator) ask() commands.Envelope {
	switch g.throw(15) {
	case 0:
		claim := commands.Claim{}
		for _, e := range loop.Pending(g.Live) {
			if r, ok := e.(loop.RunTool); ok && !g.once(4) {
				claim.Lost = append(claim.Lost, r.Call.Place)
			}
		}
		if g.once(3) {
			cfg := g.config()
			cfg.Digest = fmt.Sprint("d", g.Sent)
			claim.Config = &cfg
		}
		return g.Envelope(claim)
	case 1:
		if g.once(10) {
			return g.Envelope(commands.Close{})
		}
		return g.Envelope(commands.Park{})
	case 2, 3:
		return g.Envelope(commands.Continue{Wait: pick(&g.dice, commands.WaitReady, commands.WaitYield), Round: g.throw(3)})
	}
	view := looptest.View{Approvals: g.Live.PendingApprovals()}
	for _, c := range g.calls() {
		view.Calls = append(view.Calls, c.ID)
	}
	env := g.Envelope(g.person().Ask(view))
	switch c := env.Command.(type) { //nolint:gochecksumtype // others are complete
	case commands.SubmitInput:
		env.Command = g.complete(c)
	case commands.ResolveApproval:
		if c.Input != nil {
			env.Checks = []commands.Check{g.check(g.placeOf(c))}
			env.Checks[0].Digest = "patched"
		}
	}
	return env
}

// placeOf returns the place of the call that a decision is about.
func (g *generator) placeOf(c commands.ResolveApproval) content.Place {
	for _, a := range g.Live.PendingApprovals() {
		if c.Approval == a.ID || c.Call == a.CallID {
			return a.TaskID
		}
	}
	for _, call := range g.calls() {
		if c.Call == call.ID {
			return call.Place
		}
	}
	return content.PlaceOf(1, 1, 1)
}

func (g *generator) calls() []loop.Call {
	var all []loop.Call
	if g.Live.Turn != nil {
		all = slices.Clone(g.Live.Turn.Calls)
	}
	return append(all, g.Live.Background...)
}

// nonsense returns a report that rarely matches anything owed.
func (g *generator) nonsense() commands.Command {
	m := commands.ModelCall{Turn: content.TurnIDFor(1 + g.throw(3)), Round: 1 + g.throw(3), Attempt: 1 + g.throw(2)}
	place := content.PlaceOf(1+g.throw(3), 1+g.throw(3), 1+g.throw(3))
	switch g.throw(9) {
	case 0:
		return g.reply(m)
	case 1:
		return commands.ReportPreflight{Turn: m.Turn, Round: m.Round}
	case 2:
		return commands.ReportHooks{Turn: m.Turn, Round: m.Round, Answer: g.hookAnswer(pick(&g.dice, "loop_iteration", "post_llm_call"), "")}
	case 3:
		return g.mutation(loop.RunMutator{Turn: m.Turn, Mutator: "m1", Point: pick(&g.dice, "before_model", "after_turn_ended")})
	case 4:
		return commands.ReportVerify{Task: "task-" + string(m.Turn), Finished: events.VerifyFinished{Attempt: 1 + g.throw(2), Success: true}}
	case 5:
		return commands.ReportTimer{Kind: pick(&g.dice, "retry", "deadline", "?"), ID: string(place)}
	case 6:
		return commands.ReportModelStopped{ModelCall: m}
	case 7:
		if g.once(2) {
			return commands.ReportHooks{Answer: g.hookAnswer(pick(&g.dice, "session_start", "session_end"), "")}
		}
		return commands.OpenSession{}
	}
	return g.toolReport(loop.Call{ToolCall: content.ToolCall{Place: place}, Attempt: 1})
}
