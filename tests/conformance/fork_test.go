package conformance

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/turnlog/turnlog/audit"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/engine"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/events/journal"
	"github.com/turnlog/turnlog/session"
	"github.com/turnlog/turnlog/turnlogtest"
)

// forked forks the session after each of its entries. Each fork must begin with the state of the session after that entry,
// and answer another input.
func (p *player) forked(sh shape, records []journal.Record, tried *prefixes) {
	p.t.Helper()
	for n, rec := range records {
		origin, err := engine.FoldTo(p.ID(), journal.All(records), rec.Seq)
		if err != nil {
			p.t.Fatal(err)
		}
		if origin.State.Opened && (!sh.deployed || !tried.forked(sh.name, records[:n+1], origin.State)) {
			p.forkedAt(origin)
		}
	}
}

func (p *player) forkedAt(origin engine.Replica) {
	p.t.Helper()
	f, err := p.fork(origin.State, origin.Head)
	if err != nil {
		p.t.Fatalf("fork after entry %d: %v", origin.Head.Seq, err)
	}
	defer func() { _ = f.Close(context.WithoutCancel(p.ctx)) }() // nothing to save
	if !p.answers(f) {
		p.t.Errorf("the fork after entry %d does not answer", origin.Head.Seq)
	}
	c := audit.NewChecker()
	fork, until := p.records(f.ID()), uint64(math.MaxUint64) // a mutator changes the transcript
	for _, rec := range fork {
		c.Add(rec)
		for _, ev := range rec.Entry.Events {
			if e, ok := ev.(events.MutationFinished); ok && e.Dirty {
				until = min(until, rec.Seq-1)
			}
		}
	}
	began, err := engine.FoldTo(f.ID(), journal.All(fork), until)
	if err != nil {
		p.t.Fatal(err)
	}
	want, got := turnlogtest.Lines(origin.State.Transcript), turnlogtest.Lines(began.State.Transcript)
	if len(got) < len(want) || !slices.Equal(got[:len(want)], want) {
		p.t.Errorf("the fork after entry %d (-origin +fork):\n%s", origin.Head.Seq, cmp.Diff(want, got))
	}
	if bad := c.Verdict().Faults; len(bad) > 0 {
		p.t.Errorf("the fork after entry %d: %v", origin.Head.Seq, bad)
	}
}

// answers submits input to a session and reports whether its turn ends, after approving all its questions. A turn that
// takes longer than half a minute is canceled, since each minute of virtual time costs real time.
func (p *player) answers(f *session.Session) bool {
	ctx, cancel := context.WithTimeout(p.ctx, time.Minute)
	defer cancel()
	late := time.AfterFunc(30*time.Second, func() { _ = f.Cancel(ctx, "late") }) // it fails if the turn has ended
	defer late.Stop()
	turn, err := f.Submit(ctx, session.Input{Items: []content.Item{content.UserText("and now?")}})
	for err == nil {
		var step session.Step
		switch step, err = turn.Next(ctx); st := step.(type) { //nolint:gochecksumtype // the others are on the way
		case *session.ApprovalRequest:
			err = f.ResolveApproval(ctx, session.Decision{Call: st.CallID, Approve: true})
		case *session.Finished:
			return true
		}
	}
	if turn == nil || f.OpenTurn() == turn.ID() {
		p.t.Log(err)
		return false
	}
	return true // it ended with an error of its own, such as the end of the script
}

// forkID is what the ID of a fork ends with.
func forkID(at journal.Head) content.SessionID { return content.SessionID(fmt.Sprint("f", at.Seq)) }
