package session

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"runtime"
	"slices"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/turnlog/turnlog/commands"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/events/journal"
	"github.com/turnlog/turnlog/extension"
	"github.com/turnlog/turnlog/loop"
)

// fake is a backend without a model: the test reports what effects did.
type fake struct {
	news   chan struct{}
	stops  bool                         // a model that is canceled stops at once
	refuse func(commands.Command) error // nil: nothing is refused
	leave  func()                       // called by the end of a Next; nil: nothing
	first  func()                       // called before the next ask is handled, once; nil: nothing
	inside int                          // Nexts

	mu         sync.Mutex
	state      *loop.State
	records    []journal.Record
	unreadable error // nil: the records can be read
	watcher    Watcher
	verifier   extension.Verifier
}

func newFake(t *testing.T, stepped bool) (*fake, *Session) {
	t.Helper()
	f := &fake{state: loop.New("s"), news: make(chan struct{}, 1)}
	decideAll(t, f.state, commands.Claim{}, commands.OpenSession{Stepped: stepped})
	return f, New(f, Config{})
}

func (f *fake) Watch(w Watcher) { f.watcher = w }

func (f *fake) View(see func(*loop.State, journal.Head)) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	see(f.state, journal.Head{Seq: f.state.Seq})
	return nil
}

func (f *fake) Ask(_ context.Context, id string, c commands.Command) error {
	if first := f.first; first != nil {
		f.first = nil
		first()
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	env := commands.Envelope{ID: id, Session: "s", At: f.state.At + 1, Command: c}
	evs, err := loop.Decide(f.state, env)
	if err == nil && len(evs) > 0 {
		e := events.Entry{Session: "s", Seq: f.state.Seq + 1, Cause: id, At: env.At, Epoch: 1, Events: evs}
		f.state.Fold(e)
		rec := journal.Record{Head: journal.Head{Seq: e.Seq}, Entry: e}
		f.records = append(f.records, rec)
		f.watcher.Applied(f.state, rec)
		select {
		case f.news <- struct{}{}:
		default:
		}
	}
	if err == nil && f.refuse != nil {
		err = f.refuse(c)
	}
	return err
}

func (f *fake) Enter(context.Context) (func(), error) {
	f.inside++
	return func() {
		f.inside--
		if f.leave != nil {
			f.leave()
		}
	}, nil
}

func (f *fake) Sync(ctx context.Context) error {
	var stopped *commands.ReportModelStopped
	_ = f.View(func(s *loop.State, _ journal.Head) {
		if f.stops && s.Turn != nil && s.Turn.Cancel != nil {
			stopped = &commands.ReportModelStopped{ModelCall: commands.ModelCall{Turn: s.Turn.ID, Round: s.Turn.Round, Attempt: 1}}
		}
	})
	if stopped == nil {
		return nil
	}
	return f.Ask(ctx, "stopped-"+string(stopped.Turn), *stopped)
}

func (f *fake) Wait(ctx context.Context) error {
	select {
	case <-f.news:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (f *fake) Read(ctx context.Context) iter.Seq2[journal.Record, error] {
	f.mu.Lock()
	defer f.mu.Unlock()
	records, err := f.records, f.unreadable
	return func(yield func(journal.Record, error) bool) {
		for _, rec := range records {
			if bad := cmp.Or(err, context.Cause(ctx)); bad != nil {
				yield(journal.Record{}, bad)
				return
			}
			if !yield(rec, nil) {
				return
			}
		}
	}
}

func (f *fake) Close(context.Context) error { return nil }

func (f *fake) SetVerifier(v extension.Verifier) { f.verifier = v }

// answers reports the model's answer to the open turn.
func (f *fake) answers(t *testing.T, text string) {
	t.Helper()
	var c commands.ReportReply
	_ = f.View(func(s *loop.State, _ journal.Head) {
		c.ModelCall = commands.ModelCall{Turn: s.Turn.ID, Round: s.Turn.Round, Attempt: s.Turn.Attempt}
	})
	c.Items = []content.Item{content.AssistantText(text)}
	if err := f.Ask(t.Context(), "answer-"+text, c); err != nil {
		t.Fatal(err)
	}
}

func submit(t *testing.T, s *Session, text string, b OnBusy) *Turn {
	t.Helper()
	turn, err := s.Submit(t.Context(), Input{Items: []content.Item{content.UserText(text)}, OnBusy: b})
	if err != nil {
		t.Fatal(err)
	}
	return turn
}

func over() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}

func (f *fake) cancelled(turn content.TurnID) (yes bool) {
	_ = f.View(func(s *loop.State, _ journal.Head) { yes = s.Turn == nil || s.Turn.ID != turn || s.Turn.Cancel != nil })
	return yes
}

func TestAContextThatEndsCancelsNoTurnOfAnotherInput(t *testing.T) {
	t.Parallel()
	f, s := newFake(t, false)
	f.stops = true
	first := submit(t, s, "one", Steer)
	if err := s.Send(t.Context(), Queue, content.UserText("two")); err != nil {
		t.Fatal(err)
	}
	if _, err := first.Wait(over()); !errors.Is(err, ErrCancelled) {
		t.Errorf("Wait = %v", err)
	}
	if f.cancelled("turn-2") {
		t.Error("the turn that started with the end of the first one was cancelled, too")
	}
	third := submit(t, s, "three", Queue)
	if _, err := third.Wait(over()); !errors.Is(err, ErrCancelled) {
		t.Errorf("Wait = %v", err)
	}
	if f.cancelled("turn-2") || len(s.Snapshot().PendingInput) != 1 {
		t.Error("the turn in front of the third input was cancelled")
	}
}

func TestATurnThatEndedMeanwhileIsStillReturned(t *testing.T) {
	t.Parallel()
	f, s := newFake(t, false)
	if err := s.Send(t.Context(), Steer, content.UserText("one")); err != nil {
		t.Fatal(err)
	}
	f.answers(t, "done")
	res, err := s.Run(t.Context())
	if err != nil || res.Response != "done" {
		t.Errorf("Run = %+v, %v", res, err)
	}
	if _, err := s.Run(t.Context()); !errors.Is(err, ErrInvalidState) {
		t.Errorf("a turn is returned twice: %v", err)
	}
}

func TestATurnThatIsNotClosedKeepsNoUpdatesOfLaterOnes(t *testing.T) {
	t.Parallel()
	f, s := newFake(t, false)
	for _, text := range []string{"one", "two", "three"} {
		turn := submit(t, s, text, Steer)
		f.answers(t, text)
		if step, err := turn.Next(t.Context()); err != nil {
			t.Fatal(step, err)
		}
	}
	if len(s.turns) != 0 || len(s.streams) != 1 {
		t.Errorf("%d turns and %d streams are kept", len(s.turns), len(s.streams))
	}
}

func TestATurnThatWasLeftGoesOn(t *testing.T) {
	t.Parallel()
	f, s := newFake(t, false)
	turn := submit(t, s, "one", Steer)
	var left error
	for _, err := range turn.Updates(t.Context()) {
		turn.Close()
		left = err
	}
	if _, err := turn.Wait(t.Context()); !errors.Is(left, ErrLeft) || !errors.Is(err, ErrLeft) || f.cancelled("turn-1") {
		t.Errorf("Updates ends with %v, Wait with %v; cancelled: %v", left, err, f.cancelled("turn-1"))
	}
	f.answers(t, "done")
	again := s.Latest()
	var own []events.Kind
	for u, err := range again.Updates(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		if u.Own {
			own = append(own, events.KindOf(u.Event))
		}
	}
	if r := again.Result(); r == nil || r.Text() != "done" {
		t.Errorf("the turn's end = %+v", r)
	}
	if len(own) < 4 || own[0] != events.KindInputAccepted || own[len(own)-1] != events.KindTurnFinished {
		t.Errorf("its updates are %v, want all from its first entry on", own)
	}
}

func TestTheEntriesThatLedToATurnAreInItsHistory(t *testing.T) {
	t.Parallel()
	f, s := newFake(t, false)
	for _, text := range []string{"one", "two"} {
		submit(t, s, text, Steer)
		f.answers(t, text)
	}
	var got []string
	for u, err := range s.History(t.Context(), "turn-2") {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, fmt.Sprint(events.KindOf(u.Event), " ", u.Own))
	}
	if len(got) < 4 || got[0] != "input_queued false" || got[1] != "input_accepted true" || got[len(got)-1] != "turn_finished true" {
		t.Errorf("history = %q", got)
	}
	if latest := s.Latest(); latest.ID() != "turn-2" || latest.Result().Text() != "two" {
		t.Errorf("latest = %s", latest.ID())
	}
	if _, err := s.Turn("turn-2").Wait(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestInputThatIsSubmittedTwiceUnderOneIDIsFollowed(t *testing.T) {
	t.Parallel()
	f, s := newFake(t, false)
	in := Input{Items: []content.Item{content.UserText("one")}, ID: "in"}
	if _, err := s.Submit(t.Context(), in); err != nil {
		t.Fatal(err)
	}
	again, err := s.Submit(t.Context(), in)
	if err != nil {
		t.Fatal(err)
	}
	f.answers(t, "done")
	if res, err := again.Wait(t.Context()); err != nil || res.Response != "done" {
		t.Errorf("Wait = %+v, %v", res, err)
	}
}

func TestANextThatIsRefusedLeavesTheBackend(t *testing.T) {
	t.Parallel()
	f, s := newFake(t, true)
	f.leave = func() {
		f.leave = nil
		_, _ = s.Next(t.Context())
	}
	if _, err := s.Next(t.Context()); err != nil {
		t.Fatal(err)
	}
	if f.inside != 0 {
		t.Errorf("%d Nexts never left", f.inside)
	}
}

func TestAContinueThatWasPassedOverIsNoError(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f, s := newFake(t, true)
		turn := submit(t, s, "one", Steer)
		f.refuse = func(c commands.Command) error {
			if _, ok := c.(commands.Continue); !ok {
				return nil
			}
			return &commands.Rejection{Reason: ReasonPassedOver}
		}
		answer := make(chan error, 1)
		go func() {
			_, err := turn.Wait(t.Context())
			answer <- err
		}()
		synctest.Wait()
		if turn.ID() == "" {
			t.Fatal(<-answer)
		}
		f.answers(t, "done")
		if err := <-answer; err != nil {
			t.Error(err)
		}
	})
}

type never struct{ extension.Verifier }

func TestARefusedTaskLeavesTheVerifierOfTheOpenOne(t *testing.T) {
	t.Parallel()
	f, s := newFake(t, true)
	if _, err := s.SubmitTask(t.Context(), Task{Goal: "one", Verifier: never{}}); err != nil || f.verifier == nil {
		t.Fatal(f.verifier, err)
	}
	if _, err := s.SubmitTask(t.Context(), Task{Goal: "two"}); !errors.Is(err, ErrInvalidState) {
		t.Fatal(err)
	}
	if f.verifier == nil {
		t.Error("the open task has lost its verifier")
	}
}

func TestReadyHoldsWhenASessionIsOpenedWithSomethingToDo(t *testing.T) {
	t.Parallel()
	f, s := newFake(t, true)
	submit(t, s, "one", Steer)
	select {
	case <-New(f, Config{}).Ready():
	default:
		t.Error("Ready holds nothing")
	}
}

func TestAStreamYieldsNoDeltasOfOtherTurns(t *testing.T) {
	t.Parallel()
	f, s := newFake(t, false)
	submit(t, s, "one", Steer)
	second := submit(t, s, "two", Queue)
	for _, turn := range []content.TurnID{"turn-1", "turn-2"} {
		if got := second.foreign(turn); got != (turn == "turn-1") {
			t.Errorf("while it is queued, a delta of %s is foreign: %v", turn, got)
		}
	}
	f.answers(t, "done")
	for _, turn := range []content.TurnID{"turn-1", "turn-2"} {
		if got := second.foreign(turn); got != (turn == "turn-1") {
			t.Errorf("while it is open, a delta of %s is foreign: %v", turn, got)
		}
	}
}

func TestACancelThatComesTooLateEndsNoLaterTurn(t *testing.T) {
	t.Parallel()
	for name, cancel := range map[string]func(*Session, *Turn) error{
		"of the session": func(s *Session, _ *Turn) error { return s.Cancel(t.Context(), "") },
		"of the turn":    func(s *Session, one *Turn) error { return one.cancel(t.Context(), over(), false) },
	} {
		f, s := newFake(t, false)
		one := submit(t, s, "one", Steer)
		submit(t, s, "two", Queue)
		f.first = func() { f.answers(t, "done") } // after the cancel was sent
		err := cancel(s, one)
		if refused := errors.Is(err, ErrInvalidState); refused != (name == "of the session") || f.cancelled("turn-2") || s.OpenTurn() != "turn-2" {
			t.Errorf("%s: Cancel = %v; turn-2 is cancelled: %v", name, err, f.cancelled("turn-2"))
		}
	}
}

func TestNoDeltaFollowsTheEndOfItsTurn(t *testing.T) {
	t.Parallel()
	f, s := newFake(t, false)
	submit(t, s, "one", Steer)
	two := submit(t, s, "two", Queue)
	f.answers(t, "done")
	box := two.box()
	for _, turn := range []content.TurnID{"turn-1", "turn-2", "turn-3"} {
		f.watcher.Live(events.ContentDelta{Turn: turn})
	}
	var got []content.TurnID
	box.drain(func(u Update, _ error) bool {
		if d, ok := u.Event.(events.ContentDelta); ok {
			got = append(got, d.Turn)
		}
		return true
	})
	if !slices.Equal(got, []content.TurnID{"turn-2", "turn-3"}) {
		t.Errorf("after the end of turn-1, deltas of %v arrived", got)
	}
}

func TestATurnWithoutAFollowerKeepsNoUpdates(t *testing.T) {
	t.Parallel()
	f, s := newFake(t, false)
	never, later := s.Turn("turn-9"), s.Turn("turn-2")
	for _, text := range []string{"one", "two", "three"} {
		submit(t, s, text, Steer).dropUpdates()
		f.answers(t, text)
	}
	if len(s.streams) != 0 || never.updates != nil {
		t.Errorf("%d streams are kept", len(s.streams))
	}
	var kinds []events.Kind
	for u, err := range later.Updates(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		if u.Own {
			kinds = append(kinds, events.KindOf(u.Event))
		}
	}
	if len(kinds) < 2 || kinds[0] != events.KindInputAccepted || kinds[len(kinds)-1] != events.KindTurnFinished {
		t.Errorf("the updates of turn-2 are %v", kinds)
	}
}

func TestUnreturnedTurnEndsAreBounded(t *testing.T) {
	t.Parallel()
	f, s := newFake(t, false)
	for i := range endsKept + 3 {
		submit(t, s, "go", Steer).unfollow()
		f.answers(t, fmt.Sprint("done ", i))
	}
	step, err := s.Next(t.Context())
	if fin, ok := step.(*Finished); !ok || fin.Result.TurnID != "turn-4" || len(s.stepper.ended) != endsKept-1 {
		t.Errorf("Next = %v, %v, and %d more ends are kept", step, err, len(s.stepper.ended))
	}
}

// asks has the model call a tool that needs an approval.
func (f *fake) asks(t *testing.T) {
	t.Helper()
	var c commands.ReportReply
	_ = f.View(func(s *loop.State, _ journal.Head) {
		c.ModelCall = commands.ModelCall{Turn: s.Turn.ID, Round: s.Turn.Round, Attempt: s.Turn.Attempt}
	})
	c.Items = []content.Item{content.NewItem(content.Assistant, content.CallPart(content.ToolCall{ID: "c", Name: "x", Input: []byte("{}")}))}
	if err := f.Ask(t.Context(), "call", c); err != nil {
		t.Fatal(err)
	}
	for _, e := range loop.Pending(f.state) {
		if e, ok := e.(loop.Preflight); ok {
			check := commands.Check{Place: e.Calls[0].Place, Digest: e.Calls[0].Digest, Questions: []commands.Question{{RequestKind: "call"}}}
			if err := f.Ask(t.Context(), "check", commands.ReportPreflight{Turn: e.Turn, Round: e.Round, Checks: []commands.Check{check}}); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// patient is an approver that waits for its context.
type patient struct{}

func (patient) Approve(ctx context.Context, _ events.Approval) (bool, string, error) {
	<-ctx.Done()
	return false, "", context.Cause(ctx)
}

func TestATurnThatWasLeftWaitsForNoApprover(t *testing.T) {
	t.Parallel()
	for name, breaks := range map[string]bool{"to the end": false, "break": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				f, s := newFake(t, false)
				s.config.Approver = patient{}
				turn := submit(t, s, "one", Steer)
				f.asks(t)
				var left error
				for _, err := range turn.Updates(t.Context()) {
					synctest.Wait()
					turn.Close()
					if left = err; breaks {
						break
					}
				}
				if !breaks && !errors.Is(left, ErrLeft) {
					t.Errorf("Updates ends with %v", left)
				}
				if f.cancelled("turn-1") {
					t.Error("the turn was cancelled")
				}
			})
		})
	}
}

