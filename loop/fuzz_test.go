package loop_test

import (
	"flag"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/turnlog/turnlog/commands"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/internal/testing/looptest"
	"github.com/turnlog/turnlog/loop"
	"github.com/turnlog/turnlog/tool"
)

// FuzzCommands lets bytes choose the commands. Whatever they are, the core does not panic,
// Decide changes nothing, replay gives the same state, the session never gets stuck, and
// package audit finds no violation.
func FuzzCommands(f *testing.F) {
	for seed := range uint64(8) {
		f.Add(randomBytes(seed, 120))
	}
	f.Fuzz(func(t *testing.T, choices []byte) {
		wander(t, choices[:min(len(choices), 600)])
	})
}

var seeds = flag.Uint64("seeds", 100, "how many random sessions to try")

// TestRandomSessions does the same for fixed seeds.
func TestRandomSessions(t *testing.T) {
	t.Parallel()
	for seed := range *seeds {
		t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) { wander(t, randomBytes(seed, 250)) })
	}
}

func randomBytes(seed uint64, n int) []byte {
	r := rand.New(rand.NewPCG(seed, 1)) //nolint:gosec // a test's choices are no secret
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	return b
}

func wander(t *testing.T, choices []byte) *generator {
	t.Helper()
	g := &generator{Session: looptest.NewSession("s"), dice: dice{choices}, allowed: map[content.Place]bool{}, judged: map[content.CallID]bool{}}
	g.Terse = true
	defer func() {
		if t.Failed() {
			t.Logf("as a script:\n%s", g.Script(t, "Found by a random session."))
		}
	}()
	g.tell(t, g.Envelope(commands.Claim{}))
	g.tell(t, g.Envelope(commands.OpenSession{Config: g.config(), Stepped: g.once(2)}))
	for !g.empty() {
		g.tell(t, g.next())
	}
	g.comeToRest(t)
	g.Finish(t)
	return g
}

func (g *generator) tell(t *testing.T, env commands.Envelope) {
	t.Helper()
	g.checkTogether(t, env)
	if _, claims := env.Command.(commands.Claim); g.parked && !claims { // its driver is gone
		g.parked = false
		g.tell(t, g.Envelope(commands.Claim{}))
		g.checkTogether(t, env)
	}
	if g.Sent%5 == 0 {
		env.Snapshot = g.Take(t)
	}
	evs, err := g.Do(t, env)
	if len(evs) > 0 {
		_, g.parked = evs[len(evs)-1].(events.Parked)
	}
	if err != nil && !commands.IsAsk(env.Command) {
		t.Fatalf("the report %s was refused: %v", looptest.Render(env.Command), err)
	}
	checkWait(t, g.Live)
	checkOrder(t, g.Live.Turn)
	g.judgeDispatches(t, env, evs)
	g.countInput(t, evs)
}

// checkTogether checks that the results of all running calls in one command decide to what they decide to one
// after another.
func (g *generator) checkTogether(t *testing.T, env commands.Envelope) {
	t.Helper()
	if g.Live.Turn == nil {
		return
	}
	var results []commands.ReportResult
	for _, c := range append(slices.Clone(g.Live.Turn.Calls), g.Live.Background...) {
		if c.Running() {
			r := content.NewResult(c.ID, c.Name, content.StatusOK, "out")
			results = append(results, commands.ReportResult{Place: c.Place, Attempt: c.Attempt, Queue: c.Routing.Queue, Outcome: tool.Result{Result: r}})
		}
	}
	if len(results) < 2 {
		return
	}
	env.ID += "+"
	env.Command, env.Also = results[0], results[1:]
	together, err := loop.Decide(g.Live, env)
	s, each := g.Live.Fork(), []events.Event(nil)
	for i := 0; err == nil && i < len(results); i++ {
		env.ID, env.Command, env.Also = env.ID+"+", results[i], nil
		var evs []events.Event
		evs, err = loop.Decide(&s, env)
		each = append(each, evs...)
		if len(evs) > 0 {
			s.Fold(events.Entry{Session: s.Session, Seq: s.Seq + 1, Cause: env.ID, At: max(env.At, s.At), Epoch: s.Epoch, Events: evs})
		}
	}
	if diff := cmp.Diff(each, together); err != nil || diff != "" {
		t.Fatalf("%d results together: %v\n-one after another +together\n%s", len(results), err, diff)
	}
}

