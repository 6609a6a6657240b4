package actor_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/turnlog/turnlog/actor"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/tool"
	"github.com/turnlog/turnlog/turnlogtest"
	"github.com/turnlog/turnlog/worker/task"
)

// readsOf returns the requests for messages of streams that are made while do runs.
func (w *world) readsOf(do func()) (reads []string) {
	w.T.Helper()
	sub, err := w.Connect().Subscribe("$JS.API.>", func(m *nats.Msg) {
		what := strings.TrimPrefix(m.Subject, "$JS.API.")
		if strings.HasPrefix(what, "STREAM.MSG.GET.") || what == "DIRECT.GET.TURNLOG_JOURNAL" {
			reads = append(reads, what+" "+string(m.Data))
		}
	})
	if err != nil {
		w.T.Fatal(err)
	}
	synctest.Wait()
	do()
	synctest.Wait()
	_ = sub.Unsubscribe()
	synctest.Wait()
	return reads
}

// A node that wakes thousands of sessions makes these requests for each, so none may request what is known.
func TestOpeningASessionReadsNothingTwice(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		n := w.node("n1")
		s := w.parked()
		<-time.After(10 * time.Second)
		for what, c := range map[string]struct {
			do   func()
			most int
		}{
			"the first command":    {func() { w.Start("new", oneReply) }, 10},        // two are the client's,
			"a session that waits": {func() { w.submit(s, "two"); w.finish(s) }, 11}, // one tells whether its entries are far apart
		} {
			reads := w.readsOf(c.do)
			slices.Sort(reads)
			if once := slices.Compact(slices.Clone(reads)); len(once) < len(reads) || len(reads) > c.most {
				t.Errorf("%s: %d reads, want %d, each once:\n%s", what, len(reads), c.most, strings.Join(reads, "\n"))
			}
		}
		n.Drain(t)
	})
}

// claiming calls a function when a session is claimed.
type claiming struct {
	handled

	claimed func()
}

func (c *claiming) EntryAppended(e events.Entry, _ bool, _ time.Duration) {
	if _, ok := events.ClaimOf(e); ok {
		c.claimed()
	}
}

// A driver looks into the inbox before it claims its session. The result of a call that arrives afterwards is
// found before the call's queue is believed to have lost it.
func TestAResultThatArrivesDuringAClaimIsFound(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.workerOf(tool.Spec{Name: "echo", Route: content.Background}, nil) // it must not run twice, and the session parks meanwhile
		q, err := w.Open(w.Connect()).Queue(w.Ctx, "q")
		if err != nil {
			t.Fatal(err)
		}
		claimed := func() {}
		n := w.node("n1", func(c *actor.Config) { c.Metrics = &claiming{claimed: func() { claimed() }} })
		call := "{name: echo, input: {text: hi}}"
		s := w.Start("s", "replies:\n  - calls: ["+call+", "+call+"]\n  - text: done\n    repeat: true\n")
		w.submit(s, "go")
		report := func(c task.Claim) {
			x := c.Task()
			if err := c.Report(w.Ctx, task.Report{
				Session: "s", Call: x.Call, Place: x.Place, Attempt: 1, Queue: "q", Outcome: echoed(x), Wake: true,
			}); err != nil {
				t.Error(err)
			}
			if err := c.Done(w.Ctx); err != nil {
				t.Error(err)
			}
		}
		var claims []task.Claim
		for range 2 {
			c, err := q.Claim(w.Ctx)
			if err != nil {
				t.Fatal(err)
			}
			claims = append(claims, c)
		}
		w.Until("s", events.KindParked)
		<-time.After(time.Second) // the token is gone
		claimed = func() { report(claims[1]) }
		report(claims[0])
		none, cancel := context.WithTimeout(w.Ctx, time.Minute)
		defer cancel()
		if c, err := q.Claim(none); err == nil {
			t.Errorf("call %s runs again", c.Task().Place)
		}
		var got []content.Status
		for _, r := range turnlogtest.Facts[events.ToolResultReceived](w.Deployment, "s") {
			got = append(got, r.Result.Status)
		}
		want := []content.Status{content.StatusOK, content.StatusOK}
		if !slices.Equal(got, want) {
			t.Errorf("results: %s, want %s", got, want)
		}
		n.Drain(t)
	})
}
