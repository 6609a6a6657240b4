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

func TestOptionsOfATurnAreBounded(t *testing.T) {
	t.Parallel()
	rule := events.Rule{Tool: "fs_*", Action: events.RuleDeny}
	for n, want := range map[int]string{100: "", 101: loop.ReasonTooLarge} {
		s := open(t, events.Config{})
		_, err := s.Do(t, s.Envelope(commands.SubmitInput{
			Items: []content.Item{content.UserText("go")}, Options: &events.TurnOptions{Rules: [][]events.Rule{slices.Repeat([]events.Rule{rule}, n)}},
		}))
		if got := reasonOf(err); got != want {
			t.Errorf("%d rules: %v, want %q", n, err, want)
		}
	}
}

func TestACallIsJudgedByItsSessionAndItsTurn(t *testing.T) {
	t.Parallel()
	own, turn := []events.Rule{{Tool: "*", Action: events.RuleAsk}}, [][]events.Rule{{{Tool: "sh", Action: events.RuleDeny}}}
	s := open(t, events.Config{Rules: own})
	if diff := cmp.Diff(loop.Rules{Session: own, Turn: turn}, s.Live.RulesFor(loop.Call{Rules: turn})); diff != "" {
		t.Errorf("rules (-want +got):\n%s", diff)
	}
}