// judgeDispatches checks that every call that starts was allowed by a preflight.
func (g *generator) judgeDispatches(t *testing.T, env commands.Envelope, evs []events.Event) {
	t.Helper()
	checks := env.Checks
	switch c := any(env.Command).(type) {
	case commands.ReportReply:
		checks = c.Checks
	case commands.ReportPreflight:
		checks = c.Checks
	}
	for _, k := range checks {
		if len(evs) > 0 {
			g.allowed[k.Place] = k.Refusal == nil
		}
	}
	hooked := slices.ContainsFunc(g.Live.Config.Hooks, func(r events.Registration) bool { return slices.Contains(r.Points, "pre_tool_execution") })
	for _, ev := range evs {
		switch ev := any(ev).(type) {
		case events.HookDecided:
			g.judged[ev.Call] = true
		case events.ConfigChanged:
			g.reconfigured = true
		case events.ToolDispatched:
			switch {
			case !g.allowed[ev.Place]:
				t.Fatalf("call %s at %s starts, but no preflight allowed it", ev.Call, ev.Place)
			case hooked && !g.judged[ev.Call] && !g.reconfigured:
				t.Fatalf("call %s starts, but no hook ran", ev.Call)
			}
		}
	}
	if turn := g.Live.Turn; turn != nil && !g.reconfigured {
		g.countRunning(t, turn)
	}
}

// countRunning checks the limit on parallel calls.
func (g *generator) countRunning(t *testing.T, turn *loop.Turn) {
	t.Helper()
	most := g.Live.Config.MaxParallel
	if most == 0 || g.Live.Task != nil || turn.Options != nil && turn.Options.Sequential {
		most = 1
	}
	running, alone := 0, false
	for _, c := range turn.Calls {
		if c.Dispatched && !c.Answered() {
			running++
			alone = alone || c.Routing.Exclusive
		}
	}
	if most > 0 && running > most || alone && running > 1 {
		t.Fatalf("%d calls run at a time, at most %d may, exclusive: %t", running, most, alone)
	}
}

// countInput checks that input is accepted or queued, and never lost.
func (g *generator) countInput(t *testing.T, evs []events.Event) {
	t.Helper()
	for _, ev := range evs {
		switch ev := any(ev).(type) {
		case events.InputQueued:
			g.waiting += len(ev.Items)
		case events.InputAccepted:
			if ev.Origin != events.FromVerifier && ev.Origin != events.FromSchema && ev.Origin != events.FromNotification {
				g.waiting -= len(ev.Items)
			}
		}
	}
	queued := 0
	for _, q := range g.Live.Queue {
		queued += len(q.Items)
	}
	if queued != g.waiting {
		t.Fatalf("%d items of input should wait, %d do", g.waiting, queued)
	}
}

// checkOrder checks that the turn finds each of its calls, and knows which questions are open.
func checkOrder(t *testing.T, turn *loop.Turn) {
	t.Helper()
	if turn == nil {
		return
	}
	var calls []content.CallID
	for _, i := range turn.ByID {
		calls = append(calls, turn.Calls[i].ID)
	}
	if !slices.IsSorted(calls) || len(calls) != len(turn.Calls) {
		t.Fatalf("%d calls in the order %q", len(turn.Calls), calls)
	}
	var open []content.ApprovalID
	for _, i := range turn.Undecided {
		open = append(open, turn.Approvals[i].ID)
	}
	var want []content.ApprovalID
	for _, a := range turn.Approvals {
		if a.Outcome == "" {
			want = append(want, a.ID)
		}
	}
	if slices.Sort(want); !slices.Equal(open, want) {
		t.Fatalf("the open questions are %q, want %q", open, want)
	}
}

// checkWait checks that a session that waits for others owes nothing that would advance it.
func checkWait(t *testing.T, s *loop.State) {
	t.Helper()
	wait := loop.Waiting(s)
	if wait == commands.WaitWorking {
		return
	}
	for _, e := range loop.Pending(s) {
		switch e.(type) {
		case loop.RunTool, loop.StopTool, loop.ArmTimer:
		case loop.CallModel, loop.StopModel, loop.Preflight, loop.RunHooks, loop.RunMutator, loop.Recall, loop.Verify, loop.StopVerify, loop.StoreMemory:
			t.Fatalf("the session waits for %s, but owes %s", wait, e.Identity())
		}
	}
}

// comeToRest answers everything that is owed until the session waits for input.
func (g *generator) comeToRest(t *testing.T) {
	t.Helper()
	for range 300 {
		wait := loop.Waiting(g.Live)
		if wait == commands.WaitInput {
			return
		}
		g.tell(t, g.Envelope(g.settle(wait)))
	}
	t.Fatalf("the session does not come to rest; it waits for %s and owes %s", loop.Waiting(g.Live), looptest.Owed(g.Live))
}

func (g *generator) settle(wait commands.Wait) commands.Command {
	switch wait {
	case commands.WaitYield, commands.WaitReady:
		return g.continueNow(wait)
	case commands.WaitApproval:
		a := g.Live.PendingApprovals()[0]
		if a.ExpiresAt != 0 && a.ExpiresAt <= g.At {
			return commands.ReportTimer{Kind: commands.TimerApproval, ID: string(a.ID)}
		}
		return commands.ResolveApproval{Call: a.CallID, Approve: true}
	case commands.WaitWorking, commands.WaitInput:
	}
	owed := loop.Pending(g.Live)
	i := slices.IndexFunc(owed, func(e loop.Effect) bool { _, stop := e.(loop.StopTool); return !stop })
	return g.answer(owed[i])
}
