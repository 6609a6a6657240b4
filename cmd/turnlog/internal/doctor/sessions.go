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
	"github.com/turnlog/turnlog/internal/pause"
	"github.com/turnlog/turnlog/jetstream"
	"github.com/turnlog/turnlog/jetstream/admin"
	"github.com/turnlog/turnlog/jetstream/trials"
	"github.com/turnlog/turnlog/loop"
)

const (
	// recheckAfter is how long to wait before a suspicion is checked again. A node records
	// the tokens that it took within half a second.
	recheckAfter = 1500 * time.Millisecond

	// maxRead is how many journals are read for each kind of suspicion.
	maxRead = 20

	parallel = 16 // small reads at once
)

// cluster counts the active sessions and looks at the nodes. known says whether the nodes are listed.
func (d *doctor) cluster(ctx context.Context, work admin.Work) (w clusterView, known bool) {
	d.setAside(ctx, work)
	d.report.Examined.Sessions = new(len(active(work)))
	w, err := d.nodes(ctx)
	if err != nil {
		d.notExamined("nodes", err)
		return w, false
	}
	d.report.Examined.Nodes = new(len(w.living))
	return w, true
}

// active returns the sessions that have a command or a token.
func active(work admin.Work) []content.SessionID {
	all := maps.Clone(work.Active)
	maps.Copy(all, work.Tokens)
	return slices.Sorted(maps.Keys(all))
}

// sessions looks for sessions that no node drives, and for work without progress.
func (d *doctor) sessions(ctx context.Context, w clusterView, consumers []admin.ConsumerState, work admin.Work) {
	d.silentNodes(w, active(work))
	if len(w.living) == 0 {
		return
	}
	d.orphans(ctx, work)
	d.undriven(ctx, work, w, consumers)
	d.stalledWork(ctx, w)
}

// setAside reports the sessions that crashed nodes. Other checks skip them.
func (d *doctor) setAside(ctx context.Context, work admin.Work) {
	all, err := trials.Of(d.cell.Cell).Aside(ctx)
	if _, denied := jetstream.Denied(err); !denied { // otherwise it is reported as a permission
		d.notExamined("sessions that are set aside", err)
	}
	for _, t := range all {
		f := d.found("session-aside", string(t.Session), "no node drives session %s: it crashed its driver %s in a row", t.Session, render.Plural(len(t.Broke), "time", "times")).among(t.Session)
		for _, b := range t.Broke {
			how := "ended"
			if b.Error != "" {
				how = "reported " + render.Style{}.Line(b.Error)
			}
			f.What += fmt.Sprintf("; node %s %s at %s", b.Node, how, b.At)
		}
		delete(work.Active, t.Session)
		delete(work.Tokens, t.Session)
	}
}

// marks are sessions that look stuck, and the message that says so.
type marks map[content.SessionID]admin.Mark

func (m marks) sessions() []content.SessionID { return slices.Sorted(maps.Keys(m)) }

// suspects returns the sessions whose mark is older than age and that also pass stuck.
// It examines them in parallel.
func (d *doctor) suspects(
	ctx context.Context, what string, ids []content.SessionID, age time.Duration,
	mark func(context.Context, content.SessionID) (admin.Mark, bool, error), stuck func(context.Context, content.SessionID) (bool, error),
) marks {
	slices.Sort(ids)
	if len(ids) > d.limit {
		d.partlyExamined(what, d.limit, strconv.Itoa(len(ids)))
		ids = ids[:d.limit]
	}
	var mu sync.Mutex
	found := make(marks)
	group, gctx := errgroup.WithContext(ctx)
	group.SetLimit(parallel)
	for _, id := range ids {
		group.Go(func() error {
			m, there, err := mark(gctx, id)
			if err != nil || !there || d.serverNow().Sub(m.At) < age {
				return err
			}
			if is, err := stuck(gctx, id); err != nil || !is {
				return err
			}
			mu.Lock()
			defer mu.Unlock()
			found[id] = m
			return nil
		})
	}
	d.notExamined(what, group.Wait())
	return found
}

// orphans looks for sessions that have commands, handled or not, but no token.
func (d *doctor) orphans(ctx context.Context, work admin.Work) {
	var ids []content.SessionID
	for s := range work.Active {
		if !work.Tokens[s] {
			ids = append(ids, s)
		}
	}
	noToken := func(ctx context.Context, s content.SessionID) (bool, error) {
		_, woken, err := d.admin.TokenOf(ctx, s)
		return !woken, err
	}
	stuck := d.suspects(ctx, "sessions without a run token", ids, d.patience, d.admin.Command, noToken).sessions()
	if len(stuck) > 0 {
		d.found("session-unwoken", "", "%s commands and no run token, for more than %v", render.Plural(len(stuck), "session has", "sessions have"), d.patience).
			among(stuck...).do(fmt.Sprintf("nats pub %s.run.%s '' wakes one; look for \"sweep failed\" in the nodes' logs", d.report.Namespace, stuck[0]))
	}
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
	old := func(ids []content.SessionID) marks {
		all := func(context.Context, content.SessionID) (bool, error) { return true, nil }
		return d.suspects(ctx, "sessions whose token no node holds", ids, d.patience, d.admin.TokenOf, all)
	}
	before := old(slices.Collect(maps.Keys(unheld)))
	if len(before) == 0 || !pause.For(ctx, recheckAfter) {
		return
	}
	now, err := d.nodes(ctx)
	if err != nil {
		d.notExamined("nodes", err)
		return
	}
	maps.DeleteFunc(before, func(s content.SessionID, _ admin.Mark) bool { return now.held[s] != "" })
	stuck := old(before.sessions())
	maps.DeleteFunc(stuck, func(s content.SessionID, m admin.Mark) bool { return m.Seq != before[s].Seq })
	d.waitingOrBroken(ctx, stuck, consumers, len(now.living))
}

