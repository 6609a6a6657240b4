package security

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go"

	"github.com/turnlog/turnlog/actor"
	"github.com/turnlog/turnlog/client"
	"github.com/turnlog/turnlog/commands"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/events/journal"
	"github.com/turnlog/turnlog/jetstream"
	"github.com/turnlog/turnlog/jetstream/admin"
	"github.com/turnlog/turnlog/jetstream/tombstones"
	"github.com/turnlog/turnlog/jetstream/trials"
	"github.com/turnlog/turnlog/policy/permission"
	"github.com/turnlog/turnlog/session"
	"github.com/turnlog/turnlog/turnlogtest"
	"github.com/turnlog/turnlog/worker"
)

func TestAUserSendsCommandsOnlyUnderItsName(t *testing.T) {
	inEachLayout(t, func(t *testing.T, c *cell) {
		for name, may := range map[string]map[string]bool{
			"ada":      {"ask.ada": true, "decide.ada": true},
			"bob":      {"ask.bob": true, "decide.bob": true},
			"client":   {"ask": true},
			"approver": {"decide": true},
			"driver": {
				"ask": true, "decide": true, "ask.ada": true, "ask.bob": true, "ask.eve": true, "decide.ada": true, "decide.bob": true,
			},
		} {
			nc := c.connect(name)
			for _, suffix := range []string{"ask", "ask.ada", "ask.bob", "ask.eve", "decide", "decide.ada", "decide.bob", "report", "report.ada"} {
				if got := c.publishes(name, nc, "turnlog.cmd.s."+suffix); got != may[suffix] {
					t.Errorf("%s publishes on %s: %t, want %t", name, suffix, got, may[suffix])
				}
			}
		}
	})
}

func TestAUserDeletesAndRetriesOnlyUnderItsName(t *testing.T) {
	inEachLayout(t, func(t *testing.T, c *cell) {
		const journal, deletion, note = "turnlog.journal.s", "turnlog.delete.s.", "$KV.TURNLOG_DEAD.trial.s"
		for name, may := range map[string][]string{
			"kim":      {deletion + "kim"},
			"lee":      {deletion + "lee"},
			"keeper":   {journal},
			"ada":      {note + ".ada"},
			"bob":      {note + ".bob"},
			"approver": {note},
		} {
			nc := c.connect(name)
			for _, subject := range []string{
				journal, deletion + "kim", deletion + "lee", deletion + "eve", deletion + "ada", note, note + ".ada", note + ".bob", note + ".eve",
			} {
				if got, want := c.publishes(name, nc, subject), slices.Contains(may, subject); got != want {
					t.Errorf("%s publishes on %s: %t, want %t", name, subject, got, want)
				}
			}
		}
	})
}

// TestATombstoneHasTheNameThatTheServerVerified has kim, who claims to be lee, delete a session.
func TestATombstoneHasTheNameThatTheServerVerified(t *testing.T) {
	inEachLayout(t, func(_ *testing.T, c *cell) {
		ctx := c.ctx
		deletes := func(name string, s content.SessionID, at func(*journal.Record)) (events.Deletion, error) {
			keeper := c.open(name)
			last, err := keeper.Journal().Last(ctx, s)
			if err != nil {
				c.t.Fatal(err)
			}
			at(&last)
			return admin.Of(keeper).Delete(ctx, last, events.SessionDeleted{By: "lee", Reason: "why"})
		}
		now := func(*journal.Record) {}
		for _, s := range []content.SessionID{"one", "two"} {
			e := events.Entry{Session: s, Cause: "c", Epoch: 1, Events: []events.Event{events.Parked{}}}
			if _, err := c.open("driver").Journal().Append(ctx, journal.Head{}, e); err != nil {
				c.t.Fatal(err)
			}
		}
		if _, err := deletes("kim", "one", now); !errors.Is(err, tombstones.ErrNoNode) {
			c.t.Errorf("without a node: %v", err)
		}
		node := c.world("driver").Node(actor.Config{Name: "n1"})
		if _, err := deletes("kim", "one", func(r *journal.Record) { r.Guard++ }); !errors.Is(err, journal.ErrConflict) {
			c.t.Errorf("a session that has changed: %v", err)
		}
		for name, s := range map[string]content.SessionID{"kim": "one", "keeper": "two"} {
			if _, err := deletes(name, s, now); err != nil {
				c.t.Fatal(err)
			}
			if _, err := admin.Of(c.open(name)).Clear(ctx, s); err != nil {
				c.t.Error(err)
			}
			last, err := c.open("observer").Journal().Last(ctx, s)
			d, _ := events.DeletionOf(last.Entry)
			want := map[string]string{"kim": " by kim (claims to be lee) (why): 1 entries", "keeper": " by lee (claimed) (why): 1 entries"}[name]
			if err != nil || !strings.Contains(d.String(), want) {
				c.t.Errorf("the session that %s deleted %s, %v; want %q", name, d, err, want)
			}
		}
		node.Drain(c.t)
		c.clean()
	})
}

