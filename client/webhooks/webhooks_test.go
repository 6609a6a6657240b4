package webhooks

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/events/seal"
	"github.com/turnlog/turnlog/jetstream"
	"github.com/turnlog/turnlog/jetstream/admin"
	store "github.com/turnlog/turnlog/jetstream/webhooks"
)

func TestEachEventIsSentToTheEndpointsThatWantIt(t *testing.T) {
	t.Parallel()
	in(t, func(t *testing.T, w *world) {
		w.finish("s-old", 1) // before the endpoints were known
		all, some := w.endpoint("all"), w.endpoint("some")
		all.Details = true
		some.Types, some.Agents = []Type{ApprovalNeeded}, []string{"rev*"}
		defer w.start(all, some)()
		w.write("s-1", events.RunStarted{Config: events.Config{Agent: &events.AgentRef{Name: "reviewer"}}, Parent: "s-0"})
		asked := events.Approval{
			ID: "a-1", CallID: "call_1_1", Turn: "t1", Tool: "shell_exec", Input: json.RawMessage(`{"script":"rm <x>"}`), Digest: "d", Reason: "policy", Summary: "Remove x?",
		}
		settled := asked
		settled.ID = "a-2"
		at := w.write("s-1", events.ApprovalRequired{Approval: asked}, events.ApprovalRequired{Approval: settled}, events.ApprovalResolved{Approval: "a-2", Call: "call_1_1", Outcome: events.Approved})
		w.write("s-1", events.RunFailed{Turn: "t1", Code: "model_error", Class: "overloaded", Message: "secret text"}, events.TurnFinished{Turn: "t1", FinishReason: "error", Rounds: 2})
		w.write("s-2", events.RunStarted{}, events.ApprovalRequired{Approval: asked})
		<-time.After(5 * time.Second)
		if got := w.got("all"); len(got) != 4 {
			t.Errorf("all got %d messages", len(got))
		}
		got := w.got("some")
		if len(got) != 1 {
			t.Fatalf("some got %d messages, want the approval of the reviewer", len(got))
		}
		p := w.payloads[got[0]]
		if d := p.Data; p.Type != ApprovalNeeded || d.Session != "s-1" || d.Seq != at.Seq || d.Agent != "reviewer" || d.Parent != "s-0" || d.Deployment != "turnlog" || d.Turn != "t1" {
			t.Errorf("payload = %+v", p)
		}
		var failed, finished bool
		for _, p := range w.payloads {
			if p.Data.Failed != nil {
				failed = p.Type == SessionFailed && *p.Data.Failed == (Failure{"model_error", "overloaded", "secret text"})
			}
			if p.Data.Finished != nil {
				finished = p.Type == TurnFinished && *p.Data.Finished == (Finished{"error", 2})
			}
		}
		if !failed || !finished {
			t.Errorf("failed %t, finished %t: %+v", failed, finished, w.payloads)
		}
	})
}

func TestContentIsOnlySentWithDetails(t *testing.T) {
	t.Parallel()
	in(t, func(t *testing.T, w *world) {
		thin, full := w.endpoint("thin"), w.endpoint("full")
		full.Details = true
		w.answer("thin", http.StatusNoContent)
		defer w.start(thin, full)()
		ask := func(input string) {
			w.write("s-1", events.ApprovalRequired{Approval: events.Approval{ID: "a-1", Tool: "shell_exec", Input: json.RawMessage(input), Summary: "Remove x?"}})
		}
		ask(`{"script":"rm x"}`)
		w.write("s-1", events.RunFailed{Code: "c", Message: "told in confidence"})
		ask(`{"script":"` + string(bytes.Repeat([]byte("y"), maxDetail)) + `"}`)
		<-time.After(3 * time.Second)
		for _, text := range []string{"rm x", "Remove x?", "told in confidence"} {
			for name, want := range map[string]bool{"thin": false, "full": true} {
				if got := slices.ContainsFunc(w.attempts(name), func(m message) bool { return bytes.Contains(m.body, []byte(text)) }); got != want {
					t.Errorf("%s has %q: %t", name, text, got)
				}
			}
		}
		for _, name := range []string{"thin", "full"} {
			all := w.attempts(name)
			if len(all) != 3 || slices.ContainsFunc(all, func(m message) bool { return len(m.body) > 2000 }) {
				t.Errorf("%s: %d messages, or one is too long", name, len(all))
			}
		}
	})
}

