package looptest

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/turnlog/turnlog/commands"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/loop"
	"github.com/turnlog/turnlog/tool"
)

// command builds the command of a statement. Attempts, effects and waits default to those of
// the state, so scripts say only what matters.
func (r *runner) command(t testing.TB, st statement) commands.Command {
	t.Helper()
	switch st.verb {
	case "claim":
		c := commands.Claim{Node: st.opt["node"]}
		for _, id := range list(st.opt["lost"]) {
			c.Lost = append(c.Lost, r.place(id))
		}
		if st.has("config") {
			cfg := configOf(t, st)
			cfg.Digest = st.opt["config"]
			c.Config = &cfg
		}
		return c
	case "open":
		c := commands.OpenSession{Config: configOf(t, st), Stepped: st.has("stepped"), From: st.opt["from"], Resume: st.has("resume")}
		c.Transcript, c.Input = st.items(t, "transcript"), st.items(t, "input")
		return c
	case "submit":
		items := []content.Item{content.NewItem(content.Kind(st.get("kind", "user")), content.TextPart(st.arg(0)))}
		if st.lines != nil {
			items = st.items(t, "item")
		}
		return commands.SubmitInput{Items: items, OnBusy: events.OnBusy(st.opt["busy"]), Options: optionsOf(t, st)}
	case "continue":
		return r.continueOf(t, st)
	case "approve", "deny":
		return r.resolution(st)
	case "patch":
		c := r.resolution(st)
		c.Approve, c.Input = !st.has("denied"), json.RawMessage(st.arg(1))
		return c
	case "allow":
		return commands.AllowTools{Tools: list(st.arg(0)), By: st.opt["by"]}
	case "retry", "drop":
		return commands.SettleDeadLetter{
			Call: content.CallID(st.arg(0)), Retry: st.verb == "retry", MayRepeat: st.has("may-repeat"), Reason: st.opt["reason"], By: st.opt["by"],
		}
	case "cancel":
		return commands.Cancel{Scope: st.get(0, "turn"), Call: content.CallID(st.arg(1)), Reason: st.opt["reason"], Turn: content.TurnID(st.opt["turn"])}
	case "detach":
		return commands.DetachCall{Call: content.CallID(st.arg(0))}
	case "switch":
		return commands.SwitchModel{Model: st.arg(0), Data: []byte(st.opt["data"])}
	case "cache":
		return commands.SetNextTurnCache{Cache: content.CacheRequest{Mode: st.arg(0), Key: st.opt["key"]}}
	case "task":
		spec := events.TaskSpec{Goal: st.arg(0), Verifier: list(st.opt["gate"]), MaxRetries: st.number(t, "retries"), VerifierFunc: st.has("func")}
		return commands.StartTask{Spec: spec, Task: st.opt["name"], Baseline: st.opt["baseline"], Options: optionsOf(t, st)}
	case "close":
		return commands.Close{Reason: st.arg(0)}
	case "park":
		return commands.Park{}
	}
	return r.report(t, st)
}