// TestARetryHasTheNameThatTheServerVerified has ada, who claims to be bob, retry a session that is set aside.
func TestARetryHasTheNameThatTheServerVerified(t *testing.T) {
	inEachLayout(t, func(_ *testing.T, c *cell) {
		w, node := c.person("client"), c.world("driver").Node(actor.Config{Name: "n1"})
		for name, want := range map[string]string{"ada": "ada (claims to be bob)", "approver": "bob (claimed)"} {
			id := content.SessionID("s-" + name)
			s := w.Start(id, "replies:\n  - text: done\n    repeat: true\n")
			submit(w, s)
			next[*session.Finished](w, s)
			<-time.After(time.Minute)
			broken := trials.Breakage{Node: "n0", At: content.TimeOf(time.Now()), Error: "why"}
			if _, err := trials.Of(c.open("driver")).Put(c.ctx, trials.Trial{Session: id, Broke: []trials.Breakage{broken, broken}}); err != nil {
				c.t.Fatal(err)
			}
			input := commands.SubmitInput{Items: []content.Item{content.UserText("more")}, OnBusy: events.Queue}
			if _, err := w.Cell.Inbox().Send(c.ctx, commands.Envelope{ID: "x", Session: id, Command: input}); err != nil {
				c.t.Fatal(err)
			}
			<-time.After(time.Minute)
			claims := len(turnlogtest.Facts[events.DriverClaimed](w, id))
			nc := c.connect(name)
			retrier, err := client.Open(nc, "", client.WithName("bob"))
			if err != nil {
				c.t.Fatal(err)
			}
			if err := retrier.RetrySession(c.ctx, id); err != nil {
				c.t.Fatal(err)
			}
			until(w, id, events.KindTurnFinished, 2)
			claimed := turnlogtest.Facts[events.DriverClaimed](w, id)[claims] // if it was driven while it was set aside, not that of the retry
			if got := content.Sender(claimed.User, claimed.RetriedBy); got != want {
				c.t.Errorf("%s was retried by %s, want %s", id, got, want)
			}
			if err := s.Close(c.ctx); err != nil {
				c.t.Error(err)
			}
			if left, err := trials.Of(c.open("driver")).Retried(c.ctx, id); left.Seq != 0 || err != nil {
				c.t.Errorf("a retry that is recorded stays: %+v, %v", left, err)
			}
			if aside, err := retrier.SetAside(c.ctx); len(aside) != 0 || err != nil {
				c.t.Errorf("set aside: %+v, %v", aside, err)
			}
		}
		node.Drain(c.t)
		c.clean()
	})
}

// TestAUserWithTheWrongNameIsTold connects as ada under bob's inbox prefix, which would be bob's name.
func TestAUserWithTheWrongNameIsTold(t *testing.T) {
	inEachLayout(t, func(t *testing.T, c *cell) {
		for prefix, want := range map[string]string{
			users()["bob"].Prefix():    "_USER_bob.",
			users()["client"].Prefix(): "_INBOX_client.",
		} {
			nc, err := c.srv.Connect(c.as("ada"), nats.CustomInboxPrefix(prefix), nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}))
			if err != nil {
				t.Fatal(err)
			}
			defer nc.Close()
			cell, err := jetstream.Open(nc, "")
			if err != nil {
				t.Fatal(err)
			}
			_, err = cell.Inbox().Send(c.ctx, commands.Envelope{ID: "x", Session: "s", Command: commands.Cancel{Scope: commands.ScopeTurn}})
			if d, ok := errors.AsType[*jetstream.DeniedError](err); !ok || !strings.HasPrefix(d.Subject, want) && !strings.HasPrefix(d.Subject, "turnlog.cmd.s.ask") {
				t.Errorf("with %s: %v, want that it is denied", prefix, err)
			}
		}
		synctest.Wait()
		if any, err := c.open("driver").Inbox().HasAny(c.ctx, "s"); any || err != nil {
			t.Errorf("a command arrived: %t, %v", any, err)
		}
	})
}