func TestADeadLetterIsSentOnce(t *testing.T) {
	t.Parallel()
	in(t, func(t *testing.T, w *world) {
		defer w.start(w.endpoint("all"))()
		call := content.ToolCall{ID: "call_1_1", Name: "shell_exec", Input: json.RawMessage(`{}`)}
		w.write("s-1", events.DriverClaimed{Epoch: 1}, events.RunStarted{})
		w.write("s-1", events.TurnStarted{Turn: "t1"}, events.RoundStarted{Turn: "t1", Round: 1})
		w.write("s-1", events.ToolCallRequested{Turn: "t1", Round: 1, Call: call})
		w.write("s-1", events.ToolDispatched{Call: call.ID, Place: "t1-r1-c1", Attempt: 1})
		w.write("s-1", events.ToolAttemptLost{Call: call.ID, Attempt: 1}, events.ToolDispatched{Call: call.ID, Place: "t1-r1-c1", Attempt: 2})
		w.write("s-1", events.ToolAttemptLost{Call: call.ID, Attempt: 2}, events.ToolResultReceived{
			Turn: "t1", Round: 1, Result: content.NewResult(call.ID, call.Name, content.StatusUnknown, "lost"),
		})
		w.write("s-1", events.Warning{Code: "c", Call: call.ID})
		<-time.After(3 * time.Second)
		got := w.got("all")
		if len(got) != 1 {
			t.Fatalf("%d messages: %+v", len(got), w.payloads)
		}
		if p := w.payloads[got[0]]; p.Type != DeadLetter || p.Data.Turn != "t1" || p.Data.Call == nil || p.Data.Call.Call != call.ID || p.Data.Call.Tool != "shell_exec" || p.Data.Call.Attempts != 2 {
			t.Errorf("payload = %+v %+v", p, p.Data.Call)
		}
	})
}

func TestAFailedMessageIsRetriedAndThenDead(t *testing.T) {
	t.Parallel()
	in(t, func(t *testing.T, w *world) {
		e, s := w.endpoint("down"), store.Of(w.Cell)
		w.answer("down", http.StatusInternalServerError)
		stop := w.start(e)
		w.finish("s-1", 1)
		<-time.After(time.Minute)
		if n := w.count(Failed); n < 4 || n > 10 {
			t.Errorf("%d attempts in the first minute", n)
		}
		<-time.After(time.Hour)
		if n := w.count(Failed); n < 15 || n > 40 {
			t.Errorf("%d attempts in an hour", n)
		}
		stop()

		// A day after its first attempt it is given up.
		failed := w.count(Failed)
		state, number, err := s.Load(t.Context(), "down")
		if err != nil || len(state.Waiting) != 1 || state.Waiting[0].Attempts != failed {
			t.Fatalf("state = %+v, %v", state, err)
		}
		state.Waiting[0].First = content.TimeOf(time.Now().Add(time.Hour - giveUp))
		_, err = s.Save(t.Context(), "down", state, number)
		must(t, err)
		defer w.start(e)()
		<-time.After(time.Hour - 10*time.Second)
		if dead, err := s.Dead(t.Context(), "down"); err != nil || len(dead) != 0 {
			t.Errorf("given up early: %v, %v", dead, err)
		}
		<-time.After(maxDelay + time.Minute)
		dead, err := s.Dead(t.Context(), "down")
		if err != nil || len(dead) != 1 || dead[0].Failure != "the endpoint answered 500" || dead[0].Attempts != w.count(Failed) || w.count(Dead) != 1 {
			t.Fatalf("dead = %+v, %v; %v", dead, err, w.count(Failed))
		}

		// It is sent again, once, and then it is no longer in a list.
		w.answer("down", http.StatusOK)
		must(t, s.Retry(t.Context(), "down", dead[0].ID))
		<-time.After(time.Minute)
		if got := w.got("down"); len(got) != 1 || got[0] != dead[0].ID {
			t.Errorf("sent again: %v", got)
		}
		for _, do := range []func(context.Context, string, string) error{s.Retry, s.Drop} {
			if err := do(t.Context(), "down", dead[0].ID); !errors.Is(err, store.ErrNotFound) {
				t.Errorf("%v, want ErrNotFound", err)
			}
		}
	})
}

