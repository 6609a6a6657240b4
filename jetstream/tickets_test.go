package jetstream

import (
	"strings"
	"testing"

	"github.com/turnlog/turnlog/commands"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/jetstream/internal/layout"
	"github.com/turnlog/turnlog/worker/task"
)

func TestAllDriversIssueTheSameTickets(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, c *Cell) {
		made := make(chan *Tickets, 8)
		for range cap(made) {
			go func() {
				tickets, err := c.Tickets(t.Context())
				if err != nil {
					t.Error(err)
				}
				made <- tickets
			}()
		}
		first := <-made
		ticket := first.Of("s", "t1-r1-c1", 1)
		for range cap(made) - 1 {
			if got := (<-made).Of("s", "t1-r1-c1", 1); got != ticket {
				t.Errorf("ticket %s, want %s", got, ticket)
			}
		}
		if !first.Fits(ticket, "s", "t1-r1-c1", 1) {
			t.Error("the ticket does not fit its dispatch")
		}
		for _, wrong := range []struct {
			s       content.SessionID
			p       content.Place
			attempt int
		}{{"t", "t1-r1-c1", 1}, {"s", "t1-r1-c2", 1}, {"s", "t1-r1-c1", 2}, {"s", "t1-r1-c1", 11}} {
			if first.Fits(ticket, wrong.s, wrong.p, wrong.attempt) {
				t.Errorf("the ticket fits %+v", wrong)
			}
		}
		if first.Fits("", "s", "t1-r1-c1", 1) {
			t.Error("no ticket fits")
		}
	})
}

func TestDeletedTicketKeyIsCreatedAgain(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, c *Cell) {
		before, err := c.Tickets(t.Context())
		must(t, err)
		must(t, byteBucket(c, "key of tickets", c.names.Nodes(), 2).delete(t.Context(), layout.TicketsKey))
		after, err := c.Tickets(t.Context())
		must(t, err)
		if before.Of("s", "t1-r1-c1", 1) == after.Of("s", "t1-r1-c1", 1) {
			t.Error("the key is the one that was taken away")
		}
		putRaw(t, c, c.names.Nodes().Key(layout.TicketsKey), []byte("short"))
		if _, err := c.Tickets(t.Context()); err == nil || !strings.Contains(err.Error(), "key of tickets") {
			t.Errorf("Tickets = %v, want an error", err)
		}
	})
}

// TestTicketIsAHeaderOfItsTask checks that the ticket is not in the body, which may be a blob that
// every worker may read.
func TestTicketIsAHeaderOfItsTask(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, c *Cell) {
		ctx := t.Context()
		createQueue(t, c, queueOf{name: "tools"})
		q, err := c.Queue(ctx, "tools")
		must(t, err)
		big := []byte(`"` + strings.Repeat("x", maxInline) + `"`)
		for i, input := range [][]byte{[]byte(`{}`), big} {
			x := task.Task{Session: "s", Place: content.PlaceOf(1, 1, i+1), Attempt: 1, Queue: "tools", Input: input, Ticket: "secret-ticket"}
			must(t, c.Tasks().Dispatch(ctx, x))
			if data, err := encodeValue(&x); err != nil || strings.Contains(string(data), x.Ticket) {
				t.Errorf("the ticket is in the body: %v", err)
			}
			claim, err := q.Claim(ctx)
			must(t, err)
			if got := claim.Task().Ticket; got != x.Ticket {
				t.Errorf("the task has ticket %q", got)
			}
			r := task.Report{Session: "s", Place: x.Place, Attempt: 1, Queue: "tools"}
			r.Outcome.Result = content.NewResult("c", "x", content.StatusOK, string(input))
			must(t, claim.Report(ctx, r))
			must(t, claim.Done(ctx))
		}
		heard := read(t, c, "s")
		for _, m := range heard {
			if _, ok := m.Envelope.Command.(commands.ReportResult); !ok || m.Ticket != "secret-ticket" {
				t.Errorf("%T has ticket %q: %v", m.Envelope.Command, m.Ticket, m.Err)
			}
		}
		if len(heard) != 2 {
			t.Errorf("%d reports", len(heard))
		}
	})
}
