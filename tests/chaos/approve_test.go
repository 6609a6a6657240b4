package chaos

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/turnlog/turnlog/client"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/internal/testing/cell"
	"github.com/turnlog/turnlog/session"
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
  - calls: [{name: torture_read, input: {ms: 1}}]
  - text: done
repeat: true
`

const askers = 16 // sessions with a question

// asked is a session whose question the approvers answer at once.
type asked struct {
	id     content.SessionID
	open   chan struct{}  // closed when the question is open
	voting sync.WaitGroup // the votes
}

// approvers returns three clients that answer the questions of 16 sessions. The first of
// them starts the sessions and reads the decisions.
func (h *history) approvers() (out []func(context.Context, *cell.Process)) {
	const approvers = 3
	var all []*asked
	for i := range askers {
		s := &asked{id: content.SessionID(fmt.Sprint("approve-", i)), open: make(chan struct{})}
		s.voting.Add(approvers)
		all = append(all, s)
	}
	for i := range approvers {
		out = append(out, func(_ context.Context, p *cell.Process) {
			c, err := client.Open(p.Conn, "", client.WithName(fmt.Sprint("p", i)))
			if err != nil {
				h.t.Error(err)
				return
			}
			ctx, cancel := context.WithTimeout(h.t.Context(), patience)
			defer cancel()
			var each sync.WaitGroup
			for n, s := range all {
				each.Go(func() {
					if i == 0 {
						<-time.After(time.Duration(n) * 300 * time.Millisecond) // staggered, so that each fault affects some
						h.asks(ctx, c, p, s)
					}
					<-s.open
					h.votes(ctx, s, i, c)
					if s.voting.Wait(); i == 0 {
						h.decided(ctx, p, s.id, approvers)
					}
				})
			}
			each.Wait()
		})
	}
	return out
}

// asks starts a session and waits until its question is open.
func (h *history) asks(ctx context.Context, c *client.Client, p *cell.Process, s *asked) {
	defer close(s.open)
	started, err := c.Start(ctx, client.Options{ID: s.id, Config: events.Config{
		Model: "scripted:test", ModelData: []byte(asking), Rules: []events.Rule{{Tool: "*", Action: events.RuleAsk}},
	}})
	if err != nil {
		h.t.Errorf("%s: %v", s.id, err)
		return
	}
	defer func() { _ = started.Close(ctx) }()
	if err := started.Send(ctx, "", content.UserText("go")); err != nil {
		h.t.Errorf("%s: %v", s.id, err)
		return
	}
	h.until(ctx, p, s.id, events.KindApprovalRequired)
}

// until follows a journal up to an event of the kind and returns the events until then.
func (h *history) until(ctx context.Context, p *cell.Process, s content.SessionID, k events.Kind) (out []events.Event) {
	for rec, err := range p.Cell.Journal().Follow(ctx, s, 0) {
		if err != nil {
			h.t.Errorf("%s: %v", s, err)
			return nil
		}
		out = append(out, rec.Entry.Events...)
		if slices.Contains(rec.Entry.Kinds(), k) {
			return out
		}
	}
	h.t.Errorf("%s has no %s: %v", s, k, context.Cause(ctx))
	return nil
}

// decided reads the decision.
func (h *history) decided(ctx context.Context, p *cell.Process, s content.SessionID, reader int) {
	var all []verdict
	for _, ev := range h.until(ctx, p, s, events.KindTurnFinished) {
		if r, ok := ev.(events.ApprovalResolved); ok {
			all = append(all, verdict{r.By, r.Outcome == events.Approved})
		}
	}
	if len(all) != 1 {
		h.t.Errorf("%s: decisions = %v, want one", s, all)
		return
	}
	h.record(reader, string(s), verdict{}, func() (any, outcome) { return all[0], done })
}

func (h *history) votes(ctx context.Context, s *asked, i int, p *client.Client) {
	defer s.voting.Done()
	joined, err := p.Attach(ctx, s.id)
	if err != nil {
		h.t.Errorf("%s: %v", s.id, err)
		return
	}
	defer func() { _ = joined.Close(ctx) }()
	v := verdict{fmt.Sprint("p", i), i%2 == 0}
	h.record(i, string(s.id), v, func() (any, outcome) {
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
