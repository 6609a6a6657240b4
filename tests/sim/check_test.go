package sim

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/turnlog/turnlog/audit"
	"github.com/turnlog/turnlog/commands"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/loop"
)

// check checks the journal of a session at rest.
func (h *host) check(ctx context.Context) {
	rep, err := audit.Verify(h.w.store.Read(ctx, h.id, 0))
	if err != nil {
		h.w.wrong("%s: Verify = %v", h.id, err)
	}
	for _, v := range append(rep.Faults, rep.Warnings...) {
		h.w.wrong("%s: %s", h.id, v)
	}
	s, err := audit.Replay(h.id, h.w.store.Read(ctx, h.id, 0))
	if err != nil {
		h.w.wrong("%s: Replay = %v", h.id, err)
		return
	}
	if got := loop.Waiting(s); got != commands.WaitInput || s.Turn != nil || s.Task != nil || len(s.Queue) > 0 || wakes(s) {
		h.w.wrong("%s: at rest it waits for %s; turn %v, task %v, %d queued, %d notices", h.id, got, s.Turn != nil, s.Task != nil, len(s.Queue), len(s.Notices))
	}
	l := h.ledger(ctx)
	h.checkInputs(l)
	h.checkCalls(l)
	h.checkDone(l)
	if l.turns != 0 || l.tasks != 0 {
		h.w.wrong("%s: %d turns and %d tasks are not finished", h.id, l.turns, l.tasks)
	}
}

// wakes reports whether a notification is pending that should have started a turn.
func wakes(s *loop.State) bool {
	return slices.ContainsFunc(s.Notices, func(n loop.Notice) bool { return !n.Quiet })
}

// ledger counts the events of a journal, independently of the core and of package audit.
type ledger struct {
	queued, joined map[string]int // inputs by text
	calls          map[content.CallID]*account
	places         map[content.Place]content.CallID
	started        map[string]bool // what may have run, by identity
	turns, tasks   int             // open
}

type account struct {
	asked, results, late, detached, again int
	status                                content.Status
	forged                                bool // a result came without its ticket
}

func (h *host) ledger(ctx context.Context) *ledger {
	l := &ledger{
		queued: map[string]int{}, joined: map[string]int{}, calls: map[content.CallID]*account{},
		places: map[content.Place]content.CallID{}, started: map[string]bool{},
	}
	for rec, err := range h.w.store.Read(ctx, h.id, 0) {
		if err != nil {
			h.w.wrong("%s: Read = %v", h.id, err)
			return l
		}
		for _, ev := range rec.Entry.Events {
			h.w.sawEvent(ev)
			l.add(h.id, ev)
		}
	}
	return l
}

func (l *ledger) call(id content.CallID) *account {
	if l.calls[id] == nil {
		l.calls[id] = &account{}
	}
	return l.calls[id]
}

func (l *ledger) add(s content.SessionID, ev events.Event) {
	switch ev := ev.(type) { //nolint:gochecksumtype // it counts a few
	case events.InputQueued:
		for _, t := range texts(ev.Items) {
			l.queued[t]++
		}
	case events.InputAccepted:
		for _, t := range texts(ev.Items) {
			l.joined[t]++
		}
	case events.ToolCallRequested:
		l.call(ev.Call.ID).asked++
		l.places[ev.Call.Place] = ev.Call.ID
	case events.ToolResultReceived:
		a := l.call(ev.Result.CallID)
		a.forged = a.forged || ev.Result.Text() == forged
		if ev.Late {
			a.late++
		} else {
			a.results++
			a.status = ev.Result.Status
		}
	case events.DeadLetterSettled:
		if ev.Outcome == events.DeadRetried {
			l.call(ev.Call).again++
		}
	case events.ToolDetached:
		l.call(ev.Call).detached++
	case events.ToolDispatched:
		l.started[fmt.Sprint("tool ", s, "/", ev.Place, "/", ev.Attempt)] = true
	case events.ModelCallStarted:
		l.started[fmt.Sprint("model ", s, "/", ev.Turn, "/", ev.Round, "/", ev.Attempt)] = true
	case events.TurnStarted:
		l.turns++
	case events.TurnFinished:
		l.turns--
	case events.TaskStarted:
		l.tasks++
	case events.TaskFinished:
		l.tasks--
	}
}

// checkInputs: accepted input was queued once and joined once, refused input is nowhere, and
// input with an unknown outcome is there at most once.
func (h *host) checkInputs(l *ledger) {
	h.sent[h.preload()] = accepted
	for text, f := range h.sent {
		queued, joined := l.queued[text], l.joined[text]
		ok := queued == joined
		switch f {
		case accepted:
			ok = ok && queued == 1
		case refused:
			ok = ok && queued == 0
		case unknown:
			ok = ok && queued <= 1
		}
		if !ok {
			h.w.wrong("%s: %q, of fate %d, was queued %d times and joined %d times", h.id, text, f, queued, joined)
		}
	}
}

// checkCalls: every call has one answer, a placeholder or a result, and one late outcome if the
// answer left it open. A retried dead letter may have another.
func (h *host) checkCalls(l *ledger) {
	for id, a := range l.calls {
		ok := a.asked == 1 && a.results+a.detached == 1 && a.late <= 1+min(a.again, a.detached) && !a.forged
		switch {
		case a.detached == 1:
			ok = ok && a.late >= 1
		case a.status != content.StatusCancelled && a.status != content.StatusUnknown:
			ok = ok && a.late == 0
		}
		if !ok {
			h.w.wrong("%s: call %s: %+v", h.id, id, *a)
		}
	}
}

// checkDone: nothing that is paid for ran without a record in the journal.
func (h *host) checkDone(l *ledger) {
	h.w.mu.Lock()
	defer h.w.mu.Unlock()
	for id := range h.w.done {
		if _, rest, _ := strings.Cut(id, " "); strings.HasPrefix(rest, string(h.id)+"/") && !l.started[id] {
			h.w.wrong("%s: %s was done, and the journal does not say so", h.id, id)
		}
	}
}
