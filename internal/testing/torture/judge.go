package torture

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/turnlog/turnlog/audit"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/events/journal"
	"github.com/turnlog/turnlog/internal/pause"
	"github.com/turnlog/turnlog/jetstream/admin"
	"github.com/turnlog/turnlog/loop"
)

// judge compares the streams with what was acknowledged and seen.
type judge struct {
	world  *world
	runs   map[callKey]runCount
	losses []loss

	hashes   map[content.SessionID][]events.Hash
	records  map[content.SessionID][]journal.Record
	entries  int
	calls    int
	recovery []time.Duration
}

// readTimeout bounds the reading of one journal. Servers that just restarted are slow.
const readTimeout = 20 * time.Second

// read reads a journal up to the end that its leader reports. A replica may lag.
func (j *judge) read(ctx context.Context, s content.SessionID) ([]journal.Record, error) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	store := j.world.site.cell.Journal()
	for {
		records, err := collect(ctx, store, s)
		if err == nil {
			var last journal.Record
			last, err = store.Last(ctx, s)
			switch {
			case errors.Is(err, journal.ErrNotFound) && len(records) == 0:
				return nil, nil
			case err == nil && len(records) > 0 && records[len(records)-1].Seq == last.Seq:
				return records, nil
			}
		}
		if errors.Is(err, journal.ErrDamaged) || !pause.For(ctx, 50*time.Millisecond) {
			return records, err
		}
	}
}

func collect(ctx context.Context, store journal.Journal, s content.SessionID) (out []journal.Record, err error) {
	for rec, err := range store.Read(ctx, s, 0) {
		if err != nil {
			return out, err
		}
		out = append(out, rec)
	}
	return out, nil
}

// all checks every session, the ledger and the writers.
func (j *judge) all(ctx context.Context, users []*user) {
	for _, p := range users {
		j.session(ctx, p)
	}
	for _, s := range j.world.hostile {
		j.journal(ctx, s, nil)
	}
	for k := range j.runs { // sessions of the caller's clients
		if _, judged := j.records[k.session]; !judged {
			j.journal(ctx, k.session, nil)
		}
	}
	for k, d := range j.runs {
		j.world.log.violation(k.session, LedgerAgrees, fmt.Sprintf("%s ran for call %s, which is in no journal", d.tool, k.call))
	}
	records, err := j.read(ctx, writerSession)
	if err != nil {
		j.world.log.violation(writerSession, AckedIsKept, fmt.Sprintf("the journal cannot be read: %v", err))
	}
	j.keep(writerSession, records)
	for _, w := range j.world.writers {
		for _, wrong := range w.missing(j.hashes[writerSession]) {
			j.world.log.violation(writerSession, AckedIsKept, wrong)
		}
	}
}

func (j *judge) keep(s content.SessionID, records []journal.Record) {
	j.records[s] = records
	for _, rec := range records {
		j.hashes[s] = append(j.hashes[s], rec.Hash)
	}
	j.entries += len(records)
}

// session checks one session by its journal.
func (j *judge) session(ctx context.Context, p *user) {
	log, id := j.world.log, p.scenario.id
	p.mu.Lock()
	finished := p.rests
	var accepted []string
	for _, s := range p.accepted {
		if s.must {
			accepted = append(accepted, s.id)
		}
	}
	p.mu.Unlock()
	state := j.journal(ctx, id, accepted)
	if !finished || !atRest(state) {
		log.violation(id, NoStuckSession, fmt.Sprintf("at entry %d it waits for %s, owes %v and has %d open approvals, %d queued inputs, %s",
			state.Seq, loop.Waiting(state), owed(state), len(state.PendingApprovals()), len(state.Queue), j.traces(ctx, id)))
	}
	if wrong := p.seen.differs(j.hashes[id], false); wrong != "" {
		log.violation(id, FollowExact, wrong)
	}
}

// journal audits a journal and compares its calls with the ledger. It returns the session's
// last state.
func (j *judge) journal(ctx context.Context, id content.SessionID, accepted []string) *loop.State {
	log := j.world.log
	records, err := j.read(ctx, id)
	if err != nil {
		log.violation(id, AckedIsKept, fmt.Sprintf("the journal cannot be read: %v", err))
	}
	j.keep(id, records)
	checker := audit.NewChecker()
	checker.Accepted(accepted...)
	state := loop.New(id)
	for _, rec := range records {
		checker.Add(rec)
		if rec.Err == nil {
			state.Fold(rec.Entry)
		}
		if slices.Contains(j.world.hostile, id) {
			continue
		}
		for _, wrong := range forgeries(rec.Entry) {
			log.violation(id, NothingForged, fmt.Sprintf("entry %d: %s", rec.Seq, wrong))
		}
	}
	for _, v := range checker.Verdict().Faults {
		log.violation(id, v.Invariant, fmt.Sprintf("entry %d: %s", v.Seq, v.What))
	}
	j.callsOf(id, records)
	j.recovery = append(j.recovery, recoveries(records, j.losses)...)
	return state
}

