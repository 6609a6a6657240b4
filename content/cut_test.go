package content_test

import (
	"testing"

	"github.com/turnlog/turnlog/content"
)

func TestCutDoesNotSplitACharacter(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		text string
		n    int
		want string
	}{
		{"short", 5, "short"},
		{"longer", 4, "long"},
		{"für", 2, "f"},
		{"für", 3, "fü"},
		{"€", 2, ""},
		{"\x80\x80", 1, ""},
	} {
		if got := content.Cut(tc.text, tc.n); got != tc.want {
			t.Errorf("Cut(%q, %d) = %q, want %q", tc.text, tc.n, got, tc.want)
		}
	}
}
