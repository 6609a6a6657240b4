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

// person opens a session, follows it, and does what its story says. What it was
// promised and what it saw is kept for the judge.
type person struct {
	story  story
	client *client.Client
	log    *findings
	news   chan struct{}   // something changed; one is enough
	over   <-chan struct{} // closed when nothing new is to be begun

	mu       sync.Mutex // guards what follows
	state    *loop.State
	seen     sightings
	causes   map[string]bool
	accepted []string // commands that must cause an entry
	sent     int      // commands that were acknowledged
	rests    bool     // all that was accepted is done, and nothing new is to come

	through chan struct{} // closed when the story is told: what still happens is of the session's own making
}

func newPerson(s story, c *client.Client, f *findings, over <-chan struct{}) *person {
	return &person{
		story: s, client: c, log: f, over: over, news: make(chan struct{}, 1),
		state: loop.New(s.id), causes: make(map[string]bool), through: make(chan struct{}),
	}
}

// live follows the session and attends to it until ctx ends: behind the last turn of the
// story, outcomes of calls may still come and lead to more, and to questions.
func (p *person) live(ctx context.Context) {
	ctx, stop := context.WithCancel(ctx)
	var following sync.WaitGroup
	following.Go(func() { p.follow(ctx) })
	p.act(ctx)
	stop()
	following.Wait()
}

// follow keeps the state up with the journal. It begins again where it was if it is
// told that it cannot go on.
func (p *person) follow(ctx context.Context) {
	for {
		for u, err := range p.client.Follow(ctx, p.story.id, p.seen.last()) {
			if err != nil {
				p.log.note("%s: follow: %v", p.story.id, err)
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

func (p *person) see(rec journal.Record) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if wrong := p.seen.add(rec); wrong != "" {
		p.log.violation(p.story.id, FollowExact, wrong)
		return
	}
	p.state.Fold(rec.Entry)
	p.causes[rec.Entry.Cause] = true
	select {
	case p.news <- struct{}{}:
	default:
	}
}

// act sends what the story and the state of the session ask for.
func (p *person) act(ctx context.Context) {
	dice := rand.New(rand.NewPCG(p.story.person, 0)) //nolint:gosec // to be repeated, not to be secret
	if !p.send(ctx, "open", true, commands.OpenSession{Config: p.story.config}) {
		return
	}
	settled := make(map[content.ApprovalID]bool)
	next, due := 0, time.Now()
	for {
		open, rests, running := p.look()
		told := next == len(p.story.turns) || p.isOver()
		switch {
		case p.decide(ctx, dice, settled, open):
			continue
		case !told && (rests || p.story.turns[next].hasty && running != ""):
			if t := p.story.turns[next]; time.Since(due) >= t.think {
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

// rest notes whether the session has nothing to do, now that its story is told.
func (p *person) rest(yes bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.rests = yes
	if yes && !closed(p.through) {
		close(p.through)
	}
}

func (p *person) atRest() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.rests
}

// await waits for news, but looks again now and then.
func (p *person) await(ctx context.Context) bool {
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

func (p *person) isOver() bool { return closed(p.over) }

// look returns what is to be decided, whether the session has nothing to do, and a
// turn that is open.
func (p *person) look() (open []events.Approval, rests bool, running content.TurnID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.state.Turn != nil {
		running = p.state.Turn.ID
	}
	return p.state.PendingApprovals(), p.restsLocked(), running
}

// restsLocked reports whether all that was accepted is done.
func (p *person) restsLocked() bool {
	for _, id := range p.accepted {
		if !p.causes[id] {
			return false
		}
	}
	return atRest(p.state)
}

// atRest reports whether a session has nothing to do until somebody asks for more.
func atRest(s *loop.State) bool {
	return s.Seq > 0 && loop.Waiting(s) == commands.WaitInput && s.Turn == nil && len(s.Queue) == 0 &&
		!slices.ContainsFunc(s.Background, loop.Call.Running) &&
		!slices.ContainsFunc(s.Notices, func(n loop.Notice) bool { return !n.Quiet })
}

// decide answers the first question that it has not answered yet, and reports whether
// there was one.
func (p *person) decide(ctx context.Context, dice *rand.Rand, settled map[content.ApprovalID]bool, open []events.Approval) bool {
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

// submit brings the input of a turn, and sends what comes behind it: a change of mind,
// or the wish not to wait for a call.
func (p *person) submit(ctx context.Context, dice *rand.Rand, t turn, n int) {
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

func (p *person) runningCall() content.CallID {
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

// send sends a command until it is acknowledged, always under the same id, and reports
// whether it was. One that must not be refused has to cause an entry.
func (p *person) send(ctx context.Context, what string, must bool, c commands.Command) bool {
	id := string(p.story.id) + "/" + what
	for {
		try, cancel := context.WithTimeout(ctx, 5*time.Second)
		err := p.client.Send(try, p.story.id, id, c)
		cancel()
		if err == nil {
			break
		}
		p.log.note("%s: %s: %v", p.story.id, what, err)
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

// sightings are the entries that somebody who follows a session saw, in order.
type sightings struct {
	mu     sync.Mutex
	hashes []events.Hash // of entry 1, 2, …
}

// last is the number of the last entry that was seen.
func (s *sightings) last() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return uint64(len(s.hashes))
}

// add takes the next entry in, or says why it is not the next one.
func (s *sightings) add(rec journal.Record) (wrong string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if want := uint64(len(s.hashes)) + 1; rec.Seq != want {
		return fmt.Sprintf("entry %d was shown where entry %d comes next", rec.Seq, want)
	}
	s.hashes = append(s.hashes, rec.Hash)
	return ""
}

// differs compares what was seen with what is in the stream. complete says that all of
// it should have been seen.
func (s *sightings) differs(stream []events.Hash, complete bool) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, h := range s.hashes {
		switch {
		case i >= len(stream):
			return fmt.Sprintf("entry %d was shown and is not in the stream", i+1)
		case stream[i] != h:
			return fmt.Sprintf("entry %d was shown as another one than is in the stream", i+1)
		}
	}
	if complete && len(s.hashes) < len(stream) {
		return fmt.Sprintf("%d of %d entries were shown", len(s.hashes), len(stream))
	}
	return ""
}
