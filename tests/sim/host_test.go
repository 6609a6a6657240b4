package sim

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/turnlog/turnlog/agent"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events/journal"
	"github.com/turnlog/turnlog/extension"
	"github.com/turnlog/turnlog/session"
	"github.com/turnlog/turnlog/tool"
	"github.com/turnlog/turnlog/worker/task"
)

// host runs one session with one driver after another. Fields without a guard belong to run's
// goroutine.
type host struct {
	w          *world
	id         content.SessionID
	dice       dice
	source     source
	extraOn    bool
	configN    int              // of the current configuration
	driver     *session.Session // nil: dead
	retired    []*session.Session
	asked      *session.ApprovalRequest // the blocking step
	askedAt    time.Time
	background sync.WaitGroup // goroutines that act while the host steps
	observed   *observer
	watchers   []*observer

	mu       sync.Mutex
	sent     map[string]fate // every input, by its text
	troubled bool            // a command failed since the driver started
}

// fate is what a host knows about an input that it sent.
type fate int

const (
	refused fate = iota // it has no effect
	unknown             // the driver died while handling it
	accepted
)

func newHost(w *world, n int) *host {
	id := content.SessionID(fmt.Sprintf("s%d", n))
	h := &host{w: w, id: id, dice: w.dice("host", id), sent: map[string]fate{}}
	reg, err := tool.NewRegistry("tools", w.tools...)
	if err != nil {
		w.t.Fatal(err)
	}
	h.source = source{reg, w, make(chan struct{}, 100)}
	return h
}

func (h *host) preload() string { return "preloaded " + string(h.id) }

func (h *host) note(format string, args ...any) { h.w.note(h.id, format, args...) }

// start starts a new driver.
func (h *host) start(ctx context.Context) {
	if h.driver != nil {
		h.retired = append(h.retired, h.driver)
	}
	h.driver, h.asked = nil, nil
	if h.configN == 0 || h.dice.one(5) {
		h.configN++
	}
	for range 100 {
		d, err := h.try(ctx)
		h.note("start with configuration %d: %v", h.configN, err)
		switch {
		case err == nil:
			h.driver = d
			h.trouble(false)
			return
		case inTrouble(err), errors.Is(err, errSource):
			h.w.saw("start: refused")
		default:
			h.w.wrong("%s: Start = %v", h.id, err)
			return
		}
	}
	h.w.wrong("%s: Start fails for ever", h.id)
}

// try starts a driver with its own observer.
func (h *host) try(ctx context.Context) (*session.Session, error) {
	h.observed = newObserver(h)
	h.watchers = append(h.watchers, h.observed)
	c := h.config(h.configN)
	c.Observers = []extension.Observer{h.observed}
	c.TranscriptObservers = []extension.TranscriptObserver{h.observed}
	c.Logger = zap.New(commandLog{zap.DebugLevel, h.w})
	c.TaskManager = task.Async(task.AsyncConfig{})
	a, err := agent.New(c)
	if err != nil {
		return nil, err
	}
	return a.Start(ctx, agent.SessionConfig{ID: h.id})
}

// inTrouble reports whether an error means that the driver is dead.
func inTrouble(err error) bool {
	return errors.Is(err, journal.ErrConflict) || errors.Is(err, journal.ErrUnknown) || errors.Is(err, session.ErrClosed)
}

// trouble records whether the driver may be dead without the host knowing.
func (h *host) trouble(met bool) (before bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	before, h.troubled = h.troubled, met
	return before
}

// text returns a new, unique input.
func (h *host) text() (string, content.Item) {
	h.mu.Lock()
	defer h.mu.Unlock()
	s := fmt.Sprintf("input %s-%d", h.id, len(h.sent)+1)
	h.sent[s] = unknown
	return s, content.UserText(s)
}

