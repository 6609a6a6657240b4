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
	"github.com/turnlog/turnlog/internal/pause"
	"github.com/turnlog/turnlog/jetstream"
	"github.com/turnlog/turnlog/loop"
)

// user opens a session, follows it, and does what its scenario says. It records what was
// acknowledged and what it saw, for the judge.
type user struct {
	scenario scenario
	client   *client.Client
	cell     *jetstream.Cell // of the client's connection
	world    *world
	log      *findings
	news     chan struct{}   // something changed; one is enough
	over     <-chan struct{} // closed when no new turn may start

	mu       sync.Mutex // guards the fields below
	state    *loop.State
	seen     sightings
	causes   map[string]bool
	accepted []*sent // commands that were acknowledged, each once
	repeated int     // commands that a rollback may have lost, and that were sent again
	rests    bool    // everything accepted is done, and nothing new will be sent

	through chan struct{} // closed when the scenario is done
}

// sent is a command that was acknowledged.
type sent struct {
	id       string
	command  commands.Command
	must     bool      // it must cause an entry
	from, to time.Time // it was stored in this time
}

func newUser(s scenario, c *client.Client, cell *jetstream.Cell, w *world, over <-chan struct{}) *user {
	return &user{
		scenario: s, client: c, cell: cell, world: w, log: w.log, over: over, news: make(chan struct{}, 1),
		state: loop.New(s.id), causes: make(map[string]bool), through: make(chan struct{}),
	}
}

// live follows the session and attends to it until ctx ends: after the last turn of the
// scenario, late outcomes of calls may still lead to more turns and questions.
func (u *user) live(ctx context.Context) {
	ctx, stop := context.WithCancel(ctx)
	var following sync.WaitGroup
	following.Go(func() { u.follow(ctx) })
	u.act(ctx)
	stop()
	following.Wait()
}

// follow keeps the state up to date with the journal. After an error it resumes.
func (u *user) follow(ctx context.Context) {
	for {
		for update, err := range u.client.Follow(ctx, u.scenario.id, u.seen.last()) {
			if err != nil {
				u.log.note("%s: follow: %v", u.scenario.id, err)
				break
			}
			if update.Record != nil {
				u.see(*update.Record)
			}
		}
		if !pause.For(ctx, 100*time.Millisecond) {
			return
		}
	}
}

func (u *user) see(rec journal.Record) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if wrong := u.seen.add(rec); wrong != "" {
		u.log.violation(u.scenario.id, FollowExact, wrong)
		return
	}
	u.state.Fold(rec.Entry)
	u.causes[rec.Entry.Cause] = true
	for _, ev := range rec.Entry.Events {
		if r, ok := ev.(events.ToolResultReceived); ok && r.Result.Status == content.StatusOK {
			u.world.results.add()
		}
	}
	select {
	case u.news <- struct{}{}:
	default:
	}
}

// act sends what the scenario and the state of the session call for.
func (u *user) act(ctx context.Context) {
	dice := rand.New(rand.NewPCG(u.scenario.user, 0)) //nolint:gosec // repeatable, not secret
	if !u.send(ctx, "open", true, commands.OpenSession{Config: u.scenario.config}) {
		return
	}
	settled := make(map[string]bool)
	next, due := 0, time.Now()
	for {
		open, dead, rests, running := u.look()
		finished := next == len(u.scenario.turns) || u.isOver()
		switch {
		case u.repeat(ctx):
			continue
		case u.decide(ctx, dice, settled, open):
			continue
		case u.bury(ctx, dice, settled, dead):
			continue
		case !finished && (rests || u.scenario.turns[next].impatient && running != ""):
			if t := u.scenario.turns[next]; time.Since(due) >= t.think {
				u.submit(ctx, dice, t, next)
				next, due = next+1, time.Now()
				continue
			}
		case finished:
			u.rest(rests)
		}
		if !u.await(ctx, finished && rests) {
			return
		}
	}
}

// rest notes whether the session has nothing to do after its scenario.
func (u *user) rest(yes bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.rests = yes
	if yes && !closed(u.through) {
		close(u.through)
	}
}

func (u *user) atRest() bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.rests
}

// await waits for news, for at most 100 ms, or for a second if only a rollback can change anything: a run has
// hundreds of users at rest.
func (u *user) await(ctx context.Context, rests bool) bool {
	wait := 100 * time.Millisecond
	if rests {
		wait = time.Second
	}
	t := time.NewTimer(wait)
	defer t.Stop()
	select {
	case <-u.news:
	case <-t.C:
	case <-ctx.Done():
		return false
	}
	return true
}

func (u *user) isOver() bool { return closed(u.over) }

// look returns the open approvals, the dead letters, whether the session is at rest, and the
// open turn.
func (u *user) look() (open []events.Approval, dead []loop.Call, rests bool, running content.TurnID) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.state.Turn != nil {
		running = u.state.Turn.ID
	}
	return u.state.PendingApprovals(), u.state.DeadLetters(), u.restsLocked(), running
}

// restsLocked reports whether everything accepted is done.
func (u *user) restsLocked() bool {
	for _, s := range u.accepted {
		if s.must && !u.causes[s.id] {
			return false
		}
	}
	return atRest(u.state)
}

