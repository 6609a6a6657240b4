package jetstream_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/events/journal"
	"github.com/turnlog/turnlog/internal/testing/natstest"
	"github.com/turnlog/turnlog/jetstream"
	"github.com/turnlog/turnlog/jetstream/admin"
	"github.com/turnlog/turnlog/jetstream/internal/layout"
	"github.com/turnlog/turnlog/jetstream/tombstones"
)

// TestANodeThatDoesNotAnswerIsReplaced has a keeper ask a node that is gone, which the server has not noticed: before
// it wrote the tombstone, and before it answered. The keeper asks again, and so another node.
func TestANodeThatDoesNotAnswerIsReplaced(t *testing.T) {
	t.Parallel()
	for name, wrote := range map[string]bool{"before the tombstone": false, "before the answer": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				srv := natstest.Start(t)
				open := func(options ...nats.Option) *jetstream.Cell {
					c, err := jetstream.Open(natstest.Connect(t, srv, options...), "")
					natstest.Must(t, err)
					return c
				}
				node, keeper := open(), open(nats.CustomInboxPrefix("_USER_kim"))
				natstest.Must(t, admin.Of(node).Provision(t.Context(), admin.Config{Memory: true}))
				e := events.Entry{Session: "s", Cause: "c", Epoch: 1, Events: []events.Event{events.Parked{}}}
				_, err := node.Journal().Append(t.Context(), journal.Head{}, e)
				natstest.Must(t, err)
				names := layout.New(node.Namespace())
				_, err = node.Conn().QueueSubscribe(names.Deletion(layout.AllSessions, "*"), "nodes", func(m *nats.Msg) {
					_ = m.Sub.Unsubscribe()
					if wrote {
						last, err := node.Journal().Last(t.Context(), "s")
						natstest.Must(t, err)
						_, err = tombstones.Write(t.Context(), node, last, events.SessionDeleted{User: "kim", Reason: "why"})
						natstest.Must(t, err)
					}
					natstest.Must(t, tombstones.Serve(t.Context(), node))
				})
				natstest.Must(t, err)
				natstest.Must(t, node.Conn().FlushWithContext(natstest.Within(t, time.Minute)))

				last, err := keeper.Journal().Last(t.Context(), "s")
				natstest.Must(t, err)
				done, err := tombstones.Write(t.Context(), keeper, last, events.SessionDeleted{Reason: "why"})
				if err != nil || done.User != "kim" || done.Reason != "why" {
					t.Errorf("%+v, %v", done, err)
				}
				entries, err := natstest.Collect(node.Journal().Read(t.Context(), content.SessionID("s"), 0))
				if err != nil || len(entries) != 2 {
					t.Errorf("%d entries, %v", len(entries), err)
				}
			})
		})
	}
}
