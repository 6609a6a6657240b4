package security

import (
	"testing"
	"time"

	"github.com/turnlog/turnlog/actor"
	"github.com/turnlog/turnlog/client"
	"github.com/turnlog/turnlog/commands"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/jetstream/trials"
	"github.com/turnlog/turnlog/session"
	"github.com/turnlog/turnlog/turnlogtest"
)

// Two users retry a session before a node sees either: the last retry is recorded, and the first one has no effect
// later.
func TestARetryIsRecordedOnce(t *testing.T) {
	inEachLayout(t, func(_ *testing.T, c *cell) {
		w, node := c.person("client"), c.world("driver").Node(actor.Config{Name: "n1"})
		id := content.SessionID("s")
		s := w.Start(id, "replies:\n  - text: done\n    repeat: true\n")
		submit(w, s)
		next[*session.Finished](w, s)
		<-time.After(time.Minute)
		broken := trials.Breakage{Node: "n0", At: content.TimeOf(time.Now()), Error: "why"}
		notes := trials.Of(c.open("driver"))
		if _, err := notes.Put(c.ctx, trials.Trial{Session: id, Broke: []trials.Breakage{broken, broken}}); err != nil {
			c.t.Fatal(err)
		}
		send := func(cause string) {
			input := commands.SubmitInput{Items: []content.Item{content.UserText("more")}, OnBusy: events.Queue}
			if _, err := w.Cell.Inbox().Send(c.ctx, commands.Envelope{ID: cause, Session: id, Command: input}); err != nil {
				c.t.Fatal(err)
			}
		}
		node.Drain(c.t) // so that both retry before a node sees either
		send("x")
		for _, name := range []string{"ada", "bob"} {
			r, err := client.Open(c.connect(name), "")
			if err != nil {
				c.t.Fatal(err)
			}
			if err := r.RetrySession(c.ctx, id); err != nil {
				c.t.Fatal(name, err)
			}
		}
		node = c.world("driver").Node(actor.Config{Name: "n2"})
		until(w, id, events.KindTurnFinished, 2)
		<-time.After(time.Minute)
		// Later a node is killed in a slow step.
		if _, err := notes.Put(c.ctx, trials.Trial{Session: id, Node: "n3"}); err != nil {
			c.t.Fatal(err)
		}
		send("y")
		until(w, id, events.KindTurnFinished, 3)
		all := turnlogtest.Facts[events.DriverClaimed](w, id)
		if u := all[len(all)-1].User; u != "" {
			c.t.Errorf("the last claim says that %s had the session tried again, who did not", u)
		}
		node.Drain(c.t)
	})
}
