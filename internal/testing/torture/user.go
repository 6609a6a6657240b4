package torture

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/turnlog/turnlog/client"
	"github.com/turnlog/turnlog/commands"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/events/journal"
	"github.com/turnlog/turnlog/loop"
)

// user opens a session, follows it, and does what its scenario says. It records what was
// acknowledged and what it saw, for the judge.
type user struct {
	scenario scenario
	client   *client.Client
	log      *findings
	news     chan struct{}   // something changed; one is enough
	over     <-chan struct{} // closed when no new turn may start

	mu       sync.Mutex // guards the fields below
	state    *loop.State
	seen     sightings
	causes   map[string]bool
	accepted []string // commands that must cause an entry
	sent     int      // commands that were acknowledged
	rests    bool     // everything accepted is done, and nothing new will be sent

	through chan struct{} // closed when the scenario is done
}

func newUser(s scenario, c *client.Client, f *findings, over <-chan struct{}) *user {
	return &user{
		scenario: s, client: c, log: f, over: over, news: make(chan struct{}, 1),
		state: loop.New(s.id), causes: make(map[string]bool), through: make(chan struct{}),
	}
}

// live follows the session and attends to it until ctx ends: after the last turn of the
// scenario, late outcomes of calls may still lead to more turns and questions.
func (p *user) live(ctx context.Context) {
	ctx, stop := context.WithCancel(ctx)
	var following sync.WaitGroup
	following.Go(func() { p.follow(ctx) })
	p.act(ctx)
	stop()
	following.Wait()
}

// follow keeps the state up to date with the journal. After an error it resumes.
func (p *user) follow(ctx context.Context) {
	for {
		for u, err := range p.client.Follow(ctx, p.scenario.id, p.seen.last()) {
			if err != nil {
				p.log.note("%s: follow: %v", p.scenario.id, err)
				break
			}
			if u.Record != nil {
				p.see(*u.Record)
			}
		}
		if !pause(ctx, 100*time.Millisecond) {
			return
		}
	}
}

func (p *user) see(rec journal.Record) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if wrong := p.seen.add(rec); wrong != "" {
		p.log.violation(p.scenario.id, FollowExact, wrong)
		return
	}
	p.state.Fold(rec.Entry)
	p.causes[rec.Entry.Cause] = true
	select {
	case p.news <- struct{}{}:
	default:
	}
}

// act sends what the scenario and the state of the session call for.
func (p *user) act(ctx context.Context) {
	dice := rand.New(rand.NewPCG(p.scenario.user, 0)) //nolint:gosec // repeatable, not secret
	if !p.send(ctx, "open", true, commands.OpenSession{Config: p.scenario.config}) {
		return
	}
	settled := make(map[content.ApprovalID]bool)
	next, due := 0, time.Now()
	for {
		open, rests, running := p.look()
		told := next == len(p.scenario.turns) || p.isOver()
		switch {
		case p.decide(ctx, dice, settled, open):
			continue
		case !told && (rests || p.scenario.turns[next].impatient && running != ""):
			if t := p.scenario.turns[next]; time.Since(due) >= t.think {
				p.submit(ctx, dice, t, next)
				next, due = next+1, time.Now()
				continue
			}
		case told:
			p.rest(rests)
		}
		if !p.await(ctx) {
			return
		}
	}
}

// rest notes whether the session has nothing to do after its scenario.
func (p *user) rest(yes bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.rests = yes
	if yes && !closed(p.through) {
		close(p.through)
	}
}

func (p *user) atRest() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.rests
}

// await waits for news, for 100 ms at most.
func (p *user) await(ctx context.Context) bool {
	t := time.NewTimer(100 * time.Millisecond)
	defer t.Stop()
	select {
	case <-p.news:
	case <-t.C:
	case <-ctx.Done():
		return false
	}
	return true
}

func (p *user) isOver() bool { return closed(p.over) }

// look returns the open approvals, whether the session is at rest, and the open turn.
func (p *user) look() (open []events.Approval, rests bool, running content.TurnID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.state.Turn != nil {
		running = p.state.Turn.ID
	}
	return p.state.PendingApprovals(), p.restsLocked(), running
}

