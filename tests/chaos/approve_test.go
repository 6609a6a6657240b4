package chaos

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/turnlog/turnlog/actor"
	"github.com/turnlog/turnlog/agent"
	"github.com/turnlog/turnlog/client"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/internal/testing/celltest"
	"github.com/turnlog/turnlog/tool"
	"github.com/turnlog/turnlog/worker"
)

// verdict is a decision about an approval; the zero one is that there is none. As an
// operation, the zero one reads what was decided.
type verdict struct {
	by      string
	approve bool
}

// stepApprove is an approval: the first decision counts, and whoever comes later is
// told so.
func stepApprove(state, in any, out answer) (bool, any) {
	has, v := state.(verdict), in.(verdict) //nolint:forcetypeassert // the test's own
	switch {
	case v == verdict{}:
		return out.out == has, has
	case out.result == done:
		return has == verdict{}, v
	case out.result == refused:
		return has != verdict{}, has
	case has == verdict{}:
		return true, v
	}
	return true, has
}

const asking = `
replies:
  - calls: [{name: touch, input: {}}]
  - text: done
repeat: true
`

func TestAnApprovalIsDecidedOnce(t *testing.T) {
	t.Parallel()
	a := newArena(t)
	const sessions, approvers = 16, 3
	touch, err := tool.Func("touch", "Touches a thing.", func(context.Context, struct{}) (string, error) { return "ok", nil })
	if err != nil {
		t.Fatal(err)
	}
	people := a.approvers(approvers)
	w := a.Worker("w1", worker.Config{}, func(*nats.Conn) []tool.Tool { return []tool.Tool{touch} })
	n1, n2 := a.Node(actor.Config{Name: "n1"}), a.Node(actor.Config{Name: "n2"})
	a.under(6*time.Second, []string{"TURNLOG_INBOX", "TURNLOG_JOURNAL", "TURNLOG_RUN"}, sessions, func(_ context.Context, i int, _ *nats.Conn) {
		<-time.After(time.Duration(i) * 200 * time.Millisecond)            // one behind the other, so that some fall into each trouble
		a.asksAndIsAnswered(content.SessionID(fmt.Sprint("s", i)), people) //nolint:contextcheck // it may take longer than the faults
	})
	a.linearizable(t, stepApprove, verdict{})
	n1.Drain(t)
	n2.Drain(t)
	w.Drain(t)
}

func (a *arena) approvers(n int) []*client.Client {
	var out []*client.Client
	for i := range n {
		c, err := client.Open(a.Connect(), "", client.WithName(fmt.Sprint("p", i)))
		if err != nil {
			a.T.Fatal(err)
		}
		out = append(out, c)
	}
	return out
}

// asksAndIsAnswered has a session ask, everybody answer at once, and then reads what
// was decided.
func (a *arena) asksAndIsAnswered(s content.SessionID, people []*client.Client) {
	c := a.Client
	started, err := c.Start(a.Ctx, client.Options{ID: s, Config: events.Config{
		Model: "scripted:test", ModelData: []byte(asking), Rules: []events.Rule{{Tool: "*", Action: events.RuleAsk}},
	}})
	if err != nil {
		a.T.Errorf("%s: %v", s, err)
		return
	}
	defer started.Close()
	if err := started.Submit(a.Ctx, "", content.UserText("go")); err != nil {
		a.T.Errorf("%s: %v", s, err)
		return
	}
	a.Until(s, events.KindApprovalRequired)
	var voting sync.WaitGroup
	for i, p := range people {
		voting.Go(func() { a.votes(s, i, p) })
	}
	voting.Wait()
	a.Until(s, events.KindApprovalResolved)
	var decided []verdict
	for _, r := range celltest.Facts[events.ApprovalResolved](a.World, s) {
		decided = append(decided, verdict{r.By, r.Outcome == events.Approved})
	}
	if len(decided) != 1 {
		a.T.Errorf("%s: decided %v, want one decision", s, decided)
		return
	}
	a.record(len(people), string(s), verdict{}, func() (any, outcome) { return decided[0], done })
}

func (a *arena) votes(s content.SessionID, i int, p *client.Client) {
	joined, err := p.Attach(a.Ctx, s)
	if err != nil {
		a.T.Errorf("%s: %v", s, err)
		return
	}
	defer joined.Close()
	v := verdict{fmt.Sprint("p", i), i%2 == 0}
	a.record(i, string(s), v, func() (any, outcome) {
		ctx, cancel := context.WithTimeout(a.Ctx, patience)
		defer cancel()
		err := joined.ResolveApproval(ctx, "", agent.Decision{Approve: v.approve, By: v.by})
		_, no := errors.AsType[*client.RefusedError](err)
		switch {
		case err == nil:
			return nil, done
		case no:
			return nil, refused
		}
		return nil, unknown
	})
}