func (r *runner) report(t testing.TB, st statement) commands.Command {
	t.Helper()
	switch st.verb {
	case "reply":
		return r.reply(t, st)
	case "fail":
		return commands.ReportModelFailed{
			ModelCall: r.attempt(t, st), Class: content.ErrorClass(st.arg(0)), Code: st.opt["code"], Message: st.opt["msg"],
			RetryAfter: st.duration(t, "after"), Usage: st.usage(t),
		}
	case "stopped":
		c := commands.ReportModelStopped{ModelCall: r.attempt(t, st), Usage: st.usage(t), Items: st.items(t, "item")}
		if st.arg(0) != "" {
			c.Items = []content.Item{content.AssistantText(st.arg(0))}
		}
		if call := st.opt["call"]; call != "" {
			c.Items = append(c.Items, content.NewItem(content.Assistant, content.CallPart(content.ToolCall{ID: content.CallID(call)})))
		}
		return c
	case "result":
		return r.result(t, st)
	case "lost":
		call, attempt := r.openCall(t, st)
		return commands.ReportAttemptLost{Place: r.place(st.arg(0)), Attempt: attempt, Queue: st.get("queue", call.Routing.Queue), Reason: "worker gone", Last: st.has("last")}
	case "gate":
		call, attempt := r.openCall(t, st)
		c := commands.ReportQuestion{Place: r.place(st.arg(0)), Attempt: attempt, N: len(call.Approved), Question: gateOf(t, statement{pos: st.pos[1:], opt: st.opt})}
		if st.has("n") {
			c.N = st.number(t, "n")
		}
		for _, l := range st.of("also") {
			c.Also = append(c.Also, gateOf(t, l))
		}
		return c
	case "preflight":
		c := commands.ReportPreflight{Turn: r.turn(st), Round: r.round(t, st), Checks: r.checks(t, st), Hooks: st.answers()}
		if st.has("only") {
			c.Checks = slices.DeleteFunc(c.Checks, func(k commands.Check) bool { return k.Place != r.place(st.opt["only"]) })
		}
		return c
	case "hooks":
		return r.hooks(t, st)
	case "mutate":
		return r.mutation(t, st)
	case "recall":
		return commands.ReportRecall{Task: r.task(st), Items: st.items(t, "item"), Error: st.opt["error"]}
	case "verify":
		f := events.VerifyFinished{Attempt: st.number(t, "attempt"), Success: st.arg(0) == "pass", Output: st.opt["output"], Exit: st.number(t, "exit")}
		if f.Attempt == 0 && r.Live.Task != nil {
			f.Attempt = r.Live.Task.Attempts
		}
		return commands.ReportVerify{Task: r.task(st), Finished: f}
	case "memory":
		return commands.ReportMemory{Task: r.task(st), Error: st.opt["error"]}
	case "timer":
		return r.timer(t, st)
	}
	t.Fatalf("scripts have no verb %q: internal/testing/looptest/verbs.go has those of commands", st.verb)
	return nil
}

// begin is how most scripts start: it opens a session and sends the first input.
func (r *runner) begin(t testing.TB, st statement) {
	t.Helper()
	open := st
	open.verb = "open"
	all := []statement{{verb: "claim"}, open}
	if st.arg(0) != "" {
		all = append(all, statement{verb: "submit", pos: st.pos})
		if st.has("stepped") {
			all = append(all, statement{verb: "continue"})
		}
	}
	for _, s := range all {
		if _, err := r.Do(t, r.Envelope(r.command(t, s))); err != nil {
			t.Fatalf("%s: %v", s.verb, err)
		}
	}
}

func (r *runner) continueOf(t testing.TB, st statement) commands.Continue {
	t.Helper()
	c := commands.Continue{Wait: loop.Waiting(r.Live), Turn: r.turn(st), Round: r.round(t, st)}
	if w := st.opt["wait"]; w != "" {
		c.Wait = commands.Wait(w)
	}
	return c
}

// resolution addresses an approval if the word looks like its ID, otherwise a call, or nothing without a word.
func (r *runner) resolution(st statement) commands.ResolveApproval {
	c := commands.ResolveApproval{Approve: st.verb == "approve", Reason: st.opt["reason"], By: st.opt["by"], Always: st.has("always")}
	switch id := st.arg(0); {
	case strings.Contains(id, "-g"):
		c.Approval = content.ApprovalID(id)
	default:
		c.Call = content.CallID(id)
	}
	return c
}

func (r *runner) attempt(t testing.TB, st statement) commands.ModelCall {
	t.Helper()
	m := commands.ModelCall{Turn: r.turn(st), Round: r.round(t, st), Attempt: st.number(t, "attempt")}
	if m.Attempt == 0 && r.Live.Turn != nil {
		m.Attempt = r.Live.Turn.Attempt
	}
	return m
}

func (r *runner) turn(st statement) content.TurnID {
	if id := st.opt["turn"]; id != "" || r.Live.Turn == nil {
		return content.TurnID(id)
	}
	return r.Live.Turn.ID
}

func (r *runner) round(t testing.TB, st statement) int {
	t.Helper()
	if n := st.number(t, "round"); n != 0 || r.Live.Turn == nil {
		return n
	}
	return r.Live.Turn.Round
}

// place returns the place of a call by its ID. Any other word is a place.
func (r *runner) place(id string) content.Place {
	if p, ok := r.places[content.CallID(id)]; ok {
		return p
	}
	return content.Place(id)
}

