package doctor

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/turnlog/turnlog/audit/render"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/jetstream"
	"github.com/turnlog/turnlog/jetstream/admin"
	"github.com/turnlog/turnlog/worker/task"
)

// queueView is what the deployment shows about a queue.
type queueView struct {
	name     string
	consumer *admin.ConsumerState // nil: none
	calls    map[content.SessionID]int
	workers  []jetstream.Offer
}

// queues looks for calls without workers and workers without calls.
func (d *doctor) queues(ctx context.Context, consumers []admin.ConsumerState, work admin.Work) {
	offers, err := d.cell.Catalog().List(ctx)
	if err != nil {
		d.notExamined("workers", err)
		return
	}
	offers = slices.DeleteFunc(offers, func(o jetstream.Offer) bool {
		own := o.Queue == task.LocalQueue
		if own {
			d.nodeTools[o.Worker] = o.Tools
		}
		return own
	})
	d.offers = offers
	d.report.Examined.Workers = new(len(offers))
	all := make(map[string]*queueView)
	view := func(name string) *queueView {
		if all[name] == nil {
			all[name] = &queueView{name: name, calls: work.Calls[name]}
		}
		return all[name]
	}
	for i, c := range consumers {
		if c.Queue != "" {
			view(c.Queue).consumer = &consumers[i]
		}
	}
	for q := range work.Calls {
		view(q)
	}
	for _, o := range offers {
		v := view(o.Queue)
		v.workers = append(v.workers, o)
	}
	d.report.Examined.Queues = new(len(all))
	for _, name := range slices.Sorted(maps.Keys(all)) {
		d.queue(*all[name])
		d.toolless(*all[name])
	}
}

// queue looks for calls that no worker runs.
func (d *doctor) queue(q queueView) {
	calls := 0
	for _, n := range q.calls {
		calls += n
	}
	waiting := render.Plural(calls, "call is", "calls are")
	sessions := slices.Sorted(maps.Keys(q.calls))
	switch c := q.consumer; {
	case calls > 0 && c == nil:
		d.found("queue-missing", q.name, "%s on queue %s, which has no consumer", waiting, q.name).among(sessions...)
	case calls > 0 && len(q.workers) == 0 && c.Pulls == 0:
		d.found("queue-unattended", q.name, "%s on queue %s, and no worker pulls from it", waiting, q.name).among(sessions...)
	case c != nil && c.MaxHeld > 0 && c.Held >= c.MaxHeld && c.Waiting > 0:
		d.found("queue-full", q.name, "queue %s runs %s, its limit, and %d more wait", q.name, render.Plural(c.Held, "call", "calls"), c.Waiting).
			do(fmt.Sprintf("nats consumer edit %s %s --max-pending %d --force", c.Stream, c.Name, 2*c.MaxHeld))
	}
}

// toolless looks for workers that pull calls but advertise no tools.
func (d *doctor) toolless(q queueView) {
	if len(q.workers) == 0 && q.consumer != nil && q.consumer.Pulls > 0 {
		d.found("worker-toolless", q.name, "workers pull calls from queue %s, and none advertises tools", q.name).
			do("look into the worker's log: it may lack the permission to write the catalog, or it has just started")
	}
	for _, w := range q.workers {
		if len(w.Tools) == 0 {
			d.found("worker-toolless", w.Worker, "worker %s of queue %s advertises no tools", w.Worker, q.name).
				do("unless it is about to stop, give it tools: tool-worker --queue " + q.name + " --tools fs,shell")
		}
	}
}
