package actor_test

import (
	"context"
	"iter"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/turnlog/turnlog/audit/keys"
	"github.com/turnlog/turnlog/audit/signed"
	"github.com/turnlog/turnlog/audit/statement"
	"github.com/turnlog/turnlog/audit/verdict"
	"github.com/turnlog/turnlog/client"
	"github.com/turnlog/turnlog/commands"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/events/journal"
	"github.com/turnlog/turnlog/session"
	"github.com/turnlog/turnlog/tool"
	"github.com/turnlog/turnlog/turnlogtest"
	"github.com/turnlog/turnlog/worker/task"
)

// signedWorker answers calls on the world's queue, with a key.
func (w *signedWorld) signedWorker(k *keys.Signer, answer func(task.Task) tool.Result) {
	w.T.Helper()
	w.workerOn(w.Open(w.Connect()).Signing(k), tool.Spec{Name: "echo", Effects: content.ReadOnly}, answer)
}

// person returns a client with a key, and its session.
func (w *signedWorld) person(k *keys.Signer, s content.SessionID) *session.Session {
	w.T.Helper()
	c, err := client.Open(w.Connect(), "", client.WithKey(k), client.WithName("someone"))
	if err != nil {
		w.T.Fatal(err)
	}
	out, err := c.Attach(w.Ctx, s)
	if err != nil {
		w.T.Fatal(err)
	}
	w.T.Cleanup(func() { _ = out.Close(context.WithoutCancel(w.T.Context())) })
	return out
}

func TestPeopleAndWorkersSign(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newSignedWorld(t)
		node, ada, bob, gpu := w.key("node-1", keys.Driver), w.key("ada", keys.Client), w.key("bob", keys.Approver), w.key("gpu", keys.Worker)
		w.require(keys.Roles()...)
		w.signedWorker(gpu, echoed)
		n := w.node("n1", w.signer(node))
		asked, err := client.Open(w.Connect(), "", client.WithKey(ada))
		if err != nil {
			t.Fatal(err)
		}
		w.Client = asked
		s := w.asked("s")
		if err := w.person(bob, "s").ResolveApproval(w.Ctx, session.Decision{Approve: true, Reason: "fine"}); err != nil {
			t.Fatal(err)
		}
		w.finish(s)
		n.Drain(t)
		if got := turnlogtest.Facts[events.ApprovalResolved](w.Deployment, "s"); len(got) != 1 || got[0].By != "bob" {
			t.Errorf("resolved = %+v, want it signed by bob", got)
		}
		if got := turnlogtest.Facts[events.InputQueued](w.Deployment, "s"); len(got) == 0 || got[0].By != "ada" {
			t.Errorf("queued = %+v, want it signed by ada", got)
		}
		v := w.judge("s", true)
		if v.Level != verdict.Signed || len(v.Signers) < 4 || slices.ContainsFunc(v.Signers, func(s verdict.Signer) bool { return s.Key == "" || s.Name == "" }) {
			t.Errorf("level %s, signers %v, faults %v; want everything signed", v.Level, v.Signers, v.Faults)
		}
		for what, change := range map[string]func(events.Event) events.Event{
			"input": func(ev events.Event) events.Event {
				in, ok := ev.(events.InputQueued)
				if ok {
					in.Items = []content.Item{content.UserText("gone")}
					return in
				}
				return ev
			},
			"decisions": func(ev events.Event) events.Event {
				r, ok := ev.(events.ApprovalResolved)
				if ok {
					r.Reason = "because"
					return r
				}
				return ev
			},
			"decisions, by what was shown": func(ev events.Event) events.Event {
				r, ok := ev.(events.ApprovalRequired)
				if ok {
					r.Approval.Summary = "something harmless"
					return r
				}
				return ev
			},
			"results": func(ev events.Event) events.Event {
				r, ok := ev.(events.ToolResultReceived)
				if ok {
					r.Result = content.NewResult(r.Result.CallID, r.Result.Name, content.StatusOK, "other")
					return r
				}
				return ev
			},
		} {
			found := slices.ContainsFunc(w.judgeAll(w.rewritten("s", node, change), true).Faults, func(f verdict.Fault) bool {
				return f.Kind == verdict.Forged && strings.HasPrefix(f.What, "signature of "+strings.Split(what, ",")[0]+": ") && (strings.Contains(f.What, keys.ErrForged.Error()) || strings.Contains(f.What, signed.ErrOtherAct.Error()))
			})
			if !found {
				t.Errorf("a driver that changes %s is not found", what)
			}
		}
		for _, what := range []string{"entry", "report_result", "submit_input", "open_session", "resolve_approval"} {
			if n := w.counted.forged(what); n > 0 {
				t.Errorf("%d of %s refused", n, what)
			}
		}
	})
}

