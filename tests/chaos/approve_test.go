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
	"github.com/turnlog/turnlog/client"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/internal/testing/celltest"
	"github.com/turnlog/turnlog/session"
	"github.com/turnlog/turnlog/tool"
	"github.com/turnlog/turnlog/worker"
)

// verdict is a decision on an approval; the zero value means that there is none. As an
// operation, the zero value reads the decision.
type verdict struct {
	by      string
	approve bool
}

// stepApprove models an approval: the first decision counts, and later ones are refused.
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

// approveAll has 16 sessions ask, and three approvers answer each question at once. The
// function that it returns waits until all are answered.
func (a *arena) approveAll(t *testing.T) (wait func()) {
	t.Helper()
	const sessions, approvers = 16, 3
	touch, err := tool.Func("touch", "Touches a thing.", func(context.Context, struct{}) (string, error) { return "ok", nil })
	if err != nil {
		t.Fatal(err)
	}
	clients := a.approvers(approvers)
	w := a.Worker("w1", worker.Config{}, func(*nats.Conn) []tool.Tool { return []tool.Tool{touch} })
	n1, n2 := a.Node(actor.Config{Name: "n1"}), a.Node(actor.Config{Name: "n2"})
	var all sync.WaitGroup
	for i := range sessions {
		all.Go(func() {
			<-time.After(time.Duration(i) * 300 * time.Millisecond) // staggered, so that each fault hits some
			a.asksAndIsAnswered(content.SessionID(fmt.Sprint("approve-", i)), clients)
		})
	}
	return func() {
		all.Wait()
		n1.Drain(t)
		n2.Drain(t)
		w.Drain(t)
	}
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

// asksAndIsAnswered has a session ask, all clients answer at once, and then reads the
// decision.
func (a *arena) asksAndIsAnswered(s content.SessionID, clients []*client.Client) {
	c := a.Client
	started, err := c.Start(a.Ctx, client.Options{ID: s, Config: events.Config{
		Model: "scripted:test", ModelData: []byte(asking), Rules: []events.Rule{{Tool: "*", Action: events.RuleAsk}},
	}})
	if err != nil {
		a.T.Errorf("%s: %v", s, err)
		return
	}
	defer func() { _ = started.Close(a.Ctx) }()
	if err := started.Send(a.Ctx, "", content.UserText("go")); err != nil {
		a.T.Errorf("%s: %v", s, err)
		return
	}
	a.Until(s, events.KindApprovalRequired)
	var voting sync.WaitGroup
	for i, p := range clients {
		voting.Go(func() { a.votes(s, i, p) })
	}
	voting.Wait()
	a.Until(s, events.KindApprovalResolved)
	var decided []verdict
	for _, r := range celltest.Facts[events.ApprovalResolved](a.World, s) {
		decided = append(decided, verdict{r.By, r.Outcome == events.Approved})
	}
	if len(decided) != 1 {
		a.T.Errorf("%s: decisions = %v, want one", s, decided)
		return
	}
	a.record(len(clients), string(s), verdict{}, func() (any, outcome) { return decided[0], done })
}

func (a *arena) votes(s content.SessionID, i int, p *client.Client) {
	joined, err := p.Attach(a.Ctx, s)
	if err != nil {
		a.T.Errorf("%s: %v", s, err)
		return
	}
	defer func() { _ = joined.Close(a.Ctx) }()
	v := verdict{fmt.Sprint("p", i), i%2 == 0}
	a.record(i, string(s), v, func() (any, outcome) {
		ctx, cancel := context.WithTimeout(a.Ctx, patience)
		defer cancel()
		err := joined.ResolveApproval(ctx, session.Decision{Approve: v.approve, By: v.by})
		_, no := errors.AsType[*session.InvalidStateError](err)
		switch {
		case err == nil:
			return nil, done
		case no:
			return nil, refused
		}
		return nil, unknown
	})
}