func TestASlowEndpointDelaysNoOther(t *testing.T) {
	t.Parallel()
	in(t, func(t *testing.T, w *world) {
		slow, fast := w.endpoint("slow"), w.endpoint("fast")
		w.answers["slow"] = func(r *http.Request) int {
			<-r.Context().Done() // it never answers
			return http.StatusOK
		}
		stop := w.start(slow, fast)
		const all = 3 * window
		w.finish("s-1", all)
		<-time.After(20 * time.Second)
		if got := w.got("fast"); distinct(got) != all {
			t.Errorf("fast got %d of %d", distinct(got), all)
		}
		state, _, err := store.Of(w.Cell).Load(t.Context(), "slow")
		if err != nil || len(state.Waiting) != window || state.At.Seq != window {
			t.Errorf("slow has %d waiting after %d, %v; want %d: what follows stays in the journal", len(state.Waiting), state.At.Seq, err, window)
		}
		w.mu.Lock()
		delete(w.answers, "slow")
		w.mu.Unlock()
		<-time.After(maxDelay + time.Minute)
		if got := w.got("slow"); len(got) != all || distinct(got) != all {
			t.Errorf("slow got %d, %d distinct, want %d", len(got), distinct(got), all)
		}
		stop()
	})
}

func TestRetryAfterPausesTheEndpoint(t *testing.T) {
	t.Parallel()
	in(t, func(t *testing.T, w *world) {
		e := w.endpoint("busy")
		w.retry = "600"
		w.answer("busy", http.StatusTooManyRequests)
		defer w.start(e)()
		w.finish("s-1", 1)
		<-time.After(time.Second)
		w.finish("s-2", 5)
		w.answer("busy", http.StatusOK)
		<-time.After(595 * time.Second)
		if n := w.count(Failed); n != 1 || len(w.got("busy")) != 0 {
			t.Errorf("%d attempts, %d arrived during the pause", n, len(w.got("busy")))
		}
		<-time.After(10 * time.Second)
		if got := w.got("busy"); len(got) != 6 {
			t.Errorf("%d arrived after the pause", len(got))
		}
	})
}

func TestAnEndpointThatIsGoneGetsNothingUntilItIsEnabled(t *testing.T) {
	t.Parallel()
	in(t, func(t *testing.T, w *world) {
		e := w.endpoint("gone")
		w.answer("gone", http.StatusGone)
		stop := w.start(e)
		w.finish("s-1", 3)
		<-time.After(time.Minute)
		tries := w.count(Failed)
		w.finish("s-2", 3)
		<-time.After(10 * time.Minute)
		if n := w.count(Failed); n != tries || n > 3 {
			t.Errorf("%d attempts, then %d", tries, n)
		}
		stop()
		defer w.start(e)()
		<-time.After(time.Minute)
		if n := w.count(Failed); n != tries {
			t.Errorf("%d attempts after a restart", n-tries)
		}
		w.answer("gone", http.StatusOK)
		must(t, store.Of(w.Cell).Enable(t.Context(), "gone", false))
		<-time.After(time.Minute)
		if got := w.got("gone"); len(got) != 6 || distinct(got) != 6 {
			t.Errorf("%d arrived, %d distinct, want 6", len(got), distinct(got))
		}
	})
}

