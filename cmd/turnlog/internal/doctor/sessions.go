package doctor

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/turnlog/turnlog/audit/render"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/events/journal"
	"github.com/turnlog/turnlog/jetstream/admin"
	"github.com/turnlog/turnlog/loop"
)

const (
	// recheckAfter is when a suspicion is checked again: a node records within half a
	// second which tokens it took.
	recheckAfter = 1500 * time.Millisecond

	// maxRead is how many journals are read for each kind of suspicion.
	maxRead = 20

	parallel = 16 // small reads at once
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

// sessions looks for sessions that no node drives, and for work without progress.
func (d *doctor) sessions(ctx context.Context, consumers []admin.ConsumerState, work admin.Work) {
	all := maps.Clone(work.Active)
	maps.Copy(all, work.Tokens)
	d.report.Examined.Sessions = new(len(all))
	w, err := d.nodes(ctx)
	if err != nil {
		d.blind("nodes", err)
		return
	}
	d.report.Examined.Nodes = new(len(w.living))
	d.nodeClocks(ctx)
	d.deadNodes(w)
	if len(w.living) == 0 {
		d.noNodes(slices.Sorted(maps.Keys(all)))
		return
	}
	d.orphans(ctx, work)
	d.undriven(ctx, work, w, consumers)
	d.stalledWork(ctx, w)
}

func (d *doctor) noNodes(waiting []content.SessionID) {
	f := finding{
		Severity: severityWarning, Check: "no-nodes", What: "no node answers",
		Why: "new input waits until one starts", Do: "driver-node" + d.namespaceFlag(), Sessions: waiting,
	}
	if len(waiting) > 0 {
		f.Severity, f.Why = severityError, render.Plural(len(waiting), "session has", "sessions have")+" work to do, and no node does it"
	}
	d.found(f)
}

func (d *doctor) deadNodes(w clusterView) {
	for _, node := range slices.Sorted(maps.Keys(w.dead)) {
		f := finding{
			Severity: severityWarning, Check: "node-dead", Object: node, Sessions: w.dead[node],
			What: fmt.Sprintf("node %s holds the tokens of %s and does not answer", node, render.Plural(len(w.dead[node]), "session", "sessions")),
			Why:  "its sessions make no progress until another node takes them over, which takes seconds",
			Do:   "run the doctor again in 15 s; find out why that node stopped",
		}
		if len(w.living) == 0 {
			f.Severity, f.Why, f.Do = severityError, "its sessions make no progress, and there is no other node", "driver-node"+d.namespaceFlag()
		}
		d.found(f)
	}
}

// nodeClocks compares the clocks of nodes with the server's.
func (d *doctor) nodeClocks(ctx context.Context) {
	clocks, err := admin.Of(d.cell.Cell).Clocks(ctx)
	d.blind("clocks of nodes", err)
	for _, node := range slices.Sorted(maps.Keys(clocks)) {
		if clocks[node].Abs() <= maxSkew {
			continue
		}
		d.found(finding{
			Severity: severityError, Check: "clock-skew", Object: node,
			What: fmt.Sprintf("the clock of node %s is %s the server's, or its record took that long to arrive", node, aheadOf(clocks[node])),
			Why:  "nodes set deadlines by their clocks: they come early or late, and other nodes disagree about them",
			Do:   "run a time service (chrony, systemd-timesyncd) on the machine of node " + node,
		})
	}
}

// suspect examines sessions in parallel and returns, sorted, those that are stuck.
func (d *doctor) suspect(ctx context.Context, what string, ids []content.SessionID, stuck func(context.Context, content.SessionID) (bool, error)) []content.SessionID {
	slices.Sort(ids)
	if len(ids) > d.limit {
		d.partly(what, d.limit, strconv.Itoa(len(ids)))
		ids = ids[:d.limit]
	}
	var mu sync.Mutex
	var out []content.SessionID
	group, gctx := errgroup.WithContext(ctx)
	group.SetLimit(parallel)
	for _, id := range ids {
		group.Go(func() error {
			is, err := stuck(gctx, id)
			if is && err == nil {
				mu.Lock()
				defer mu.Unlock()
				out = append(out, id)
			}
			return err
		})
	}
	d.blind(what, group.Wait())
	slices.Sort(out)
	return out
}

// partly reports that only some sessions were examined.
func (d *doctor) partly(what string, n int, of string) {
	d.found(finding{
		Severity: severityWarning, Check: "not-examined", Object: what,
		What: fmt.Sprintf("only %d of %s %s were examined", n, of, what),
		Why:  "the remaining sessions may be stuck too", Do: fmt.Sprintf("turnlog doctor --limit %d%s", 10*n, d.namespaceFlag()),
	})
}

// orphans looks for sessions that have commands, handled or not, but no token.
func (d *doctor) orphans(ctx context.Context, work admin.Work) {
	var ids []content.SessionID
	for s := range work.Active {
		if !work.Tokens[s] {
			ids = append(ids, s)
		}
	}
	stuck := d.suspect(ctx, "sessions without a run token", ids, func(ctx context.Context, s content.SessionID) (bool, error) {
		m, there, err := admin.Of(d.cell.Cell).Command(ctx, s)
		if err != nil || !there || d.serverNow().Sub(m.At) < d.patience {
			return false, err
		}
		_, woken, err := admin.Of(d.cell.Cell).TokenOf(ctx, s)
		return !woken, err
	})
	if len(stuck) == 0 {
		return
	}
	d.found(finding{
		Severity: severityError, Check: "session-unwoken", Sessions: stuck,
		What: fmt.Sprintf("%s commands and no run token, for more than %v", render.Plural(len(stuck), "session has", "sessions have"), d.patience),
		Why:  "no node will drive them: the nodes' sweep, which finds such sessions every few seconds, does not reach them",
		Do:   fmt.Sprintf("nats pub %s.run.%s '' wakes one; look for \"sweep went wrong\" in the nodes' logs", d.report.Namespace, stuck[0]),
	})
}

// undriven looks for sessions whose token no live node holds.
func (d *doctor) undriven(ctx context.Context, work admin.Work, w clusterView, consumers []admin.ConsumerState) {
	unheld := maps.Clone(work.Tokens)
	maps.DeleteFunc(unheld, func(s content.SessionID, _ bool) bool { return w.held[s] != "" })
	for _, sessions := range w.dead { // reported already
		for _, s := range sessions {
			delete(unheld, s)
		}
	}
	tokens := make(map[content.SessionID]admin.Mark)
	var mu sync.Mutex
	old := func(ctx context.Context, s content.SessionID) (bool, error) {
		m, there, err := admin.Of(d.cell.Cell).TokenOf(ctx, s)
		if err != nil || !there || d.serverNow().Sub(m.At) < d.patience {
			return false, err
		}
		mu.Lock()
		defer mu.Unlock()
		before, known := tokens[s]
		tokens[s] = m
		return !known || before.Seq == m.Seq, nil
	}
	stuck := d.suspect(ctx, "sessions whose token no node holds", slices.Collect(maps.Keys(unheld)), old)
	if len(stuck) == 0 || !pause(ctx, recheckAfter) {
		return
	}
	now, err := d.nodes(ctx)
	if err != nil {
		d.blind("nodes", err)
		return
	}
	stuck = slices.DeleteFunc(stuck, func(s content.SessionID) bool { return now.held[s] != "" })
	stuck = d.suspect(ctx, "sessions whose token no node holds", stuck, old)
	d.waitingOrBroken(ctx, stuck, tokens, consumers, len(now.living))
}

// waitingOrBroken tells sessions that wait for a node from those that nodes gave up.
func (d *doctor) waitingOrBroken(ctx context.Context, stuck []content.SessionID, tokens map[content.SessionID]admin.Mark, consumers []admin.ConsumerState, nodes int) {
	i := slices.IndexFunc(consumers, func(c admin.ConsumerState) bool { return c.Queue == "" && c.Err == nil })
	if i < 0 {
		return // reported as a missing consumer
	}
	var waiting, broken []content.SessionID
	for _, s := range stuck {
		if tokens[s].Seq > consumers[i].Delivered {
			waiting = append(waiting, s)
		} else {
			broken = append(broken, s)
		}
	}
	if len(waiting) > 0 {
		d.found(finding{
			Severity: severityError, Check: "session-waiting", Sessions: waiting,
			What: fmt.Sprintf("%s for more than %v for one of %s", render.Plural(len(waiting), "session waits", "sessions wait"), d.patience, render.Plural(nodes, "node", "nodes")),
			Why:  "all nodes are at their capacity", Do: "driver-node" + d.namespaceFlag() + " on another machine, or with a larger --capacity",
		})
	}
	for _, s := range broken[:min(len(broken), maxRead)] {
		d.brokenSession(ctx, s, d.serverNow().Sub(tokens[s].At))
	}
	if more := broken[min(len(broken), maxRead):]; len(more) > 0 {
		d.found(finding{
			Severity: severityError, Check: "session-broken", Sessions: more,
			What: fmt.Sprintf("nodes gave up %d more sessions", len(more)), Why: "see the findings above", Do: "see the findings above",
		})
	}
}

// brokenSession reports a session that nodes cannot drive.
func (d *doctor) brokenSession(ctx context.Context, s content.SessionID, since time.Duration) {
	f := finding{
		Severity: severityError, Check: "session-broken", Object: string(s), Sessions: []content.SessionID{s},
		What: fmt.Sprintf("session %s was given to a node %v ago, and no node holds it", s, since.Round(time.Second)),
		Why:  "a node that cannot drive a session returns its token and backs off, up to ten minutes",
		Do:   fmt.Sprintf("look for \"session cannot be driven\" with session %s in the nodes' logs", s),
	}
	claims, node, err := d.claims(ctx, s)
	switch {
	case ctx.Err() != nil:
		return
	case err != nil:
		f.Check, f.What = "session-unreadable", fmt.Sprintf("the journal of %s cannot be read: %v", s, err)
		f.Do = "observer verify " + string(s) + d.namespaceFlag()
		if errors.Is(err, events.ErrUnknownKind) {
			f.Do = "update the nodes: a newer release wrote that entry"
		}
	case claims > 1:
		f.What += fmt.Sprintf("; the journal ends in %s, the last one by node %s", render.Plural(claims, "claim", "claims"), node)
	}
	d.found(f)
}

// claims counts the claims at the end of a journal.
func (d *doctor) claims(ctx context.Context, s content.SessionID) (n int, node string, err error) {
	for rec, err := range d.cell.Journal().Read(ctx, s, 0) {
		if err != nil {
			return 0, "", err
		}
		if rec.Err != nil {
			return 0, "", rec.Err
		}
		claimed, is := rec.Entry.Events[0].(events.DriverClaimed)
		if !is {
			n = 0
			continue
		}
		n, node = n+1, claimed.Node
	}
	return n, node, nil
}

// stalledWork looks for driven sessions that recorded nothing for a long time.
func (d *doctor) stalledWork(ctx context.Context, w clusterView) {
	ids, more, err := admin.Of(d.cell.Cell).Waiting(ctx, d.serverNow().Add(-d.stalled), d.limit)
	if err != nil {
		d.blind("sessions at work", err)
		return
	}
	if more {
		d.partly("old commands", d.limit, "more")
	}
	ids = slices.DeleteFunc(ids, func(s content.SessionID) bool { return w.held[s] == "" })
	stuck := d.suspect(ctx, "sessions at work", ids, func(ctx context.Context, s content.SessionID) (bool, error) {
		m, there, err := admin.Of(d.cell.Cell).Command(ctx, s)
		if err != nil || !there || d.serverNow().Sub(m.At) < d.stalled {
			return false, err
		}
		last, err := d.cell.Journal().Last(ctx, s)
		if errors.Is(err, journal.ErrNotFound) {
			return false, nil
		}
		return d.serverNow().Sub(last.Stored) >= d.stalled, err
	})
	for _, s := range stuck[:min(len(stuck), maxRead)] {
		d.stalledSession(ctx, s, w.held[s])
	}
	if more := len(stuck) - maxRead; more > 0 {
		d.found(finding{
			Severity: severityWarning, Check: "effect-stalled", Sessions: stuck[maxRead:],
			What: fmt.Sprintf("%d more sessions have made no progress for more than %v", more, d.stalled), Why: "see the findings above", Do: "see the findings above",
		})
	}
}

func (d *doctor) stalledSession(ctx context.Context, s content.SessionID, node string) {
	state, _, err := d.client.Read(ctx, s)
	if err != nil {
		d.blind("session "+string(s), err)
		return
	}
	var owed []string
	do := fmt.Sprintf("turnlog cancel %s%s, to give it up", s, d.namespaceFlag())
	for _, e := range loop.Pending(state) {
		if _, is := e.(loop.ArmTimer); is {
			continue // the server does it
		}
		run, is := e.(loop.RunTool)
		if !is {
			owed = append(owed, e.Identity())
			continue
		}
		owed = append(owed, fmt.Sprintf("the call %s of %s on queue %s", run.Call.ID, run.Call.Name, run.Call.Routing.Queue))
		do = fmt.Sprintf("turnlog cancel %s --call %s%s, to give it up", s, run.Call.ID, d.namespaceFlag())
	}
	if len(owed) == 0 {
		return
	}
	d.found(finding{
		Severity: severityWarning, Check: "effect-stalled", Object: string(s), Sessions: []content.SessionID{s},
		What: fmt.Sprintf("session %s waits for %s; nothing was recorded for %v", s, strings.Join(owed, ", "),
			d.serverNow().Sub(state.At.Std()).Round(time.Second)),
		Why: "node " + node + " drives it and is alive, so the model or the tool is slow, or hangs", Do: do,
	})
}

// pause waits and reports whether ctx is still valid.
func pause(ctx context.Context, t time.Duration) bool {
	timer := time.NewTimer(t)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