// traces describes what the streams hold for a stuck session.
func (j *judge) traces(ctx context.Context, id content.SessionID) string {
	_, token, tokenErr := admin.Of(j.world.site.cell).TokenOf(ctx, id)
	_, command, commandErr := admin.Of(j.world.site.cell).Command(ctx, id)
	if err := errors.Join(tokenErr, commandErr); err != nil {
		return err.Error()
	}
	return fmt.Sprintf("a run token: %v, commands in its inbox: %v", token, command)
}

// owed names the effects that a session owes.
func owed(s *loop.State) (out []string) {
	for _, e := range loop.Pending(s) {
		out = append(out, e.Identity())
	}
	return out
}

// account is what a journal says about a call.
type account struct {
	tool       string
	dispatched bool
	done       bool // it has a successful result
}

// callsOf compares the calls of a journal with the ledger.
func (j *judge) callsOf(id content.SessionID, records []journal.Record) {
	calls := make(map[content.CallID]*account)
	for _, rec := range records {
		for _, ev := range rec.Entry.Events {
			switch ev := any(ev).(type) { // nothing else is counted
			case events.ToolCallRequested:
				calls[ev.Call.ID] = &account{tool: ev.Call.Name}
			case events.ToolDispatched:
				if a := calls[ev.Call]; a != nil {
					a.dispatched = true
				}
			case events.ToolResultReceived:
				if a := calls[ev.Result.CallID]; a != nil && ev.Result.Status == content.StatusOK {
					a.done = true
				}
			}
		}
	}
	j.calls += len(calls)
	for call, a := range calls {
		d := j.runs[callKey{id, call}]
		delete(j.runs, callKey{id, call})
		if j.world.cfg.Workload.Tools != nil {
			continue // they count for themselves
		}
		for _, wrong := range a.against(d) {
			j.world.log.violation(id, wrong.Invariant, fmt.Sprintf("call %s of %s: %s", call, a.tool, wrong.Detail))
		}
	}
}

// against compares the journal's account with the runs.
func (a *account) against(d runCount) (out []Violation) {
	say := func(invariant, format string, args ...any) {
		out = append(out, Violation{Invariant: invariant, Detail: fmt.Sprintf(format, args...)})
	}
	if harmful(a.tool) && d.times > 1 {
		say(AtMostOnce, "it ran %d times", d.times)
	}
	if d.keys > 1 {
		say(LedgerAgrees, "its runs had %d idempotency keys", d.keys)
	}
	switch {
	case a.done && d.times == 0:
		say(LedgerAgrees, "the journal has its result, but it did not run")
	case !a.dispatched && d.times > 0:
		say(LedgerAgrees, "it ran without a dispatch in the journal")
	}
	return out
}

// recoveries returns the times from each loss of a session's node to the claim of the
// next, by the server's clock. A parked session lost nothing.
func recoveries(records []journal.Record, losses []loss) (out []time.Duration) {
	for _, l := range losses {
		owner, parked, i := "", true, 0
		for ; i < len(records) && !records[i].Stored.After(l.at); i++ {
			for _, ev := range records[i].Entry.Events {
				if c, ok := ev.(events.DriverClaimed); ok {
					owner = c.Node
				}
			}
			parked = slices.Contains(records[i].Entry.Kinds(), events.KindParked)
		}
		if owner != l.node || parked {
			continue
		}
		for ; i < len(records); i++ {
			if kinds := records[i].Entry.Kinds(); slices.Contains(kinds, events.KindParked) {
				break // it parked before the kill took effect
			} else if slices.Contains(kinds, events.KindDriverClaimed) {
				out = append(out, records[i].Stored.Sub(l.at))
				break
			}
		}
	}
	return out
}

// catchUpTimeout is how long observers may take to see the last entries once all faults
// are over.
const catchUpTimeout = 15 * time.Second

// observersAgree waits until the observers have seen everything, and compares.
func (j *judge) observersAgree(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, catchUpTimeout)
	defer cancel()
	for s, hashes := range j.hashes {
		for n, o := range j.world.observers {
			wrong := o.of(s).differs(hashes, true)
			for ; wrong != "" && pause.For(ctx, 50*time.Millisecond); wrong = o.of(s).differs(hashes, true) {
			}
			if wrong != "" {
				j.world.log.violation(s, FollowExact, fmt.Sprintf("observer %d: %s", n+1, wrong))
			}
		}
	}
}
