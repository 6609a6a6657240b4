package events

import (
	"testing"

	"github.com/google/go-cmp/cmp"
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