// waitingOrBroken separates sessions that wait for a node from sessions that nodes gave up.
func (d *doctor) waitingOrBroken(ctx context.Context, stuck marks, consumers []admin.ConsumerState, nodes int) {
	i := slices.IndexFunc(consumers, func(c admin.ConsumerState) bool { return c.Queue == "" && c.Err == nil })
	if i < 0 {
		return // reported as a missing consumer
	}
	var waiting, broken []content.SessionID
	for _, s := range stuck.sessions() {
		if stuck[s].Seq > consumers[i].Delivered {
			waiting = append(waiting, s)
		} else {
			broken = append(broken, s)
		}
	}
	if len(waiting) > 0 {
		d.found("session-waiting", "", "%s for more than %v for one of %s", render.Plural(len(waiting), "session waits", "sessions wait"), d.patience,
			render.Plural(nodes, "node", "nodes")).among(waiting...)
	}
	d.each("session-broken", broken, func(s content.SessionID) { d.brokenSession(ctx, s, d.serverNow().Sub(stuck[s].At)) })
}

// brokenSession reports a session that nodes cannot drive.
func (d *doctor) brokenSession(ctx context.Context, s content.SessionID, since time.Duration) {
	claims, node, err := d.claims(ctx, s)
	switch {
	case ctx.Err() != nil:
	case err != nil:
		f := d.found("session-unreadable", string(s), "the journal of %s cannot be read: %v", s, err).among(s)
		if errors.Is(err, events.ErrUnknownKind) {
			f.do("update the nodes: a newer release wrote that entry")
		}
	default:
		f := d.found("session-broken", string(s), "session %s was given to a node %v ago, and no node holds it", s, since.Round(time.Second)).among(s)
		if claims > 1 {
			f.What += fmt.Sprintf("; the journal ends in %s, the last one by node %s", render.Plural(claims, "claim", "claims"), node)
		}
	}
}

// claims counts the claims at the end of a journal.
func (d *doctor) claims(ctx context.Context, s content.SessionID) (n int, node string, err error) {
	for rec, err := range d.cell.Journal().Read(ctx, s, 0) {
		if err == nil {
			err = rec.Err
		}
		if err != nil {
			return 0, "", err
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
	ids, more, err := d.admin.Waiting(ctx, d.serverNow().Add(-d.stalled), d.limit)
	if err != nil {
		d.notExamined("sessions at work", err)
		return
	}
	if more {
		d.partlyExamined("old commands", d.limit, "more")
	}
	ids = slices.DeleteFunc(ids, func(s content.SessionID) bool { return w.held[s] == "" })
	silent := func(ctx context.Context, s content.SessionID) (bool, error) {
		last, err := d.cell.Journal().Last(ctx, s)
		if errors.Is(err, journal.ErrNotFound) {
			return false, nil
		}
		return d.serverNow().Sub(last.Stored) >= d.stalled, err
	}
	stuck := d.suspects(ctx, "sessions at work", ids, d.stalled, d.admin.Command, silent).sessions()
	d.each("effect-stalled", stuck, func(s content.SessionID) { d.stalledSession(ctx, s, w.held[s]) })
}

func (d *doctor) stalledSession(ctx context.Context, s content.SessionID, node string) {
	state, _, err := d.client.Read(ctx, s)
	if err != nil {
		d.notExamined("session "+string(s), err)
		return
	}
	silence := d.serverNow().Sub(state.At.Std()).Round(time.Second)
	if lags, err := d.lags(ctx, s, state.Cursors); err != nil || lags {
		d.notExamined("inbox of session "+string(s), err)
		if lags {
			d.found("inbox-lagging", string(s), "session %s has commands that node %s does not handle; nothing was recorded for %v", s, node, silence).among(s)
		}
		return
	}
	var owed []string
	target := string(s)
	for _, e := range loop.Pending(state) {
		switch e := e.(type) { //nolint:gochecksumtype // the default covers all others
		case loop.ArmTimer: // the server does it
		case loop.RunTool:
			owed = append(owed, fmt.Sprintf("the call %s of %s on queue %s", e.Call.ID, e.Call.Name, e.Call.Routing.Queue))
			target = fmt.Sprintf("%s --call %s", s, e.Call.ID)
		default:
			owed = append(owed, e.Identity())
		}
	}
	if len(owed) == 0 {
		return
	}
	d.found("effect-stalled", string(s), "session %s waits for %s; nothing was recorded for %v", s, strings.Join(owed, ", "), silence).
		among(s).since(severityWarning, "node "+node+" drives it and is alive, so the model or the tool is slow, or hangs").
		do("turnlog cancel " + target + "{namespace}, to give it up")
}

// lags reports whether a session that recorded nothing for a long time has unhandled commands. Reports
// and timers do not count: if they are late, they are handled without a record.
func (d *doctor) lags(ctx context.Context, s content.SessionID, handled []events.Cursor) (bool, error) {
	for m, err := range d.cell.Inbox().Read(ctx, s, handled, 0) {
		if err != nil {
			return false, err
		}
		if l := m.Lane.Unnamed(); (l == events.LaneAsk || l == events.LaneDecide) && d.serverNow().Sub(m.At.Std()) >= d.stalled {
			return true, nil
		}
	}
	return false, nil
}
