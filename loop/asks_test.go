package loop_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/turnlog/turnlog/commands"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/internal/testing/looptest"
	"github.com/turnlog/turnlog/loop"
)

func TestTurnOptionsAreBounded(t *testing.T) {
	t.Parallel()
	rule := events.Rule{Tool: "fs_*", Action: events.RuleDeny}
	for n, want := range map[int]string{100: "", 101: commands.ReasonTooLarge} {
		s := open(t, events.Config{})
		_, err := s.Do(t, s.Envelope(commands.SubmitInput{
			Items: []content.Item{content.UserText("go")}, Options: &events.TurnOptions{Rules: [][]events.Rule{slices.Repeat([]events.Rule{rule}, n)}},
		}))
		if got := reasonOf(err); got != want {
			t.Errorf("%d rules: %v, want %q", n, err, want)
		}
	}
}

func TestRulesForACallAreItsSessionsAndItsTurns(t *testing.T) {
	t.Parallel()
	own, turn := []events.Rule{{Tool: "*", Action: events.RuleAsk}}, [][]events.Rule{{{Tool: "sh", Action: events.RuleDeny}}}
	s := open(t, events.Config{Rules: own})
	if diff := cmp.Diff(loop.Rules{Session: own, Turn: turn}, s.Live.RulesFor(loop.Call{Rules: turn})); diff != "" {
		t.Errorf("rules (-want +got):\n%s", diff)
	}
}

func TestInputIsBounded(t *testing.T) {
	t.Parallel()
	s := open(t, events.Config{})
	many := slices.Repeat([]content.Item{content.UserText("x")}, 1001)
	for n, want := range map[int]string{0: commands.ReasonEmptyInput, 1000: "", 1001: commands.ReasonTooLarge} {
		_, err := loop.Decide(s.Live, s.Envelope(commands.SubmitInput{Items: many[:n]}))
		if got := reasonOf(err); got != want {
			t.Errorf("input of %d items: %v, want %q", n, err, want)
		}
	}
}

func TestQueueIsBounded(t *testing.T) {
	t.Parallel()
	s := open(t, events.Config{})
	input := commands.SubmitInput{Items: []content.Item{content.UserText("x")}, OnBusy: events.Queue}
	if _, err := s.Do(t, s.Envelope(input)); err != nil { // starts a turn
		t.Fatal(err)
	}
	for range 256 {
		if _, err := s.Do(t, s.Envelope(input)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.Do(t, s.Envelope(input)); reasonOf(err) != commands.ReasonQueueFull {
		t.Errorf("input 257: %v, want %s", err, commands.ReasonQueueFull)
	}
}

func TestBracketsNamesThePointThatACommandReaches(t *testing.T) {
	t.Parallel()
	fresh, idle, busy := loop.New("s"), open(t, events.Config{}), toolRunning(t)
	opening, closing := commands.Envelope{ID: "new", Command: commands.OpenSession{}}, commands.Envelope{ID: "new", Command: commands.Close{}}
	for name, tc := range map[string]struct {
		state *loop.State
		env   commands.Envelope
		want  string
	}{
		"opens":            {fresh, opening, "session_start"},
		"is open already":  {idle.Live, opening, ""},
		"closes":           {idle.Live, closing, "session_end"},
		"cannot close yet": {busy.Live, closing, ""},
		"not open":         {fresh, closing, ""},
		"another command":  {idle.Live, commands.Envelope{ID: "new", Command: commands.Park{}}, ""},
		"handled":          {idle.Live, commands.Envelope{ID: idle.Live.Causes[0], Command: commands.Close{}}, ""},
	} {
		if got := loop.Brackets(tc.state, tc.env); got != tc.want {
			t.Errorf("%s: Brackets = %q, want %q", name, got, tc.want)
		}
	}
}

// TestMemoryOfASessionIsBounded decides and folds without the checks of looptest, which would copy it all.
func TestMemoryOfASessionIsBounded(t *testing.T) {
	t.Parallel()
	big := content.UserText(strings.Repeat("x", 60<<20)) // all items share it
	do := func(s *looptest.Session, c commands.Command) ([]events.Event, string) {
		env := s.Envelope(c)
		evs, err := loop.Decide(s.Live, env)
		if err == nil {
			s.Live.Fold(events.Entry{Session: "s", Seq: s.Live.Seq + 1, Cause: env.ID, At: env.At, Epoch: s.Live.Epoch, Events: evs})
		}
		return evs, reasonOf(err)
	}
	submit := commands.SubmitInput{Items: []content.Item{big}, OnBusy: events.Queue}
	s := open(t, events.Config{})
	for i, want := range []string{"", "", "", commands.ReasonQueueFull} { // one starts a turn, one waits, one fills the queue
		if i == 2 {
			submit.Items = []content.Item{content.UserText(strings.Repeat("x", 3<<20))}
		}
		if _, got := do(s, submit); got != want {
			t.Errorf("input %d: %q, want %q", i+1, got, want)
		}
	}
	s = open(t, events.Config{})
	submit.Items = slices.Repeat([]content.Item{big}, 4)
	if _, got := do(s, submit); got != "" {
		t.Errorf("240 MiB of input are refused: %s", got)
	}
	call := commands.ModelCall{Turn: "turn-1", Round: 1, Attempt: 1}
	do(s, commands.ReportReply{ModelCall: call, Items: []content.Item{content.NewItem(content.Assistant, content.TextPart(big.Text()))}})
	submit.Items = []content.Item{content.UserText("go on")}
	if _, got := do(s, submit); got != commands.ReasonTooLarge {
		t.Errorf("input to a session of 300 MiB: %q", got)
	}
	resumed := looptest.NewSession("s")
	evs, got := do(resumed, commands.OpenSession{Transcript: slices.Repeat([]content.Item{big}, 5), Input: []content.Item{content.UserText("go")}})
	ends := slices.ContainsFunc(evs, func(ev events.Event) bool {
		failed, ok := ev.(events.RunFailed)
		return ok && failed.Class == content.ClassTooLong
	})
	if got != "" || !ends || len(loop.Pending(resumed.Live)) != 0 {
		t.Errorf("a session of 300 MiB begins with %v, %s", loop.Pending(resumed.Live), got)
	}
}

func TestAnAgentWithAnotherModelIsAClaim(t *testing.T) {
	t.Parallel()
	ref := &events.AgentRef{Name: "coder", Known: true, Local: true}
	s := open(t, events.Config{Model: "a", Agent: ref})
	if _, err := s.Do(t, s.Envelope(commands.SwitchModel{Model: "b"})); err != nil {
		t.Fatal(err)
	}
	if got := s.Live.Config.Agent; got.Known || !got.Local || !ref.Known {
		t.Errorf("agent = %+v, was %+v", got, ref)
	}
}
