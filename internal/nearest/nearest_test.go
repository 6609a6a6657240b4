package nearest_test

import (
	"testing"

	"github.com/turnlog/turnlog/internal/nearest"
)

func TestMisspelledWordIsNear(t *testing.T) {
	t.Parallel()
	words := []string{"tools", "max_parallel", "system", "mcp", "on_busy"}
	for written, want := range map[string]string{
		"tool": "tools", "Tools": "tools", "maxParallel": "max_parallel", "sstem": "system", "systme": "system",
		"on-busy": "on_busy", "engine": "", "": "", "m": "", "prompt": "", "mpc": "mcp",
	} {
		if got := nearest.To(written, words); got != want {
			t.Errorf("To(%q) = %q, want %q", written, got, want)
		}
	}
	if got := nearest.Hint("tool", words); got != ": did you mean tools?" {
		t.Errorf("Hint = %q", got)
	}
	if got := nearest.Hint("engine", words); got != "" {
		t.Errorf("Hint = %q", got)
	}
}
