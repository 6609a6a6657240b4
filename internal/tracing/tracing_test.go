package tracing

import (
	"strings"
	"testing"
)

func TestOnlyTraceParentsPass(t *testing.T) {
	t.Parallel()
	const valid = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	for given, want := range map[string]string{
		"": "", valid: valid, "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00": "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00",
		"00-00000000000000000000000000000000-00f067aa0ba902b7-01": "", valid + "\r\nX: y": "", strings.Repeat("0", 2<<20): "",
	} {
		if got := Parent(With(t.Context(), given)); got != want {
			t.Errorf("%.80q becomes %q, want %q", given, got, want)
		}
	}
}
