package jetstream

import (
	"strings"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/turnlog/turnlog/commands"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/jetstream/internal/api"
	"github.com/turnlog/turnlog/worker/task"
)

func TestAllDriversIssueTheSameTickets(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, c *Cell) {
		made := make(chan *task.Tickets, 8)
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

func TestTheFirstTicketKeyStays(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, c *Cell) {
		before, err := c.Tickets(t.Context())
		must(t, err)
		must(t, c.CreateTicketKey(t.Context()))
		for name, header := range map[string]string{"": "", "Nats-Rollup": "all", "Nats-TTL": "1s"} {
			msg := nats.NewMsg(c.names.TicketKey())
			msg.Data = append([]byte{keyFormat}, noise(ticketKeySize, 1)...)
			if name != "" {
				msg.Header.Set(name, header)
			}
			if _, err := c.api.Publish(t.Context(), msg); err == nil {
				t.Errorf("a second key is stored, with header %q", name)
			}
		}
		if err := c.api.Purge(t.Context(), c.names.KeysStream(), ">", 0); err == nil {
			t.Error("the key was purged")
		}
		if _, err := c.api.Ask(t.Context(), api.MsgDelete+c.names.KeysStream(), []byte(`{"seq":1}`)); err == nil {
			t.Error("the key was deleted")
		}
		after, err := c.Tickets(t.Context())
		must(t, err)
		if before.Of("s", "t1-r1-c1", 1) != after.Of("s", "t1-r1-c1", 1) {
			t.Error("the key has changed")
		}
	})
}

func TestTicketsNeedAValidKey(t *testing.T) {
	t.Parallel()
	key := append([]byte{keyFormat}, noise(ticketKeySize, 1)...)
	for name, tt := range map[string]struct {
		stored *nats.Msg
		says   string
	}{
		"none":          {nil, "not provisioned"},
		"too short":     {&nats.Msg{Data: key[1:]}, "delete the stream TURNLOG_KEYS"},
		"a reply":       {&nats.Msg{Data: []byte(`{"stream":"INBOX", "seq":1234567}`)}, "delete the stream TURNLOG_KEYS"},
		"a direct read": {&nats.Msg{Data: key, Header: nats.Header{"Nats-Stream": {"S"}}}, "delete the stream TURNLOG_KEYS"},
	} {
		t.Run(name, func(t *testing.T) {
			inBareBubble(t, func(t *testing.T, c *Cell) {
				for _, s := range c.names.Streams() {
					if s.Name == "KEYS" {
						_, err := jsOf(t, c).CreateStream(t.Context(), s.Config)
						must(t, err)
					}
				}
				if tt.stored != nil {
					tt.stored.Subject = c.names.TicketKey()
					_, err := c.api.Publish(t.Context(), tt.stored)
					must(t, err)
				}
				if _, err := c.Tickets(t.Context()); err == nil || !strings.Contains(err.Error(), tt.says) {
					t.Errorf("Tickets = %v, want %q", err, tt.says)
				}
			})
		})
	}
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
