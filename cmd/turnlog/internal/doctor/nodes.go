package doctor

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/turnlog/turnlog/audit/render"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/jetstream/admin"
)

// clusterView is which nodes exist and which sessions they hold.
type clusterView struct {
	living   []string
	scripted []string                       // living nodes that run scripted models
	releases []string                       // releases of the living nodes, in the same order
	held     map[content.SessionID]string   // by nodes that answer
	dead     map[string][]content.SessionID // by other nodes
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
			w.living, w.releases = append(w.living, r.Node), append(w.releases, r.Release)
			if r.Scripted {
				w.scripted = append(w.scripted, r.Node)
			}
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

// compareReleases reports whether nodes and workers are of several releases.
func (d *doctor) compareReleases(w clusterView) {
	same := make(map[string][]string) // programs by their release
	add := func(release, program string) {
		release = cmp.Or(release, "unknown") // a release of 26 November 2026 or earlier
		same[release] = append(same[release], program)
	}
	for i, node := range w.living {
		add(w.releases[i], "node "+node)
	}
	for _, o := range d.offers {
		add(o.Release, "worker "+o.Worker)
	}
	if len(same) < 2 {
		return
	}
	var what []string
	for _, release := range slices.Sorted(maps.Keys(same)) {
		what = append(what, release+": "+strings.Join(same[release], ", "))
	}
	d.found("releases-differ", "", "programs of several releases run: %s", strings.Join(what, "; "))
}

// compareTools compares the tools that the nodes run themselves.
func (d *doctor) compareTools(living []string) {
	same := make(map[string][]string) // nodes by their tools
	for _, node := range living {
		var names []string
		for _, spec := range d.nodeTools[node] {
			names = append(names, spec.Name)
		}
		slices.Sort(names)
		tools := cmp.Or(strings.Join(names, ", "), "none")
		same[tools] = append(same[tools], node)
	}
	if len(same) < 2 {
		return
	}
	var what []string
	for _, tools := range slices.Sorted(maps.Keys(same)) {
		what = append(what, strings.Join(same[tools], ", ")+": "+tools)
	}
	d.found("node-tools-differ", "", "nodes have different tools of their own: %s", strings.Join(what, "; "))
}

// silentNodes reports nodes that hold tokens and do not answer. It also reports if no node answers.
func (d *doctor) silentNodes(w clusterView, working []content.SessionID) {
	for _, node := range slices.Sorted(maps.Keys(w.dead)) {
		held := w.dead[node]
		f := d.found("node-dead", node, "node %s holds the tokens of %s and does not answer", node, render.Plural(len(held), "session", "sessions")).among(held...)
		if len(w.living) == 0 {
			f.since(severityError, "its sessions make no progress, and there is no other node").do(checks()["no-nodes"].do)
		}
	}
	if len(w.living) > 0 {
		return
	}
	f := d.found("no-nodes", "", "no node answers").among(working...)
	if len(working) > 0 {
		f.since(severityError, render.Plural(len(working), "session has", "sessions have")+" work to do, and no node does it")
	}
}

// scriptedNodes warns about nodes that run scripts of other users in a production deployment.
func (d *doctor) scriptedNodes(w clusterView) {
	p := d.durability.Profile()
	if (p == admin.ProfileStandard || p == admin.ProfileAudit) && len(w.scripted) > 0 {
		d.found("node-scripted", strings.Join(w.scripted, " "), "%s scripted models, profile %s", render.Plural(len(w.scripted), "node runs", "nodes run"), p)
	}
}

// nodeClocks compares the clocks of nodes with the server's.
func (d *doctor) nodeClocks(ctx context.Context) {
	clocks, err := d.admin.Clocks(ctx)
	d.notExamined("clocks of nodes", err)
	for _, node := range slices.Sorted(maps.Keys(clocks)) {
		if ahead := clocks[node]; ahead.Abs() > maxSkew {
			d.found("clock-skew", node, "the clock of node %s is %s the server's, or its record took that long to arrive", node, aheadOf(ahead)).
				since(severityError, "nodes set deadlines by their clocks: they fire early or late, and other nodes disagree about them")
		}
	}
}