// TestNoReplyBearsAnotherName has ada store a command of bob's and direct the server's replies at bob's subject.
func TestNoReplyBearsAnotherName(t *testing.T) {
	inEachLayout(t, func(t *testing.T, c *cell) {
		forged, err := commands.Envelope{ID: "forged", Session: "s", By: "bob", Command: commands.Cancel{Scope: commands.ScopeTurn}}.Encode()
		if err != nil {
			t.Fatal(err)
		}
		const bobs = "turnlog.cmd.s.ask.bob"
		for _, request := range []string{"$JS.API.DIRECT.GET.OBJ_TURNLOG_BLOBS", "$JS.API.STREAM.MSG.GET.OBJ_TURNLOG_BLOBS", "turnlog.run.s", "turnlog.cmd.s.ask.ada"} {
			attack{by: "ada", request: request, reply: bobs, body: string(forged)}.do(c)
		}
		synctest.Wait()
		inbox := c.open("driver").Inbox()
		for m, err := range inbox.Read(c.ctx, "s", nil, 0) {
			if err != nil {
				t.Fatal(err)
			}
			if err := inbox.Open(c.ctx, &m); err != nil {
				t.Fatal(err)
			}
			if m.User == "bob" && m.Err == nil {
				t.Errorf("a command of bob's: %+v", m.Envelope)
			}
		}
	})
}

// TestJournalsHaveTheNamesThatTheServerVerified has two users work on a session. One of them claims to be
// the other, and opens a session in that name that the policy would not allow it.
func TestJournalsHaveTheNamesThatTheServerVerified(t *testing.T) {
	inEachLayout(t, func(_ *testing.T, c *cell) {
		ada, bob := c.person("ada"), c.person("bob")
		var err error
		if bob.Client, err = client.Open(bob.Conn, "", client.WithName("ada")); err != nil {
			c.t.Fatal(err)
		}
		policy := permission.Deployment{Rules: []permission.ScopedRule{
			{Tool: "echo", Action: events.RuleDeny, Opener: "bob"}, {Tool: "echo", Action: events.RuleAsk},
		}}
		runtime := c.world("worker").Worker("w1", worker.Config{DrainTimeout: time.Second}, echoes(c.t))
		node := c.world("driver").Node(actor.Config{Name: "n1", Policy: &policy})
		script := "replies:\n  - calls: [{name: echo, input: {text: hi}}]\n  - text: done\n  - text: more\n  - text: slow\n    delay: 30m\n"
		s := ada.Start("s", script)
		submit(ada, s)
		ada.Until("s", events.KindApprovalRequired)
		again, err := bob.Client.Attach(bob.Ctx, "s")
		if err != nil {
			c.t.Fatal(err)
		}
		if err := next[*session.ApprovalRequest](bob, again).Approve(bob.Ctx); err != nil {
			c.t.Fatal(err)
		}
		next[*session.Finished](bob, again)
		submit(bob, again)
		next[*session.Finished](bob, again)
		submit(ada, s)
		synctest.Wait()
		if err := again.Cancel(bob.Ctx, ""); err != nil {
			c.t.Fatal(err)
		}
		next[*session.Finished](bob, again)
		var got []string
		for _, rec := range ada.Records("s") {
			for _, ev := range rec.Entry.Events {
				switch ev := any(ev).(type) {
				case events.RunStarted:
					got = append(got, "opened by "+content.Sender(ev.User, ev.By))
				case events.InputQueued:
					got = append(got, "input by "+content.Sender(ev.User, ev.By))
				case events.ApprovalResolved:
					got = append(got, string(ev.Outcome)+" by "+ev.Decider())
				case events.CancelRequested:
					got = append(got, "cancel by "+content.Sender(ev.User, ev.By))
				}
			}
		}
		want := []string{
			"opened by ada", "input by ada", "approved by bob (claims to be ada)", "input by bob (claims to be ada)", "input by ada",
			"cancel by bob (claims to be ada)",
		}
		if diff := cmp.Diff(want, got); diff != "" {
			c.t.Errorf("who did what (-want +got):\n%s", diff)
		}

		denied := bob.Start("guest", script)
		submit(bob, denied)
		next[*session.Finished](bob, denied)
		results := turnlogtest.Facts[events.ToolResultReceived](bob, "guest")
		if len(results) != 1 || results[0].Result.Status != content.StatusDenied {
			c.t.Errorf("calls in the session that bob opened as ada: %+v, want one that is denied", results)
		}
		for _, x := range []*session.Session{s, again, denied} {
			_ = x.Close(c.ctx)
		}
		runtime.Drain(c.t)
		node.Drain(c.t)
		c.clean()
	})
}