// quick is an approver that approves.
type quick struct{}

func (quick) Approve(context.Context, events.Approval) (bool, string, error) { return true, "", nil }

// The answer of a deployment to the decision can be late, so that the cancel comes first.
func TestACancelMayInterruptTheDecisionOfAnApprover(t *testing.T) {
	t.Parallel()
	f, s := newFake(t, false)
	s.config.Approver = quick{}
	turn := submit(t, s, "go", Steer)
	f.asks(t)
	over, cancel := context.WithCancelCause(t.Context())
	f.refuse = func(c commands.Command) error {
		if _, decision := c.(commands.ResolveApproval); !decision {
			return nil
		}
		cancel(CancelReason("deadline"))
		return fmt.Errorf("send: %w", context.Cause(over))
	}
	end := make(chan error, 1)
	go func() {
		_, err := turn.Wait(over)
		end <- err
	}()
	for !f.cancelled("turn-1") {
		select {
		case err := <-end:
			t.Fatalf("Wait = %v before the turn is cancelled", err)
		default:
			runtime.Gosched()
		}
	}
	turn.Close()
	<-end //nolint:errcheck // it was left
}

func TestATurnThatWasLeftTakesNoStep(t *testing.T) {
	t.Parallel()
	f, s := newFake(t, false)
	turn := submit(t, s, "one", Steer)
	turn.Close()
	f.answers(t, "done")
	if _, err := turn.Next(t.Context()); !errors.Is(err, ErrLeft) {
		t.Errorf("Next = %v", err)
	}
	if res, err := s.Run(t.Context()); err != nil || res.Response != "done" {
		t.Errorf("Run = %+v, %v", res, err)
	}
}

func TestAHistoryMayBeReadInPart(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	for name, tc := range map[string]struct {
		ctx        context.Context //nolint:containedctx // of one call
		unreadable error
		want       error
		cancelled  bool
	}{
		"the context has ended": {ctx: over(), want: ErrCancelled, cancelled: true},
		"it cannot be read":     {ctx: context.Background(), unreadable: broken, want: broken},
	} {
		f, s := newFake(t, false)
		f.stops, f.unreadable = true, tc.unreadable
		if err := s.Send(t.Context(), Steer, content.UserText("one")); err != nil {
			t.Fatal(err)
		}
		var last error
		for _, last = range s.Open().Updates(tc.ctx) {
		}
		if !errors.Is(last, tc.want) || f.cancelled("turn-1") != tc.cancelled {
			t.Errorf("%s: Updates ends with %v; the turn was cancelled: %v", name, last, f.cancelled("turn-1"))
		}
	}
}
