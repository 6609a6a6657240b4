package doctor

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/turnlog/turnlog/audit/render"
	"github.com/turnlog/turnlog/content"
)

// clusterView is which nodes exist and which sessions they hold.
type clusterView struct {
	living []string
	held   map[content.SessionID]string   // by nodes that answer
	dead   map[string][]content.SessionID // by other nodes
}

// nodes asks all recorded nodes whether they are alive.
func (d *doctor) nodes(ctx context.Context) (clusterView, error) {
	nodes := d.cell.Nodes()
	w := clusterView{held: make(map[content.SessionID]string), dead: make(map[string][]content.SessionID)}
	records, err := nodes.List(ctx)
	if err != nil {
		return w, err
	}
	alive := make([]bool, len(records))
	var group errgroup.Group
	group.SetLimit(parallel)
	for i, r := range records {
		group.Go(func() error {
			alive[i] = nodes.Answers(ctx, r.Node)
			return nil
		})
	}
	_ = group.Wait() // never fails
	for i, r := range records {
		if alive[i] {
			w.living = append(w.living, r.Node)
		}
		for _, h := range r.Held {
			if alive[i] {
				w.held[h.Session] = r.Node
			} else {
				w.dead[r.Node] = append(w.dead[r.Node], h.Session)
			}
		}
	}
	return w, nil
}

func (d *doctor) noNodes(waiting []content.SessionID) {
	f := finding{Check: "no-nodes", What: "no node answers", Do: "driver-node" + d.namespaceFlag(), Sessions: waiting}
	if len(waiting) > 0 {
		f.Severity, f.Why = severityError, render.Plural(len(waiting), "session has", "sessions have")+" work to do, and no node does it"
	}
	d.found(f)
}

func (d *doctor) deadNodes(w clusterView) {
	for _, node := range slices.Sorted(maps.Keys(w.dead)) {
		f := finding{
			Check: "node-dead", Object: node, Sessions: w.dead[node], Do: "run the doctor again in 15 s; find out why that node stopped",
			What: fmt.Sprintf("node %s holds the tokens of %s and does not answer", node, render.Plural(len(w.dead[node]), "session", "sessions")),
		}
		if len(w.living) == 0 {
			f.Severity, f.Why, f.Do = severityError, "its sessions make no progress, and there is no other node", "driver-node"+d.namespaceFlag()
		}
		d.found(f)
	}
}

// nodeClocks compares the clocks of nodes with the server's.
func (d *doctor) nodeClocks(ctx context.Context) {
	clocks, err := d.admin.Clocks(ctx)
	d.blind("clocks of nodes", err)
	for _, node := range slices.Sorted(maps.Keys(clocks)) {
		if clocks[node].Abs() > maxSkew {
			d.found(finding{
				Check: "clock-skew", Object: node, Do: "run a time service (chrony, systemd-timesyncd) on the machine of node " + node,
				What: fmt.Sprintf("the clock of node %s is %s the server's, or its record took that long to arrive", node, aheadOf(clocks[node])),
			})
		}
	}
}
