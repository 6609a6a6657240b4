package jetstream

import (
	"context"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/turnlog/turnlog/internal/testing/cluster"
	"github.com/turnlog/turnlog/internal/testing/natstest"
	"github.com/turnlog/turnlog/worker/task"
)

// TestNothingIsLostWhileLeadersChange moves the leaders of the inbox and of the consumers during a
// session's life, on three replicas. A delivery in flight may be lost and is repeated when its lease
// expires. Clusters use sockets, so the test runs in real time.
func TestNothingIsLostWhileLeadersChange(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
	defer cancel()
	servers, err := cluster.Start(ctx, "")
	must(t, err)
	t.Cleanup(servers.Close)
	var cells []*Cell
	for range 3 {
		nc, err := servers.Connect()
		must(t, err)
		cells = append(cells, openCell(t, nc))
	}
	driver, client, workers := cells[0], cells[1], cells[2]
	create(t, driver, jetstream.MemoryStorage, 3, queueOf{name: "tools", lease: 2 * time.Second})
	q, err := workers.Queue(ctx, "tools")
	must(t, err)

	n, runs := driver.names, driver.Runs()
	h := handler{cell: driver, inbox: driver.Inbox().Reader("s1", nil)}
	must(t, h.listen(ctx))
	defer func() { h.l.Close() }()
	stepDown(ctx, t, client, "CONSUMER.LEADER.STEPDOWN."+n.RunStream()+"."+n.RunConsumer(), "STREAM.LEADER.STEPDOWN."+n.InboxStream())
	sent := make(chan error, 1)
	go func() {
		_, err := client.Inbox().Send(ctx, submit("s1", "a1", ""))
		if err == nil {
			err = client.Runs().Wake(ctx, "s1")
		}
		sent <- err
	}()
	token, err := runs.Take(ctx)
	must(t, err)
	must(t, <-sent)
	handled := map[string]bool{"a1": true, "result/t1-r1-c1/1": true}
	must(t, h.until(ctx, "a1"))

	x := task.Task{Session: "s1", Place: "t1-r1-c1", Attempt: 1, Queue: "tools"}
	must(t, driver.Tasks().Dispatch(ctx, x))
	stepDown(ctx, t, client, "CONSUMER.LEADER.STEPDOWN."+n.TasksStream()+"."+n.QueueConsumer("tools"))
	c, err := q.Claim(ctx)
	must(t, err)
	must(t, c.Report(ctx, task.Report{Session: "s1", Place: x.Place, Attempt: x.Attempt, Queue: "tools"}))
	must(t, h.until(ctx, "result/t1-r1-c1/1"))
	must(t, c.Done(ctx))

	must(t, token.Done(ctx))
	must(t, token.WaitGone(ctx))
	for any := true; any; { // a new leader may store a repetition of what it has not seen, and a driver reads it
		left, err := natstest.Collect(h.inbox.Read(ctx, 0))
		must(t, err)
		for _, m := range left {
			must(t, h.take(ctx, &m))
			if !handled[m.Envelope.ID] {
				t.Errorf("%s was left", m.Envelope.ID)
			}
		}
		must(t, h.inbox.Purge(ctx, false))
		any, err = driver.Inbox().HasAny(ctx, "s1")
		must(t, err)
	}
}

// handler consumes commands like a driver: live ones that follow, all others from the inbox.
type handler struct {
	cell  *Cell
	l     *Listener
	inbox *Reader
}

func (h *handler) listen(ctx context.Context) (err error) {
	h.l, err = h.cell.Inbox().Listen(ctx, "s1")
	return err
}

// until handles commands until the one with this ID. Like a swept driver, it also reads the inbox
// from time to time.
func (h *handler) until(ctx context.Context, id string) error {
	for {
		wait, cancel := context.WithTimeout(ctx, 500*time.Millisecond)
		m, err := next(wait, h.l)
		cancel()
		batch := []Message{m}
		switch {
		case err == nil && h.inbox.Old(m):
			continue // heard and read
		case err != nil || !h.inbox.Follows(m):
			if batch, err = natstest.Collect(h.inbox.Read(ctx, 0)); err != nil {
				return err
			}
		}
		for _, m := range batch {
			if err := h.take(ctx, &m); err != nil {
				return err
			}
			if m.Envelope.ID == id {
				return nil
			}
		}
	}
}

func (h *handler) take(ctx context.Context, m *Message) error {
	if err := h.cell.Inbox().Open(ctx, m); err != nil {
		return err
	}
	h.inbox.Take(*m)
	return nil
}

// stepDown asks leaders to step down. A leader that is being elected ignores it, which is
// equivalent.
func stepDown(ctx context.Context, t *testing.T, c *Cell, requests ...string) {
	t.Helper()
	for _, r := range requests {
		must(t, c.nc.PublishRequest("$JS.API."+r, c.nc.NewInbox(), nil))
	}
	if ctx.Err() != nil {
		t.Fatal(context.Cause(ctx))
	}
}
