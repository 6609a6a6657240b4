package main

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
	"github.com/turnlog/turnlog/jetstream"
	"github.com/turnlog/turnlog/loop"
)

const (
	// lookAgain is after how long a suspicion is checked: a node tells within half a
	// second which tokens it took.
	lookAgain = 1500 * time.Millisecond

	// maxRead is how many journals are read, of each kind of suspicion.
	maxRead = 20

	parallel = 16 // small reads at once
)

// ward is which nodes there are and what they hold.
type ward struct {
	living []string
	held   map[content.SessionID]string   // by nodes that answer
	dead   map[string][]content.SessionID // by node: what others hold
}

// nodes asks all nodes on record whether they are there.
func (d *doctor) nodes(ctx context.Context) (ward, error) {
	nodes := d.cell.Nodes()
	w := ward{held: make(map[content.SessionID]string), dead: make(map[string][]content.SessionID)}
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
	_ = group.Wait() // none fails
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

// sessions looks for sessions that nobody drives, and for work that does not get on.
func (d *doctor) sessions(ctx context.Context, consumers []jetstream.ConsumerState, work jetstream.Work) {
	all := maps.Clone(work.Active)
	maps.Copy(all, work.Tokens)
	d.report.Looked.Sessions = new(len(all))
	w, err := d.nodes(ctx)
	if err != nil {
		d.blind("nodes", err)
		return
	}
	d.report.Looked.Nodes = new(len(w.living))
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
		Why: "new input would wait until there is one", Do: "driver-node" + d.namespaceFlag(), Sessions: waiting,
	}
	if len(waiting) > 0 {
		f.Severity, f.Why = severityError, render.Plural(len(waiting), "session has", "sessions have")+" something to do, and nobody does it"
	}
	d.found(f)
}

func (d *doctor) deadNodes(w ward) {
	for _, node := range slices.Sorted(maps.Keys(w.dead)) {
		f := finding{
			Severity: severityWarning, Check: "node-dead", Object: node, Sessions: w.dead[node],
			What: fmt.Sprintf("node %s holds the tokens of %s and does not answer", node, render.Plural(len(w.dead[node]), "session", "sessions")),
			Why:  "its sessions stand still until another node takes them over, which it does within seconds",
			Do:   "look again in 15 s; see why that node stopped",
		}
		if len(w.living) == 0 {
			f.Severity, f.Why, f.Do = severityError, "its sessions stand still, and there is no other node", "driver-node"+d.namespaceFlag()
		}
		d.found(f)
	}
}

// nodeClocks compares the clocks of nodes with the server's.
func (d *doctor) nodeClocks(ctx context.Context) {
	clocks, err := d.cell.Nodes().Clocks(ctx)
	d.blind("clocks of nodes", err)
	for _, node := range slices.Sorted(maps.Keys(clocks)) {
		if clocks[node].Abs() <= maxSkew {
			continue
		}
		d.found(finding{
			Severity: severityError, Check: "clock-skew", Object: node,
			What: fmt.Sprintf("the clock of node %s is %s the server's, or its record was as long on the way", node, aheadOf(clocks[node])),
			Why:  "deadlines and approvals that expire are set by the clocks of nodes: they come early or late, and another node thinks otherwise",
			Do:   "run a time service (chrony, systemd-timesyncd) on the machine of node " + node,
		})
	}
}

// suspect looks at some sessions at once and returns those that keep says are stuck,
// sorted.
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

// partly says that not everything was looked at.
func (d *doctor) partly(what string, n int, of string) {
	d.found(finding{
		Severity: severityWarning, Check: "not-examined", Object: what,
		What: fmt.Sprintf("only %d of %s %s were looked at", n, of, what),
		Why:  "sessions behind the others may be stuck too", Do: fmt.Sprintf("turnlog doctor --limit %d%s", 10*n, d.namespaceFlag()),
	})
}

// orphans are sessions with commands, handled or not, and without a token.
func (d *doctor) orphans(ctx context.Context, work jetstream.Work) {
	var ids []content.SessionID
	for s := range work.Active {
		if !work.Tokens[s] {
			ids = append(ids, s)
		}
	}
	stuck := d.suspect(ctx, "sessions without a run token", ids, func(ctx context.Context, s content.SessionID) (bool, error) {
		m, there, err := d.cell.Command(ctx, s)
		if err != nil || !there || d.serverNow().Sub(m.At) < d.patience {
			return false, err
		}
		_, woken, err := d.cell.TokenOf(ctx, s)
		return !woken, err
	})
	if len(stuck) == 0 {
		return
	}
	d.found(finding{
		Severity: severityError, Check: "session-unwoken", Sessions: stuck,
		What: fmt.Sprintf("%s commands and no run token, for more than %v", render.Plural(len(stuck), "session has", "sessions have"), d.patience),
		Why:  "nobody is about to drive them: the nodes' sweep, which finds such sessions every few seconds, does not get to them",
		Do:   fmt.Sprintf("nats pub %s.run.%s '' wakes one; see the nodes' logs for \"sweep went wrong\"", d.report.Namespace, stuck[0]),
	})
}