// restsLocked reports whether everything accepted is done.
func (p *user) restsLocked() bool {
	for _, id := range p.accepted {
		if !p.causes[id] {
			return false
		}
	}
	return atRest(p.state)
}

// atRest reports whether a session has nothing to do until it gets input.
func atRest(s *loop.State) bool {
	return s.Seq > 0 && loop.Waiting(s) == commands.WaitInput && s.Turn == nil && len(s.Queue) == 0 &&
		!slices.ContainsFunc(s.Background, loop.Call.Running) &&
		!slices.ContainsFunc(s.Notices, func(n loop.Notice) bool { return !n.Quiet })
}

// decide answers the first question that it has not answered yet, and reports whether
// there is one.
func (p *user) decide(ctx context.Context, dice *rand.Rand, settled map[content.ApprovalID]bool, open []events.Approval) bool {
	for _, a := range open {
		if settled[a.ID] {
			continue
		}
		settled[a.ID] = true
		if !pause(ctx, between(dice, 0, 200*time.Millisecond)) {
			return false
		}
		yes := dice.IntN(4) != 0
		p.send(ctx, "decide-"+string(a.ID), false, commands.ResolveApproval{Approval: a.ID, Approve: yes, By: "torture"})
		return true
	}
	return false
}

// submit sends the input of a turn, and sometimes a cancel or a detach after it.
func (p *user) submit(ctx context.Context, dice *rand.Rand, t turn, n int) {
	input := commands.SubmitInput{Items: []content.Item{content.UserText(t.text)}, OnBusy: t.busy}
	p.send(ctx, fmt.Sprint("input-", n), true, input)
	detach := dice.IntN(4) == 0
	if t.cancel > 0 && pause(ctx, t.cancel) {
		p.send(ctx, fmt.Sprint("cancel-", n), false, commands.Cancel{Scope: commands.ScopeTurn, Reason: "enough"})
	}
	if detach && pause(ctx, 300*time.Millisecond) {
		if call := p.runningCall(); call != "" {
			p.send(ctx, fmt.Sprint("detach-", n), false, commands.DetachCall{Call: call})
		}
	}
}

func (p *user) runningCall() content.CallID {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.state.Turn == nil {
		return ""
	}
	for _, c := range p.state.Turn.Calls {
		if c.Running() {
			return c.ID
		}
	}
	return ""
}

// send retries a command under one ID until it is acknowledged, and reports whether it
// was. A command that must succeed has to cause an entry.
func (p *user) send(ctx context.Context, what string, must bool, c commands.Command) bool {
	id := string(p.scenario.id) + "/" + what
	for {
		try, cancel := context.WithTimeout(ctx, 5*time.Second)
		err := p.client.Send(try, p.scenario.id, id, c)
		cancel()
		if err == nil {
			break
		}
		p.log.note("%s: %s: %v", p.scenario.id, what, err)
		if !pause(ctx, 100*time.Millisecond) {
			return false
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.sent++
	if must {
		p.accepted = append(p.accepted, id)
	}
	return true
}

// sightings are the entries that a follower of a session saw, in order.
type sightings struct {
	mu     sync.Mutex
	hashes []events.Hash // of entry 1, 2, …
}

// last returns the number of the last entry seen.
func (s *sightings) last() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return uint64(len(s.hashes))
}

// add records the next entry, or returns why it is not the next one.
func (s *sightings) add(rec journal.Record) (wrong string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if want := uint64(len(s.hashes)) + 1; rec.Seq != want {
		return fmt.Sprintf("entry %d arrived where entry %d comes next", rec.Seq, want)
	}
	s.hashes = append(s.hashes, rec.Hash)
	return ""
}

// differs compares the entries seen with the stream. complete means that all of them
// should have been seen.
func (s *sightings) differs(stream []events.Hash, complete bool) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, h := range s.hashes {
		switch {
		case i >= len(stream):
			return fmt.Sprintf("entry %d was seen and is not in the stream", i+1)
		case stream[i] != h:
			return fmt.Sprintf("entry %d was seen with another hash than the stream has", i+1)
		}
	}
	if complete && len(s.hashes) < len(stream) {
		return fmt.Sprintf("%d of %d entries were seen", len(s.hashes), len(stream))
	}
	return ""
}
