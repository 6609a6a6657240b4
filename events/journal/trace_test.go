package journal

import (
	"context"
	"strings"
	"testing"
)

func TestTraceParentIsNoLongerThanAHeaderMayBe(t *testing.T) {
	t.Parallel()
	const valid = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	for given, want := range map[string]string{"": "", valid: valid, strings.Repeat("0", 2<<20): ""} {
		if got := TraceParent(WithTraceParent(context.Background(), given)); got != want {
			t.Errorf("%d bytes: TraceParent = %.60q", len(given), got)
		}
	}
}
