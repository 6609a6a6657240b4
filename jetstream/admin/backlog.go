package admin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/turnlog/turnlog/jetstream"
	"github.com/turnlog/turnlog/jetstream/internal/api"
	"github.com/turnlog/turnlog/jetstream/internal/bucket"
	"github.com/turnlog/turnlog/jetstream/internal/layout"
	"github.com/turnlog/turnlog/jetstream/trials"
	"github.com/turnlog/turnlog/worker/task"
)

// Backlog is the work that a cell has to do. It is read from the streams' indexes, so its cost does not
// depend on the content of sessions.
type Backlog struct {
	At       time.Time
	Queues   []QueueBacklog // sorted by name
	Sessions SessionCounts
	Nodes    int               // nodes that have a record
	Appends  jetstream.Appends // entries appended by all nodes, in the seconds before their last records

	Approvals, DeadLetters Listed

	Position uint64 // of the last entry in the cell's journal
}

// QueueBacklog is the work that a queue's workers have to do.
type QueueBacklog struct {
	Queue   string
	Waiting int           // calls that no worker has taken yet
	Running int           // calls that a worker has
	Oldest  time.Duration // how long the oldest call has waited; zero: none waits
	Workers int           // workers that offer tools
	Wanted  int           // workers needed to run all calls, with as many slots as the current ones have
}

// QueueReport is a QueueBacklog as JSON.
type QueueReport struct {
	Queue   string  `json:"queue"`
	Waiting int     `json:"waiting" doc:"calls that no worker got yet"`
	Running int     `json:"running"`
	Oldest  float64 `json:"oldest_wait_seconds" doc:"how long the oldest call waits"`
	Workers int     `json:"workers"`
	Wanted  int     `json:"wanted_workers" doc:"that could run all calls"`
}

// QueueReports returns the queues for a report.
func (b Backlog) QueueReports() []QueueReport {
	reports := []QueueReport{}
	for _, q := range b.Queues {
		reports = append(reports, QueueReport{q.Queue, q.Waiting, q.Running, q.Oldest.Seconds(), q.Workers, q.Wanted})
	}
	return reports
}

// SessionCounts counts sessions by state. Each session is counted once.
type SessionCounts struct {
	Driven  int `json:"driven" doc:"a node drives them"`
	Waiting int `json:"waiting" doc:"they have a run token that no node has taken"`
	Aside   int `json:"aside" doc:"no node drives them, because they broke two"`
	Parked  int `json:"parked" doc:"nothing is to be done; also deleted ones, of which the tombstone is left"`
}

// Listed says how many sessions wait for a person's decision.
type Listed struct {
	Sessions int
	Oldest   time.Duration // how long the first of them has been on the list
}

// Backlog reads the cell's backlog. It needs the permissions of a doctor.
func (c *Cell) Backlog(ctx context.Context) (b Backlog, err error) {
	b.At = time.Now()
	consumers := c.InspectConsumers(ctx)
	if b.Queues, err = c.queueBacklogs(ctx, consumers, b.At); err != nil {
		return b, fmt.Errorf("backlog: queues: %w", err)
	}
	if err := c.countSessions(ctx, consumers, &b); err != nil {
		return b, fmt.Errorf("backlog: sessions: %w", err)
	}
	for _, l := range []struct {
		into *Listed
		of   layout.Bucket
	}{{&b.Approvals, c.names.Approvals()}, {&b.DeadLetters, c.names.Dead()}} {
		if *l.into, err = c.listed(ctx, l.of, b.At); err != nil {
			return b, fmt.Errorf("backlog: lists: %w", err)
		}
	}
	return b, nil
}

func (c *Cell) queueBacklogs(ctx context.Context, consumers []ConsumerState, now time.Time) (out []QueueBacklog, err error) {
	offers, err := c.cell.Catalog().List(ctx)
	if err != nil {
		return nil, fmt.Errorf("workers: %w", err)
	}
	for _, s := range consumers {
		if s.Queue == "" {
			continue
		}
		if s.Err != nil {
			return nil, fmt.Errorf("queue %s: %w", s.Queue, s.Err)
		}
		q := QueueBacklog{Queue: s.Queue, Waiting: int(s.Waiting), Running: s.Held}
		running, slots := 0, 0
		for _, o := range offers {
			if o.Queue == s.Queue && o.Queue != task.LocalQueue {
				running += o.Running
				if len(o.Tools) > 0 { // otherwise it drains
					q.Workers, slots = q.Workers+1, slots+o.Slots
				}
			}
		}
		q.Running = max(q.Running, running) // the queue does not know of direct calls
		// Workers of releases before direct calls pull with each free slot, and do not say how many slots they have.
		q.Wanted = wanted(q, max(slots, s.Pulls+s.Held))
		if s.Waiting > 0 {
			m, err := c.api.Next(ctx, c.names.TasksStream(), c.names.Task(s.Queue, layout.AllSessions, "*"), s.Delivered+1)
			switch {
			case err == nil:
				q.Oldest = max(now.Sub(m.Time), 0)
			case !errors.Is(err, api.ErrNoMessage): // a worker has just taken it
				return nil, fmt.Errorf("queue %s: %w", s.Queue, err)
			}
		}
		out = append(out, q)
	}
	slices.SortFunc(out, func(a, b QueueBacklog) int { return strings.Compare(a.Queue, b.Queue) })
	return out, nil
}

// wanted returns how many workers could run all calls of a queue, whose workers have so many slots together.
func wanted(q QueueBacklog, slots int) int {
	calls := q.Waiting + q.Running
	if q.Workers == 0 {
		return min(calls, 1) // how many slots a worker has is unknown until one runs
	}
	each := max(slots/q.Workers, 1)
	return (calls + each - 1) / each
}

func (c *Cell) countSessions(ctx context.Context, consumers []ConsumerState, b *Backlog) error {
	end, err := c.api.End(ctx, c.names.JournalStream())
	if err != nil {
		return err
	}
	_, tokens, err := c.cell.Runs().Sessions(ctx)
	if err != nil {
		return err
	}
	aside, err := trials.Of(c.cell).Aside(ctx)
	if err != nil {
		return err
	}
	nodes, err := c.cell.Nodes().Heartbeats(ctx)
	if err != nil {
		return err
	}
	driven := 0
	for _, s := range consumers {
		if s.Queue == "" {
			driven = s.Held
		}
	}
	b.Position, b.Nodes = end.Last, len(nodes)
	for _, n := range nodes {
		b.Appends = b.Appends.And(n.Appends)
	}
	b.Sessions = SessionCounts{Driven: min(driven, len(tokens)), Aside: len(aside)}
	b.Sessions.Waiting = len(tokens) - b.Sessions.Driven
	b.Sessions.Parked = max(end.Subjects-len(tokens)-len(aside), 0)
	return nil
}

// listed counts the sessions on a list.
func (c *Cell) listed(ctx context.Context, name layout.Bucket, now time.Time) (l Listed, err error) {
	items, err := bucket.OfBytes(c.api, "note", name, 1).Scan(ctx)
	if err != nil {
		return l, err
	}
	l.Sessions = len(items)
	if l.Sessions > 0 {
		first := slices.MinFunc(items, func(a, b bucket.Item[[]byte]) int { return cmp.Or(a.At.Compare(b.At), strings.Compare(a.Key, b.Key)) })
		l.Oldest = max(now.Sub(first.At), 0)
	}
	return l, nil
}
