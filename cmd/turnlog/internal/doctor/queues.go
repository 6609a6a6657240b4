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
)

// queueView is what the deployment shows of a queue.
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
		d.blind("workers", err)
		return
	}
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

func (d *doctor) queue(q queueView) {
	calls := 0
	for _, n := range q.calls {
		calls += n
	}
	f := finding{Object: q.name, Sessions: slices.Sorted(maps.Keys(q.calls)), Do: "tool-worker --queue " + q.name + d.namespaceFlag()}
	waiting := fmt.Sprintf("%s on queue %s, ", render.Plural(calls, "call is", "calls are"), q.name)
	switch c := q.consumer; {
	case calls > 0 && c == nil:
		f.Check, f.What = "queue-missing", waiting+"which has no consumer"
	case calls > 0 && len(q.workers) == 0 && c.Pulls == 0:
		f.Check, f.What = "queue-unattended", waiting+"and no worker pulls from it"
	case c != nil && c.MaxHeld > 0 && c.Held >= c.MaxHeld && c.Waiting > 0:
		f.Check, f.Sessions = "queue-full", nil
		f.What = fmt.Sprintf("queue %s runs %s, its limit, and %d more wait", q.name, render.Plural(c.Held, "call", "calls"), c.Waiting)
		f.Do = fmt.Sprintf("nats consumer edit %s %s --max-pending %d --force", c.Stream, c.Name, 2*c.MaxHeld)
	default:
		return
	}
	d.found(f)
}

// toolless looks for workers that pull calls but advertise no tools.
func (d *doctor) toolless(q queueView) {
	if len(q.workers) == 0 && q.consumer != nil && q.consumer.Pulls > 0 {
		d.found(finding{
			Check: "worker-toolless", Object: q.name, What: fmt.Sprintf("workers pull calls from queue %s, and none advertises tools", q.name),
			Do: "look into the worker's log: it may lack the permission to write the catalog, or it has just started",
		})
	}
	for _, w := range q.workers {
		if len(w.Tools) == 0 {
			d.found(finding{
				Check: "worker-toolless", Object: w.Worker, What: fmt.Sprintf("worker %s of queue %s advertises no tools", w.Worker, q.name),
				Do: "give it tools: tool-worker --queue " + q.name + " --tools fs,shell",
			})
		}
	}
}
