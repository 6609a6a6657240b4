package loop_test

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/turnlog/turnlog/commands"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
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
