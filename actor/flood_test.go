package actor_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/turnlog/turnlog/actor"
	"github.com/turnlog/turnlog/commands"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/tool"
)

// tally counts commands by outcome.
type tally struct {
	actor.Metrics

	mu sync.Mutex
	by map[string]int
}

func (c *tally) SessionTaken()                                   {}
func (c *tally) SessionLeft(string)                              {}
func (c *tally) EntryAppended(events.Entry, bool, time.Duration) {}
func (c *tally) EffectStarted(string)                            {}
func (c *tally) CommandHandled(name, outcome string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.by[name+" "+outcome]++
}

// A session gets far more commands than it can handle, most of them invalid. Its work continues, it
// can be canceled, and its journal does not grow with the refused commands.
func TestASessionOutlivesAFlood(t *testing.T) {
	t.Parallel()
	const each = 500
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		counted := &tally{by: make(map[string]int)}
		n := w.node("n1", func(c *actor.Config) { c.Metrics = counted })
		s := w.thinking("s")

		flood := w.Connect()
		publish := func(lane events.Lane, env commands.Envelope) {
			raw, err := env.Encode()
			if err != nil {
				t.Fatal(err)
			}
			if err := flood.Publish("turnlog.cmd.s."+string(lane), raw); err != nil {
				t.Fatal(err)
			}
		}
		input := commands.SubmitInput{Items: []content.Item{content.UserText("more")}, OnBusy: events.Queue}
		forged := commands.ReportResult{
			Place: "t1-r1-c1", Attempt: 1, Queue: "q", Outcome: tool.Result{Result: content.NewResult("c1", "echo", content.StatusOK, "forged")},
		}
		for i := range each {
			if err := flood.Publish("turnlog.cmd.s.ask", []byte("\x85nonsense")); err != nil {
				t.Fatal(err)
			}
			publish(events.LaneAsk, commands.Envelope{ID: fmt.Sprint("input-", i), Session: "s", Command: input})
			publish(events.LaneAsk, commands.Envelope{ID: "again", Session: "s", Command: input})
			publish(events.LaneAsk, commands.Envelope{ID: fmt.Sprint("elsewhere-", i), Session: "other", Command: input})
			publish(events.LaneAsk, commands.Envelope{ID: fmt.Sprint("misplaced-", i), Session: "s", Command: forged})
			publish(events.LaneReport, commands.Envelope{ID: fmt.Sprint("forged-", i), Session: "s", Command: forged})
		}
		soon, cancel := context.WithTimeout(w.Ctx, time.Minute)
		defer cancel()
		if err := flood.FlushWithContext(soon); err != nil {
			t.Fatal(err)
		}
		if err := s.Cancel(w.Ctx, "enough"); err != nil {
			t.Fatal(err)
		}
		if got := w.finish(s); got.FinishReason != content.Cancelled {
			t.Errorf("the turn ended as %s, want cancelled", got.FinishReason)
		}
		w.Until("s", events.KindTurnFinished)
		if entries := len(w.Records("s")); entries > 600 {
			t.Errorf("the journal has %d entries", entries)
		}
		counted.mu.Lock()
		defer counted.mu.Unlock()
		if n := counted.by["bad passed_over"]; n != 3*each {
			t.Errorf("%d bad commands were skipped, want %d", n, 3*each)
		}
		if n := counted.by["report forged"]; n != each {
			t.Errorf("%d forged reports were skipped, want %d", n, each)
		}
		if in := counted.by["submit_input accepted"]; in < 256 || in > 300 {
			t.Errorf("%d inputs were accepted", in)
		}
		n.Drain(t)
	})
}

// Commands for a session that does not exist are refused, however many there are.
func TestAFloodForNoSessionIsRefused(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		for i := range 600 {
			env := commands.Envelope{ID: fmt.Sprint("x-", i), Session: "absent", Command: commands.Cancel{Scope: commands.ScopeTurn}}
			if _, err := w.Cell.Inbox().Send(w.Ctx, env); err != nil {
				t.Fatal(err)
			}
		}
		feed, err := w.Connect().SubscribeSync("turnlog.delta.absent")
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait() // until the server knows of the subscription
		core, logged := observer.New(zap.InfoLevel)
		n := w.node("n1", func(c *actor.Config) { c.Logger = zap.New(core) })
		w.send("absent", "last", commands.Cancel{Scope: commands.ScopeTurn})
		<-time.After(10 * time.Second)
		if refused, _, err := feed.Pending(); refused != 601 || err != nil {
			t.Errorf("%d refusals, %v, want 601", refused, err)
		}
		if any, err := w.Cell.Inbox().HasAny(w.Ctx, "absent"); any || err != nil {
			t.Errorf("its inbox is not empty: %v, %v", any, err)
		}
		if lines := logged.FilterField(zap.String("session", "absent")).All(); len(lines) > 0 { // one for each such session would fill the disk
			t.Errorf("logged %v", lines)
		}
		n.Drain(t)
	})
}

