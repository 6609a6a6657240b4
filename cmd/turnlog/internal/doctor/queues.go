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
	tools    int
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
		v.workers, v.tools = append(v.workers, o), v.tools+len(o.Tools)
	}
	d.report.Examined.Queues = new(len(all))
	for _, name := range slices.Sorted(maps.Keys(all)) {
		d.queue(*all[name])
	}
}

func (d *doctor) queue(q queueView) {
	calls, sessions := 0, slices.Sorted(maps.Keys(q.calls))
	for _, n := range q.calls {
		calls += n
	}
	work := "tool-worker --queue " + q.name + d.namespaceFlag()
	switch {
	case calls > 0 && q.consumer == nil:
		d.found(finding{
			Severity: severityError, Check: "queue-missing", Object: q.name, Sessions: sessions,
			What: fmt.Sprintf("%s on queue %s, which has no consumer", render.Plural(calls, "call is", "calls are"), q.name),
			Why:  "their turns wait until a worker creates the queue, or until the calls expire", Do: work,
		})
	case calls > 0 && len(q.workers) == 0 && q.consumer.Pulls == 0:
		d.found(finding{
			Severity: severityError, Check: "queue-unattended", Object: q.name, Sessions: sessions,
			What: fmt.Sprintf("%s on queue %s, and no worker pulls from it", render.Plural(calls, "call is", "calls are"), q.name),
			Why:  "their turns wait until a worker starts, or until the calls expire", Do: work,
		})
	case q.consumer != nil && q.consumer.MaxHeld > 0 && q.consumer.Held >= q.consumer.MaxHeld && q.consumer.Waiting > 0:
		d.found(finding{
			Severity: severityWarning, Check: "queue-full", Object: q.name,
			What: fmt.Sprintf("queue %s runs %s, its limit, and %d more wait", q.name, render.Plural(q.consumer.Held, "call", "calls"), q.consumer.Waiting),
			Why:  "more workers do not help: the limit belongs to the queue",
			Do:   fmt.Sprintf("nats consumer edit %s %s --max-pending %d --force", q.consumer.Stream, q.consumer.Name, 2*q.consumer.MaxHeld),
		})
	}
	d.toolless(q)
}

// toolless looks for workers that pull calls but advertise no tools.
func (d *doctor) toolless(q queueView) {
	const why = "models are only offered tools that a worker advertises, so the worker has nothing to do"
	if len(q.workers) == 0 && q.consumer != nil && q.consumer.Pulls > 0 {
		d.found(finding{
			Severity: severityWarning, Check: "worker-toolless", Object: q.name,
			What: fmt.Sprintf("workers pull calls from queue %s, and none advertises tools", q.name), Why: why,
			Do: "look into the worker's log: it may lack the permission to write the catalog, or it has just started",
		})
	}
	for _, w := range q.workers {
		if len(w.Tools) == 0 {
			d.found(finding{
				Severity: severityWarning, Check: "worker-toolless", Object: w.Worker,
				What: fmt.Sprintf("worker %s of queue %s advertises no tools", w.Worker, q.name), Why: why,
				Do: "give it tools: tool-worker --queue " + q.name + " --tools fs,shell",
			})
		}
	}
}
