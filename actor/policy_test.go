package actor_test

import (
	"testing"
	"testing/synctest"

	"github.com/turnlog/turnlog/actor"
	"github.com/turnlog/turnlog/client"
	"github.com/turnlog/turnlog/commands"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/policy/permission"
	"github.com/turnlog/turnlog/session"
	"github.com/turnlog/turnlog/tool"
	"github.com/turnlog/turnlog/turnlogtest"
	"github.com/turnlog/turnlog/worker/task"
)

const runsSh = "replies:\n  - calls: [{name: sh, input: {}}]\n  - text: done\n"

// called finishes the turn and returns how its call ended.
func (w *world) called(s *session.Session) content.Status {
	w.T.Helper()
	w.finish(s)
	all := turnlogtest.Facts[events.ToolResultReceived](w.Deployment, s.ID())
	if len(all) != 1 {
		w.T.Fatalf("results: %+v", all)
	}
	return all[0].Result.Status
}

func under(d permission.Deployment) func(*actor.Config) {
	return func(c *actor.Config) { c.Policy = &d }
}

func denies(tool string) permission.Deployment {
	return permission.Deploy("strict", events.Rule{Tool: tool, Action: events.RuleDeny}, events.Rule{Tool: "*", Action: events.RuleAllow})
}

// wishes opens a session that allows itself everything.
func (w *world) wishes(id content.SessionID, script string, change ...func(*client.Options)) *session.Session {
	return w.Start(id, script, append(change, func(o *client.Options) { o.Config.Rules = []events.Rule{{Tool: "*", Action: events.RuleAllow}} })...)
}

func (w *world) waitsFor(s *session.Session) *session.ApprovalRequest {
	w.T.Helper()
	step, err := s.Next(w.Ctx)
	a, ok := step.(*session.ApprovalRequest)
	if !ok {
		w.T.Fatalf("step = %T, %v, want a question", step, err)
	}
	return a
}

func (w *world) shell() (ran *int) {
	ran = new(int)
	w.workerOf(tool.Spec{Name: "sh"}, func(x task.Task) tool.Result {
		*ran++
		return tool.Result{Result: content.NewResult(x.Call, x.Tool, content.StatusOK, "ran")}
	})
	return ran
}

func TestANodeAsksWhateverTheSessionAllowsItself(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		ran := w.shell()
		n := w.node("n1", under(permission.Default()))
		s := w.wishes("s", runsSh)
		w.submit(s, "go")
		a := w.waitsFor(s)
		if *ran != 0 || a.Tool != "sh" || a.Asker != events.AskedByRules {
			t.Errorf("%d calls ran; question %+v", *ran, a.Approval)
		}
		all := turnlogtest.Facts[events.PolicyApplied](w.Deployment, "s")
		if len(all) != 1 || all[0].Policy.Name != "default" || all[0].Policy.Digest != permission.Default().Digest() {
			t.Errorf("recorded policies: %+v", all)
		}
		if err := s.Ask(w.Ctx, commands.AllowTools{Tools: []string{"s*"}}); err != nil { // an approver's decision
			t.Fatal(err)
		}
		if got := w.called(s); got != "ok" || *ran != 1 {
			t.Errorf("turn = %s, %d calls ran", got, *ran)
		}
		n.Drain(t)
	})
}

func TestAPolicyThatChangesWhileACallWaitsCounts(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		ran := w.shell()
		first := w.node("n1", under(permission.Default()))
		s := w.wishes("s", runsSh)
		w.submit(s, "go")
		w.waitsFor(s)
		first.Drain(t)
		second := w.node("n2", under(denies("sh")))
		if err := s.Ask(w.Ctx, commands.ResolveApproval{Approve: true}); err != nil {
			t.Fatal(err)
		}
		if got := w.called(s); got != "denied" || *ran != 0 {
			t.Errorf("turn = %s, %d calls ran", got, *ran)
		}
		if all := turnlogtest.Facts[events.PolicyApplied](w.Deployment, "s"); len(all) != 2 || all[1].Policy.Name != "strict" {
			t.Errorf("recorded policies: %+v", all)
		}
		second.Drain(t)
	})
}

// A session that works for another, as its opener says, may not do what the other's policy
// does not allow. A definition with the name of the deployment's agent gains nothing from
// the name.
func TestASessionMayNotExceedThePolicyOfTheOneItWorksFor(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		ran := w.shell()
		d := permission.Deployment{Rules: []permission.ScopedRule{
			{Tool: "sh", Action: events.RuleDeny, Opener: "strict"}, {Tool: "sh", Action: events.RuleAllow},
		}}
		n := w.node("n1", under(d))
		strict, err := client.Open(w.Conn, "", client.WithName("strict"))
		if err != nil {
			t.Fatal(err)
		}
		p, err := strict.Start(w.Ctx, client.Options{ID: "p", Config: events.Config{Model: "scripted:test", ModelData: []byte(oneReply)}})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = p.Close(w.Ctx) }()
		for id, c := range map[content.SessionID]struct {
			parent content.SessionID
			want   content.Status
		}{"free": {"", "ok"}, "child": {"p", "denied"}} {
			s := w.wishes(id, runsSh, func(o *client.Options) { o.Parent = c.parent })
			w.submit(s, "go")
			if got := w.called(s); got != c.want {
				t.Errorf("%s: the call was %s, want %s", id, got, c.want)
			}
		}
		if *ran != 1 {
			t.Errorf("%d calls ran, want 1", *ran)
		}
		n.Drain(t)
	})
}

// The verifier of a task is a command of the task's opener.
func TestANodeAsksAboutVerifiers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		ran := 0
		w.workerOf(verifierTool(), func(x task.Task) tool.Result {
			ran++
			return judged(x, true)
		})
		n := w.node("n1", under(permission.Default()))
		s := w.wishes("s", oneReply)
		w.startTask(s, 0)
		w.Until("s", events.KindApprovalRequired)
		if ran != 0 {
			t.Errorf("%d verifiers ran", ran)
		}
		if err := s.Ask(w.Ctx, commands.ResolveApproval{Approve: true}); err != nil {
			t.Fatal(err)
		}
		w.Until("s", events.KindTaskFinished)
		if _, end := w.verdicts("s"); !end.Verified || ran != 1 {
			t.Errorf("task = %+v, %d verifiers ran", end, ran)
		}
		n.Drain(t)
	})
}