func (r *runner) openCall(t testing.TB, st statement) (loop.Call, int) {
	t.Helper()
	call, ok := r.Live.Call(content.CallID(st.arg(0)))
	if !ok {
		return loop.Call{}, max(st.number(t, "attempt"), 1)
	}
	if n := st.number(t, "attempt"); n != 0 {
		return *call, n
	}
	return *call, call.Attempt
}

func (r *runner) reply(t testing.TB, st statement) commands.Command {
	t.Helper()
	c := commands.ReportReply{
		Invalid:   st.opt["invalid"],
		ModelCall: r.attempt(t, st), FinishReason: content.FinishReason(st.opt["finish"]), Usage: st.usage(t), Hooks: st.answers(),
	}
	it := content.NewItem(content.Assistant)
	if text := st.arg(0); text != "" {
		it.Parts = append(it.Parts, content.TextPart(text))
	}
	for n, l := range st.of("call") {
		call := content.ToolCall{ID: content.CallID(l.arg(0)), Name: l.arg(1)}
		if l.arg(2) != "" {
			call.Input = json.RawMessage(l.arg(2))
		}
		it.Parts = append(it.Parts, content.CallPart(call))
		c.Routing = append(c.Routing, routingOf(t, l))
		if st.has("checked") {
			place := content.PlaceOf(r.Live.Turn.N, r.Live.Turn.Round, n+1)
			c.Checks = append(c.Checks, commands.Check{Place: place})
		}
	}
	if len(it.Parts) > 0 {
		c.Items = []content.Item{it}
	}
	return c
}

// queueOf returns the queue that a line names. A local call runs in the host's process.
func queueOf(l statement, otherwise string) string {
	if l.has("local") {
		return ""
	}
	return l.get("queue", otherwise)
}

func routingOf(t testing.TB, l statement) content.Routing {
	t.Helper()
	return content.Routing{
		Known: !l.has("unknown"), Queue: queueOf(l, "q"), Effects: content.Effects(l.opt["effects"]),
		Route: content.Route(l.opt["route"]), DetachAfter: l.duration(t, "detach"), Quiet: l.has("quiet"), Manual: l.has("manual"), Exclusive: l.has("exclusive"),
		Writes: l.has("writes"), Timeout: l.duration(t, "timeout"), Digest: l.opt["digest"],
	}
}

func (r *runner) result(t testing.TB, st statement) commands.Command {
	t.Helper()
	call, attempt := r.openCall(t, st)
	res := content.ToolResult{Status: content.Status(st.get("status", "ok")), Code: st.opt["code"]}
	res.Output = []content.Part{content.TextPart(st.arg(1))}
	for _, key := range list(st.opt["md"]) {
		res.Metadata = res.Metadata.With(key, true)
	}
	return commands.ReportResult{
		Place: r.place(st.arg(0)), Attempt: attempt, Queue: queueOf(st, def(call.Routing.Queue, "q")),
		Outcome: tool.Result{
			Result: res, Duration: st.duration(t, "took"), ChangedPaths: list(st.opt["paths"]), Auth: json.RawMessage(st.opt["auth"]), Usage: st.usage(t),
			Counts: tool.Counts{Requests: int64(st.number(t, "requests")), ToolCalls: int64(st.number(t, "tool_calls"))},
		},
		Hooks: st.answers(),
	}
}

// checks allows every call of the round, except those that the statement's lines refuse or
// gate.
func (r *runner) checks(t testing.TB, st statement) []commands.Check {
	t.Helper()
	var out []commands.Check
	if r.Live.Turn == nil {
		return nil
	}
	for _, c := range r.Live.Turn.Calls {
		k := commands.Check{Place: c.Place, Digest: st.opt["digest"]}
		for _, l := range st.of(string(c.ID)) {
			k = judged(t, k, l)
		}
		out = append(out, k)
	}
	return out
}

func judged(t testing.TB, k commands.Check, l statement) commands.Check {
	t.Helper()
	switch l.arg(0) {
	case "gate":
		k.Questions = append(k.Questions, gateOf(t, statement{pos: l.pos[1:], opt: l.opt}))
	default:
		k.Refusal = &commands.Refusal{Status: content.Status(l.arg(0)), Code: l.arg(1), Message: l.arg(2)}
	}
	return k
}