// atRest reports whether a session has nothing to do until it gets input.
func atRest(s *loop.State) bool {
	return s.Seq > 0 && loop.Waiting(s) == commands.WaitInput && s.Turn == nil && len(s.Queue) == 0 &&
		!slices.ContainsFunc(s.Background, loop.Call.Running) &&
		!slices.ContainsFunc(s.Notices, func(n loop.Notice) bool { return !n.Quiet })
}

// decide answers the first question that it has not answered yet, and reports whether
// there is one.
func (u *user) decide(ctx context.Context, dice *rand.Rand, settled map[string]bool, open []events.Approval) bool {
	for _, a := range open {
		if settled[string(a.ID)] {
			continue
		}
		settled[string(a.ID)] = true
		if !pause.For(ctx, between(dice, 0, 200*time.Millisecond)) {
			return false
		}
		yes := dice.IntN(4) != 0
		always := yes && dice.IntN(4) == 0 && a.RequestKind != loop.KindRetry // each lost run has its own question
		u.send(ctx, "decide-"+string(a.ID), false, commands.ResolveApproval{
			Approval: a.ID, Approve: yes, Always: always, By: "torture",
		})
		return true
	}
	return false
}

// bury retries or drops the first dead letter that it has not settled yet, and reports
// whether there is one.
func (u *user) bury(ctx context.Context, dice *rand.Rand, settled map[string]bool, dead []loop.Call) bool {
	for _, c := range dead {
		id := fmt.Sprintf("bury-%s-%d", c.ID, c.Attempt)
		if settled[id] {
			continue
		}
		settled[id] = true
		return u.send(ctx, id, false, commands.SettleDeadLetter{Call: c.ID, Retry: dice.IntN(3) != 0, MayRepeat: !harmful(c.Name), By: "torture"})
	}
	return false
}

// submit sends the input of a turn, and sometimes a cancel or a detach after it. A session
// may reject input that asks for that.
func (u *user) submit(ctx context.Context, dice *rand.Rand, t turn, n int) {
	input := commands.SubmitInput{Items: []content.Item{content.UserText(t.text)}, OnBusy: t.busy}
	u.send(ctx, fmt.Sprint("input-", n), t.busy != events.Reject, input)
	detach, give := dice.IntN(4) == 0, dice.IntN(8) == 0
	if t.cancel > 0 && pause.For(ctx, t.cancel) {
		u.send(ctx, fmt.Sprint("cancel-", n), false, commands.Cancel{Scope: commands.ScopeTurn, Reason: "enough"})
	}
	if detach && pause.For(ctx, 300*time.Millisecond) {
		if call := u.runningCall(); call != "" {
			u.send(ctx, fmt.Sprint("detach-", n), false, commands.DetachCall{Call: call})
		}
	}
	if give && pause.For(ctx, 200*time.Millisecond) {
		if call := u.runningCall(); call != "" {
			u.send(ctx, fmt.Sprint("cancel-call-", n), false, commands.Cancel{Scope: commands.ScopeCall, Call: call, Reason: "not this"})
		}
	}
}

func (u *user) runningCall() content.CallID {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.state.Turn == nil {
		return ""
	}
	for _, c := range u.state.Turn.Calls {
		if c.Running() {
			return c.ID
		}
	}
	return ""
}

// send sends a command until it is acknowledged, and reports whether it was. A command that must
// succeed has to cause an entry.
func (u *user) send(ctx context.Context, what string, must bool, c commands.Command) bool {
	s := &sent{id: string(u.scenario.id) + "/" + what, command: c, must: must}
	if !u.submitted(ctx, s) {
		return false
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	u.accepted = append(u.accepted, s)
	return true
}

// submitted sends a command until it is acknowledged.
func (u *user) submitted(ctx context.Context, s *sent) bool {
	for {
		s.from = time.Now()
		try, cancel := context.WithTimeout(ctx, 5*time.Second)
		err := u.client.Send(try, u.scenario.id, s.id, s.command)
		cancel()
		u.world.cfg.OnSend(err)
		if err == nil {
			s.to = time.Now()
			return true
		}
		u.log.note("%s: %v", s.id, err)
		if !pause.For(ctx, 100*time.Millisecond) {
			return false
		}
	}
}

// repeat resends the first command that a rollback may have lost before it was handled, and reports whether
// there is one. Other commands are never sent twice.
func (u *user) repeat(ctx context.Context) bool {
	u.mu.Lock()
	i := slices.IndexFunc(u.accepted, func(s *sent) bool {
		return !u.causes[s.id] && u.world.site.mayHaveLost(u.streamOf(s.command), s.from, s.to)
	})
	var again *sent
	if i >= 0 {
		again = u.accepted[i]
		u.repeated++
	}
	u.mu.Unlock()
	return again != nil && u.submitted(ctx, again)
}

// streamOf returns the stream in which a command of the user is stored.
func (u *user) streamOf(c commands.Command) string {
	if lane := u.cell.Inbox().LaneOf(c); lane != lane.Unnamed() {
		return "NAMED"
	}
	return "INBOX"
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