func TestAPositionThatIsNotInTheJournalDisablesTheEndpoint(t *testing.T) {
	t.Parallel()
	in(t, func(t *testing.T, w *world) {
		e := w.endpoint("all")
		w.start(e)()
		s := store.Of(w.Cell)
		w.finish("s-1", 2)
		_, number, err := s.Load(t.Context(), "all")
		must(t, err)
		_, err = s.Save(t.Context(), "all", store.State{At: jetstream.Cursor{Position: 9, Session: "s-9", Seq: 1, Hash: events.HashOf(nil)}}, number)
		must(t, err)
		defer w.start(e)()
		<-time.After(time.Minute)
		state, _, err := s.Load(t.Context(), "all")
		if err != nil || state.Disabled == "" {
			t.Fatalf("state = %+v, %v", state, err)
		}
		must(t, s.Enable(t.Context(), "all", true))
		<-time.After(time.Minute)
		w.finish("s-2", 2)
		<-time.After(time.Minute)
		if got := w.got("all"); len(got) != 2 {
			t.Errorf("%d arrived, want those after the endpoint was enabled", len(got))
		}
	})
}

func TestARestartLosesNothing(t *testing.T) {
	t.Parallel()
	in(t, func(t *testing.T, w *world) {
		e := w.endpoint("all")
		var requests atomic.Int64
		w.answers["all"] = func(*http.Request) int {
			if requests.Add(1)%3 == 0 {
				return http.StatusServiceUnavailable
			}
			return http.StatusOK
		}
		for round := range 4 {
			stop := w.start(e)
			w.finish(content.SessionID(fmt.Sprintf("s-%d", round)), 20)
			<-time.After(time.Duration(round) * 100 * time.Millisecond)
			stop()
			w.finish(content.SessionID(fmt.Sprintf("between-%d", round)), 5)
		}
		defer w.start(e)()
		<-time.After(10 * time.Minute)
		if got := w.got("all"); distinct(got) != 100 {
			t.Errorf("%d distinct of %d, want 100", distinct(got), len(got))
		}
	})
}

func TestOneOfTwoProcessesSends(t *testing.T) {
	t.Parallel()
	in(t, func(t *testing.T, w *world) {
		e := w.endpoint("all")
		stop := w.start(e)
		other := w.start(e)
		w.finish("s-1", 30)
		<-time.After(time.Minute)
		stop()
		w.finish("s-1", 30)
		<-time.After(3 * time.Second)
		got := w.got("all")
		if len(got) != 60 || distinct(got) != 60 {
			t.Errorf("%d arrived, %d distinct, want each of 60 once", len(got), distinct(got))
		}
		other()
	})
}

// A process that is cut off does not know that another one continues.
func TestAProcessThatIsCutOffIsReplaced(t *testing.T) {
	t.Parallel()
	in(t, func(t *testing.T, w *world) {
		e := w.endpoint("all")
		s := store.Of(w.Cell)
		_, err := s.Save(t.Context(), "all", store.State{Sender: "cut off"}, 0)
		must(t, err)
		defer w.start(e)()
		w.finish("s-1", 3)
		<-time.After(takeover / 2)
		if got := w.got("all"); len(got) != 0 {
			t.Errorf("%d arrived while another process may send", len(got))
		}
		<-time.After(takeover)
		if got := w.got("all"); len(got) != 3 {
			t.Errorf("%d arrived after that process was gone", len(got))
		}
	})
}

func TestBothSecretsSignWhileTheyAreReplaced(t *testing.T) {
	t.Parallel()
	in(t, func(t *testing.T, w *world) {
		e := w.endpoint("rotated")
		before, after := secretOf(100), secretOf(101)
		valid := func(m message) (secrets int) {
			for _, secret := range []string{before, after} {
				v, err := standardwebhooks.NewWebhook(secret)
				must(t, err)
				if v.Verify(m.body, m.header) == nil {
					secrets++
				}
			}
			return secrets
		}
		defer w.start(e)()
		for i, secrets := range []string{before, before + "\n" + after + "\n", after} {
			w.mu.Lock()
			w.secrets["rotated"] = secrets
			w.mu.Unlock()
			w.finish("s-1", 1)
			<-time.After(time.Second)
			got := w.attempts("rotated")
			if len(got) != i+1 {
				t.Fatalf("%d arrived", len(got))
			}
			if n, want := valid(got[i]), []int{1, 2, 1}[i]; n != want {
				t.Errorf("valid for %d secrets, want %d", n, want)
			}
		}
	})
}