func gateOf(t testing.TB, l statement) commands.Question {
	t.Helper()
	return commands.Question{RequestKind: l.arg(0), Scope: l.opt["scope"], Reason: content.PolicyRequiresConfirmation, Summary: l.opt["summary"], TTL: l.duration(t, "ttl"), Asker: events.Asker(l.opt["asker"])}
}

// patchedChecks returns the host's check of patched input: the statement's lines about the
// call, or that it may run.
func (r *runner) patchedChecks(t testing.TB, st statement) []commands.Check {
	t.Helper()
	if st.verb != "patch" || st.has("unchecked") {
		return nil
	}
	k := commands.Check{Place: r.place(st.arg(0)), Digest: st.opt["digest"]}
	for _, l := range st.lines {
		k = judged(t, k, statement{pos: append([]string{l.verb}, l.pos...), opt: l.opt})
	}
	return []commands.Check{k}
}

// task returns the task of a report, by default the open one.
func (r *runner) task(st statement) string {
	if r.Live.Task == nil {
		return st.opt["task"]
	}
	return def(st.opt["task"], r.Live.Task.Name)
}

func (r *runner) hooks(t testing.TB, st statement) commands.Command {
	t.Helper()
	c := commands.ReportHooks{Turn: r.turn(st), Round: r.round(t, st), N: st.number(t, "n"), Answer: answerOf(st)}
	for _, e := range loop.Pending(r.Live) {
		if h, ok := e.(loop.RunHooks); ok && c.Answer.Point == "" {
			c.Answer.Point, c.Answer.Call = h.Point, h.Call
			if c.N == 0 {
				c.N = h.N
			}
		}
	}
	return c
}

func answerOf(st statement) commands.HookAnswer {
	return commands.HookAnswer{
		Point: st.opt["point"], Call: content.CallID(st.opt["call"]), Hook: st.opt["hook"],
		Action: st.get(0, "continue"), Reason: st.opt["reason"], FailedOpen: list(st.opt["open"]), Notes: notesOf(st),
	}
}

// notesOf parses the lines note HOOK "text".
func notesOf(st statement) (out []events.HookNote) {
	for _, l := range st.of("note") {
		out = append(out, events.HookNote{Hook: l.arg(0), Text: l.arg(1)})
	}
	return out
}

func (r *runner) mutation(t testing.TB, st statement) commands.Command {
	t.Helper()
	c := commands.ReportMutation{Turn: content.TurnID(st.opt["turn"]), Round: st.number(t, "round")}
	f := events.MutationFinished{
		Mutator: st.opt["name"], Point: st.opt["point"], Dirty: st.arg(0) == "dirty", Error: st.opt["error"],
		OldTokens: int64(st.number(t, "old")), NewTokens: int64(st.number(t, "new")), Usage: st.usage(t),
		Before: st.opt["before"], After: st.opt["after"],
	}
	for _, e := range loop.Pending(r.Live) {
		if m, ok := e.(loop.RunMutator); ok {
			f.Mutator, f.Point = def(f.Mutator, m.Mutator), def(f.Point, m.Point)
			c.Turn = content.TurnID(def(string(c.Turn), string(m.Turn)))
			if c.Round == 0 {
				c.Round = m.Round
			}
		}
	}
	for _, l := range st.lines {
		switch l.verb {
		case "keep": // from the first item, or from the N-th
			f.Replacement = append(f.Replacement, r.Live.Transcript[l.number(t, "from"):len(r.Live.Transcript)-l.number(t, "but")]...)
		default:
			f.Replacement = append(f.Replacement, itemOf(t, l))
		}
	}
	c.Finished = f
	return c
}

// timer lets an armed timer fire. One that is not armed is sent as it is.
func (r *runner) timer(t testing.TB, st statement) commands.Command {
	t.Helper()
	c := commands.ReportTimer{Kind: st.arg(0), ID: st.arg(1)}
	for _, e := range loop.Pending(r.Live) {
		a, ok := e.(loop.ArmTimer)
		if !ok || a.Kind != c.Kind || c.ID != "" && a.ID != string(r.place(c.ID)) {
			continue
		}
		c.ID = a.ID
		if !st.has("early") {
			r.At = max(r.At, a.At)
		}
		return c
	}
	return c
}
