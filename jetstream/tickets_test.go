package jetstream_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/nats-io/nats.go"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/internal/testing/natstest"
	"github.com/turnlog/turnlog/jetstream"
	"github.com/turnlog/turnlog/jetstream/admin"
	"github.com/turnlog/turnlog/jetstream/internal/api"
	"github.com/turnlog/turnlog/jetstream/internal/layout"
	"github.com/turnlog/turnlog/jetstream/tickets"
	"github.com/turnlog/turnlog/worker/task"
)

// withKey runs a test with a cell that has a key of tickets.
func withKey(t *testing.T, test func(t *testing.T, c *jetstream.Cell)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		c, err := jetstream.Open(natstest.Connect(t, natstest.Start(t)), "")
		natstest.Must(t, err)
		natstest.Must(t, admin.Of(c).Provision(t.Context(), admin.Config{Memory: true}))
		test(t, c)
	})
}

func TestAllDriversIssueTheSameTickets(t *testing.T) {
	t.Parallel()
	withKey(t, func(t *testing.T, c *jetstream.Cell) {
		made := make(chan *task.Tickets, 8)
		for range cap(made) {
			go func() {
				same, err := tickets.Of(t.Context(), c)
				if err != nil {
					t.Error(err)
				}
				made <- same
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
	withKey(t, func(t *testing.T, c *jetstream.Cell) {
		conn, names := api.New(c.Conn()), layout.New(c.Namespace())
		before, err := tickets.Of(t.Context(), c)
		natstest.Must(t, err)
		natstest.Must(t, tickets.CreateKey(t.Context(), c))
		for name, header := range map[string]string{"": "", "Nats-Rollup": "all", "Nats-TTL": "1s"} {
			msg := nats.NewMsg(names.TicketKey())
			msg.Data = validKey()
			if name != "" {
				msg.Header.Set(name, header)
			}
			if _, err := conn.Publish(t.Context(), msg); err == nil {
				t.Errorf("a second key is stored, with header %q", name)
			}
		}
		if err := conn.Purge(t.Context(), names.KeysStream(), ">", 0); err == nil {
			t.Error("the key was purged")
		}
		if _, err := conn.Ask(t.Context(), api.MsgDelete+names.KeysStream(), []byte(`{"seq":1}`)); err == nil {
			t.Error("the key was deleted")
		}
		after, err := tickets.Of(t.Context(), c)
		natstest.Must(t, err)
		if before.Of("s", "t1-r1-c1", 1) != after.Of("s", "t1-r1-c1", 1) {
			t.Error("the key has changed")
		}
	})
}

// validKey returns another key in the format of a stored one.
func validKey() []byte { return append([]byte{1}, natstest.Noise(32, 1)...) }

func TestTicketsNeedAValidKey(t *testing.T) {
	t.Parallel()
	key := validKey()
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
			synctest.Test(t, func(t *testing.T) {
				c, err := jetstream.Open(natstest.Connect(t, natstest.Start(t)), "")
				natstest.Must(t, err)
				conn, names := api.New(c.Conn()), layout.New(c.Namespace())
				_, err = conn.Ask(t.Context(), "$JS.API.STREAM.CREATE."+names.KeysStream(), fmt.Appendf(nil, `{"name":%q,"subjects":[%q],"storage":"memory"}`, names.KeysStream(), names.TicketKey()))
				natstest.Must(t, err)
				if tt.stored != nil {
					tt.stored.Subject = names.TicketKey()
					_, err := conn.Publish(t.Context(), tt.stored)
					natstest.Must(t, err)
				}
				if _, err := tickets.Of(t.Context(), c); err == nil || !strings.Contains(err.Error(), tt.says) {
					t.Errorf("Tickets = %v, want %q", err, tt.says)
				}
			})
		})
	}
}