func TestTheMessageOfADeletedSessionIsDropped(t *testing.T) {
	t.Parallel()
	in(t, func(t *testing.T, w *world) {
		e := w.endpoint("down")
		w.answer("down", http.StatusBadGateway)
		stop := w.start(e)
		w.finish("s-1", 1)
		<-time.After(time.Minute)
		stop()
		last, err := w.Journal().Last(t.Context(), "s-1")
		must(t, err)
		_, err = admin.Of(w.Cell).Delete(t.Context(), last, events.SessionDeleted{})
		must(t, err)
		_, err = admin.Of(w.Cell).Clear(t.Context(), "s-1")
		must(t, err)
		w.answer("down", http.StatusOK)
		defer w.start(e)()
		<-time.After(10 * time.Minute)
		state, _, err := store.Of(w.Cell).Load(t.Context(), "down")
		if err != nil || len(state.Waiting) != 0 || len(w.got("down")) != 0 {
			t.Errorf("state = %+v, %v; %d arrived", state, err, len(w.got("down")))
		}
	})
}

func TestASealedSessionIsSentWithoutItsKey(t *testing.T) {
	t.Parallel()
	in(t, func(t *testing.T, w *world) {
		file := filepath.Join(t.TempDir(), "seal.key")
		_, err := seal.Create(file)
		must(t, err)
		ring, err := seal.Read(file)
		must(t, err)
		e, agents := w.endpoint("all"), w.endpoint("agents")
		e.Details, agents.Agents = true, []string{"reviewer"}
		defer w.start(e, agents)()
		open := w.Cell
		w.Cell = open.Sealing(ring)
		must(t, w.Seal(t.Context(), "s-1", ""))
		w.write("s-1", events.RunStarted{Config: events.Config{Agent: &events.AgentRef{Name: "reviewer"}}})
		w.write("s-1", events.ApprovalRequired{Approval: events.Approval{ID: "a-1", Tool: "shell_exec", Input: json.RawMessage(`{"script":"rm x"}`)}})
		<-time.After(3 * time.Second)
		got := w.got("all")
		if len(got) != 1 || len(w.got("agents")) != 0 {
			t.Fatalf("%d arrived, and %d at the endpoint for an agent that is not known", len(got), len(w.got("agents")))
		}
		p := w.payloads[got[0]]
		if p.Type != ApprovalNeeded || p.Data.Session != "s-1" || p.Data.Seq != 2 || !p.Data.Sealed || p.Data.Approval != nil || p.Timestamp == 0 {
			t.Errorf("payload = %+v", p)
		}
	})
}

// What was sent before a restart is read from the journal again, with the same ID and content.
func TestARetriedMessageIsTheSame(t *testing.T) {
	t.Parallel()
	in(t, func(t *testing.T, w *world) {
		e := w.endpoint("down")
		e.Details = true
		w.answer("down", http.StatusBadGateway)
		for i := range 2 {
			stop := w.start(e)
			if i == 0 {
				w.write("s-1", events.RunStarted{Config: events.Config{Agent: &events.AgentRef{Name: "reviewer"}}}, events.ApprovalRequired{
					Approval: events.Approval{ID: "a-1", Turn: "t1", Tool: "shell_exec", Input: json.RawMessage(`{"script":"rm <x>"}`), Summary: "Remove x?"},
				})
			}
			<-time.After(time.Minute)
			stop()
		}
		all := w.attempts("down")
		if len(all) < 5 {
			t.Errorf("%d attempts", len(all))
		}
		for _, m := range all {
			if m.id() != all[0].id() || !bytes.Equal(m.body, all[0].body) {
				t.Errorf("%s %s, not %s %s", m.id(), m.body, all[0].id(), all[0].body)
			}
		}
	})
}