// The sender of each decision has the permission to send it, but the signature is wrong or missing. The call must not
// run.
func TestAForgedDecisionIsRefused(t *testing.T) {
	t.Parallel()
	for name, decide := range map[string]func(w *signedWorld, ada, bob *keys.Signer, a events.Approval) (*keys.Signer, commands.ResolveApproval){
		"unsigned": func(_ *signedWorld, _, _ *keys.Signer, a events.Approval) (*keys.Signer, commands.ResolveApproval) {
			return nil, commands.ResolveApproval{Approval: a.ID, Call: a.CallID, Approve: true, Shown: statement.Shown(a), By: "bob"}
		},
		"by a client": func(_ *signedWorld, ada, _ *keys.Signer, a events.Approval) (*keys.Signer, commands.ResolveApproval) {
			return ada, commands.ResolveApproval{Approval: a.ID, Call: a.CallID, Approve: true, Shown: statement.Shown(a)}
		},
		"by a stranger": func(_ *signedWorld, _, _ *keys.Signer, a events.Approval) (*keys.Signer, commands.ResolveApproval) {
			k, _ := keys.New()
			return k, commands.ResolveApproval{Approval: a.ID, Call: a.CallID, Approve: true, Shown: statement.Shown(a)}
		},
		"of other arguments": func(_ *signedWorld, _, bob *keys.Signer, a events.Approval) (*keys.Signer, commands.ResolveApproval) {
			shown := a
			shown.Input = []byte(`{"text":"harmless"}`)
			return bob, commands.ResolveApproval{Approval: a.ID, Call: a.CallID, Approve: true, Shown: statement.Shown(shown)}
		},
		"without what was shown": func(_ *signedWorld, _, bob *keys.Signer, a events.Approval) (*keys.Signer, commands.ResolveApproval) {
			return bob, commands.ResolveApproval{Approval: a.ID, Call: a.CallID, Approve: true}
		},
		"revoked": func(w *signedWorld, _, bob *keys.Signer, a events.Approval) (*keys.Signer, commands.ResolveApproval) {
			for i := range w.dir.Keys {
				if w.dir.Keys[i].Public == bob.Public() {
					w.dir.Keys[i].Revoked = &keys.Revocation{At: w.now(), Reason: "stolen"}
				}
			}
			w.publish()
			<-time.After(10 * time.Second)
			return bob, commands.ResolveApproval{Approval: a.ID, Call: a.CallID, Approve: true, Shown: statement.Shown(a)}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newSignedWorld(t)
				node, ada, bob := w.key("node-1", keys.Driver), w.key("ada", keys.Client), w.key("bob", keys.Approver)
				w.require(keys.Driver, keys.Approver)
				ran := 0
				w.worker(func(x task.Task) tool.Result {
					ran++
					return echoed(x)
				})
				n := w.node("n1", w.signer(node))
				w.asked("s")
				asked := turnlogtest.Facts[events.ApprovalRequired](w.Deployment, "s")[0].Approval
				by, decision := decide(w, ada, bob, asked)
				if _, err := w.Cell.Signing(by).Inbox().Send(w.Ctx, commands.Envelope{ID: "forged", Session: "s", By: "bob", Command: decision}); err != nil {
					t.Fatal(err)
				}
				<-time.After(30 * time.Second)
				if ran != 0 || w.counted.forged("resolve_approval") != 1 || len(turnlogtest.Facts[events.ApprovalResolved](w.Deployment, "s")) > 0 {
					t.Errorf("the call ran %d times, %d decisions were refused; want 0 and 1", ran, w.counted.forged("resolve_approval"))
				}
				n.Drain(t)
			})
		})
	}
}

