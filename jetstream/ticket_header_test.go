package jetstream

import (
	"strings"
	"testing"

	"github.com/turnlog/turnlog/commands"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/worker/task"
)

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
