package jetstream

import (
	"context"
	"errors"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/turnlog/turnlog/commands"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/events/journal"
	"github.com/turnlog/turnlog/jetstream/internal/api"
	"github.com/turnlog/turnlog/jetstream/internal/held"
	"github.com/turnlog/turnlog/jetstream/internal/layout"
	"github.com/turnlog/turnlog/worker/task"
)

func TestServerHeadersOverrideThoseOfTheSender(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCell(t)
		l := listen(t, c, "s1")
		data, err := submit("s1", "a1", "hello").Encode()
		must(t, err)
		msg := &nats.Msg{Subject: c.names.Cmd("s1", events.LaneAsk), Data: data, Header: nats.Header{
			"Nats-Sequence": {"4000000000"}, "Nats-Last-Sequence": {"3999999999"}, "Nats-Time-Stamp": {"1999-01-01T00:00:00Z"},
		}}
		seq, err := c.api.Publish(t.Context(), msg)
		must(t, err)
		if m := hear(t, l); m.Seq != seq || m.Last != 0 {
			t.Errorf("heard %d after %d, want %d after 0", m.Seq, m.Last, seq)
		}
	})
}

// spoof lets the server send a message with this content to a subject, like a user who may store a
// message and read it.
func spoof(t *testing.T, c *Cell, subject string, data []byte) {
	t.Helper()
	seq, err := c.api.Publish(t.Context(), &nats.Msg{Subject: c.names.BlobChunks("bait"), Data: data})
	must(t, err)
	query := []byte(`{"seq":` + strconv.FormatUint(seq, 10) + `}`)
	must(t, c.nc.PublishRequest(api.DirectGet+c.names.BlobStream(), subject, query))
	must(t, c.nc.FlushWithContext(within(t, time.Minute)))
	synctest.Wait()
}

func TestSpoofedMessagesOnALaneAreNotCommands(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCell(t)
		l := listen(t, c, "s1")
		data, err := decision("s1", "d1").Encode()
		must(t, err)
		spoof(t, c, c.names.Cmd("s1", events.LaneDecide), data)
		if m := hear(t, l); !errors.Is(m.Err, commands.ErrBadCommand) {
			t.Errorf("received %+v", m)
		}
		if all := read(t, c, "s1"); len(all) != 1 || !errors.Is(all[0].Err, commands.ErrBadCommand) {
			t.Errorf("read %+v", all)
		}
	})
}

func TestSpoofedMessagesAreRejectedEverywhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCell(t, queueOf{name: "q"})
		ctx := t.Context()
		_, payload, _, err := journal.Link(journal.Head{}, events.Entry{Session: "s1", Cause: "x", Events: []events.Event{events.Parked{}}})
		must(t, err)
		spoof(t, c, c.names.Journal("s1"), payload)
		if _, err := c.Journal().Last(ctx, "s1"); !errors.Is(err, journal.ErrDamaged) {
			t.Errorf("last entry: %v", err)
		}
		for _, err := range c.Journal().Read(ctx, "s1", 0) {
			if !errors.Is(err, journal.ErrDamaged) {
				t.Errorf("entry: %v", err)
			}
		}

		snap, err := encodeValue(journal.Snapshot{Head: journal.Head{Seq: 1}})
		must(t, err)
		spoof(t, c, c.names.Snapshots().Key("s1"), snap)
		if s, ok, err := c.Snapshots().Get(ctx, "s1"); ok || err == nil {
			t.Errorf("snapshot %+v, %t, %v", s, ok, err)
		}
		o, err := encodeValue(&Offer{Worker: "w", Queue: "q"})
		must(t, err)
		spoof(t, c, c.names.Catalog().Key(layout.OfferKeys+"w"), o)
		if all, err := c.Catalog().List(ctx); err != nil || len(all) > 0 {
			t.Errorf("offers %+v, %v", all, err)
		}
		r, err := encodeValue(&held.Record{Node: "n"})
		must(t, err)
		spoof(t, c, c.names.Nodes().Key("n"), r)
		if all := nodes(t, c); len(all) > 0 {
			t.Errorf("nodes %+v", all)
		}
	})
}

func TestSpoofedTasksAreNotClaimed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCell(t, queueOf{name: "q"})
		x := task.Task{Session: "s1", Queue: "q", Place: "t1-r1-c1", Call: "call_1_1", Attempt: 1, Tool: "rm"}
		data, err := encodeValue(&x)
		must(t, err)
		q, err := c.Queue(t.Context(), "q")
		must(t, err)
		spoof(t, c, c.names.Task("q", "s1", "t1-r1-c1"), data)
		if got, err := q.Claim(within(t, time.Minute)); !errors.Is(err, api.ErrSpoofed) {
			t.Errorf("claimed %v, %v", got, err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
		defer cancel()
		if got, err := q.Claim(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("claimed %v, %v", got, err)
		}
		must(t, c.Tasks().Dispatch(t.Context(), task.Task{Session: "s1", Queue: "q", Place: "t1-r1-c1", Call: content.CallID("call_1_1"), Attempt: 1}))
	})
}