func TestASessionOpensAfterAFlood(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		for i := range 600 {
			env := commands.Envelope{ID: fmt.Sprint("x-", i), Session: "s", Command: commands.Cancel{Scope: commands.ScopeTurn}}
			if _, err := w.Cell.Inbox().Send(w.Ctx, env); err != nil {
				t.Fatal(err)
			}
		}
		n := w.node("n1")
		s := w.Start("s", "replies: [{text: ok}]")
		w.submit(s, "go")
		if got := w.finish(s); got.Text() != "ok" {
			t.Errorf("answer = %q", got.Text())
		}
		w.Records("s")
		n.Drain(t)
	})
}

// leaving counts how sessions were left.
type leaving struct {
	handled

	mu   sync.Mutex // guards left
	left map[string]int
}

func (l *leaving) SessionLeft(how string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.left[how]++
}

// While many useless wakes wait, they are discarded. Sessions with commands are driven, and one
// that needs a driver without having a command is found soon.
func TestUselessWakesAreDiscardedTogether(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const wakes, late = 2000, 1500 // more than nodes look at in one sweep
		w := newWorld(t)
		counted := &leaving{left: make(map[string]int)}
		n := w.node("n1", func(c *actor.Config) { c.Metrics = counted })
		forgotten := w.Start("forgotten", oneReply)
		w.submit(forgotten, "go")
		w.finish(forgotten)
		w.Until("forgotten", events.KindParked)
		<-time.After(time.Minute)
		last, err := w.Cell.Journal().Last(w.Ctx, "forgotten")
		if err != nil {
			t.Fatal(err)
		}
		claim := events.Entry{
			Session: "forgotten", Cause: "lost", At: last.Entry.At, Epoch: last.Entry.Epoch + 1,
			Events: []events.Event{events.DriverClaimed{Epoch: last.Entry.Epoch + 1, Node: "lost"}},
		}
		if _, err := w.Cell.Journal().Append(w.Ctx, last.Head, claim); err != nil {
			t.Fatal(err)
		}
		flood := w.Connect()
		for i := range wakes {
			id := content.SessionID(fmt.Sprint("x", i))
			if i == late {
				id = "forgotten"
			}
			if err := flood.Publish("turnlog.run."+string(id), nil); err != nil {
				t.Fatal(err)
			}
		}
		if err := flood.FlushWithContext(w.Ctx); err != nil {
			t.Fatal(err)
		}
		s := w.Start("s", oneReply)
		w.submit(s, "go")
		w.finish(s)
		<-time.After(time.Minute)
		if got := w.owners("forgotten"); len(got) < 3 || got[len(got)-1] != "n1" {
			t.Errorf("the forgotten session was driven by %v", got)
		}
		for i := range wakes {
			if i%100 != 0 {
				continue
			}
			if held, err := w.tokens(content.SessionID(fmt.Sprint("x", i))); held || err != nil {
				t.Errorf("x%d has a token: %v, %v", i, held, err)
			}
		}
		counted.mu.Lock()
		if got := counted.left["discarded"]; got < wakes*4/5 {
			t.Errorf("%d tokens were discarded: %v", got, counted.left)
		}
		counted.mu.Unlock()
		n.Drain(t)
	})
}

// asNamed returns a function that sends a command to sessions as a user with a name, and wakes them together. They are
// woken when their commands are stored: a session that is woken before has nothing to do, and is found again much later.
func (w *world) asNamed() func(user string, c commands.Command, sessions ...content.SessionID) {
	conn := w.Connect()
	return func(user string, c commands.Command, sessions ...content.SessionID) {
		w.T.Helper()
		for i, s := range sessions {
			raw, err := commands.Envelope{ID: user + string(s), Session: s, Command: c}.Encode()
			subject := "turnlog.cmd." + string(s) + ".ask." + user
			switch {
			case err != nil:
			case i < len(sessions)-1:
				err = conn.Publish(subject, raw)
			default: // the stream stores them in order
				_, err = conn.RequestWithContext(w.Ctx, subject, raw)
			}
			if err != nil {
				w.T.Fatal(err)
			}
		}
		for _, s := range sessions {
			if err := conn.Publish("turnlog.run."+string(s), nil); err != nil {
				w.T.Fatal(err)
			}
		}
	}
}

