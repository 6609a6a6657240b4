package actor_test

import (
	"slices"
	"testing"
	"testing/synctest"

	"github.com/turnlog/turnlog/commands"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
)

func (w *world) asking() []content.SessionID {
	w.T.Helper()
	ids, err := w.Client.Asking(w.Ctx)
	if err != nil {
		w.T.Fatal(err)
	}
	return ids
}

// asked starts a session whose rules ask about a call, which then waits.
func (w *world) asked(id content.SessionID) {
	w.T.Helper()
	s := w.startWith(id, "replies:\n  - calls: [{name: echo, input: {}}]\n  - text: done\n", func(c *events.Config) {
		c.Rules = []events.Rule{{Tool: "*", Action: events.RuleAsk}}
	})
	w.submit(s, "go")
	w.Until(id, events.KindApprovalRequired)
}

func TestASessionThatWaitsForAnApprovalIsListed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.worker(echoed)
		first := w.node("n1")
		w.asked("s")
		w.asked("other")
		if got := w.asking(); !slices.Equal(got, []content.SessionID{"other", "s"}) {
			t.Errorf("asking: %v", got)
		}
		first.Crash(t)
		second := w.node("n2")
		w.send("s", "yes", commands.ResolveApproval{Approve: true, By: "ann"})
		w.Until("s", events.KindTurnFinished)
		synctest.Wait()
		if n, err := w.Cell.Approvals().Noted(w.Ctx, "s"); n != 0 || err != nil {
			t.Errorf("decided, but noted: %d, %v", n, err)
		}
		if n, err := w.Cell.Approvals().Noted(w.Ctx, "other"); n == 0 || err != nil {
			t.Errorf("undecided, but not noted: %d, %v", n, err)
		}
		second.Drain(t)
	})
}