// The worker has the ticket of its task, and changes the result, or has no key.
func TestAForgedResultIsRefused(t *testing.T) {
	t.Parallel()
	for name, sign := range map[string]func(gpu *keys.Signer, x task.Task, r content.ToolResult) *content.Signature{
		"unsigned": func(*keys.Signer, task.Task, content.ToolResult) *content.Signature { return nil },
		"of another result": func(gpu *keys.Signer, x task.Task, _ content.ToolResult) *content.Signature {
			return resultOf(gpu, x, content.NewResult(x.Call, x.Tool, content.StatusOK, "other"))
		},
		"of another input": func(gpu *keys.Signer, x task.Task, r content.ToolResult) *content.Signature {
			x.Input = []byte(`{"text":"other"}`)
			return resultOf(gpu, x, r)
		},
		"of another attempt": func(gpu *keys.Signer, x task.Task, r content.ToolResult) *content.Signature {
			x.Attempt++
			return resultOf(gpu, x, r)
		},
		"by a stranger": func(_ *keys.Signer, x task.Task, r content.ToolResult) *content.Signature {
			k, _ := keys.New()
			return resultOf(k, x, r)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newSignedWorld(t)
				node, gpu := w.key("node-1", keys.Driver), w.key("gpu", keys.Worker)
				w.require(keys.Driver, keys.Worker)
				w.worker(nil)
				n := w.node("n1", w.signer(node))
				s := w.Start("s", oneCall)
				w.submit(s, "go")
				q, err := w.Cell.Queue(w.Ctx, "q")
				if err != nil {
					t.Fatal(err)
				}
				c, err := q.Claim(w.Ctx)
				if err != nil {
					t.Fatal(err)
				}
				x, out := c.Task(), echoed(c.Task())
				report := commands.Envelope{ID: "result/forged", Session: "s", Command: commands.ReportResult{
					Place: x.Place, Attempt: x.Attempt, Queue: x.Queue, Outcome: out, Signature: sign(gpu, x, out.Result),
				}}
				if _, err := w.Cell.Inbox().SendReport(w.Ctx, report, x.Ticket); err != nil {
					t.Fatal(err)
				}
				<-time.After(2 * time.Second)
				if got := w.results("s"); len(got) > 0 || w.counted.forged("report_result") != 1 {
					t.Errorf("results %v, %d refused; want none and 1", got, w.counted.forged("report_result"))
				}
				report.ID = "result/true"
				report.Command = commands.ReportResult{Place: x.Place, Attempt: x.Attempt, Queue: x.Queue, Outcome: out, Signature: resultOf(gpu, x, out.Result)}
				if _, err := w.Cell.Inbox().SendReport(w.Ctx, report, x.Ticket); err != nil {
					t.Fatal(err)
				}
				if got := w.finish(s); got.Text() != `{"text":"hi"}` {
					t.Errorf("answer = %q", got.Text())
				}
				_ = c.Done(w.Ctx)
				_ = q.Close(w.Ctx)
				n.Drain(t)
			})
		})
	}
}

// resultOf returns a worker's signature of a result.
func resultOf(k *keys.Signer, x task.Task, r content.ToolResult) *content.Signature {
	s := k.Sign(statement.Result("turnlog", statement.Call{
		Session: x.Session, Call: x.Call, Place: x.Place, Attempt: x.Attempt, Tool: x.Tool, Input: tool.Digest(x.Input),
	}, 0, statement.ResultDigest(r)))
	return &s
}

// rewritten yields a journal that its driver has written again, with changes, and signed.
func (w *signedWorld) rewritten(s content.SessionID, by *keys.Signer, change func(events.Event) events.Event) iter.Seq2[journal.Record, error] {
	w.T.Helper()
	var head journal.Head
	return func(yield func(journal.Record, error) bool) {
		for r, err := range w.Cell.Journal().Read(w.Ctx, s, 0) {
			if err != nil {
				w.T.Fatal(err)
			}
			for i, ev := range r.Entry.Events {
				r.Entry.Events[i] = change(ev)
			}
			e, payload, next, err := journal.Link(head, r.Entry)
			if err != nil {
				w.T.Fatal(err)
			}
			head = next
			signature := by.Sign(statement.Entry("turnlog", s, next.Seq, next.Hash))
			if !yield(journal.Record{Head: next, Entry: e, Payload: payload, Stored: r.Stored, Signature: signature}, nil) {
				return
			}
		}
	}
}