// numbered returns the IDs of sessions.
func numbered(prefix string, count int) (out []content.SessionID) {
	for i := range count {
		out = append(out, content.SessionID(fmt.Sprint(prefix, i)))
	}
	return out
}

// slowTurn opens a session with a turn that takes some time.
func slowTurn(delay time.Duration) commands.OpenSession {
	return commands.OpenSession{
		Config: events.Config{Model: "scripted:test", ModelData: fmt.Appendf(nil, "replies:\n  - text: ok\n    delay: %v\n", delay)},
		Input:  []content.Item{content.UserText("go")},
	}
}

// TestManyUsersDoNotTakeAllPlacesTogether has users open many sessions that take an hour, one user after the
// other, so each user comes when the others have all the places that they can get.
func TestManyUsersDoNotTakeAllPlacesTogether(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const places, hostile = 40, 4 // a fifth user has the last of the places that are kept free
		w := newWorld(t)
		send := w.asNamed()
		n := w.node("n1", func(c *actor.Config) { c.Capacity = places })
		for k := range hostile {
			send(fmt.Sprint("mallory", k), slowTurn(time.Hour), numbered(fmt.Sprintf("x%d-", k), 500)...)
			<-time.After(10 * time.Second)
		}
		began := time.Now()
		send("ada", slowTurn(time.Second), "ada")
		w.Until("ada", events.KindTurnFinished)
		if took := time.Since(began); took > 10*time.Second {
			t.Errorf("a turn that takes one second took %v", took)
		}
		n.Drain(t)
	})
}

// TestAUserWithManySessionsDoesNotHoldUpOthers has one user open far more sessions than the node has places
// for, and also send something to another user's session. Every session is driven.
func TestAUserWithManySessionsDoesNotHoldUpOthers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) { otherUsersTakeTurns(t, newWorld(t), 300) })
}

// TestAUserWithTooManySessionsDoesNotHoldUpOthers has more sessions with commands than nodes list. The streams are in files:
// in memory, the server looks at every message to find the next one of some subjects.
func TestAUserWithTooManySessionsDoesNotHoldUpOthers(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		w := newDiskWorld(t, dir).world
		conn := w.Connect()
		for i := range 20_001 { // with invalid IDs, so the test need not wait until nodes have looked at them
			if err := conn.Publish(fmt.Sprintf("turnlog.cmd.y%0200d.ask.mallory", i), nil); err != nil {
				t.Fatal(err)
			}
		}
		if err := conn.FlushWithContext(w.Ctx); err != nil {
			t.Fatal(err)
		}
		otherUsersTakeTurns(t, w, 300)
	})
}

// otherUsersTakeTurns has mallory open many sessions.
func otherUsersTakeTurns(t *testing.T, w *world, many int) {
	t.Helper()
	send, open := w.asNamed(), slowTurn(time.Second)
	counted := &leaving{left: make(map[string]int)}
	var node *actor.Node
	n := w.nodeWith("n1", func(n *actor.Node) { node = n }, func(c *actor.Config) {
		c.Capacity, c.Idle, c.Metrics = 10, 100*time.Millisecond, counted
	})
	hers := numbered("x", many)
	send("mallory", open, hers...)
	for i := range 3 {
		<-time.After(5 * time.Second)
		s := content.SessionID(fmt.Sprint("ada", i))
		began := time.Now()
		send("mallory", commands.Cancel{Scope: commands.ScopeTurn}, s)
		send("ada", open, s)
		w.Until(s, events.KindTurnFinished)
		if took := time.Since(began); took > 5*time.Second {
			t.Errorf("a turn that takes one second took %v", took)
		}
	}
	for _, s := range hers {
		w.Until(s, events.KindTurnFinished)
	}
	counted.mu.Lock()
	if counted.left["postponed"] < many/2 {
		t.Errorf("sessions were left: %v, want most postponed once", counted.left)
	}
	counted.mu.Unlock()
	n.Drain(t)
	if taken := node.Taken(); taken != 0 {
		t.Errorf("%d places count as taken by nothing", taken)
	}
}

// TestOneUserMayHaveAllPlaces has one user with sessions that wait.
func TestOneUserMayHaveAllPlaces(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		n := w.node("n1", func(c *actor.Config) { c.Capacity = 3 })
		began := time.Now()
		for _, s := range []content.SessionID{"a", "b", "c"} {
			w.thinking(s)
		}
		if took := time.Since(began); took > time.Second {
			t.Errorf("three sessions began after %v", took)
		}
		n.Drain(t)
	})
}
