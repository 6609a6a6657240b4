package admin

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/jetstream"
	"github.com/turnlog/turnlog/tool"
	"github.com/turnlog/turnlog/worker/task"
)

func TestTheBacklogCountsWhatIsToDo(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, c *Cell) {
		ctx := t.Context()
		must(t, c.EnsureQueue(ctx, QueueConfig{Name: "office"}))
		must(t, c.EnsureQueue(ctx, QueueConfig{Name: "idle"}))
		for i := range 5 {
			s := content.SessionID(fmt.Sprintf("s%d", i))
			must(t, c.cell.Tasks().Dispatch(ctx, task.Task{Session: s, Turn: "turn-1", Call: "c1", Place: "t1-r1-c1", Attempt: 1, Queue: "office", Tool: "x"}))
			<-time.After(time.Minute)
		}
		queue, err := c.cell.Queue(ctx, "office")
		must(t, err)
		for range 2 {
			_, err := queue.Claim(ctx)
			must(t, err)
		}
		must(t, c.cell.Offers("w1", "office").Advertise(ctx, task.Offer{Tools: []tool.Spec{{Name: "x"}}, Slots: 3, Running: 4}))
		for n, took := range []time.Duration{2 * time.Millisecond, 6 * time.Millisecond} {
			must(t, c.cell.Nodes().Record(ctx, jetstream.NodeRecord{Node: fmt.Sprint("n", n), Appends: jetstream.Appends{Count: 1 + 2*n, Mean: took, Slowest: 2 * took}}))
		}
		must(t, c.cell.Runs().Wake(ctx, "s1"))
		for i, s := range []content.SessionID{"s1", "s2"} {
			_, err := c.cell.Approvals().Note(ctx, s)
			must(t, err)
			if i == 0 {
				_, err = c.cell.DeadLetters().Note(ctx, s)
				must(t, err)
				<-time.After(5 * time.Second)
			}
		}
		b, err := c.Backlog(ctx)
		must(t, err)
		want := Backlog{
			At: b.At, Nodes: 2, Appends: jetstream.Appends{Count: 4, Mean: 5 * time.Millisecond, Slowest: 12 * time.Millisecond},
			Queues: []QueueBacklog{
				{Queue: "idle"},
				{Queue: "office", Waiting: 3, Running: 4, Oldest: 3*time.Minute + 5*time.Second, Workers: 1, Wanted: 3},
			},
			Sessions: SessionCounts{Waiting: 1}, Approvals: Listed{2, 5 * time.Second}, DeadLetters: Listed{1, 5 * time.Second},
		}
		for i := range b.Queues {
			b.Queues[i].Oldest = b.Queues[i].Oldest.Round(time.Second)
		}
		b.Approvals.Oldest, b.DeadLetters.Oldest = b.Approvals.Oldest.Round(time.Second), b.DeadLetters.Oldest.Round(time.Second)
		if diff := cmp.Diff(want, b); diff != "" {
			t.Errorf("backlog (-want +got):\n%s", diff)
		}
	})
}

func TestWantedWorkersFollowFromTheSlotsOfThoseThatAreThere(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		q     QueueBacklog
		slots int
		want  int
	}{
		{QueueBacklog{}, 0, 0},
		{QueueBacklog{Waiting: 50}, 0, 1},
		{QueueBacklog{Workers: 2}, 16, 0},
		{QueueBacklog{Workers: 2, Running: 8}, 16, 1},
		{QueueBacklog{Workers: 2, Running: 16, Waiting: 40}, 16, 7},
		{QueueBacklog{Workers: 2, Waiting: 3}, 0, 3}, // how many slots they have is unknown
	} {
		if got := wanted(c.q, c.slots); got != c.want {
			t.Errorf("wanted(%+v, %d slots) = %d, want %d", c.q, c.slots, got, c.want)
		}
	}
}