// undriven are sessions whose token nobody holds who answers.
func (d *doctor) undriven(ctx context.Context, work jetstream.Work, w ward, consumers []jetstream.ConsumerState) {
	unheld := maps.Clone(work.Tokens)
	maps.DeleteFunc(unheld, func(s content.SessionID, _ bool) bool { return w.held[s] != "" })
	for _, sessions := range w.dead { // which is told already
		for _, s := range sessions {
			delete(unheld, s)
		}
	}
	tokens := make(map[content.SessionID]jetstream.Mark)
	var mu sync.Mutex
	old := func(ctx context.Context, s content.SessionID) (bool, error) {
		m, there, err := d.cell.TokenOf(ctx, s)
		if err != nil || !there || d.serverNow().Sub(m.At) < d.patience {
			return false, err
		}
		mu.Lock()
		defer mu.Unlock()
		before, known := tokens[s]
		tokens[s] = m
		return !known || before.Seq == m.Seq, nil
	}
	stuck := d.suspect(ctx, "sessions whose token nobody holds", slices.Collect(maps.Keys(unheld)), old)
	if len(stuck) == 0 || !pause(ctx, lookAgain) {
		return
	}
	now, err := d.nodes(ctx)
	if err != nil {
		d.blind("nodes", err)
		return
	}
	stuck = slices.DeleteFunc(stuck, func(s content.SessionID) bool { return now.held[s] != "" })
	stuck = d.suspect(ctx, "sessions whose token nobody holds", stuck, old)
	d.waitingOrBroken(ctx, stuck, tokens, consumers, len(now.living))
}

func (d *doctor) waitingOrBroken(ctx context.Context, stuck []content.SessionID, tokens map[content.SessionID]jetstream.Mark, consumers []jetstream.ConsumerState, nodes int) {
	i := slices.IndexFunc(consumers, func(c jetstream.ConsumerState) bool { return c.Queue == "" && c.Err == nil })
	if i < 0 {
		return // told as a consumer that is missing
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
			What: fmt.Sprintf("%s for more than %v for one of %s to take them", render.Plural(len(waiting), "session waits", "sessions wait"), d.patience, render.Plural(nodes, "node", "nodes")),
			Why:  "the nodes hold as many sessions as they may", Do: "driver-node" + d.namespaceFlag() + " on another machine, or a larger --capacity",
		})
	}
	for _, s := range broken[:min(len(broken), maxRead)] {
		d.brokenSession(ctx, s, d.serverNow().Sub(tokens[s].At))
	}
	if more := broken[min(len(broken), maxRead):]; len(more) > 0 {
		d.found(finding{
			Severity: severityError, Check: "session-broken", Sessions: more,
			What: fmt.Sprintf("%d more sessions were given to nodes, which gave them up", len(more)), Why: "see those before", Do: "see those before",
		})
	}
}

// brokenSession says what is the matter with a session that nodes cannot drive.
func (d *doctor) brokenSession(ctx context.Context, s content.SessionID, since time.Duration) {
	f := finding{
		Severity: severityError, Check: "session-broken", Object: string(s), Sessions: []content.SessionID{s},
		What: fmt.Sprintf("session %s was given to a node %v ago, and no node holds it", s, since.Round(time.Second)),
		Why:  "a node that cannot drive a session returns its token, and waits longer each time, up to ten minutes",
		Do:   fmt.Sprintf("look for \"session cannot be driven\" with session %s in the nodes' logs, which say why", s),
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

// claims counts the claims that a journal ends in.
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

// stalledWork are sessions that are driven and of which nothing was recorded for long.
func (d *doctor) stalledWork(ctx context.Context, w ward) {
	ids, more, err := d.cell.Waiting(ctx, d.serverNow().Add(-d.stalled), d.limit)
	if err != nil {
		d.blind("sessions at work", err)
		return
	}
	if more {
		d.partly("commands that came long ago", d.limit, "more")
	}
	ids = slices.DeleteFunc(ids, func(s content.SessionID) bool { return w.held[s] == "" })
	stuck := d.suspect(ctx, "sessions at work", ids, func(ctx context.Context, s content.SessionID) (bool, error) {
		m, there, err := d.cell.Command(ctx, s)
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
			What: fmt.Sprintf("%d more sessions have not got on for more than %v", more, d.stalled), Why: "see those before", Do: "see those before",
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
	do := fmt.Sprintf("turnlog cancel %s%s, if it should not go on", s, d.namespaceFlag())
	for _, e := range loop.Pending(state) {
		if _, is := e.(loop.ArmTimer); is {
			continue // nobody has to do anything for it
		}
		run, is := e.(loop.RunTool)
		if !is {
			owed = append(owed, e.Identity())
			continue
		}
		owed = append(owed, fmt.Sprintf("the call %s of %s on queue %s", run.Call.ID, run.Call.Name, run.Call.Routing.Queue))
		do = fmt.Sprintf("turnlog cancel %s --call %s%s, if it should not go on", s, run.Call.ID, d.namespaceFlag())
	}
	if len(owed) == 0 {
		return
	}
	d.found(finding{
		Severity: severityWarning, Check: "effect-stalled", Object: string(s), Sessions: []content.SessionID{s},
		What: fmt.Sprintf("session %s waits for %s; nothing was recorded for %v", s, strings.Join(owed, ", "),
			d.serverNow().Sub(state.At.Std()).Round(time.Second)),
		Why: "node " + node + " drives it and answers, so it is the model or the tool that takes so long, or it hangs", Do: do,
	})
}

// pause waits and reports whether ctx still holds.
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
