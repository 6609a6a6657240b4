package events

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/turnlog/turnlog/content"
)

func TestAReachedLimitHasAText(t *testing.T) {
	t.Parallel()
	for want, l := range map[string]LimitReached{
		"max turns reached (2)":                {Kind: LimitRounds, Limit: 2, Used: 2},
		"total token limit exceeded: 1100 > 7": {Kind: LimitTotalTokens, Limit: 7, Used: 1100},
		"wall clock limit exceeded: 1m1s > 1m0s": {
			Kind: LimitWallClock, Limit: 60_000_000_000, Used: 61_000_000_000,
		},
	} {
		if got := l.Text(); got != want {
			t.Errorf("Text = %q, want %q", got, want)
		}
	}
}

func TestLimitsAndOthersKeepTheTighter(t *testing.T) {
	t.Parallel()
	var a, b, want Limits
	for i, k := range LimitKinds() {
		// Unlimited, tighter, looser, and nothing allowed.
		*a.Of(k), *b.Of(k), *want.Of(k) = []int64{0, 5, 7, -1}[i%4], []int64{3, 9, 2, 8}[i%4], []int64{3, 5, 2, -1}[i%4]
	}
	if diff := cmp.Diff(want, a.And(b)); diff != "" {
		t.Errorf("a.And(b) (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(want, b.And(a)); diff != "" {
		t.Errorf("b.And(a) (-want +got):\n%s", diff)
	}
}

func TestUnknownLimitsPanic(t *testing.T) {
	t.Parallel()
	defer func() {
		if recover() == nil {
			t.Error("Of returned")
		}
	}()
	new(Limits).Of("patience")
}

func TestASubmissionThatJoinsATurnTightensItsOptions(t *testing.T) {
	t.Parallel()
	rule, other := Rule{Tool: "a", Action: RuleDeny}, Rule{Tool: "b", Action: RuleAsk}
	first := &TurnOptions{Limits: &Limits{Requests: 3, ToolCalls: 2}, Rules: [][]Rule{{rule}}, Routes: []RouteRule{{Tool: "a"}}}
	later := &TurnOptions{Limits: &Limits{Requests: 5, MaxRounds: 1}, Sequential: true, Rules: [][]Rule{{other}}, Routes: []RouteRule{{Tool: "b"}}}
	want := &TurnOptions{
		Limits: &Limits{Requests: 3, ToolCalls: 2, MaxRounds: 1}, Sequential: true, Rules: [][]Rule{{rule}, {other}},
		Routes: []RouteRule{{Tool: "b"}, {Tool: "a"}},
	}
	if diff := cmp.Diff(want, first.And(later)); diff != "" {
		t.Errorf("first.And(later) (-want +got):\n%s", diff)
	}
	if first.Limits.Requests != 3 || first.Limits.MaxRounds != 0 || later.Limits.Requests != 5 {
		t.Error("And changed its arguments")
	}
	var none *TurnOptions
	for name, got := range map[string]*TurnOptions{"none before": none.And(first), "none later": first.And(none)} {
		if got != first {
			t.Errorf("%s: %+v", name, got)
		}
	}
	one := (&TurnOptions{Limits: first.Limits}).And(&TurnOptions{Sequential: true})
	if diff := cmp.Diff(&TurnOptions{Limits: first.Limits, Sequential: true}, one); diff != "" {
		t.Errorf("with limits of one (-want +got):\n%s", diff)
	}
}

func TestCountersAreComparedWithTheLimitsOfTheirKind(t *testing.T) {
	t.Parallel()
	c := Counters{Rounds: 1, Worked: 9}
	c.Add(UsageUpdated{Requests: 2, ToolCalls: 6, Usage: content.Usage{InputTokens: 3, OutputTokens: 4, CostMicros: 8}})
	spent := c.Spent()
	for kind, want := range map[LimitKind]int64{
		LimitRounds: 1, LimitRequests: 2, LimitInputTokens: 3, LimitOutputTokens: 4, LimitTotalTokens: 7,
		LimitToolCalls: 6, LimitCost: 8, LimitWallClock: 9,
	} {
		if got := *spent.Of(kind); got != want {
			t.Errorf("%s: %d, want %d", kind, got, want)
		}
	}
}