// settle records the fate of an input.
func (h *host) settle(text string, err error) {
	f := accepted
	switch {
	case err == nil:
	case errors.Is(err, journal.ErrUnknown):
		f = unknown
	default:
		f = refused
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.sent[text] = f
}

// ask checks the error of a command, which may have come at the wrong moment.
func (h *host) ask(what string, err error) {
	h.note("%s: %v", what, err)
	refusal, ok := errors.AsType[*session.InvalidStateError](err)
	switch {
	case err == nil:
		h.w.saw("ask: " + what)
	case ok:
		h.w.saw("ask refused: " + refusal.Reason)
	case inTrouble(err), errors.Is(err, errSource):
		h.w.saw("ask: in trouble")
		h.trouble(true)
	default:
		h.w.wrong("%s: %s = %v", h.id, what, err)
	}
}

// took checks the result of Next.
func (h *host) took(step session.Step, err error) {
	h.note("next: %s %v", describe(step), err)
	h.asked = nil
	if err != nil {
		h.failed("next", err)
		return
	}
	h.w.saw(fmt.Sprintf("step: %T", step))
	switch step := step.(type) {
	case *session.ApprovalRequest:
		h.asked, h.askedAt = step, time.Now()
	case *session.Finished:
		h.observed.finished(step.Result.TurnID)
	case *session.AwaitingInput, *session.AfterToolResult:
	}
}

// failed checks an error of Next or of a facade.
func (h *host) failed(op string, err error) {
	var (
		provider   *session.ProviderError
		toolErr    *session.ToolError
		mutatorErr *session.MutatorError
		invalid    *session.InvalidStateError
	)
	kind := ""
	switch {
	case errors.As(err, &provider):
		kind = "provider " + string(provider.Class)
	case errors.As(err, &toolErr):
		kind = "tool"
	case errors.As(err, &mutatorErr):
		kind = "mutator"
	case errors.As(err, &invalid):
		kind = invalid.Reason
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		kind = "impatient"
	case errors.Is(err, errSource):
		kind = "source"
	case inTrouble(err):
		kind = "in trouble"
		h.retired = append(h.retired, h.driver)
		h.driver = nil
	default:
		h.w.wrong("%s: %s = %v", h.id, op, err)
	}
	h.w.saw(op + " error: " + kind)
}

func describe(s session.Step) string {
	switch s := s.(type) {
	case *session.ApprovalRequest:
		return fmt.Sprintf("approval %s of %s", s.ID, s.CallID)
	case *session.AwaitingInput:
		return "awaiting input"
	case *session.AfterToolResult:
		return fmt.Sprintf("after the tools of %s/%d", s.TurnID, s.Round)
	case *session.Finished:
		return fmt.Sprintf("finished %s %s", s.Result.TurnID, s.Result.FinishReason)
	}
	return "no step"
}

// run acts at random for a while.
func (h *host) run(ctx context.Context, actions int) {
	for range actions {
		if h.w.t.Failed() {
			return
		}
		if h.driver == nil {
			h.start(ctx)
			continue
		}
		h.act()(ctx)
	}
	h.background.Wait()
}

// act picks an action.
func (h *host) act() func(context.Context) {
	return pick(h.dice,
		choice[func(context.Context)]{40, h.next},
		choice[func(context.Context)]{12, h.send},
		choice[func(context.Context)]{4, h.mischief},
		choice[func(context.Context)]{5, h.facade},
		choice[func(context.Context)]{3, h.task},
		choice[func(context.Context)]{3, h.crash},
		choice[func(context.Context)]{2, h.takeOver},
		choice[func(context.Context)]{2, h.reopen},
		choice[func(context.Context)]{2, h.changeTools},
		choice[func(context.Context)]{2, h.breakSource},
		choice[func(context.Context)]{2, h.peek},
	)
}

// next calls Next with a deadline, while other goroutines send commands.
func (h *host) next(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, h.dice.upTo(among(h.dice, time.Second, time.Minute, 10*time.Minute)))
	defer cancel()
	for range h.dice.IntN(3) {
		h.meanwhile(ctx)
	}
	if h.asked != nil && h.dice.one(3) {
		h.ignore(ctx)
		return
	}
	if h.asked != nil {
		h.answer(ctx)
	}
	step, err := h.driver.Next(ctx)
	h.took(step, err)
	if reason(err) == "approval_pending" {
		h.settleOldest(ctx)
	}
	switch step := step.(type) {
	case *session.AwaitingInput:
		if h.dice.one(2) {
			h.submit(ctx, step.Submit)
		}
	case *session.AfterToolResult:
		if h.dice.one(4) {
			h.submit(ctx, step.Submit)
		}
	case *session.ApprovalRequest, *session.Finished:
	}
}

// submit sends input to the handle of a step.
func (h *host) submit(ctx context.Context, to func(context.Context, ...content.Item) error) {
	text, item := h.text()
	err := to(ctx, item)
	h.settle(text, err)
	h.ask("submit", err)
}
