package loop_test

import (
	"errors"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/turnlog/turnlog/commands"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/internal/testing/looptest"
	"github.com/turnlog/turnlog/loop"
)

// A State is a plain value that can be encoded and compared.
func TestStateIsPlainData(t *testing.T) {
	t.Parallel()
	seen := map[reflect.Type]bool{}
	var walk func(path string, typ reflect.Type)
	walk = func(path string, typ reflect.Type) {
		if seen[typ] {
			return
		}
		seen[typ] = true
		switch typ.Kind() {
		case reflect.Map, reflect.Func, reflect.Chan, reflect.Interface, reflect.UnsafePointer, reflect.Float32, reflect.Float64:
			t.Errorf("%s is a %s", path, typ.Kind())
		case reflect.Pointer, reflect.Slice, reflect.Array:
			walk(path, typ.Elem())
		case reflect.Struct:
			for f := range typ.Fields() {
				if !f.IsExported() {
					t.Errorf("%s.%s would be lost in a snapshot", path, f.Name)
				}
				walk(path+"."+f.Name, f.Type)
			}
		default:
		}
	}
	walk("State", reflect.TypeFor[loop.State]())
}

// open returns an open session that waits for input.
func open(t testing.TB, cfg events.Config) *looptest.Session {
	t.Helper()
	s := looptest.NewSession("s")
	for _, c := range []commands.Command{commands.Claim{}, commands.OpenSession{Config: cfg}} {
		if _, err := s.Do(t, s.Envelope(c)); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

func TestEnvelopesOfOtherSessionsAreRefused(t *testing.T) {
	t.Parallel()
	s := open(t, events.Config{})
	env := s.Envelope(commands.Park{})
	env.Session = "other"
	if evs, err := loop.Decide(s.Live, env); !errors.Is(err, loop.ErrWrongSession) || evs != nil {
		t.Errorf("Decide = %d events, %v, want ErrWrongSession", len(evs), err)
	}
}

func reasonOf(err error) string {
	if rej, ok := errors.AsType[*commands.Rejection](err); ok {
		return rej.Reason
	}
	return ""
}

// An ask is recognized for ever, of reports only the latest 64 are.
func TestAsksAreHandledForEver(t *testing.T) {
	t.Parallel()
	s := open(t, events.Config{})
	first := s.Envelope(commands.SetNextTurnCache{})
	if _, err := s.Do(t, first); err != nil {
		t.Fatal(err)
	}
	caused := s.Live.Seq
	for n := range 300 {
		if !s.Live.Handled(first.ID) {
			t.Fatalf("forgotten after %d entries", n)
		}
		if _, err := s.Do(t, s.Envelope(commands.SetNextTurnCache{})); err != nil {
			t.Fatal(err)
		}
	}
	if evs, err := loop.Decide(s.Live, first); err != nil || len(evs) != 0 || len(s.Live.Causes) != 64 {
		t.Errorf("again: %d events, %v; %d causes", len(evs), err, len(s.Live.Causes))
	}
	if got := commands.Recall(&s.Live.Asks, first.ID); got != caused {
		t.Errorf("it caused entry %d, want %d", got, caused)
	}
	report := loop.New("s")
	for seq := range uint64(66) {
		report.Fold(events.Entry{Session: "s", Seq: seq + 1, Cause: "tool/" + strconv.FormatUint(seq, 10), Events: []events.Event{events.Parked{}}})
	}
	if report.Handled("tool/1") || !report.Handled("tool/2") {
		t.Error("reports are not forgotten after 64 entries")
	}
}

func TestFoldMovesCursors(t *testing.T) {
	t.Parallel()
	s := loop.New("s")
	entry := func(seq uint64, cursors ...events.Cursor) events.Entry {
		return events.Entry{Session: "s", Seq: seq, At: content.Time(10 - seq), Cause: strconv.FormatUint(seq, 10), Cursors: cursors, Events: []events.Event{events.Parked{}}}
	}
	s.Fold(entry(1, events.Cursor{Lane: events.LaneAsk, Seq: 3}))
	fork := s.Fork()
	s.Fold(entry(2, events.Cursor{Lane: events.LaneAsk, Seq: 5}, events.Cursor{Lane: events.LaneDue, Seq: 1}))
	for lane, want := range map[events.Lane]uint64{events.LaneAsk: 5, events.LaneDue: 1, events.LaneReport: 0} {
		if got := s.Cursor(lane); got != want {
			t.Errorf("cursor of %q = %d, want %d", lane, got, want)
		}
	}
	if got := fork.Cursor(events.LaneAsk); got != 3 {
		t.Errorf("the fork's cursor moved to %d", got)
	}
	if s.At != 9 {
		t.Errorf("time went back to %d", s.At)
	}
}

func TestFoldPanicsOnABrokenJournal(t *testing.T) {
	t.Parallel()
	turn := content.TurnID("turn-1")
	for name, e := range map[string]events.Entry{
		"other session":       {Session: "x", Seq: 1},
		"gap":                 {Session: "s", Seq: 2},
		"live event":          {Session: "s", Seq: 1, Events: []events.Event{events.ContentDelta{}}},
		"derived event":       {Session: "s", Seq: 1, Events: []events.Event{events.StateChanged{}}},
		"round, no turn":      {Session: "s", Seq: 1, Events: []events.Event{events.RoundStarted{Turn: turn}}},
		"result, no turn":     {Session: "s", Seq: 1, Events: []events.Event{events.ToolResultReceived{}}},
		"mutation, no turn":   {Session: "s", Seq: 1, Events: []events.Event{events.MutationStarted{Point: "before_model"}}},
		"mutated, no turn":    {Session: "s", Seq: 1, Events: []events.Event{events.MutationFinished{Point: "before_model"}}},
		"memory, no task":     {Session: "s", Seq: 1, Events: []events.Event{events.MemoryRecalled{}}},
		"verdict, no task":    {Session: "s", Seq: 1, Events: []events.Event{events.TurnStarted{Turn: turn}, events.VerifyFinished{}}},
		"finished, no turn":   {Session: "s", Seq: 1, Events: []events.Event{events.TurnFinished{Turn: turn}}},
		"task ends elsewhere": {Session: "s", Seq: 1, Events: []events.Event{events.TaskStarted{}, events.TaskFinished{}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			defer func() {
				if p, ok := recover().(string); !ok || !strings.HasPrefix(p, "loop: ") || !strings.Contains(p, "s/") {
					t.Errorf("Fold panicked with %v, want a message with the place", p)
				}
			}()
			loop.New("s").Fold(e)
			t.Error("Fold returned")
		})
	}
}

// Older journals may mention calls that their release did not keep.
func TestFoldSkipsUnknownCalls(t *testing.T) {
	t.Parallel()
	s := loop.New("s")
	s.Fold(events.Entry{Session: "s", Seq: 1, Events: []events.Event{
		events.RunStarted{},
		events.HookDecided{Point: "session_start", Action: "continue"},
		events.TurnStarted{Turn: "turn-1"},
		events.ToolDispatched{Call: "c"},
		events.ToolAttemptLost{Call: "c"},
		events.ToolDetached{Call: "c"},
		events.ToolResultReceived{Result: content.ToolResult{CallID: "c"}},
		events.ToolResultReceived{Result: content.ToolResult{CallID: "c"}, Late: true},
	}})
	if s.Turn == nil || len(s.Transcript) > 0 || len(s.Notices) > 0 || len(loop.Pending(s)) > 0 {
		t.Errorf("state is %s", looptest.Render(s))
	}
}

func TestWarningsOfAReplyAreRecorded(t *testing.T) {
	t.Parallel()
	s := open(t, events.Config{})
	if _, err := s.Do(t, s.Envelope(commands.SubmitInput{Items: []content.Item{content.UserText("go")}})); err != nil {
		t.Fatal(err)
	}
	evs, err := s.Do(t, s.Envelope(commands.ReportReply{
		ModelCall: commands.ModelCall{Turn: "turn-1", Round: 1, Attempt: 1},
		Warnings:  slices.Repeat([]events.Warning{{Code: "image", Message: "left out"}}, 9),
	}))
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, ev := range evs {
		if w, ok := ev.(events.Warning); ok && w.Code == "image" {
			n++
		}
	}
	if n != 8 {
		t.Errorf("%d warnings of 9 are recorded, want 8", n)
	}
}

// Warnings are for people; the full text is in the result.
func TestWarningsAreClipped(t *testing.T) {
	t.Parallel()
	s := toolRunning(t)
	long := strings.Repeat("é", 400)
	evs, err := s.Do(t, s.Envelope(resultOf(content.StatusError, "x"+long)))
	if err != nil {
		t.Fatal(err)
	}
	for _, ev := range evs {
		if w, ok := ev.(events.Warning); ok {
			if want := "x" + strings.Repeat("é", 249) + "…"; w.Message != want {
				t.Errorf("the warning has %d bytes: %q", len(w.Message), w.Message)
			}
			return
		}
	}
	t.Error("no warning")
}

// toolRunning returns a session in which call c runs.
func toolRunning(t testing.TB) *looptest.Session {
	t.Helper()
	s := open(t, events.Config{})
	reply := commands.ReportReply{
		ModelCall: commands.ModelCall{Turn: "turn-1", Round: 1, Attempt: 1},
		Items:     []content.Item{content.NewItem(content.Assistant, content.CallPart(content.ToolCall{ID: "c", Name: "x"}))},
		Checks:    []commands.Check{{Place: "t1-r1-c1"}},
	}
	for _, c := range []commands.Command{commands.SubmitInput{Items: []content.Item{content.UserText("go")}}, reply} {
		if _, err := s.Do(t, s.Envelope(c)); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

func resultOf(status content.Status, text string) commands.ReportResult {
	c := commands.ReportResult{Place: "t1-r1-c1", Attempt: 1}
	c.Outcome.Result = content.NewResult("c", "x", status, text)
	return c
}

func TestVerifierOutputKeepsItsEnd(t *testing.T) {
	t.Parallel()
	for said, want := range map[string]string{
		"short":                               "short",
		"x" + strings.Repeat("é", 4000):       strings.Repeat("é", 4000),
		strings.Repeat("é", 4000):             strings.Repeat("é", 4000),
		strings.Repeat("a", 9000) + "the end": strings.Repeat("a", 3993) + "the end",
	} {
		s := open(t, events.Config{})
		for _, c := range []commands.Command{
			commands.StartTask{Spec: events.TaskSpec{Goal: "g", VerifierFunc: true, MaxRetries: 1}},
			commands.ReportRecall{Task: "task-turn-1"},
			commands.ReportReply{ModelCall: commands.ModelCall{Turn: "turn-1", Round: 1, Attempt: 1}},
			commands.ReportVerify{Task: "task-turn-1", Finished: events.VerifyFinished{Attempt: 1, Output: said}},
		} {
			if _, err := s.Do(t, s.Envelope(c)); err != nil {
				t.Fatal(err)
			}
		}
		last := s.Live.Transcript[len(s.Live.Transcript)-1].Text()
		if got := strings.TrimPrefix(last, "Verification failed. Fix these errors and try again:\n"); got != want {
			t.Errorf("of %d bytes the model gets %d, want %d", len(said), len(got), len(want))
		}
		s.Finish(t)
	}
}

// Readers may look at a fork while the owner folds the state.
func TestForkDoesNotChange(t *testing.T) {
	t.Parallel()
	s := toolRunning(t)
	fork := s.Live.Fork()
	want := looptest.Render(fork)
	for _, c := range []commands.Command{
		resultOf(content.StatusOK, "done"),
		commands.SubmitInput{Items: []content.Item{content.UserText("more")}},
		commands.Cancel{},
		commands.ReportModelStopped{ModelCall: commands.ModelCall{Turn: "turn-1", Round: 2, Attempt: 1}},
	} {
		if _, err := s.Do(t, s.Envelope(c)); err != nil {
			t.Fatal(err)
		}
	}
	if got := looptest.Render(fork); got != want {
		t.Errorf("the fork is now\n%s, was\n%s", got, want)
	}
}

func TestRemainingLimits(t *testing.T) {
	t.Parallel()
	s := open(t, events.Config{
		Limits:        events.Limits{Requests: 3, InputTokens: 100, OutputTokens: 5, MaxRounds: 9},
		SessionLimits: events.Limits{InputTokens: 40, CostMicros: 7, ToolCalls: -1},
	})
	idle := events.Limits{InputTokens: 40, CostMicros: 7, ToolCalls: -1}
	if got := loop.Remaining(s.Live); got != idle {
		t.Errorf("between turns %+v, want %+v", got, idle)
	}
	spent := content.Usage{InputTokens: 30, OutputTokens: 5}
	for _, c := range []commands.Command{
		commands.SubmitInput{Items: []content.Item{content.UserText("go")}},
		commands.ReportModelFailed{
			ModelCall: commands.ModelCall{Turn: "turn-1", Round: 1, Attempt: 1}, Class: content.ClassServer, Usage: spent,
		},
	} {
		if _, err := s.Do(t, s.Envelope(c)); err != nil {
			t.Fatal(err)
		}
	}
	open := events.Limits{Requests: 2, InputTokens: 10, OutputTokens: -1, CostMicros: 7, ToolCalls: -1}
	if got := loop.Remaining(s.Live); got != open {
		t.Errorf("within a turn %+v, want %+v", got, open)
	}
}
