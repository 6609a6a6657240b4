package torture

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
)

// scenario is a session computed from the seed: what its model replies and what its user does.
type scenario struct {
	id     content.SessionID
	config events.Config
	turns  []turn
	user   uint64 // seeds the decisions of the user
}

// turn is one input and what happens to it.
type turn struct {
	text      string
	think     time.Duration // pause before it is sent
	impatient bool          // it is sent without waiting for the previous turn
	busy      events.OnBusy // what it asks for then
	cancel    time.Duration // after it was sent, the user cancels; 0: never
}

// scenarioOf returns the n-th session of a slot.
func scenarioOf(seed uint64, slot, n int, config func(content.SessionID) events.Config) scenario {
	id := content.SessionID(fmt.Sprintf("t%d-%d", slot, n))
	dice := diceOf(seed, "story", slot, "/", n)
	s := scenario{id: id, user: dice.Uint64()}
	for k := range 1 + dice.IntN(4) {
		t := turn{text: fmt.Sprintf("%s, input %d", id, k+1), think: between(dice, 0, 400*time.Millisecond)}
		if t.impatient = dice.IntN(4) == 0; t.impatient {
			t.busy = among(dice, events.Steer, events.Queue, events.Interrupt, events.Reject)
		}
		if dice.IntN(6) == 0 {
			t.cancel = between(dice, 50*time.Millisecond, 700*time.Millisecond)
		}
		s.turns = append(s.turns, t)
	}
	if config != nil {
		s.config = config(id)
		return s
	}
	s.config = events.Config{
		Model: "scripted:torture", ModelData: []byte(script(dice, len(s.turns))),
		Rules:       rulesOf(dice),
		MaxParallel: dice.IntN(4),
		Retry:       events.Retry{Backoff: 50 * time.Millisecond, MaxBackoff: time.Second, ModelAttempts: 50, LostAttempts: 50},
	}
	return s
}

// rulesOf makes some of the calls ask for approval.
func rulesOf(dice *rand.Rand) []events.Rule {
	rules := []events.Rule{{Tool: "*", Action: events.RuleAllow}}
	for _, name := range []string{toolAdd, toolLater, toolPut} {
		if dice.IntN(3) == 0 {
			rules = append([]events.Rule{{Tool: name, Action: events.RuleAsk}}, rules...)
		}
	}
	return rules
}

// script returns a model's replies over some turns.
func script(dice *rand.Rand, turns int) string {
	var b strings.Builder
	b.WriteString("replies:\n")
	for range turns {
		for range dice.IntN(4) {
			reply(&b, dice)
			b.WriteString("    calls:\n")
			for range 1 + dice.IntN(3) {
				name := among(dice, toolRead, toolRead, toolPut, toolAdd, toolAdd, toolLater, toolLong)
				ms := dice.IntN(300)
				if name == toolLong || dice.IntN(10) == 0 {
					ms += dice.IntN(1200)
				}
				fmt.Fprintf(&b, "      - {name: %s, input: {ms: %d}}\n", name, ms)
			}
		}
		reply(&b, dice)
	}
	b.WriteString("repeat: true\n")
	return b.String()
}

// reply writes what every reply has. Some replies start late, and some fail first.
func reply(b *strings.Builder, dice *rand.Rand) {
	fmt.Fprintf(b, "  - text: %q\n", strings.Repeat("so it goes. ", 1+dice.IntN(20)))
	fmt.Fprintf(b, "    usage: {input: %d, output: %d}\n    chunk: %d\n", dice.IntN(500), dice.IntN(200), 2+dice.IntN(10))
	if dice.IntN(3) == 0 {
		fmt.Fprintf(b, "    delay: %dms\n", dice.IntN(900))
	}
	if dice.IntN(12) == 0 {
		b.WriteString("    error: {class: overloaded, attempts: 1}\n")
	}
}

func among[T any](dice *rand.Rand, all ...T) T { return all[dice.IntN(len(all))] }
